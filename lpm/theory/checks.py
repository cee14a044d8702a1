"""All checks, in reading order."""

from __future__ import annotations

from lpm.theory.checks_algorithm import (
    check_mismatch,
    check_noise,
    check_queue,
    check_single_samples,
    check_transient,
)
from lpm.theory.checks_theorems import (
    check_limits,
    check_models,
    check_surrogate,
    check_theorem1,
    check_theorem2,
)
from lpm.theory.result import FULL, CheckResult, Effort


def all_checks(effort: Effort = FULL) -> list[CheckResult]:
    """Every named check with its expected and measured value."""
    return [
        *check_models(effort),
        *check_theorem1(effort),
        *check_surrogate(),
        *check_theorem2(effort),
        *check_limits(),
        *check_noise(effort),
        *check_transient(),
        *check_queue(),
        *check_mismatch(effort),
        *check_single_samples(),
    ]
