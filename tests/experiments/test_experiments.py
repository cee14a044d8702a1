"""Every experiment: its settings hold together, its smallest size runs, and results become evidence."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lpm.agents.agent import Agent
from lpm.bonuses.lgn import LGNConfig
from lpm.core.monitor import NonFiniteError
from lpm.experiments.evidence import Score
from lpm.experiments.experiment import load_experiment, method_name, parse_method
from lpm.experiments.training import TrainingExperiment, maze_grid, run_training, visits_of
from lpm.report.seed_statistics import summarise
from lpm.sweeps import Result
from lpm_paper import PAPER, atari, lgn_parts, mountain_car

TRAINED = [name for name in PAPER.experiments if isinstance(load_experiment(name), TrainingExperiment)]


def run(name: str, condition: str, method: str, seed: int, folder: Path) -> Result:
    experiment = load_experiment(name)
    job = experiment.job("smoke", condition, method, seed, folder)
    ticks: list[int] = []
    result = experiment.run(
        job.settings if job.task is None else job.task, ticks.append, folder / f"{condition}-{method}-{seed}"
    )
    assert sum(ticks) == job.units
    whole: Result = json.loads(json.dumps({"settings": job.settings, **result}, allow_nan=False))
    return whole


@pytest.mark.parametrize("name", PAPER.experiments)
def test_every_size_can_be_configured(name: str, tmp_path: Path) -> None:
    experiment = load_experiment(name)
    assert experiment.name == name
    needed = {"smoke", "short"} if experiment.place == "beyond the paper" else {"smoke", "short", "paper"}
    assert needed <= set(experiment.sizes) <= {"smoke", "short", "long", "paper"}
    paths = set()
    for scale in experiment.sizes:
        for condition in experiment.default_conditions(scale):
            assert condition in experiment.conditions
            for method in experiment.default_methods(scale):
                if name == "mnist":  # needs the digits
                    assert method in experiment.methods
                    continue
                job = experiment.job(scale, condition, method, 3, tmp_path / scale)
                json.dumps(job.settings)
                assert job.settings["seed"] == 3
                paths.add(job.path)
    assert name == "mnist" or len(paths) > 2


@pytest.mark.parametrize("name", TRAINED)
def test_paper_numbers_and_claims_name_what_exists(name: str) -> None:
    experiment = load_experiment(name)
    assert isinstance(experiment, TrainingExperiment)
    for condition, metric, method in experiment.paper:
        assert condition in experiment.conditions
        assert metric in experiment.metrics
        assert method in experiment.methods
    for claim in experiment.claims:
        assert claim.condition in experiment.conditions
        assert {claim.better, claim.worse} <= set(experiment.methods)
        assert claim.metric in experiment.metrics


def test_overhead_takes_any_bonus_and_nothing_else(tmp_path: Path) -> None:
    experiment = load_experiment("overhead").opened(["lgn:fourier=0", "none"])
    assert experiment.job("smoke", "vector", "lgn:fourier=0", 0, tmp_path).settings["fields"] == {"fourier": 0}
    with pytest.raises(ValueError, match="overhead: expected a bonus, got 'none'"):
        experiment.job("smoke", "vector", "none", 0, tmp_path)


@pytest.mark.parametrize(
    ("name", "condition", "method"),
    [("mountain-car", "stochastic", "lpm"), ("lava", "s9n1", "icm"), ("maze", "state", "none"),
     ("ablation", "deterministic", "pointwise-3"),
     ("lgn-parts", "stays", "prior-off"),
     ("minigrid", "doorkey-8x8-tv", "lgn"), ("overhead", "vector", "rnd")],
)  # fmt: skip
def test_the_smallest_size_becomes_evidence(name: str, condition: str, method: str, tmp_path: Path) -> None:
    evidence = load_experiment(name).evidence([run(name, condition, method, seed, tmp_path) for seed in (0, 1)])
    assert evidence.scale == "smoke"
    assert list(evidence.methods) == [method]
    assert list(evidence.conditions) == [condition]
    main = next(iter(evidence.metrics))
    score = next(s for s in evidence.scores if s.metric == main)
    assert set(score.values) == {0, 1}
    assert all(np.isfinite(value) for value in score.values.values())
    for curve in evidence.curves:
        assert all(len(values) == len(curve.steps) for values in curve.runs.values())


def test_a_run_is_a_function_of_its_settings_and_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run("mountain-car", "stochastic", "lpm", 0, tmp_path / "whole")
    job = load_experiment("mountain-car").job("smoke", "stochastic", "lpm", 0, tmp_path)
    monkeypatch.setattr("lpm.experiments.training.CHECKPOINT_SECONDS", 0.0)

    def killed(units: int) -> None:
        if (tmp_path / "scratch" / "checkpoints").is_dir() and len(
            list((tmp_path / "scratch").rglob("*.safetensors"))
        ) > 1:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        run_training(job.task, killed, tmp_path / "scratch")
    ticks: list[int] = []
    again = run_training(job.task, ticks.append, tmp_path / "scratch")
    assert len(ticks) < 512 // (4 * 32)  # it did not start anew
    for key in ("curves", "visits"):
        assert json.loads(json.dumps(again[key])) == whole[key]


def test_drop_is_the_ratio_of_means() -> None:
    scores = [
        Score("deterministic", "cells", "rnd", {0: 80.0, 1: 20.0, 2: 10.0}),
        Score("stochastic", "cells", "rnd", {0: 40.0, 1: 30.0}),
        Score("deterministic", "cells", "none", {0: 80.0}),
    ]
    (drop,) = mountain_car.drop(scores)
    # of all runs; seed by seed, of the seeds that both have, it would be 0
    assert np.mean(list(drop.values.values())) == pytest.approx(100 * (1 - 35 / (110 / 3)))
    # the paper's own numbers: 67.04 of 76.50 is a drop of 12.4 %
    for method, (clean, noisy) in mountain_car._COVERAGE.items():
        given = [
            Score(c, "cells", method, {0: v[0]}) for c, v in zip(mountain_car.CONDITIONS, (clean, noisy), strict=True)
        ]
        assert mountain_car.drop(given)[0].values[0] == pytest.approx(mountain_car._DROP[method], abs=0.1)
    assert drop.paper is not None
    assert drop.paper.value == 38.5


@pytest.mark.parametrize("more", [20, 100])
def test_the_interval_of_a_drop_is_that_of_the_ratio(more: int) -> None:
    rng = np.random.default_rng(0)
    clean, noisy = rng.normal(80, 10, 20), rng.normal(40, 10, more)
    drop = mountain_car.drop(
        [
            Score(condition, "cells", "rnd", dict(enumerate(values.tolist())))
            for condition, values in zip(mountain_car.CONDITIONS, (clean, noisy), strict=True)
        ]
    )[0]
    interval = summarise(list(drop.values.values()), rng).mean_interval
    assert interval is not None
    first = rng.integers(20, size=(10_000, 20))
    second = first if more == 20 else rng.integers(more, size=(10_000, more))
    ratios = 100 * (1 - noisy[second].mean(axis=1) / clean[first].mean(axis=1))
    low, high = np.quantile(ratios, [0.025, 0.975])
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=0.6)


def test_table_2_is_the_papers() -> None:
    number = mountain_car.PAPER["stochastic", "cells", "lpm"]
    assert (number.value, number.std, number.place) == (67.04, 14.60, "Table 2")
    assert len(mountain_car.PAPER) == 14


def test_each_part_of_lgn_changes_one_setting() -> None:
    default = LGNConfig()
    several = {"lgn": 0, "neither": 2, "prior-off": 0}
    for name, method in lgn_parts.PARTS.items():
        changed = [key for key, value in method.fields.items() if getattr(default, key) != value]
        assert len(method.fields) == len(changed) == several.get(name, 1)


def test_heat_map_of_the_maze_is_blank_outside() -> None:
    picture = maze_grid(np.ones(72 * 48))
    assert picture.shape == (48, 72)
    assert int(np.isfinite(picture).sum()) == 2176
    assert np.isnan(picture[0, 36])  # between the arms


def test_fields_are_written_as_in_lpm_train() -> None:
    """`gate=false` was the text "false"; "none" is a choice of many fields and stays text."""
    assert parse_method("lgn:gate=false,units=none").fields == {"gate": False, "units": "none"}
    assert method_name("lgn:gate=false") == method_name("lgn:gate=False")
    assert parse_method("x:a={[]: 1}").fields == {"a": "{[]: 1}"}


def test_unknown_experiment_and_fields_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown experiment 'mountaincar'; did you mean mountain-car"):
        load_experiment("mountaincar")
    with pytest.raises(ValueError, match="dynamics_step"):
        load_experiment("ablation").job("smoke", "stochastic", "lpm", 0, tmp_path, {"dynamics_step": 1})


def test_runs_of_unknown_methods_and_conditions_are_named(tmp_path: Path) -> None:
    known = run("mountain-car", "stochastic", "random", 0, tmp_path)
    strange = [json.loads(json.dumps(known)) for _ in range(2)]
    strange[0]["settings"]["method"] = "<script>"
    strange[1]["settings"]["condition"] = "weird"
    evidence = load_experiment("mountain-car").evidence([known, *strange])
    assert list(evidence.methods) == ["random"]
    assert [w for w in evidence.warnings if "unknown method '<script>'" in w]
    assert [w for w in evidence.warnings if "unknown condition 'weird'" in w]


def test_evidence_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="expected at least one result"):
        load_experiment("lava").evidence([])


def test_scores_of_missing_curves() -> None:
    experiment: Any = load_experiment("mountain-car")
    assert experiment.score({"return": [None, None]}, np.array([1, 0, 3])) == {"cells": 2.0}


def test_a_diverged_run_is_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = load_experiment("mountain-car").job("smoke", "stochastic", "random", 0, tmp_path)
    cycle = Agent.cycle

    def breaks(self: Agent) -> dict[str, float]:
        if self.steps >= 256:
            raise NonFiniteError("policy (value loss)", self.steps, float("nan"))
        return cycle(self)

    monkeypatch.setattr(Agent, "cycle", breaks)
    ticks: list[int] = []
    result = run_training(job.task, ticks.append, tmp_path / "scratch")
    assert sum(ticks) == job.units  # the bar reaches its end
    assert result["diverged"].startswith("policy (value loss) is nan at step 256")
    assert result["curves"]["step"][-1] == 256
    assert sum(result["visits"]) > 0
    whole: Result = json.loads(json.dumps({"settings": job.settings, **result}, allow_nan=False))
    evidence = load_experiment("mountain-car").evidence([whole])
    assert evidence.scores[0].diverged == (0,)
    assert [w for w in evidence.warnings if "seed 0: diverged" in w]


def test_a_run_without_visits_counts_with_the_cells_of_its_curve() -> None:
    experiment: Any = load_experiment("maze")
    none = np.zeros(0, dtype=np.int64)
    assert experiment.score({"cells": [10.0, 25.0]}, none) == {"cells": 25.0}
    assert experiment.score({}, none) == {"cells": 0.0}


def test_a_change_names_the_runs_that_diverged() -> None:
    clean = Score("ms_pacman", "return", "rnd", {0: 100.0, 1: 200.0}, diverged=(1,))
    noisy = Score("ms_pacman-noise", "return", "rnd", {0: 50.0, 1: 100.0, 2: 10.0}, diverged=(2,))
    (change,) = atari.change([clean, noisy])
    assert change.values == {0: -50.0, 1: -50.0}
    assert change.diverged == (1,)


def test_few_cells_of_many_are_stored_and_come_back() -> None:
    visits = visits_of({"visited": {"of": 1_572_864, "cells": [3, 65_536, 65_540], "times": [2, 1, 1]}})
    assert (len(visits), visits[3], int(visits.sum())) == (1_572_864, 2, 4)
    experiment: Any = load_experiment("montezuma")
    assert experiment.score({"cells": [1.0, 3.0]}, visits) == {"cells": 3.0, "rooms": 2.0}
    assert visits_of({"visits": [0, 2]}).tolist() == [0, 2]
    assert visits_of({}).size == 0
    with pytest.raises(ValueError, match=r"visited\.of: expected 1 to 10,000,000 cells, got 10000000000000"):
        visits_of({"visited": {"of": 10**13, "cells": [], "times": []}})


def test_change_by_hand() -> None:
    scores = [
        Score("ms_pacman", "return", "lpm", {0: 200.0, 1: 400.0, 2: 0.0}),
        Score("ms_pacman-noise", "return", "lpm", {0: 150.0, 1: 500.0, 2: 9.0}),
        Score("ms_pacman-bonus-noise", "return", "lpm", {0: 1.0}),
        Score("ms_pacman-noise", "noise_share", "lpm", {0: 1.0}),
    ]
    (change,) = atari.change(scores)
    assert (change.condition, change.metric) == ("ms_pacman-noise", "change")
    assert change.values == pytest.approx({0: -25.0, 1: 25.0})  # nothing can be said of a score of 0
    assert change.paper is not None
    assert change.paper.value == 0.3


def test_conditions_may_pay_otherwise(tmp_path: Path) -> None:
    experiment = load_experiment("atari")

    def mixer(scale: str, condition: str) -> Any:
        return experiment.job(scale, condition, "rnd", 0, tmp_path).task.mixer

    assert (mixer("short", "ms_pacman").weight, mixer("short", "ms_pacman").clip_task) == (1.0, 1.0)
    assert mixer("short", "ms_pacman-bonus-noise").extrinsic_weight == 0.0
    assert (mixer("paper", "ms_pacman").weight, mixer("paper", "ms_pacman").clip_task) == (0.1, None)
    maze_job = load_experiment("maze").job("long", "action-large", "lpm-8", 0, tmp_path).task
    assert (maze_job.env["width"], maze_job.env["height"], maze_job.steps) == (160, 120, 50_000)
    assert maze_job.bonus_settings.dynamics_steps == 8


def test_overhead_on_atari_has_the_settings_of_its_paper_size(tmp_path: Path) -> None:
    overhead = load_experiment("overhead")
    fields = {c: overhead.job("short", c, "lpm", 0, tmp_path).settings["fields"] for c in overhead.conditions}
    assert fields == {"vector": {}, "image": {}, "atari": atari.BONUS["lpm"]}
