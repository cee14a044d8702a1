"""For the docs site: examples in docstrings (`>>> …`) become blocks of code, where Markdown would quote them thrice."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

EXAMPLE = re.compile(r"^([ ]*)>>> .*(?:\n(?![ ]*$).*)*", re.MULTILINE)


def fenced(text: str) -> str:
    """Every run of lines from a prompt to the next empty line, as a block of code."""

    def block(match: re.Match[str]) -> str:
        indent = match[1]
        return f"{indent}```pycon\n{match[0]}\n{indent}```"

    return EXAMPLE.sub(block, text)


class Doctests(Extension):
    """Fences the examples of everything that is shown."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
