"""The examples run, at smoke size."""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES, BENCHMARKS = ROOT / "examples", ROOT / "benchmarks"


def run(monkeypatch: pytest.MonkeyPatch, name: str, *options: str) -> None:
    path = (EXAMPLES if (EXAMPLES / name).exists() else BENCHMARKS) / name
    monkeypatch.setattr(sys, "argv", [name, *options])
    monkeypatch.syspath_prepend(str(path.parent))  # as `python path` does
    runpy.run_path(str(path), run_name="__main__")


def test_ppo_trains_saves_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = ["--num-envs", "2", "--rollout", "128", "--steps", "256", "--save", str(tmp_path / "ppo")]
    run(monkeypatch, "sb3_ppo.py", *size)
    run(monkeypatch, "sb3_ppo.py", *size, "--resume")
    assert capsys.readouterr().out.startswith(
        "reached after 256 steps, 1 rollouts: no episode ended\nreached after 512 steps, 2 rollouts"
    )
    assert {file.name for file in tmp_path.iterdir()} == {"ppo.zip", "ppo.bonus.safetensors"}


def test_sac_trains_and_saves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(
        monkeypatch,
        "sb3_sac.py",
        *("--bonus", "rnd", "--steps", "160", "--rollout-steps", "10", "--save", str(tmp_path / "sac")),
    )
    assert "160 steps, 4 updates" in capsys.readouterr().out
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {"sac.zip", "sac.bonus.safetensors", "sac.replay.pkl", "sac.vecnormalize.pkl"}


def test_the_plain_loop_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(monkeypatch, "gymnasium_loop.py", "--steps", "80", "--length", "20", "--num-envs", "2")
    assert "80 steps" in capsys.readouterr().out


def test_finished_runs_are_stored_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--seeds", "0", "--steps", "200", "--out", str(tmp_path)]
    run(monkeypatch, "sb3_mountain_car.py", *options)
    first = capsys.readouterr().out
    stored = json.loads((tmp_path / "ppo-lpm-0.json").read_text())
    assert stored["settings"]["bonus"] == "lpm"
    assert [point[0] for point in stored["curve"]] == sorted(point[0] for point in stored["curve"])
    run(monkeypatch, "sb3_mountain_car.py", *options)
    again = capsys.readouterr().out
    assert "ppo-none-0.json" in first
    assert "ppo-none-0.json" not in again
    assert "| SAC | lpm |" in again
    with pytest.raises(ValueError, match="expected a run of"):
        run(monkeypatch, "sb3_mountain_car.py", *options, "--steps", "300")


@pytest.mark.parametrize("bonus", ["none", "lgn"])
def test_minigrid_with_and_without_the_line(
    bonus: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("minigrid")
    env_id, out = "MiniGrid-Dynamic-Obstacles-5x5-v0", tmp_path / "run.json"  # its episodes are short
    run(monkeypatch, "sb3_minigrid.py", *("--env-id", env_id, "--bonus", bonus, "--steps", "1100", "--out", str(out)))
    stored = json.loads(out.read_text())
    assert (stored["settings"]["env_id"], stored["settings"]["bonus"]) == (env_id, bonus)
    assert stored["curve"][-1][0] == 2048
    assert 0 <= stored["curve"][-1][1] < 0.9
    assert stored["steps_90"] is None
    assert "90 % of the episodes succeed never" in capsys.readouterr().out


def test_the_code_of_the_page_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "adapters" / "sb3.md").read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))
    short = re.sub(r"\b\d+_\d00\b", "120", code)
    assert short != code
    exec(compile(short, "sb3.md", "exec"), {"__name__": "sb3"})
    assert list(tmp_path.rglob("*.safetensors"))
