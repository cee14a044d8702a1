"""Checks of settings that several configs share."""

from __future__ import annotations

import math
from dataclasses import MISSING, fields
from typing import Any, Literal, get_args

Schedule = Literal["constant", "linear", "exponential", "cosine"]


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


def expect_schedule(config: Any, name: str, start: str, end: str) -> None:
    """Refuse an unknown schedule, or one that cannot lead from the field `start` to the field `end`."""
    expect_choice(config, name, *get_args(Schedule))
    if getattr(config, name) == "exponential":  # it multiplies: from 0 it never leaves, to 0 it is there at once
        for value in (start, end):
            expect(config, value, getattr(config, value) > 0, f"a number above 0 with {name}='exponential'")


def expect_idle(config: Any, when: str, *names: str) -> None:
    """Refuse a value other than the default in fields that have no effect `when`, such as "with gate=False"."""
    settings = {field.name: field for field in fields(config)}
    for name in names:
        make = settings[name].default_factory
        default = settings[name].default if make is MISSING else make()
        wanted = f"its default {default!r} {when}, where it has no effect"
        expect(config, name, getattr(config, name) == default, wanted)


def scheduled(schedule: Schedule, start: float, end: float, progress: float) -> float:
    """A value on its way from `start` to `end`, at a `progress` between 0 and 1.

    >>> [scheduled("linear", 1.0, 0.0, p) for p in (0.0, 0.25, 1.0)]
    [1.0, 0.75, 0.0]
    """
    progress = min(max(progress, 0.0), 1.0)
    if schedule == "constant":
        return start
    if schedule == "exponential":
        return start * math.pow(end / start, progress)
    if schedule == "cosine":
        progress = 0.5 - 0.5 * math.cos(math.pi * progress)
    return start + (end - start) * progress
