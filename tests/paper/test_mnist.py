"""The Noisy MNIST experiment on made-up digits: no data, seconds."""

import dataclasses
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from lpm.data import ImageSet
from lpm_paper import mnist

SMOKE = dataclasses.replace(mnist.SCALES["smoke"], updates=4, eval_every=2, eval_transitions=32)


@pytest.fixture(scope="module")
def pools() -> dict[str, ImageSet]:
    rng = np.random.default_rng(0)
    digits = ImageSet(rng.integers(0, 256, (40, 28, 28), dtype=np.uint8), np.arange(40) % 10, "made up", complete=False)
    return {"training": digits, "heldout": digits}


def run(method: str, seed: int, pools: dict[str, ImageSet], scale: mnist.Scale = SMOKE) -> dict[str, object]:
    settings = {
        "experiment": "mnist",
        "scale": "smoke",
        "condition": "both",
        "method": method,
        "bonus": mnist.METHODS[method].bonus,
        "fields": dict(mnist.METHODS[method].fields),
        "seed": seed,
        **dataclasses.asdict(scale),
        "data": pools["training"].source,
    }
    return {"settings": settings, **mnist.run(settings, lambda units: None, Path(), pools)}


def test_evaluates_from_step_zero_and_cuts_nothing(pools: dict[str, ImageSet]) -> None:
    curves = run("lpm-paper", 0, pools)["curves"]
    assert curves["step"] == [0, 2, 4]  # type: ignore[index]
    assert {len(values) for values in curves.values()} == {3}  # type: ignore[attr-defined]
    assert curves["training_stochastic"][0] == 0  # type: ignore[index]  the queue of 100 is not full yet
    assert curves["training_stochastic"][2] != 0  # type: ignore[index]


@pytest.mark.parametrize("method", sorted(mnist.METHODS))
def test_every_method_runs_and_is_deterministic(method: str, pools: dict[str, ImageSet]) -> None:
    first, again, other = (run(method, seed, pools) for seed in (0, 0, 1))
    assert first == again
    assert first["curves"] != other["curves"]
    json.dumps(first, allow_nan=False)


def test_evidence_has_both_kinds_and_pools(pools: dict[str, ImageSet]) -> None:
    results = [run(method, seed, pools) for method in ("lpm", "forward_error") for seed in (0, 1)]
    evidence = mnist.EXPERIMENT.evidence(results)
    assert list(evidence.methods) == ["lpm", "forward_error"]
    assert len(evidence.conditions) == 4
    assert len(evidence.curves) == 2 * 4
    curve = next(c for c in evidence.curves if (c.method, c.condition) == ("lpm", "heldout_stochastic"))
    assert curve.runs[1] == tuple(results[1]["curves"]["heldout_stochastic"])  # type: ignore[index]
    papers = {(s.method, s.condition): s.paper for s in evidence.scores if s.paper is not None}
    assert {key[0] for key in papers} == {"lpm"}
    assert papers["lpm", "training_stochastic"].value == 150


def test_a_bonus_that_never_settles_counts_with_its_whole_length() -> None:
    assert mnist.scores_of([0, 10, 20], [4.0, 1.0, 0.5], 20) == {"settled": 20.0, "first": 4.0, "last": 0.5}


def test_a_bonus_that_stops_being_finite_is_a_result(
    pools: dict[str, ImageSet], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run("forward_error", 1, pools)
    mean = mnist._mean_bonus
    calls = itertools.count()
    monkeypatch.setattr(mnist, "_mean_bonus", lambda *given: mean(*given) if next(calls) < 4 + 2 else float("inf"))
    broken = run("forward_error", 0, pools)
    assert broken["diverged"] == "bonus (heldout_deterministic) is inf at update 2"
    assert broken["curves"]["step"] == [0]  # type: ignore[index]
    monkeypatch.setattr(mnist, "_mean_bonus", lambda *given: float("nan"))
    empty = run("forward_error", 2, pools)
    assert empty["curves"]["step"] == []  # type: ignore[index]
    evidence = mnist.EXPERIMENT.evidence([whole, broken, empty])
    scores = {s.metric: s for s in evidence.scores if s.condition == "training_stochastic"}
    assert scores["settled"].values.keys() == {0, 1, 2}
    assert scores["settled"].values[0] == scores["settled"].values[2] == SMOKE.updates
    assert (scores["settled"].diverged, scores["last"].diverged) == ((0, 2), (0,))
    assert {tuple(curve.runs) for curve in evidence.curves} == {(1,)}
    assert len([w for w in evidence.warnings if "diverged: bonus (" in w]) == 2


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1.0, 0.04, 0.04], 10), ([1.0, 0.04, 0.06], None), ([0.0, 0.0, 0.0], None), ([-2.0, 0.09, -0.09], 10),
     ([0.0, 3.0, 0.1], 20)],
)  # fmt: skip
def test_settling_step(values: list[float], expected: int | None) -> None:
    assert mnist.settling_step([0, 10, 20], values) == expected


@pytest.mark.parametrize(
    ("names", "message"),
    [(("smoke", "both", "lmp"), "unknown method 'lmp'; did you mean lpm"),
     (("huge", "both", "lpm"), "unknown scale 'huge'"), (("smoke", "noise", "lpm"), "unknown condition 'noise'")],
)  # fmt: skip
def test_unknown_names_are_refused(names: tuple[str, str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        mnist.EXPERIMENT.job(*names, 0, tmp_path)
