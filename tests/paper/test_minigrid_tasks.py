"""The MiniGrid experiment: conditions with environments and budgets of their own, and what its scores say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lpm.experiments.experiment import load_experiment
from lpm_paper import minigrid

NO_VISITS = np.zeros(0, dtype=np.int64)
DOCS = Path(__file__).parents[2] / "docs"


def stored(steps: list[int], success: list[float | None], **more: Any) -> dict[str, Any]:
    run = {"steps": steps[-1], "env_id": "MiniGrid-DoorKey-8x8-v0", "log_every": 1}
    curves = {"step": steps, "success": success, "noise_share": [0.5, 0.25, 0.0], "episodes": [9, 100, 300]}
    return {"settings": {"config": {"run": run}}, "curves": curves, **more}


def test_conditions_have_their_own_environment_and_at_most_their_own_steps(tmp_path: Path) -> None:
    experiment = load_experiment("minigrid")
    for condition, env_id, steps, env in [
        ("doorkey-8x8", "MiniGrid-DoorKey-8x8-v0", 100_000, {}),
        ("keycorridor-s3r3-tv", "MiniGrid-KeyCorridorS3R3-v0", 300_000, {"noise": "action"}),
        ("lockedroom-gaussian", "MiniGrid-LockedRoom-v0", 2_000_000, {"noise": "gaussian", "noise_std": 0.1}),
        ("doorkey-8x8-flat", "MiniGrid-DoorKey-8x8-v0", 150_000, {"observation": "flat"}),
        ("multiroom-n7-s4-ride", "lpm/MultiRoomNoisyTV-N7-S4-v0", 500_000, {}),
    ]:
        job = experiment.job("short", condition, "lgn", 0, tmp_path)
        assert (job.task.env_id, job.task.steps, job.units, job.task.env) == (env_id, steps, steps, env)
        assert (job.task.mixer.weight, job.task.mixer.scale) == (0.3, "unit")
        assert experiment.job("smoke", condition, "lgn", 0, tmp_path).task.steps == 512


def test_every_condition_can_be_made() -> None:
    pytest.importorskip("minigrid")
    from lpm.runs.build import make_envs

    experiment = load_experiment("minigrid")
    for condition in experiment.conditions:
        make_envs(experiment.job("smoke", condition, "none", 0, Path()).task, 1).close()


def test_solved_is_the_first_time_that_nine_of_ten_succeed() -> None:
    solved = stored([100, 200, 400], [None, 0.9, 0.7], cpu_seconds=8.0)
    scores = minigrid.EXPERIMENT.scored(solved)
    assert scores == {"success": 0.7, "return": 0.0, "steps_90": 200, "noise_share": 0.25, "cpu_90": 4.0}
    never = minigrid.EXPERIMENT.scored(stored([100, 200, 400], [0.0, 0.5, 0.89], cpu_seconds=8.0))
    assert (never["steps_90"], never["cpu_90"]) == (400, 8.0)
    lucky = minigrid.EXPERIMENT.scored(stored([100, 200, 400], [1.0, 0.5, 0.9], cpu_seconds=8.0))  # one of one
    assert lucky["steps_90"] == 400
    resumed = minigrid.EXPERIMENT.scored(stored([100, 200, 400], [0.0, 0.5, 0.95]))
    assert resumed["steps_90"] == 400
    assert "cpu_90" not in resumed


def test_evidence_of_two_conditions_names_both_budgets(tmp_path: Path) -> None:
    experiment = minigrid.EXPERIMENT
    results = []
    for condition in ("doorkey-8x8", "lockedroom"):
        job = experiment.job("short", condition, "lgn", 0, tmp_path)
        curves = {"step": [job.units], "success": [1.0], "episodes": [300]}
        results.append({"settings": job.settings, "curves": curves, "versions": {}, "cpu_seconds": 2.0})
    evidence = experiment.evidence(json.loads(json.dumps(results)))
    assert "100,000 to 2,000,000 steps a run" in evidence.about[-1]
    assert not {"env_id", "steps"} & set(evidence.settings)
    cpu = {score.condition: score.values[0] for score in evidence.scores if score.metric == "cpu_90"}
    assert cpu == {"doorkey-8x8": 2.0, "lockedroom": 2.0}


def test_the_page_shows_the_numbers_of_others() -> None:
    page = (DOCS / "results" / "minigrid.md").read_text(encoding="utf-8")
    for n in minigrid.PUBLISHED:
        assert f"| {n.task} | {n.method} | {n.value} | {n.source} | {n.differs} |" in page
