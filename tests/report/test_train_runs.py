"""Plain runs of `lpm train` on the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lpm.commands import report
from lpm.core.registry import configure
from lpm.report.analysis import analyse
from lpm.report.train_runs import find_train_runs, train_evidence
from lpm.runs import RunConfig


def write(path: Path, bonus: str = "none", seed: int = 0, last: float = 0.5, **changes: Any) -> None:
    path.mkdir(parents=True)
    given = {"env_id": "lpm/MountainCar-v0", "bonus": bonus, "seed": seed, "steps": 100, "env": {"noise": True}}
    (path / "config.toml").write_text(RunConfig(**(given | changes)).to_toml())
    lines: list[dict[str, float]] = [
        {"step": step, "coverage": last * step / 100, "return": -1.0 + step / 100, "bonus/raw_mean": 1 / step}
        for step in (10, 50, 100)
    ]
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_curves_and_scores_per_bonus_and_environment(tmp_path: Path) -> None:
    for seed in (0, 1):
        write(tmp_path / f"rnd-{seed}", "rnd", seed, 0.4 + 0.1 * seed)
        write(tmp_path / f"none-{seed}", "none", seed, 0.2)
    write(tmp_path / "cart", env_id="CartPole-v1", env={})
    warnings: list[str] = []
    cart, car = train_evidence(find_train_runs([tmp_path], warnings))
    assert warnings == []
    assert (cart.name, car.name) == ("CartPole-v1", "lpm/MountainCar-v0")
    assert list(car.metrics) == ["coverage", "return", "bonus"]
    assert car.conditions == {"noise=True": "noise=True"}
    scores = {(s.metric, s.method): dict(s.values) for s in car.scores}
    assert scores["coverage", "rnd"] == {0: 0.4, 1: 0.5}
    curve = next(c for c in car.curves if (c.metric, c.method) == ("coverage", "rnd"))
    assert (curve.steps[0], curve.steps[-1]) == (10.0, 100.0)
    assert analyse(car).warnings == ()


def test_runs_of_one_bonus_with_other_settings_are_told_apart(tmp_path: Path) -> None:
    write(tmp_path / "a", "rnd")
    write(tmp_path / "b", "rnd", bonus_settings=configure("rnd", lr=0.5))
    (evidence,) = train_evidence(find_train_runs([tmp_path], []))
    assert set(evidence.methods) == {"rnd-bonus.lr=0.0001", "rnd-bonus.lr=0.5"}


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a")
    write(tmp_path / "same-seed")
    write(tmp_path / "other-budget", seed=1, steps=200)
    write(tmp_path / "broken", seed=2)
    (tmp_path / "broken/config.toml").write_text("[run]\n")
    write(tmp_path / "young", seed=3)
    (tmp_path / "young/metrics.jsonl").unlink()
    warnings: list[str] = []
    (evidence,) = train_evidence(find_train_runs([tmp_path], warnings))
    assert any("broken: skipped: not a readable run" in w for w in warnings)
    assert any("young: skipped: no metrics.jsonl yet" in w for w in warnings)
    assert any("same-seed: left out: seed 0 of none is also in" in w for w in evidence.warnings)
    assert any("different budgets (100, 200 steps)" in w for w in evidence.warnings)


def test_a_run_that_ended_early_is_named_with_its_reason(tmp_path: Path) -> None:
    for seed, result in enumerate(
        ({"status": "failed", "error": "policy (loss) is nan at step 100"}, {"status": "interrupted", "error": None}, 7)
    ):
        write(tmp_path / str(seed), seed=seed, steps=200)
        (tmp_path / str(seed) / "result.json").write_text(json.dumps(result))
    write(tmp_path / "3", seed=3, steps=200)
    (evidence,) = train_evidence(find_train_runs([tmp_path], []))
    assert [w.removeprefix(f"{tmp_path}/").partition(";")[0] for w in evidence.warnings] == [
        "0: ends at 100 of 200 steps (failed: policy (loss) is nan at step 100)",
        "1: ends at 100 of 200 steps (interrupted)",
        "2: ends at 100 of 200 steps (still running, or killed)",
        "3: ends at 100 of 200 steps (still running, or killed)",
    ]


def test_the_command_takes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for bonus, last in (("rnd", 0.3), ("none", 0.2)):
        write(tmp_path / bonus, bonus, last=last)
    page = tmp_path / "page.html"
    assert report.run([str(tmp_path), "--out", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "lpm/MountainCar-v0: your runs" in text
    assert "rnd leads: coverage (share of the cells) 0.300." in text
    assert "warning" not in capsys.readouterr().out


@pytest.mark.parametrize(("success", "first"), [(0.0, "return"), (0.5, "success")])
def test_the_return_comes_first_where_nobody_succeeds(tmp_path: Path, success: float, first: str) -> None:
    write(tmp_path / "a", env_id="CartPole-v1", env={})
    lines = [{"step": 100, "return": 9.0, "success": 0.0}, {"step": 200, "return": 20.0, "success": success}]
    (tmp_path / "a" / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (evidence,) = train_evidence(find_train_runs([tmp_path], []))
    assert next(iter(evidence.metrics)) == first
    assert set(evidence.metrics) == {"return", "success"}
    assert evidence.methods == {"none": "No bonus"}
