"""How fast every bonus is, and how much memory it takes; beside RLeXplore where a virtual environment has it.

python benchmarks/bonuses.py                                   # all bonuses, both shapes
python benchmarks/bonuses.py --methods lpm rnd --shapes vector
python benchmarks/bonuses.py --rllte path/to/venv              # the shared methods, in the same run
python benchmarks/bonuses.py --before path/to/worktree         # beside an older state of this library, as ratios

Every measurement is a fresh process. A cycle is one rollout of random transitions: `step`, then `update`. The rate is
that of the fastest cycle over all rounds, in which the rows of a method take turns, by default in CPU time: other
processes can only slow a cycle down. Rows that are compared with nothing are measured in the first round only. Peak
memory is what the process
grew by after the libraries were imported and the rollout was made. "matched" rows give our bonus the passes, batch
size and layer widths that RLeXplore has.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ACTIONS = 6
CLOCKS = {"cpu": time.process_time, "wall": time.perf_counter}
SHAPES: dict[str, tuple[tuple[int, ...], int, int]] = {
    "vector": ((8,), 128, 64),
    "image": ((4, 84, 84), 128, 16),
}
"""Observation shape, time steps, environments."""

SHARED = {
    "rnd": "RND",
    "icm": "ICM",
    "ensemble": "Disagreement",
    "ngu": "NGU",
    "ride": "RIDE",
    "re3": "RE3",
    "e3b": "E3B",
}
"""Our names and RLeXplore's."""

# RLeXplore: one pass, batches of 256, 128 features (NGU: 32), one hidden layer of 256, four members, a predictor as its
# target. Its RE3 searches 1,000 steps of one environment for five neighbours, ours 1,000 states of all.
MATCHED: dict[str, dict[str, Any]] = {
    "rnd": {"features": 128, "hidden": (256,), "extra": 0},
    "icm": {"features": 128, "encoder_hidden": (256,), "hidden": (256,), "inverse_hidden": (256,)},
    "ensemble": {"features": 128, "encoder_hidden": (256,), "hidden": (256,), "members": 4, "keep": 1.0},
    "ngu": {"features": 32, "rnd_features": 32, "hidden": (256,), "inverse_hidden": (256,)},
    "ride": {"features": 128, "hidden": (256,), "model_hidden": (256,)},
    "re3": {"features": 128, "hidden": (256,), "memory_size": 1000, "neighbours": 5},
    "e3b": {"features": 128, "hidden": (256,), "inverse_hidden": (256,)},
}
WARM_UP = {"re3": 8, "RE3": 8}
"""Cycles that are not counted, where one is not enough: until the memory is full."""


def rollout(shape: str) -> dict[str, np.ndarray]:
    """Random transitions; an episode ends about every hundred steps."""
    tail, steps, envs = SHAPES[shape]
    rng = np.random.default_rng(0)
    if len(tail) == 1:
        stream = rng.normal(size=(steps + 1, envs, *tail)).astype(np.float32)
    else:
        stream = rng.integers(0, 256, size=(steps + 1, envs, *tail), dtype=np.uint8)
    return {
        "obs": stream[:-1].copy(),
        "next_obs": stream[1:].copy(),
        "action": rng.integers(ACTIONS, size=(steps, envs)),
        "done": rng.random((steps, envs)) < 0.01,
        "reward": rng.normal(size=(steps, envs)).astype(np.float32),
        "policy": rng.normal(size=(steps, envs, ACTIONS)).astype(np.float32),
    }


def block_of(shape: str) -> Any:
    """The rollout as our bonuses take it."""
    import torch

    import lpm

    data = {key: torch.as_tensor(value) for key, value in rollout(shape).items()}
    return lpm.Transitions.build(
        data["obs"], data["action"], data["next_obs"],
        truncated=data["done"], reward=data["reward"], policy=data["policy"],
    )  # fmt: skip


def spaces(shape: str) -> tuple[Any, Any]:
    from gymnasium.spaces import Box, Discrete

    tail = SHAPES[shape][0]
    box = Box(-np.inf, np.inf, tail) if len(tail) == 1 else Box(0, 255, tail, np.uint8)
    return box, Discrete(ACTIONS)


# ---- one measurement, in its own process --------------------------------------------------------------------
def peak() -> float:
    """Largest resident size so far, in MiB (Linux counts in KiB, macOS in bytes)."""
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / (2**20 if sys.platform == "darwin" else 2**10)


def measure(cycle: Callable[[], None], shape: str, cycles: int, clock: str, warm_up: int = 1) -> float:
    """Transitions per second of the fastest cycle, after some that are not counted."""
    for _ in range(warm_up):
        cycle()
    seconds = []
    for _ in range(cycles):
        start = CLOCKS[clock]()
        cycle()
        seconds.append(CLOCKS[clock]() - start)
    return SHAPES[shape][1] * SHAPES[shape][2] / min(seconds)


