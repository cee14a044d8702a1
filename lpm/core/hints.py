"""Whether a setting has the type that its annotation promises."""

from __future__ import annotations

import types
from numbers import Integral, Real
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

UNIONS = (Union, types.UnionType)


def check_types(config: type, settings: dict[str, Any]) -> None:
    """Refuse settings of another type than the fields of `config`, saying what was expected and what came."""
    hints = get_type_hints(config)
    for name, value in settings.items():
        check_type(f"{config.__name__}.{name}", value, hints[name])


def check_type(name: str, value: Any, hint: Any) -> None:
    """The same for one value."""
    if not fits(value, hint):
        raise ValueError(f"{name}: expected {_words(hint)}, got {value!r:.100}")


def fits(value: Any, hint: Any) -> bool:
    """Whether `value` is of a plain type, or one of the choices; what is no plain type fits.

    >>> fits(1, float), fits(1.5, int), fits(True, int), fits([8, 8], tuple[int, ...]), fits(None, int | None)
    (True, False, False, True, True)
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin in UNIONS:
        return any(fits(value, option) for option in args)
    if origin is Literal:
        return value in args
    if origin is tuple:
        if not isinstance(value, (tuple, list)):
            return False
        wanted = args[:1] * len(value) if args[-1:] == (Ellipsis,) else args
        return len(value) == len(wanted) and all(map(fits, value, wanted))
    if hint in (int, float):
        return isinstance(value, Integral if hint is int else Real) and not isinstance(value, bool)
    return isinstance(value, hint) if hint in (bool, str, types.NoneType) else True


def _words(hint: Any) -> str:
    """A type as people write it, and choices as `expect_choice` does."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(map(repr, args))
    if origin in UNIONS:
        return " or ".join(map(_words, args))
    return "None" if hint is types.NoneType else hint.__name__ if isinstance(hint, type) and not args else str(hint)
