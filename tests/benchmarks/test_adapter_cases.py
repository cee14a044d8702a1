"""The cases of benchmarks/adapters.py that need no other library can be built and run."""

import runpy
from pathlib import Path
from typing import Any

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "adapters.py"
CASES: dict[str, Any] = {
    name: case for name, case in runpy.run_path(str(BENCHMARK))["CASES"].items() if case.package == "gymnasium"
}


@pytest.mark.parametrize("bonus", [None, "none"])
@pytest.mark.parametrize("name", CASES)
def test_a_rollout(name: str, bonus: str | None) -> None:
    CASES[name].build(bonus)(1024)