def run_ours(name: str, shape: str, cycles: int, clock: str, matched: bool) -> dict[str, Any]:
    import lpm
    from lpm.core.registry import lookup
    from lpm.nn.memory import RingBuffer

    batch = block_of(shape)
    fields: dict[str, Any] = {}
    if matched:
        known = {field.name for field in dataclasses.fields(lookup(name).bonus.Config)}
        wanted = {"epochs": 1, "batch_size": 256, **MATCHED[name]}
        fields = {key: value for key, value in wanted.items() if key in known}
    before = peak()
    bonus = lpm.make(name, lpm.Spaces(*spaces(shape)), num_envs=batch.shape[1], rollout_steps=batch.shape[0], **fields)

    def cycle() -> None:
        bonus.step(batch)
        bonus.update()

    rate = measure(cycle, shape, cycles, clock, WARM_UP.get(name, 1))
    stored = sum(module.nbytes for module in bonus.modules() if isinstance(module, RingBuffer))
    result = {"rate": rate, "peak": peak() - before, "stored": stored / 2**20}
    if hasattr(bonus, "queue_size"):
        row = stored / bonus.buffer.capacity
        result["queue"] = bonus.queue_size * row / 2**20
    return result


def run_rllte(name: str, shape: str, cycles: int, clock: str) -> dict[str, Any]:
    import gymnasium
    import torch
    from rllte.common.prototype import BaseReward
    from rllte.xplore import reward as rewards

    data = {key: torch.as_tensor(value) for key, value in rollout(shape).items()}
    box, discrete = spaces(shape)
    steps, envs = SHAPES[shape][1:]

    class Stub(gymnasium.vector.VectorEnv):  # type: ignore[misc]
        """Enough of an environment for a constructor."""

        def __init__(self) -> None:
            self.num_envs = envs
            self.observation_space, self.single_observation_space = box, box
            self.action_space, self.single_action_space = discrete, discrete

    def first_statistics(reward: Any) -> None:
        """Those of one block; its own, of 2,560 steps, take minutes and are not what is measured."""
        reward.obs_norm.update(data["obs"].flatten(0, 1).float())

    BaseReward.init_normalization = first_statistics

    done = data["done"].float()
    samples = {  # images as floats: its statistics refuse uint8
        "observations": data["obs"].float(),
        "actions": data["action"].unsqueeze(-1),
        "rewards": data["reward"],
        "terminateds": torch.zeros_like(done),
        "truncateds": done,
        "next_observations": data["next_obs"].float(),
    }
    before = peak()
    module = getattr(rewards, name)(Stub(), "cpu")
    if name == "NGU":
        module.mrs = 5.0  # its constructor forgets it, and without it nothing runs

    def cycle() -> None:
        for t in range(steps):
            module.watch(**{key: value[t] for key, value in samples.items()})
        module.compute(dict(samples), sync=True)

    return {"rate": measure(cycle, shape, cycles, clock, WARM_UP.get(name, 1)), "peak": peak() - before}


# ---- all of them --------------------------------------------------------------------------------------------
def spawn(python: str, kind: str, name: str, shape: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run one measurement in a fresh process; the error's last line if it fails."""
    command = [python, __file__, "--worker", kind, name, shape, "--cycles", str(options.cycles)]
    command += ["--threads", str(options.threads), "--clock", options.clock]
    command += ["--keep-memory"] * (options.keep_memory and kind == "ours")
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
    if kind != "rllte":
        root = options.before if kind == "before" else str(Path(__file__).resolve().parent.parent)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, environment.get("PYTHONPATH")]))
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def show(label: str, result: dict[str, Any]) -> None:
    if "error" in result:
        print(f"| {label} | failed: {result['error'][:90]} | | |", flush=True)
        return
    stored = f"{result['stored']:,.1f}" if "stored" in result else ""
    if "queue" in result:
        stored += f" (queue {result['queue']:,.1f})"
    print(f"| {label} | {result['rate']:,.0f} | {result['peak']:,.0f} | {stored} |", flush=True)


def fastest(python: str, kind: str, name: str, shape: str, options: argparse.Namespace, best: dict[str, Any]) -> None:
    """One more round of a measurement, kept in `best` if it is the fastest so far (or the first)."""
    result = spawn(python, kind, name, shape, options)
    if not best or result.get("rate", 0.0) > best.get("rate", 0.0):
        best.clear()
        best.update(result)


