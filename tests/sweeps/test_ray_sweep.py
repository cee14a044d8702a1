"""Sweeps on Ray: the same results as local ones, through killed drivers, workers and nodes. Loopback only."""

import importlib.util
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import alive, descendants, kill_all, wait_for
from rich.console import Console
from toy import climb, expected, toy_jobs

from lpm.sweeps import run_jobs

TOY = Path(__file__).parent / "toy.py"
RAY = Path(sys.executable).parent / "ray"
SEEDS, STEPS = 6, 60

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    token = tmp_path / "token"
    token.write_text(secrets.token_hex(32))
    token.chmod(0o600)
    return {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_USAGE_STATS_ENABLED": "0"}


def sweep(out: Path, ray: str, environment: dict[str, str], seeds: int = SEEDS, steps: int = STEPS) -> list[str]:
    return [sys.executable, str(TOY), str(out), str(seeds), str(steps), "0.02", "2", ray]


def log(out: Path) -> list[list[str]]:
    path = out / "log.txt"
    return [words for line in path.read_text().splitlines() if len(words := line.split()) == 5] if path.exists() else []


def starts(out: Path) -> list[list[str]]:
    return [words for words in log(out) if words[0] == "start"]


def check_table(out: Path, seeds: int, steps: int) -> None:
    """All results are there, right, and nothing else is left: read without running anything."""
    before = log(out)
    results, failures = run_jobs(toy_jobs(out, seeds, steps, 0.02), climb, workers=1, console=Console(quiet=True))
    assert failures == []
    assert [r["value"] for r in results.values()] == [expected(seed, steps) for seed in range(seeds)]
    assert log(out) == before
    assert sorted(p.name for p in out.iterdir()) == ["log.txt", *(f"seed_{seed}.json" for seed in range(seeds))]


@pytest.mark.slow
def test_results_are_identical_to_local_ones(tmp_path: Path, environment: dict[str, str]) -> None:
    contents = []
    for ray in ("none", "local"):
        out = tmp_path / "out"
        subprocess.run(sweep(out, ray, environment), env=environment, check=True, timeout=600)
        check_table(out, SEEDS, STEPS)
        contents.append([(out / f"seed_{seed}.json").read_bytes() for seed in range(SEEDS)])
        out.rename(tmp_path / ray)
    assert contents[0] == contents[1]


@pytest.mark.slow
def test_killed_drivers_and_workers_then_rerun_gives_the_same_table(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    rng, out = random.Random(1), tmp_path / "out"
    finished: dict[str, int] = {}
    family: list[int] = []
    for _ in range(2):
        before = len(starts(out))
        driver = subprocess.Popen(sweep(out, "local", environment), env=environment, stdout=subprocess.DEVNULL)
        wait_for(lambda before=before: len(starts(out)) > before)  # type: ignore[misc]
        time.sleep(rng.uniform(0.2, 1.0))
        worker = int(rng.choice([words for words in starts(out)[before:] if alive(int(words[3]))])[3])
        os.kill(worker, signal.SIGKILL)
        time.sleep(rng.uniform(0.5, 2.0))
        family += descendants(driver.pid)
        driver.kill()
        driver.wait()
        for path in out.glob("seed_*.json"):
            finished.setdefault(path.stem.removeprefix("seed_"), len(starts(out)))
    # at once: tasks of the killed sweep may live for seconds, and must not disturb
    subprocess.run(sweep(out, "local", environment), env=environment, check=True, timeout=600)
    kill_all(family)  # helpers of Ray that notice late that it is gone
    check_table(out, SEEDS, STEPS)
    assert any(int(words[2]) > 0 for words in starts(out))  # what was killed went on where it was
    for seed, count in finished.items():
        assert seed not in [words[1] for words in starts(out)[count:]]  # what was finished never ran again


@pytest.fixture
def cluster(environment: dict[str, str], tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A head and a second node with one CPU each; gives the address and the second node's process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.2", 0))
        port = probe.getsockname()[1]
    address = f"127.0.0.2:{port}"
    common = ["--num-cpus=1", "--block", "--object-store-memory=100000000", "--disable-usage-stats"]
    commands = {
        "head": ["--head", "--node-ip-address=127.0.0.2", f"--port={port}", "--include-dashboard=false"],
        "second": [f"--address={address}", "--node-ip-address=127.0.0.3"],
    }
    nodes: list[subprocess.Popen[bytes]] = []
    try:
        for name, arguments in commands.items():
            with (tmp_path / f"{name}.log").open("wb") as output:
                node = subprocess.Popen(
                    [str(RAY), "start", *arguments, *common],
                    env={**environment, "TOY_NODE": name},
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            nodes.append(node)
            wait_for(lambda name=name: b"Ray runtime started" in (tmp_path / f"{name}.log").read_bytes())  # type: ignore[misc]
        yield address, nodes[1]
    finally:
        for node in reversed(nodes):
            kill_all(descendants(node.pid))
            node.wait()


@pytest.mark.slow
def test_work_spreads_over_two_nodes_and_a_dead_node_loses_nothing(
    tmp_path: Path, environment: dict[str, str], cluster: tuple[str, subprocess.Popen[bytes]]
) -> None:
    (address, second), out = cluster, tmp_path / "out"
    seeds, steps = 8, 150
    command = sweep(out, address, environment, seeds, steps)
    driver = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    wait_for(lambda: any(words[0] == "end" and words[4] == "second" for words in log(out)))
    wait_for(lambda: sum(words[4] == "second" for words in starts(out)) >= 2)
    time.sleep(1.0)
    kill_all(descendants(second.pid))
    output, _ = driver.communicate(timeout=600)
    assert driver.returncode == 0
    assert b"8 results, 0 failures" in output
    assert {words[4] for words in log(out) if words[0] == "end"} == {"head", "second"}
    lost = [
        w
        for w in starts(out)
        if w[4] == "second" and ["end", w[1]] not in [e[:2] for e in log(out) if e[4] == "second"]
    ]
    again = [w for w in starts(out) if w[4] == "head" and w[1] in [x[1] for x in lost]]
    assert len(lost) == 1
    assert int(again[-1][2]) > 0  # resumed on the head from the checkpoint that the dead node wrote
    check_table(out, seeds, steps)
