"""What importing the package loads. Modules are counted, not seconds: time depends on the machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import lpm

HEAVY = ["matplotlib", "ale_py", "minigrid", "pandas", "ray"]


def loaded_after(code: str) -> set[str]:
    program = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_programs_that_tests_start_import_the_library_that_is_tested(tmp_path: Path) -> None:
    """From another clone they imported the installed one: tests of devices then failed there for what was mended."""
    words = [sys.executable, "-c", "import lpm; print(lpm.__file__)"]
    assert subprocess.run(words, capture_output=True, text=True, cwd=tmp_path).stdout.strip() == lpm.__file__


def test_import_is_lazy() -> None:
    before, after = loaded_after("pass"), loaded_after("import lpm")
    assert not after & {"torch", "numpy", "gymnasium", "gymnasium.envs", *HEAVY}
    assert {m for m in after - before if m.split(".")[0] == "lpm"} == {"lpm"}


def test_make_loads_nothing_heavy() -> None:
    after = loaded_after("import lpm; lpm.make; lpm.names()")
    assert not after & {*HEAVY, "scipy", "lpm.envs", "lpm.data"}
    assert "lpm.bonuses.lpm" in after


@pytest.mark.parametrize("adapter", ["gymnasium", "sb3"])
def test_an_adapter_loads_no_agent(adapter: str) -> None:
    if adapter == "sb3":
        pytest.importorskip("stable_baselines3")
    after = loaded_after(f"import lpm.adapters.{adapter}")
    assert not [module for module in after if module.startswith(("lpm.agents", "lpm.envs", "lpm.runs"))]


def test_public_names() -> None:
    assert set(dir(lpm)) == set(lpm.__all__)
    for name in lpm.__all__:
        assert getattr(lpm, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = lpm.nonsense
