"""Searching settings: the better ones are found, a killed search ends as an unkilled one, bad fields are named."""

import csv
import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("optuna")

from toy import toy_run

from lpm.commands.tune import Tune, run, tune
from lpm.experiments.evidence import Evidence, Score
from lpm.experiments.experiment import Method
from lpm.storage.lock import exclusive
from lpm.sweeps import BusyError, Job, Result
from lpm.sweeps.fields import parse_field
from lpm.sweeps.search import Trial, search

ROOT = Path(__file__).parents[2]


class Toy:
    """As much of an experiment as a search needs."""

    name, title, place = "toy", "Toy", "nowhere"
    methods: ClassVar = {"rnd": Method("RND", "rnd", {"lr": 1e-4})}
    conditions: ClassVar = {"clean": "clean"}
    metrics: ClassVar = {"score": "score", "drop": "drop"}
    sizes: ClassVar = {"smoke": None}
    run = staticmethod(toy_run)

    def __init__(self, lower_is_better: bool = False) -> None:
        self.lower = ("score",) if lower_is_better else ()

    def preflight(self, scale: str, conditions: Sequence[str], method: str) -> None:
        pass

    def default_methods(self, scale: str) -> tuple[str, ...]:
        return ("rnd",)

    def default_conditions(self, scale: str) -> tuple[str, ...]:
        return ("clean",)

    def job(
        self, scale: str, condition: str, method: str, seed: int, out: Path, fields: Mapping[str, Any] | None = None
    ) -> Job:
        settings = {"seed": seed, "fields": {**self.methods[method].fields, **(fields or {})}}
        return Job(f"{method}, seed {seed}", out / "runs" / f"seed_{seed}.json", settings, 1)

    def evidence(self, results: Sequence[Result]) -> Evidence:
        values = {r["settings"]["seed"]: r["score"] for r in results}
        return Evidence(
            name="toy", title="Toy", place="nowhere", about=(), scale="smoke", methods={"rnd": "RND"},
            conditions=self.conditions, metrics=self.metrics,
            scores=(Score("clean", "score", "rnd", values),), lower_is_better=self.lower,
        )  # fmt: skip


def read_trials(out: Path) -> list[dict[str, str]]:
    return list(csv.DictReader((out / "trials.csv").read_text().splitlines()))


def options(**changed: Any) -> Tune:
    given = {"field": ("lr=0.001,0.1",), "trials": 3, "seeds": 1, "fresh_seeds": 2, "scale": "smoke", "workers": 2}
    return Tune("toy", "rnd", **{**given, **changed})


def test_a_tiny_search_finds_the_better_of_two_and_evaluates_it_on_fresh_seeds(tmp_path: Path) -> None:
    assert tune(options(), Toy(), tmp_path) == 0
    best = tomllib.loads((tmp_path / "best.toml").read_text())
    assert best["fields"] == {"lr": 0.001}
    fresh = [1000 % 7 / 1000, 1001 % 7 / 1000]
    assert best["score_best"]["mean"] == pytest.approx(sum(fresh) / 2)
    assert best["score_own"]["mean"] == pytest.approx(sum(fresh) / 2 - 1)
    assert best["score_best"]["low"] <= best["score_best"]["mean"] <= best["score_best"]["high"]
    rows = read_trials(tmp_path)
    assert len(rows) == 3
    assert {row["lr"] for row in rows} == {"0.001", "0.1"}
    assert all((tmp_path / row["folder"] / "runs" / "seed_0.json").exists() for row in rows)
    assert sorted(p.name for p in (tmp_path / "best" / "runs").iterdir()) == ["seed_1000.json", "seed_1001.json"]


def test_less_is_better_where_the_experiment_says_so_and_a_rerun_runs_nothing(tmp_path: Path) -> None:
    assert tune(options(), Toy(lower_is_better=True), tmp_path) == 0
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("seed_*.json")}
    first = (tmp_path / "best.toml").read_text()
    assert tomllib.loads(first)["fields"] == {"lr": 0.1}
    assert tune(options(), Toy(lower_is_better=True), tmp_path) == 0
    assert (tmp_path / "best.toml").read_text() == first
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("seed_*.json")} == written


def test_a_trial_that_fails_counts_and_does_not_stop_the_search(tmp_path: Path) -> None:
    assert tune(options(field=("lr=0.001,0.9",)), Toy(), tmp_path) == 1
    rows = read_trials(tmp_path)
    assert [row["score"] == "" for row in rows] == [row["lr"] == "0.9" for row in rows]
    assert {row["lr"] for row in rows} == {"0.001", "0.9"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"field": ("lrr=0.1:1",)}, r"no field 'lrr'.*lr"),
        ({"field": ("lr=a,b",)}, r"lr: expected float.*got 'a'"),
        ({"field": ("lr=1:2", "lr=1:3")}, "each field once"),
        ({"metric": "scor"}, r"unknown metric 'scor'; did you mean score\?"),
        ({"metric": "drop"}, "not measured in 'clean' alone; known: score"),
        ({"condition": "noisy"}, "unknown condition 'noisy'"),
        ({"seeds": 0}, "seeds: expected at least 1, got 0"),
    ],
)
def test_bad_input_is_named(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tune(options(**changed), Toy(), tmp_path)


BAD_FIELDS = "lr =1:2 lr= lr=1 lr=2:1 lr=1:2:3 lr=0:1:log lr=1..x lr=1,2:log lr=nan:1"


@pytest.mark.parametrize("text", BAD_FIELDS.split())
def test_a_field_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=rf"--field {text}: expected"):
        parse_field(text)


