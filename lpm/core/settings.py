"""Checks of settings: types, choices, bounds, fields without effect, sizes that do not fit."""

import math
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from numbers import Integral, Real
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

UNIONS = (Union, types.UnionType)


class Bound(NamedTuple):
    """What the numbers of an annotated type must be."""

    wanted: str
    """In words, for the message."""
    holds: Callable[[Any], bool]


Count = Annotated[int, Bound("at least 1", lambda value: value >= 1)]
Size = Annotated[int, Bound("at least 0", lambda value: value >= 0)]
NonNegative = Annotated[float, Bound("at least 0 and finite", lambda value: 0 <= value < math.inf)]
Positive = Annotated[float, Bound("more than 0 and finite", lambda value: 0 < value < math.inf)]
Limit = Annotated[float, Bound("at least 1", lambda value: value >= 1)]
Share = Annotated[float, Bound("in (0, 1]", lambda value: 0 < value <= 1)]
Decay = Annotated[float, Bound("in [0, 1)", lambda value: 0 <= value < 1)]
Unit = Annotated[float, Bound("in [0, 1]", lambda value: 0 <= value <= 1)]
Fraction = Annotated[float, Bound("in (0, 1)", lambda value: 0 < value < 1)]


@dataclass(frozen=True)
class Settings:
    """Base of configs: refuses values of another type than their field has, or out of its bounds."""

    def __post_init__(self) -> None:
        check_types(type(self), vars(self))


def expect(config: Any, name: str, condition: bool, wanted: str) -> None:
    """Refuse a field's value, saying what was expected and what came."""
    if not condition:
        raise ValueError(f"{type(config).__name__}.{name}: expected {wanted}, got {getattr(config, name)!r}")


def expect_choice(config: Any, name: str, *choices: str) -> None:
    """Refuse a value that is not one of the choices."""
    expect(config, name, getattr(config, name) in choices, " or ".join(map(repr, choices)))


def expect_at_least(config: Any, least: float, *names: str) -> None:
    """Refuse values below `least`."""
    for name in names:
        expect(config, name, getattr(config, name) >= least, f"at least {least}")


def reject_unused(config: Any, when: str, *names: str) -> None:
    """Refuse a value other than the default in fields that have no effect `when`, such as "with gate=False"."""
    settings = {field.name: field for field in fields(config)}
    for name in names:
        make = settings[name].default_factory
        default = settings[name].default if make is MISSING else make()
        wanted = f"its default {default!r} {when}, where it has no effect"
        expect(config, name, getattr(config, name) == default, wanted)


def check_types(config: type, settings: dict[str, Any]) -> None:
    """Refuse settings of another type than the fields of `config`, saying what was expected and what came."""
    hints = get_type_hints(config, include_extras=True)
    for name, value in settings.items():
        check_type(f"{config.__name__}.{name}", value, hints[name])


def check_type(name: str, value: Any, hint: Any) -> None:
    """The same for one value."""
    if not fits(value, hint):
        raise ValueError(f"{name}: expected {_type_name(hint)}, got {value!r:.100}")


def fits(value: Any, hint: Any) -> bool:
    """Whether `value` is of a plain type, or one of the choices; what is no plain type fits.

    >>> fits(1, float), fits(1.5, int), fits(True, int), fits([8, 8], tuple[int, ...]), fits(None, int | None)
    (True, False, False, True, True)
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return fits(value, args[0]) and all(bound.holds(value) for bound in args[1:] if isinstance(bound, Bound))
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


def _type_name(hint: Any) -> str:
    """A type as people write it, and choices as `expect_choice` does."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(map(repr, args))
    if origin is Annotated:
        return " ".join([_type_name(args[0]), *(f"({bound.wanted})" for bound in args[1:] if isinstance(bound, Bound))])
    if origin in UNIONS:
        return " or ".join(map(_type_name, args))
    return "None" if hint is types.NoneType else hint.__name__ if isinstance(hint, type) and not args else str(hint)


@contextmanager
def enough_memory() -> Iterator[None]:
    """What cannot be allocated is the fault of a setting; of which, only the size can tell."""
    try:
        yield
    except (MemoryError, RuntimeError) as problem:
        if isinstance(problem, RuntimeError) and not any(word in str(problem) for word in ("alloc", "overflow")):
            raise
        raise ValueError(
            f"expected settings that fit into memory: {str(problem).partition(chr(10))[0]}; choose fewer environments "
            "or steps per rollout, or a smaller network, buffer or memory"
        ) from problem
