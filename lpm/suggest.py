"""The end of an error message: what was probably meant. Needs nothing but the standard library."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


def suggest(word: str, known: Iterable[str]) -> str:
    """The known names that are most like a wrong one, or all of them if they are few.

    >>> suggest("lmp", ["rnd", "lpm"]), suggest("?", ["rnd", "lpm"])
    ('; did you mean lpm?', '; known: lpm, rnd')
    """
    options = sorted(known)
    near = difflib.get_close_matches(word, options, n=3, cutoff=0.5)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    few = len(options) <= 40
    return f"; known: {', '.join(options) or 'none'}" if few else f"; none of {len(options)} known names is like it"


def moved(**places: str) -> Callable[[type[T]], type[T]]:
    """Class decorator: an argument that the class had once is refused with the place where it is now."""

    def decorate(cls: type[T]) -> type[T]:
        plain: Any = cls.__init__

        @functools.wraps(plain)
        def init(self: Any, *args: Any, **fields: Any) -> None:
            for name in places.keys() & fields.keys():
                raise ValueError(f"{cls.__name__} has no field {name!r} any more: use {places[name]}")
            plain(self, *args, **fields)

        setattr(cls, "__init__", init)  # noqa: B010  a method is assigned to
        return cls

    return decorate