def compare(options: argparse.Namespace) -> dict[str, Any]:
    """Print a table per shape and return all numbers, with what they were measured on."""
    import lpm
    from lpm.runs.machine import machine

    found = machine()
    print(
        f"{found['processor']}, {found['cores']} cores, {found['system']}; load {os.getloadavg()[0]:.1f} at the start"
    )
    print(", ".join(f"{name} {version}" for name, version in {"lpm": found["lpm"], **found["packages"]}.items()))
    methods = options.methods or lpm.names()
    everything: dict[str, Any] = {"machine": found, "load": os.getloadavg()[0], "rounds": options.rounds}
    for shape in options.shapes:
        tail, steps, envs = SHAPES[shape]
        print(
            f"\n{shape}: observations {tail}, {envs} environments x {steps} steps, "
            f"{options.threads} thread(s), {options.clock} time\n"
        )
        print("| method | transitions/s | peak MiB | buffers MiB |\n|---|---:|---:|---:|", flush=True)
        for name in methods:
            rows = {name: (sys.executable, "ours", name)}
            if options.before:
                rows[f"{name}, before"] = (sys.executable, "before", name)
            if options.rllte and name in SHARED:
                rows[f"{name}, matched"] = (sys.executable, "matched", name)
                rows[f"{name}, RLeXplore"] = (str(Path(options.rllte) / "bin" / "python"), "rllte", SHARED[name])
            best: dict[str, dict[str, Any]] = {label: {} for label in rows}
            for number in range(options.rounds):
                for label, (python, kind, target) in rows.items():
                    if number and kind == "ours" and not options.before:
                        continue  # compared with nothing: once is enough
                    fastest(python, kind, target, shape, options, best[label])
            for label, result in best.items():
                everything[f"{shape}/{label}"] = result
                show(label, result)
            for ours, theirs, words in (
                (f"{name}, matched", f"{name}, RLeXplore", "ours over theirs"),
                (name, f"{name}, before", "now over before"),
            ):
                pair = [best.get(label, {}).get("rate") for label in (ours, theirs)]
                if pair[0] and pair[1]:
                    everything[f"{shape}/{name}, {words}"] = {"ratio": pair[0] / pair[1]}
                    print(f"| {name}, {words} | {pair[0] / pair[1]:.2f} x | | |", flush=True)
    return everything


def beside_table(numbers: dict[str, Any]) -> dict[str, Any]:
    """Our bonuses beside RLeXplore's as the docs show them: transitions per second at both shapes, and ratios."""

    def cell(key: str, field: str, words: str) -> str:
        found = numbers.get(key, {})
        return "–" if not found else "does not run" if "error" in found else format(found[field], words)

    rows = []
    for name in sorted(key.split("/")[1] for key in numbers if key.count("/") == 1 and "," not in key):
        row = [name]
        for shape in SHAPES:
            row += [
                cell(f"{shape}/{name}", "rate", ",.0f"),
                cell(f"{shape}/{name}, matched", "rate", ",.0f"),
                cell(f"{shape}/{name}, RLeXplore", "rate", ",.0f"),
                cell(f"{shape}/{name}, ours over theirs", "ratio", ".1f"),
            ]
        if row not in rows:
            rows.append(row)
    words = ("default", "matched", "RLeXplore", "ratio")
    columns = ["method", *(f"{shape}s: {word}" if word == "default" else word for shape in SHAPES for word in words)]
    about = {key: numbers[key] for key in ("machine", "load", "rounds")}
    return {**about, "columns": columns, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", help="names of bonuses; all if left out")
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--rllte", metavar="VENV", help="virtual environment that has rllte-core")
    parser.add_argument("--before", metavar="FOLDER", help="an older state of this library, e.g. a git worktree")
    parser.add_argument("--rounds", type=int, default=1, help="how often the rows of a method take turns")
    parser.add_argument("--cycles", type=int, default=3, help="measured cycles")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=list(CLOCKS), default="cpu", help="cpu: undisturbed by other processes")
    parser.add_argument("--keep-memory", action="store_true", help="as the processes of lpm train do")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    parser.add_argument("--table", type=Path, help="also write the table of the docs here")
    parser.add_argument("--worker", nargs=3, metavar=("KIND", "NAME", "SHAPE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.worker:
        from lpm.storage.files import write_atomic  # here: a worker's interpreter may have RLeXplore and no lpm

        numbers = compare(options)
        if options.json:
            write_atomic(options.json, json.dumps(numbers, indent=1).encode())
        if options.table:
            write_atomic(options.table, json.dumps(beside_table(numbers), indent=1).encode())
        return
    import torch

    torch.set_num_threads(options.threads)
    if options.keep_memory:
        from lpm.sweeps.job import keep_freed_memory

        keep_freed_memory()
    kind, name, shape = options.worker
    if kind == "rllte":
        result = run_rllte(name, shape, options.cycles, options.clock)
    else:
        result = run_ours(name, shape, options.cycles, options.clock, kind == "matched")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
