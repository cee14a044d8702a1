"""The axes with values worked out by hand, and both ends of the scale."""

from collections.abc import Mapping

import numpy as np
import pytest

from lpm.envs.maze_geometry import GRID
from lpm.experiments.experiment import parse_method
from lpm.suite import axes
from lpm.suite.axes import AXES, Cell, Runs, counted, measure, score
from lpm.suite.environments import ENVIRONMENTS, LABELS, score_maze
from lpm.suite.environments import score as score_run
from lpm.suite.jobs import NOISE_TABLE, conditions, measured, noise_reward
from lpm.suite.scorecard import METRICS, in_words, make_scorecard

NOTHING = {"noise_share": 0.0, "success": 0.0, "first_visits": 0.0}


def runs(seeds: int = 2, still: float | None = None, **cells: Mapping[str, object]) -> Runs:
    """`world__condition={metric: a number for all seeds or a list}`."""
    found: dict[Cell, dict[str, np.ndarray]] = {}
    for key, metrics in cells.items():
        world, _, condition = key.partition("__")
        columns = {**NOTHING, "cells": 0.0, **metrics, "bonus_share": 0.5, "seconds": 1.0}
        found[world, condition] = {m: np.broadcast_to(np.asarray(v, float), seeds).copy() for m, v in columns.items()}
    return Runs(tuple(range(seeds)), found, np.full(seeds if still is not None else 0, still or 0.0))


RANDOM = runs(
    car__clean={"cells": 20},
    car__action={"cells": 20, "noise_share": 0.5},
    rooms__clean={"cells": 100},
    rooms__half={"cells": 100},
    rooms__dynamics={"cells": 90},
    task__clean={"success": 0.0},
)
CELL_COUNTS = runs(
    car__clean={"cells": 80},
    car__action={"cells": 60, "noise_share": 0.1},
    rooms__clean={"cells": 300},
    rooms__half={"cells": 200},
    rooms__dynamics={"cells": 100},
    task__clean={"success": 0.8},
)
OWN = runs(
    still=0.25,
    car__clean={"cells": [50, 80], "first_visits": 0.5},
    car__action={"cells": [40, 20], "noise_share": [0.3, 0.1]},
    rooms__clean={"cells": [100, 200], "first_visits": [0.1, np.nan]},
    rooms__half={"cells": [500, 500]},
    rooms__dynamics={"cells": [900, 900]},
    task__clean={"success": [0.4, 0.8]},
)


def test_golden_values() -> None:
    cells = counted(RANDOM, CELL_COUNTS, "short")
    assert ("rooms", "dynamics") not in cells  # random actions reach 0.9 of the count
    assert len(cells) == 5
    found = measure(OWN, RANDOM, CELL_COUNTS, cells)
    # car 0.75 and 0.25; rooms 0.25 and 4, which counts as 1.5; task 0.75
    assert found["conditions", ("car", "clean")] == pytest.approx(0.75)
    assert found["conditions", ("rooms", "half")] == pytest.approx(4.0)
    assert found["environments", "car"] == pytest.approx(0.5)
    assert found["environments", "rooms"] == pytest.approx(0.875)
    assert found["total", ""] == pytest.approx((0.5 + 0.875 + 0.75) / 3)
    assert found["axes", "clean"] == pytest.approx(0.5)
    assert found["axes", "noisy"] == pytest.approx((0.25 + 1.5) / 2)
    assert found["axes", "focus"] == pytest.approx(0.75)  # 0.2 of the steps, between 0.5 and 0.1
    assert found["axes", "unpaid"] == pytest.approx(0.75)
    assert found["axes", "first"] == pytest.approx(0.3)
    assert found["axes", "task"] == pytest.approx(0.75)
    # seed 0: car (0.5 + 0.5) / 2, rooms (0 + 1.5) / 2, task 0.5; seed 1: (1 + 0) / 2, (0.5 + 1.5) / 2, 1
    assert found["axes", "steady"] == pytest.approx((0.5 + 0.75 + 0.5) / 3)
    assert found["noise", "half"] == pytest.approx(1.5)
    assert ("noise", "dynamics") not in found


def test_random_is_zero_and_the_count_one() -> None:
    cells = counted(RANDOM, CELL_COUNTS, "short")
    for reference, value in ((RANDOM, 0.0), (CELL_COUNTS, 1.0)):
        found = measure(reference, RANDOM, CELL_COUNTS, cells)
        scores = {k: v for k, v in found.items() if k not in (("axes", "unpaid"), ("axes", "first"))}
        assert list(scores.values()) == pytest.approx([value] * len(scores))


def test_fresh_seeds_keep_both_ends() -> None:
    """Other seeds than those of the references, as noisy as those of the rooms: no axis is biased."""
    rng = np.random.default_rng(3)
    keys = [f"rooms__{family}" for family in ENVIRONMENTS["rooms"].experiment.conditions]

    def drawn(mean: float) -> Runs:
        return runs(5, **{key: {"cells": rng.normal(mean, 100, 5)} for key in keys})

    low, high = [], []
    for _ in range(200):
        random, cell_counts = drawn(425), drawn(1000)
        cells = counted(random, cell_counts, "short")
        low.append(measure(drawn(425), random, cell_counts, cells)["total", ""])
        high.append(measure(drawn(1000), random, cell_counts, cells)["total", ""])
    assert np.mean(low) == pytest.approx(0, abs=0.02)
    assert np.mean(high) == pytest.approx(1, abs=0.02)


def test_intervals_hold_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(axes, "RESAMPLES", 200)
    found = score(OWN, RANDOM, CELL_COUNTS, "short")
    assert all(low <= value <= high for value, low, high in found.values() if np.isfinite(value))
    assert found["axes", "task"] == pytest.approx((0.75, 0.5, 1.0))


