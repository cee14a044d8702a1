"""The Noisy MNIST experiment on made-up digits: no data, seconds."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from lpm.data import ImageSet
from lpm.experiments import mnist
from lpm.report.mnist import table_rows, write_report

SMOKE = dataclasses.replace(mnist.SCALES["smoke"], updates=4, eval_every=2, eval_transitions=32)


@pytest.fixture(scope="module")
def pools() -> dict[str, ImageSet]:
    rng = np.random.default_rng(0)
    digits = ImageSet(rng.integers(0, 256, (40, 28, 28), dtype=np.uint8), np.arange(40) % 10, "made up", complete=False)
    return {"training": digits, "heldout": digits}


def run(method: str, seed: int, pools: dict[str, ImageSet], scale: mnist.Scale = SMOKE) -> dict[str, object]:
    settings = mnist.job_settings(method, seed, scale, pools["training"])
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


def test_table_figure_and_page(pools: dict[str, ImageSet], tmp_path: Path) -> None:
    results = [run(method, seed, pools) for method in ("lpm", "forward_error") for seed in (0, 1)]
    rows = write_report(results, tmp_path, failures=["ama, seed 0: <script>alert(1)</script>"])
    assert len(rows) == 2 * 2 * 2
    assert rows[0][0] == "LPM (log)"
    assert rows[0][-1] == "≈150"
    for name in ("figure.png", "figure_heldout.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "index.html").read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "http" not in page.replace("http-equiv", "")  # nothing is fetched
    assert (tmp_path / "table.md").read_text().count("\n") == 2 + len(rows)


def test_summary_by_hand() -> None:
    def result(seed: int, values: list[float]) -> dict[str, object]:
        curves = {"step": [0, 10, 20], **{f"{p}_{k}": values for p in mnist.POOLS for k in mnist.KINDS}}
        return {"settings": {"method": "lpm", "seed": seed}, "curves": curves}

    row = mnist.summarise([result(0, [0.0, 2.0, 0.05]), result(1, [4.0, 1.0, 0.5])])[0]
    assert row.first == (3.0, 1.0)
    assert row.final == pytest.approx((0.275, 0.225))
    assert (row.settled, row.settled_seeds, row.seeds) == ((20.0, 0.0), 1, 2)
    assert table_rows([row])[0][5] == "20 ± 0 (1 of 2 seeds)"


@pytest.mark.parametrize(
    ("values", "expected"),
    [([1.0, 0.04, 0.04], 10), ([1.0, 0.04, 0.06], None), ([0.0, 0.0, 0.0], None), ([-2.0, 0.09, -0.09], 10),
     ([0.0, 3.0, 0.1], 20)],
)  # fmt: skip
def test_settling_step(values: list[float], expected: int | None) -> None:
    assert mnist.settling_step([0, 10, 20], values) == expected


def test_unknown_names_are_refused(pools: dict[str, ImageSet]) -> None:
    with pytest.raises(ValueError, match="unknown method 'lmp' of mnist; expected one of lpm"):
        mnist.job_settings("lmp", 0, SMOKE, pools["training"])
    with pytest.raises(ValueError, match="scale: expected one of smoke, desk, paper, got 'huge'"):
        mnist.scale_named("huge", None)
    with pytest.raises(ValueError, match="seeds: expected at least 1, got 0"):
        mnist.scale_named("desk", 0)
