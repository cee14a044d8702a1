"""Worlds that change half-way do so, and only then; what is measured is told apart by the change."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
import pytest
from rich.console import Console

from lpm.experiments.experiment import load_experiment
from lpm.experiments.training import TrainingExperiment
from lpm.report.analysis import analyse
from lpm.sweeps import run_jobs
from lpm_paper.hostile import DELAY, SIZE, WORLDS, HostileRooms, student
from lpm_paper.refresh import hostile_table

STAY = 4


def seen(world: str, action: int, steps: int, change: int) -> np.ndarray:
    """What one environment shows, step by step."""
    env = HostileRooms(1, world, change)
    first, _ = env.reset(seed=0)
    return np.stack([first[0], *(env.step(np.array([action]))[0][0] for _ in range(steps))])


@pytest.mark.parametrize(
    ("world", "action"), [("dynamics", 1), ("tv", STAY), ("heavy-tails", STAY), ("drift", STAY)]
)  # fmt: skip
def test_what_is_seen_differs_from_a_calm_world_after_the_change_only(world: str, action: int) -> None:
    calm, found = seen("calm", action, 8, 4), seen(world, action, 8, 4)
    np.testing.assert_array_equal(found[:4], calm[:4])
    assert not np.array_equal(found[4:], calm[4:])


def test_drift_is_a_range_in_ten_thousand_steps_and_heavy_tails_have_their_quantiles() -> None:
    moved = seen("drift", STAY, 8, 0) - seen("calm", STAY, 8, 0)
    np.testing.assert_allclose(moved[1:, 0], 2 * np.arange(1, 9) / 10_000, atol=1e-6)
    noise = (seen("heavy-tails", STAY, 4000, 0) - seen("calm", STAY, 4000, 0))[1:].ravel() / SIZE
    # quartile and 95 % quantile of Student's t with 1.5 degrees of freedom (scipy.stats.t.ppf)
    np.testing.assert_allclose(np.quantile(noise, [0.25, 0.5, 0.75, 0.95]), [-0.8726, 0, 0.8726, 3.7052], atol=0.2)
    assert np.isfinite(student(np.array([1 - 2.0**-53]), np.zeros(1))).all()


def test_delayed_noise_comes_when_it_was_asked_for() -> None:
    env = HostileRooms(1, "delayed")
    env.reset(seed=0)
    shown = [bool(env.step(np.array([STAY if step == 0 else 0]))[4]["noise"][0]) for step in range(2 * DELAY)]
    assert np.flatnonzero(shown).tolist() == [DELAY]


def test_the_reward_moves_to_another_room() -> None:
    env = HostileRooms(1, "reward", change=2)
    env.reset(seed=0)
    goals = []
    for _ in range(2):
        env.step(np.array([STAY]))
        goals.append(env._goal.copy())
    assert goals[0].any()
    assert goals[1].any()
    assert not (goals[0] & goals[1]).any()


@pytest.mark.parametrize("world", WORLDS)
def test_a_saved_world_goes_on_as_it_would_have(world: str) -> None:
    envs = HostileRooms(3, world, change=60)
    envs.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, 5, (40, 3))
    for step in range(15):
        envs.step(actions[step])
    saved, other = envs.get_state(), HostileRooms(3, world, change=60)
    other.set_state(saved)
    for step in range(15, 40):
        for here, there in zip(envs.step(actions[step])[:4], other.step(actions[step])[:4], strict=True):
            np.testing.assert_array_equal(here, there)


def test_runs_become_a_table_with_the_worst_first(tmp_path: Path) -> None:
    experiment = load_experiment("hostile")
    assert isinstance(experiment, TrainingExperiment)
    jobs = [
        experiment.job("smoke", world, method, 0, tmp_path) for world in ("calm", "tv") for method in ("none", "lgn")
    ]
    results, failures = run_jobs(jobs, experiment.run, workers=1, console=Console(quiet=True))
    assert not failures
    found = list(results.values())
    evidence = experiment.evidence(found)
    scores = {(s.condition, s.metric, s.method): s.values[0] for s in evidence.scores}
    for method in ("none", "lgn"):  # the same run until the change
        assert scores["calm", "cells_before", method] == scores["tv", "cells_before", method]
        assert scores["calm", "noise_share", method] == 0 < scores["tv", "noise_share", method]
    table = hostile_table({"hostile-smoke": analyse(evidence)}, "hostile-smoke")
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.strip().splitlines()[2:]]
    assert [row[-1] for row in rows] == ["–", "–"]  # where the reward moves nothing was run
    assert [int(row[2]) for row in rows] == sorted(scores["tv", "cells", m] for m in ("none", "lgn"))
    assert {row[0]: int(row[1]) for row in rows}["LGN"] == scores["calm", "cells", "lgn"]


def test_an_unknown_world_is_refused() -> None:
    with pytest.raises(ValueError, match="world: expected one of calm"):
        gymnasium.make_vec("lpm_paper.hostile:HostileRooms-v0", num_envs=1, world="hell")
