"""The outcome of one named check: what was expected, what was measured, and whether they agree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partialmethod
from typing import Literal

Relation = Literal["equal", "at least", "at most"]


@dataclass(frozen=True)
class CheckResult:
    """Plain data, printed by the command line and written to JSON."""

    section: str
    """Group of checks."""
    name: str
    """What is claimed."""
    relation: Relation
    """How `measured` must compare with `expected`."""
    expected: float
    """The number claimed or derived."""
    measured: float
    """The number computed."""
    tolerance: float
    """Allowed absolute difference, or allowed violation of the inequality."""
    note: str = ""
    """Source of the number, or what the check does not say."""

    @property
    def sign(self) -> str:
        """`relation` as one character."""
        return {"equal": "=", "at least": "≥", "at most": "≤"}[self.relation]

    @property
    def ok(self) -> bool:
        """Whether the claim holds; false for nan."""
        difference = self.measured - self.expected
        if self.relation == "equal":
            return abs(difference) <= self.tolerance
        if self.relation == "at least":
            return difference >= -self.tolerance
        return difference <= self.tolerance


@dataclass(frozen=True)
class Section:
    """Builds the checks of one group."""

    title: str
    """Heading."""

    def check(
        self, relation: Relation, name: str, expected: float, measured: float, tolerance: float = 0.0, note: str = ""
    ) -> CheckResult:
        """measured = expected, at least or at most expected, within the tolerance."""
        return CheckResult(self.title, name, relation, float(expected), float(measured), float(tolerance), note)

    equal = partialmethod(check, "equal")
    at_least = partialmethod(check, "at least")
    at_most = partialmethod(check, "at most")


@dataclass(frozen=True)
class Effort:
    """How much to compute."""

    grids: int
    """Random grid models."""
    regressions: int
    """Random linear regressions."""
    draws: int
    """Monte Carlo draws per number."""
    seeds: int
    """Independent learning streams."""


FULL = Effort(grids=20_000, regressions=500, draws=1_000_000, seeds=30)
QUICK = Effort(grids=2_000, regressions=50, draws=40_000, seeds=4)
