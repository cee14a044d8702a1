"""Whether a setting has the type that its annotation promises."""

from __future__ import annotations

import types
from numbers import Integral, Real
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


def check_types(config: type, settings: dict[str, Any]) -> None:
    """Refuse settings of another type than the fields of `config`, saying what was expected and what came."""
    hints = get_type_hints(config)
    for name, value in settings.items():
        hint = hints[name]
        if not fits(value, hint):
            wanted = hint.__name__ if isinstance(hint, type) and not get_args(hint) else hint
            raise ValueError(f"{config.__name__}.{name}: expected {wanted}, got {value!r}")


def fits(value: Any, hint: Any) -> bool:
    """Whether `value` is of a plain type; what is no plain type fits, and choices are the config's own to check.

    >>> fits(1, float), fits(1.5, int), fits(True, int), fits([8, 8], tuple[int, ...]), fits(None, int | None)
    (True, False, False, True, True)
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, option) for option in args)
    if origin is tuple:
        if not isinstance(value, (tuple, list)):
            return False
        wanted = args[:1] * len(value) if args[-1:] == (Ellipsis,) else args
        return len(value) == len(wanted) and all(map(fits, value, wanted))
    if origin is Literal or not isinstance(hint, type):
        return True
    if hint in (int, float):
        return isinstance(value, Integral if hint is int else Real) and not isinstance(value, bool)
    return isinstance(value, hint) if hint in (bool, str, types.NoneType) else True
