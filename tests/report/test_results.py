"""Reading result files: what is wrong is named and left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lpm.report.results import Found, read_results

KNOWN = ("maze", "mnist")


def result(method: str = "lpm", seed: int = 0, condition: str = "plain", **changes: Any) -> dict[str, Any]:
    settings = {
        "experiment": "maze",
        "scale": "short",
        "condition": condition,
        "method": method,
        "bonus": method.split("-")[0],
        "fields": {},
        "seed": seed,
        "steps": 100,
    }
    return {
        "format": 1,
        "settings": settings | changes,
        "scores": {"coverage": 1.0 + seed},
        "curves": {"step": [0, 1], "coverage": [0.0, 1.0 + seed]},
        "versions": {"torch": "2.13"},
    }


def write(folder: Path, content: Any, name: str | None = None) -> Path:
    settings = content["settings"] if isinstance(content, dict) and "settings" in content else {}
    where = name or f"{settings['condition']}/{settings['method']}/seed_{settings['seed']}.json"
    path = folder / "runs" / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def only(loaded: Found) -> list[tuple[str, str, int]]:
    (group,) = loaded.groups
    return sorted((*run.cell, run.settings["seed"]) for run in group.runs)


def test_reads_and_groups(tmp_path):
    for seed in range(2):
        for method in ("lpm", "rnd"):
            write(tmp_path / "a", result(method, seed))
    write(tmp_path / "b", result(scale="smoke"))
    loaded = read_results([tmp_path / "a", tmp_path / "b"], KNOWN)
    assert [(g.experiment, g.scale, len(g.runs)) for g in loaded.groups] == [("maze", "short", 4), ("maze", "smoke", 1)]
    assert loaded.warnings == []
    assert all(g.warnings == [] for g in loaded.groups)
    assert loaded.files == 5


def test_a_folder_given_twice_is_read_once(tmp_path):
    write(tmp_path, result())
    loaded = read_results([tmp_path, tmp_path / "runs", tmp_path / "." / "runs"], KNOWN)
    assert only(loaded) == [("plain", "lpm", 0)]
    assert loaded.groups[0].warnings == []


def test_files_outside_runs_are_not_results(tmp_path):
    (tmp_path / "seed_0.json").write_text(json.dumps(result()))
    loaded = read_results([tmp_path], KNOWN)
    assert loaded.groups == []
    assert "no result files" in loaded.warnings[0]


def test_a_missing_folder_is_named(tmp_path):
    assert "not a folder" in read_results([tmp_path / "nowhere"], KNOWN).warnings[0]


def with_(**changes: Any) -> dict[str, Any]:
    return result() | changes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"format": 1, "settings": {"exper', "not a complete JSON file"),
        ("", "not a complete JSON file"),
        ("\x00\x01", "not a complete JSON file"),
        ("[]", "expected a result with settings"),
        ("[" * 100_000, "not a complete JSON file"),
        (with_(format=2), "expected format 1, got 2"),
        ({k: v for k, v in result().items() if k != "format"}, "expected format 1, got None"),
        (with_(settings={}), "settings.experiment: expected str"),
        (result(seed=True), "settings.seed: expected int"),
        (result(condition=["x"]), "settings.condition: expected str"),
        (result(experiment="pong"), "unknown experiment 'pong'"),
        (with_(scores={"coverage": float("nan")}), "JSON has no NaN"),
        (with_(scores={"coverage": "3"}), "scores.coverage"),
        (with_(scores=[1]), "scores: expected"),
        (with_(scores={}, curves={}), "expected scores or curves"),
        (with_(curves={"coverage": [1]}), "expected a list 'step'"),
        (with_(curves={"step": [0, 1], "coverage": [1]}), "expected 2 values as in step, got 1"),
        (with_(curves={"step": [0], "coverage": [float("inf")]}), "JSON has no Infinity"),
        (with_(curves={"step": [None], "coverage": [1]}), "curves.step"),
        (with_(curves={"step": 3}), "curves: expected"),
    ],
)
def test_a_bad_file_is_named_and_skipped(tmp_path, content, message):
    bad = write(tmp_path, content, "bad/seed_7.json")
    write(tmp_path, result())
    loaded = read_results([tmp_path], KNOWN)
    assert only(loaded) == [("plain", "lpm", 0)]
    (warning,) = loaded.warnings
    assert str(bad) in warning
    assert message in warning


def test_a_curve_may_have_no_value_yet(tmp_path):
    write(tmp_path, with_(curves={"step": [0, 1], "coverage": [None, 1.0]}))
    assert read_results([tmp_path], KNOWN).warnings == []


def test_mixed_settings_of_one_method_keep_the_larger_group(tmp_path):
    for seed in range(3):
        write(tmp_path, result(seed=seed))
    odd = write(tmp_path, result(seed=3, fields={"dynamics_lr": 0.1}))
    loaded = read_results([tmp_path], KNOWN)
    assert only(loaded) == [("plain", "lpm", seed) for seed in range(3)]
    (warning,) = loaded.groups[0].warnings
    assert str(odd) in warning
    assert 'fields: {} / {"dynamics_lr": 0.1}' in warning
    assert "the largest group is kept (3 runs)" in warning


def test_mixed_settings_without_a_larger_group_keep_none(tmp_path):
    write(tmp_path, result(seed=0))
    write(tmp_path, result(seed=1, fields={"dynamics_lr": 0.1}))
    write(tmp_path, result("rnd"))
    loaded = read_results([tmp_path], KNOWN)
    assert only(loaded) == [("plain", "rnd", 0)]
    assert "none is kept" in loaded.groups[0].warnings[0]


def test_methods_with_another_budget_are_not_compared(tmp_path):
    for seed in range(3):
        write(tmp_path, result("lpm", seed))
    for seed in range(2):
        write(tmp_path, result("rnd", seed, steps=999))
        write(tmp_path, result("rnd", seed, condition="noisy", steps=999))
    loaded = read_results([tmp_path], KNOWN)
    assert only(loaded) == [("noisy", "rnd", 0), ("noisy", "rnd", 1)] + [("plain", "lpm", seed) for seed in range(3)]
    (warning,) = loaded.groups[0].warnings
    assert "steps: 100 / 999" in warning
    assert "common settings of all methods" in warning


def test_equal_duplicates_keep_one_and_say_so(tmp_path):
    first = write(tmp_path / "a", result())
    second = write(tmp_path / "b", result() | {"seconds": 5})
    loaded = read_results([tmp_path / "a", tmp_path / "b"], KNOWN)
    assert only(loaded) == [("plain", "lpm", 0)]
    (warning,) = loaded.groups[0].warnings
    assert "one is kept" in warning
    assert str(first) in warning
    assert str(second) in warning


def test_different_duplicates_keep_none(tmp_path):
    write(tmp_path / "a", result())
    write(tmp_path / "b", result() | {"scores": {"coverage": 9.0}})
    write(tmp_path / "b", result(seed=1))
    loaded = read_results([tmp_path], KNOWN)
    assert only(loaded) == [("plain", "lpm", 1)]
    assert "none is kept" in loaded.groups[0].warnings[0]


def test_other_versions_are_noted_and_used(tmp_path):
    write(tmp_path, result())
    write(tmp_path, result(seed=1) | {"versions": {"torch": "2.12"}})
    loaded = read_results([tmp_path], KNOWN)
    assert len(only(loaded)) == 2
    assert "different versions of torch: 2.12, 2.13" in loaded.groups[0].warnings[0]


def test_many_files_are_counted_not_listed(tmp_path):
    for seed in range(10):
        write(tmp_path, result(seed=seed))
        write(tmp_path, result("rnd", seed=seed, steps=5))
    warning = read_results([tmp_path], KNOWN).groups[0].warnings[0]
    assert "and 14 more" in warning


def test_results_of_the_suite_and_of_unknown_experiments_are_one_line_each(tmp_path):
    for seed in range(5):
        write(tmp_path, result(experiment="suite-car", suite=1, seed=seed), f"car/seed_{seed}.json")
        write(tmp_path, result(experiment="pong", seed=seed), f"pong/seed_{seed}.json")
    first, second = read_results([tmp_path], KNOWN).warnings
    assert "5 results of lpm suite" in first
    assert "unknown experiment 'pong'" in second
    assert "and 3 more" in second
