"""Training runs through killed sweeps and workers: the same curves and the same table as runs left alone."""

import importlib.util
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from processes import descendants, kill_all, wait_for
from rich.console import Console
from training_runs import EXPERIMENT, METHODS, SEEDS, checkpoints, often, training_jobs

from lpm.sweeps import load_result, run_jobs

PROGRAM = Path(__file__).parent / "training_runs.py"
TIMING = ("seconds", "cpu_seconds", "time_shares")


def start(out: Path, ray: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(PROGRAM), str(out), ray])


def table(out: Path) -> dict[tuple[str, str], dict[int, float]]:
    results = [result for job in training_jobs(out) if (result := load_result(job)) is not None]
    scores = EXPERIMENT.evidence(results).scores
    return {(s.method, s.metric): dict(s.values) for s in scores if s.metric != "seconds"}


def contents(out: Path) -> list[dict[str, Any]]:
    results = [load_result(job) for job in training_jobs(out)]
    return [{k: v for k, v in result.items() if k not in TIMING} for result in results if result is not None]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed")
    _, failures = run_jobs(training_jobs(out), often, workers=2, console=Console(quiet=True))
    assert failures == []
    return out


def check(out: Path, undisturbed: Path) -> None:
    assert len(contents(out)) == len(METHODS) * len(SEEDS)
    assert contents(out) == contents(undisturbed)
    assert table(out) == table(undisturbed)
    assert not list(out.rglob(".*"))


@pytest.mark.slow
def test_killed_at_random_moments(tmp_path: Path, undisturbed: Path) -> None:
    rng, log = random.Random(0), tmp_path / "log.txt"
    for victim in ("worker", "sweep"):
        lines = _lines(log)
        sweep = start(tmp_path, "none")
        wait_for(lambda lines=lines: _lines(log) > lines and checkpoints(tmp_path) != [])  # type: ignore[misc]
        time.sleep(rng.uniform(0.0, 0.5))
        if victim == "worker":
            os.kill(rng.choice(descendants(sweep.pid)[1:]), signal.SIGKILL)
            time.sleep(rng.uniform(0.0, 3.0))
        sweep.kill()
        sweep.wait()
    sweep = start(tmp_path, "none")
    assert sweep.wait(timeout=900) == 0
    assert any(not line.startswith("0 ") for line in log.read_text().splitlines())  # some went on from a checkpoint
    check(tmp_path, undisturbed)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray")
def test_killed_on_ray(tmp_path: Path, undisturbed: Path) -> None:
    log = tmp_path / "log.txt"
    sweep = start(tmp_path, "local")
    try:
        wait_for(lambda: checkpoints(tmp_path) != [])
    finally:
        family = descendants(sweep.pid)
        sweep.kill()
        sweep.wait()
    sweep = start(tmp_path, "local")
    assert sweep.wait(timeout=900) == 0
    assert any(not line.startswith("0 ") for line in log.read_text().splitlines())
    kill_all(family)
    check(tmp_path, undisturbed)


def _lines(log: Path) -> int:
    return len(log.read_text().splitlines()) if log.exists() else 0
