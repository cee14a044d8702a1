"""What documents and error messages promise: the example bonus runs, the extras exist."""

import re
import tomllib
from functools import partial
from pathlib import Path

import pytest
from gymnasium.spaces import Box, Discrete

import lpm
from lpm.core import registry

ROOT = Path(__file__).parents[2]


def test_the_documented_bonus_keeps_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    lpm.names()
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    text = (ROOT / "docs" / "write_a_bonus.md").read_text()
    example = next(code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "@register" in code)
    exec(compile(example, "write_a_bonus.md", "exec"), {"__name__": "write_a_bonus"})
    lpm.check_intrinsic(partial(lpm.make, "change"))


def test_every_extra_that_a_message_names_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {
        extra
        for path in [*(ROOT / "lpm").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
        for group in re.findall(r"(?:lpm-exploration\[|'\.\[|pip_install\([\"'])([a-z,0-9]+)", path.read_text())
        for extra in group.split(",")
    }
    assert "data" in named
    assert named <= set(extras)


def test_the_papers_variant_has_a_floor_and_a_bounded_buffer() -> None:
    spaces = lpm.Spaces(Box(-1, 1, (3,)), Discrete(2))
    paper = lpm.make("lpm", spaces, variant="paper", num_envs=8, rollout_steps=128)
    assert float(paper.floor) == pytest.approx(1e-4)
    assert paper.buffer.capacity == 64 * 8 * 128
