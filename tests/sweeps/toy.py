"""Toy runs that checkpoint, and a sweep of them as a program that tests may kill."""

import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from lpm.storage.files import write_atomic
from lpm.sweeps import Job, Tick, run_jobs

PRIME = 1_000_003


def climb(settings: dict[str, Any], tick: Tick, scratch: Path) -> dict[str, Any]:
    """A long sum, step by step, with a checkpoint every few steps. Notes every start and end in a log."""
    checkpoint = scratch / "state.json"
    state = {"step": 0, "value": settings["seed"]}
    if checkpoint.exists():
        state = json.loads(checkpoint.read_text())
        tick(state["step"])
    _note(settings, f"start {settings['seed']} {state['step']} {os.getpid()}")
    while state["step"] < settings["steps"]:
        state = {"step": state["step"] + 1, "value": (31 * state["value"] + state["step"]) % PRIME}
        time.sleep(settings["pause"])
        tick(1)
        if state["step"] % 5 == 0:
            write_atomic(checkpoint, json.dumps(state).encode())
    _note(settings, f"end {settings['seed']} {state['step']} {os.getpid()}")
    return {"value": state["value"]}


def expected(seed: int, steps: int) -> int:
    value = seed
    for step in range(steps):
        value = (31 * value + step) % PRIME
    return value


def _note(settings: dict[str, Any], line: str) -> None:
    with Path(settings["log"]).open("a") as log:
        log.write(f"{line} {os.environ.get('TOY_NODE', '-')}\n")


def toy_jobs(out: Path, seeds: int, steps: int = 40, pause: float = 0.01) -> list[Job]:
    out.mkdir(parents=True, exist_ok=True)
    settings = {"steps": steps, "pause": pause, "log": str(out / "log.txt")}
    return [Job(f"seed {s}", out / f"seed_{s}.json", {"seed": s, **settings}, steps) for s in range(seeds)]


def toy_run(settings: dict[str, Any], tick: Tick, scratch: Path) -> dict[str, Any]:
    """For a search: best at lr = 1e-3; a seed adds its own bit."""
    fields = settings["fields"]
    if fields.get("lr", 1e-4) > 0.5:
        raise ValueError("diverged")
    return {"score": -abs(math.log10(fields.get("lr", 1e-4)) + 3) + settings["seed"] % 7 / 1000}


def main() -> None:
    out, seeds, steps, pause, workers, ray = sys.argv[1:]
    jobs = toy_jobs(Path(out), int(seeds), int(steps), float(pause))
    address = None if ray == "none" else ray
    results, failures = run_jobs(jobs, climb, workers=int(workers), console=Console(), ray=address)
    print(f"{len(results)} results, {len(failures)} failures")


if __name__ == "__main__":
    # the workers find the function under the module's own name, not as __main__
    import toy

    toy.main()
