"""What docs/reference/cli.md says of a command: its options, defaults and meanings, from the class that parses them."""

import dataclasses
import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any, get_args, get_type_hints

import tyro

from lpm.commands import train
from lpm.commands.bonuses import field_docs
from lpm.report.text import markdown_table


def reference(command: str) -> str:
    """A command's sentence and a row an option; those of a bonus are on its page."""
    options: Any
    if command == "train":
        options, said = train._options(train._choices([])[0], None), train.DESCRIPTION
    else:
        options = getattr(import_module(f"lpm.commands.{command}"), command.title())
        said = inspect.getdoc(options) or ""
    said = said.partition("\n\n")[0]
    return f"{said}\n\n{markdown_table(('option', 'default', 'meaning'), list(_rows(options)))}"


def _rows(options: Any, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Of a class of options, or of settings within one under `prefix`."""
    kind = options if isinstance(options, type) else type(options)
    texts, hints = field_docs(kind), get_type_hints(kind, include_extras=True)
    for item in dataclasses.fields(kind):
        made = item.default if item.default_factory is dataclasses.MISSING else item.default_factory()
        default = made if kind is options else getattr(options, item.name)
        if dataclasses.is_dataclass(default):
            yield from () if item.name == "bonus" else _rows(default, f"{prefix}{item.name}.")
            continue
        notes = get_args(hints[item.name])[1:]
        meaning = next((note.help for note in notes if getattr(note, "help", None)), texts.get(item.name, ""))
        name = item.name.removesuffix("_name").replace("_", "-")
        option = name.upper() if tyro.conf.Positional in notes else f"--{prefix}{name}"
        shown = "" if default in (dataclasses.MISSING, "", (), None) else f"`{default}`"
        yield f"`{option}`", shown, " ".join(meaning.split())