def test_fields() -> None:
    assert parse_field("n=1..64:log").examples == (1, 64)
    assert parse_field("x=-1:1").examples == (-1.0, 1.0)
    assert parse_field("h=(64,64),(128,)").choices == ((64, 64), (128,))
    assert parse_field("b=True,False").choices == parse_field("b=true,false").choices == (True, False)
    assert parse_field("m=none,None,3").choices == ("none", None, 3)


FIELDS = (parse_field("lr=1e-5:1e-1:log"), parse_field("n=1..8"), parse_field("kind=a,b"))


def goodness(trials: Sequence[Trial]) -> list[float | None]:
    return [-abs(math.log10(t.fields["lr"]) + 3) - abs(t.fields["n"] - 5) - (t.fields["kind"] == "b") for t in trials]


def go(out: Path, evaluate: Any = goodness, trials: int = 24, batch: int = 2) -> list[Trial]:
    return search(out, FIELDS, {"metric": "m"}, evaluate, trials=trials, batch=batch, seed=3)


def test_the_search_learns(tmp_path: Path) -> None:
    values = [trial.value or 0.0 for trial in go(tmp_path, trials=40)]
    assert len(values) == 40
    assert sum(values[-10:]) > sum(values[:10])


@pytest.mark.parametrize("batch", [1, 3])
def test_an_interrupted_search_ends_as_an_uninterrupted_one(tmp_path: Path, batch: int) -> None:
    calls = 0

    def interrupted(trials: Sequence[Trial]) -> list[float | None]:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            raise KeyboardInterrupt
        return goodness(trials)

    whole = go(tmp_path / "whole", batch=batch)
    for _ in range(100):
        try:
            pieces = go(tmp_path / "pieces", interrupted, batch=batch)
            break
        except KeyboardInterrupt:
            continue
    assert pieces == whole
    assert calls > 24 // batch
    assert go(tmp_path / "pieces", interrupted, batch=batch) == whole


def test_more_trials_go_on_and_other_settings_are_refused(tmp_path: Path) -> None:
    few = go(tmp_path, trials=4)
    assert go(tmp_path, trials=6)[:4] == few
    with pytest.raises(ValueError, match=r"holds another search \(metric: 'm' there, 'other' now\); use another --out"):
        search(tmp_path, FIELDS, {"metric": "other"}, goodness, trials=6, batch=2, seed=3)


def test_a_second_search_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    with (
        exclusive(tmp_path / ".tune.lock", "search"),
        pytest.raises(BusyError, match="another search is writing there"),
    ):
        go(tmp_path)


CORRIDOR = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "own_environment.md").read_text(), re.DOTALL)[0]


def test_the_weight_is_searched_in_an_environment_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "corridor.py").write_text(CORRIDOR.replace("Corridor-v0", "Searched-v0"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    words = ["corridor:Searched-v0", "--method", "rnd", "--field", "weight=0.1,2.0", "--field", "lr=1e-4:1e-3"]
    words += ["--steps", "2100", "--trials", "2", "--seeds", "1", "--fresh-seeds", "1", "--preset", "noisy"]
    words += ["--workers", "1"]
    assert run([*words, "--metric", "cells"]) == 0, capsys.readouterr().out
    out = tmp_path / "runs" / "tune-corridor-Searched-v0-rnd"
    trials = read_trials(out)
    assert {row["mixer.weight"] for row in trials} <= {"0.1", "2.0"}
    assert all(float(row["cells"]) > 1 for row in trials)
    for row in trials:
        (path,) = (out / row["folder"]).rglob("seed_0.json")
        config = json.loads(path.read_text())["settings"]["config"]
        assert str(config["mixer"]["weight"]) == row["mixer.weight"]
        assert str(json.loads(path.read_text())["settings"]["fields"]["lr"]) == row["lr"]
    assert tomllib.loads((out / "best.toml").read_text())["fields"]["mixer.weight"] in (0.1, 2.0)
    with pytest.raises(ValueError, match=r"holds another search .*steps"):
        run([*words, "--metric", "cells", "--steps", "2200"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere:Id-v0"], "no module 'nowhere'"),
        (["CartPole-v1", "--preset", "none"], "preset"),
        (["mountain-car", "--steps", "10"], "--steps: expected none with an experiment"),
        (["CartPole-v1", "--field", "mixer.wait=1,2"], "field of the mixer 'wait'"),
        (["CartPole-v1", "--field", "weight=-1,2"], "weight: expected a finite number of at least 0"),
        (["CartPole-v1", "--steps", "0"], r"steps: expected int \(1 to"),
    ],
)
def test_what_cannot_be_searched_is_named(words: list[str], message: str, tmp_path: Path) -> None:
    given = ["--method", "rnd", "--field", "lr=1e-4,1e-3", "--out", str(tmp_path / "out"), "--trials", "1"]
    with pytest.raises(ValueError, match=message):
        run([*words, *given])


def test_without_an_agent_there_is_no_weight(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"--field mixer.weight: toy trains no agent"):
        tune(options(field=("weight=1,2",)), Toy(), tmp_path)
