"""The outcome of one named check: what was expected, what was measured, and whether they agree."""

from collections.abc import Callable
from dataclasses import dataclass
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


Check = Callable[..., CheckResult]
"""Of a name, what is expected and measured, perhaps a tolerance and a note: the result of one check."""


def section(title: str) -> tuple[Check, Check, Check]:
    """What makes the checks of one group: measured equal to, at least or at most expected, within the tolerance."""

    def relation(kind: Relation) -> Check:
        def check(name: str, expected: float, measured: float, tolerance: float = 0.0, note: str = "") -> CheckResult:
            return CheckResult(title, name, kind, float(expected), float(measured), float(tolerance), note)

        return check

    return relation("equal"), relation("at least"), relation("at most")


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
