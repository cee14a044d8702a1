"""The DeepSea experiment: the sizes, what counts as solved, and what a run that never gets there counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lpm.experiments.experiment import load_experiment
from lpm.experiments.training import TrainingExperiment
from lpm.runs.build import make_envs


def experiment() -> TrainingExperiment:
    found = load_experiment("deep-sea")
    assert isinstance(found, TrainingExperiment)
    return found


def test_conditions_are_sizes_of_one_sea(tmp_path: Path) -> None:
    found = experiment()
    assert list(found.conditions) == ["size-10", "size-20", "size-30", "size-40"]
    for size, condition in zip((10, 20, 30, 40), found.conditions, strict=True):
        job = found.job("short", condition, "lgn", 0, tmp_path)
        assert (job.units, job.task.env, job.task.algo) == (100_000, {"size": size}, "ppo")
        assert (job.task.mixer.weight, job.task.mixer.scale) == (0.1, "bonus")
        envs = make_envs(job.task, 2)
        assert envs.single_observation_space.shape == (size * size,)
        envs.close()


def test_every_method_is_made(tmp_path: Path) -> None:
    found = experiment()
    bonuses = {name: found.job("smoke", "size-10", name, 0, tmp_path).task for name in found.methods}
    assert {name: task.bonus for name, task in bonuses.items()} == {
        "lgn": "lgn",
        "lgn-256": "lgn",
        "lgn_lifelong": "lgn_lifelong",
        "count": "count",
        "rnd": "rnd",
        "none": "none",
    }
    assert bonuses["lgn-256"].bonus_settings.features == 256 != bonuses["lgn"].bonus_settings.features


def test_only_the_reward_at_the_end_is_a_success() -> None:
    """Of N steps to the right one pays; of any others the return is at most 0."""
    envs: Any = make_envs(experiment().job("smoke", "size-10", "none", 0, Path()).task, 2)
    sea, returns = envs.unwrapped, np.zeros(2)
    envs.reset(seed=0)
    for row in range(10):
        right = sea.right[row, row]
        returns += envs.step(np.array([right, 1 - sea.right[row, 0]]))[1]
    assert returns.round(6).tolist() == [0.99, 0.0]


def test_a_run_that_never_gets_there_counts_with_all_steps() -> None:
    def scores(success: list[float]) -> dict[str, float]:
        run = {"steps": 400, "env_id": "lpm/DeepSea-v0", "log_every": 1}
        curves = {"step": [100, 200, 400], "success": success, "episodes": [9, 100, 300]}
        return experiment().scored({"settings": {"config": {"run": run}}, "curves": curves})

    assert scores([1.0, 0.9, 1.0])["steps_90"] == 200  # of one hundred episodes
    assert scores([0.0, 0.5, 0.89]) == {"steps_90": 400, "success": 0.89}