def test_a_card_says_which_worlds_are_missing_and_what_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(axes, "RESAMPLES", 20)
    card = make_scorecard("rnd", parse_method("rnd"), "short", OWN, RANDOM, CELL_COUNTS)
    assert card["missing"] == ["onehot", "maze"]
    assert set(card["axes"]) == set(AXES)
    assert not card["conditions"]["rooms/dynamics"]["counts"]
    said = in_words(card)
    assert card["cost"] == 2.0
    for part in ("50 % of the way", "under half noise", "noise action (67 %)", "Rooms, one-hot, Maze, pixels",
                 "fewer steps on noise", "noise gets 25 %", "75 % of the success"):  # fmt: skip
        assert part in said
    assert "smoke" not in said


@pytest.mark.parametrize(
    ("focus", "task", "says"),
    [
        (-0.03, -0.001, "as many steps on noise as"),
        (-0.3, 0.02, "more steps on noise than"),
        (1.4, 0.0, "fewer steps on noise than"),
    ],
)
def test_words_at_the_ends_of_the_scale(focus: float, task: float, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(axes, "RESAMPLES", 2)
    card = make_scorecard("rnd", parse_method("rnd"), "smoke", OWN, RANDOM, CELL_COUNTS)
    card["axes"]["focus"]["value"], card["axes"]["task"]["value"] = focus, task
    said = in_words(card)
    assert says in said
    assert "no better than random actions" in said
    assert "At the smoke scale" in said


def test_a_world_counts_once_all_of_its_conditions_are_there() -> None:
    def result(world: str, condition: str, seed: int) -> dict[str, object]:
        settings = {"experiment": f"suite-{world}", "condition": condition, "seed": seed}
        curves = {"step": [1, 2, 3], "noise_share": [0.0, 0.0, 0.3]}
        return {
            "settings": settings,
            "curves": curves,
            "visits": [1, 0, 5],
            "time_shares": {"bonus": 0.1},
            "seconds": 1,
        }

    car = [result("car", condition, seed) for condition in ("clean", "action") for seed in (0, 1)]
    begun = [result("onehot", condition, 0) for condition in ("clean", "action", "half")]  # one seed of two
    found = measured([*car, result("rooms", "clean", 0), *begun], "short")
    assert list(found.cells) == [("car", "clean"), ("car", "action")]
    assert found.seeds == (0, 1)
    assert found.cells["car", "action"]["cells"].tolist() == [2, 2]
    assert found.cells["car", "action"]["noise_share"] == pytest.approx([0.1, 0.1])
    arms = [
        {
            "settings": {"experiment": NOISE_TABLE, "seed": seed},
            "curves": {"learnable": [1.0], "noise": [0.5], "unseen": 0},
        }
        for seed in (0, 1)
    ]
    assert measured([*car, *arms], "short").noise_rewards.tolist() == [0.5, 0.5]
    assert not len(measured([*car, arms[1]], "short").noise_rewards)  # the first seed's are still to come
    with pytest.raises(ValueError, match="expected at least one seed with a run in every condition of an environment"):
        measured(car[:1], "short")


def test_success_is_that_of_the_last_third_and_the_start_arm_does_not_count() -> None:
    curves = {"step": list(range(6)), "success": [None, 0.0, 0.0, 0.2, 0.4, 0.8]}
    visits = np.zeros(GRID, dtype=np.int64)
    visits[3, 5], visits[15, 31], visits[16, 31], visits[15, 32] = 4, 1, 1, 7
    numbers = score_maze(curves, visits.ravel())
    assert numbers["cells"] == 2
    assert numbers["success"] == pytest.approx(0.6)
    assert score_run(curves, visits.ravel())["cells"] == 4
    assert score_maze(curves, np.zeros(0, dtype=np.int64))["cells"] == 0


def test_noise_reward_by_hand() -> None:
    curves = {"learnable": [0.0, 2.0], "noise": [0.0, 1.0] + [0.5] * 10, "unseen": 0.0}
    assert noise_reward(curves) == pytest.approx(0.25)
    assert noise_reward({**curves, "unseen": -5.0}) == pytest.approx(0.25)
    assert noise_reward({**curves, "unseen": -1e7}) == pytest.approx(5e-8)  # the first is next to nothing
    assert noise_reward({"learnable": [0.0], "noise": [0.0], "unseen": 0.0}) == 0.0
    assert noise_reward({"learnable": [1.0], "noise": [-1.0] * 10, "unseen": 3.0}) == 0.0


def test_every_family_of_noise_is_run_on_numbers_and_where_it_fits_on_pixels() -> None:
    """The ten families that the suite promises, by the names of their conditions."""
    vector = {condition for world, condition in conditions("short") if world in ("car", "rooms", "onehot")}
    pixels = {condition for world, condition in conditions("short") if world == "maze"}
    promised = {"action", "photographs", "wall", "video", "sequence", "half", "small", "place", "sticky", "room"}
    assert promised <= vector
    assert pixels == {"clean", "photographs", "wall", "part", "small", "sticky"}
    assert {condition for _, condition in conditions("short")} == set(LABELS)
    for world in ENVIRONMENTS.values():
        assert set(world.watched) <= set(world.experiment.conditions)


def test_every_condition_has_words_and_every_metric_a_column() -> None:
    for scale in ("smoke", "short"):
        assert {world for world, _ in conditions(scale)} == set(ENVIRONMENTS)
    assert {world.metric for world in ENVIRONMENTS.values()} <= set(METRICS)
