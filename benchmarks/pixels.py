"""How fast bonuses and PPO are on pixels beside an older state of this library, and a compiled loss.

    git worktree add OLDER a8b1aa4
    python benchmarks/pixels.py --before OLDER --json results/benchmarks

Bonuses: `step` and `update` on 4×84×84, 16 environments × 128 steps, default settings. PPO: Breakout, 16 environments ×
32 steps, the paper's network. Both in fresh processes that take turns, one thread, processor time; now with the memory
setting of `lpm train` (`keep_freed_memory`), before with what there was; products and convolutions of the present
state are counted, to say how near it is to what a core can do. Compiled: whole cycles of PPO with and without
`PPOConfig.compile`, in turns too; what the compiler takes before the first one is wall time, on all cores.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import bonuses
import training

from lpm.runs.machine import machine
from lpm.storage.files import write_atomic

PPO = "PPO, Breakout"
AIMS = {"lpm": 2.0, "rnd": 1.5, "ensemble": 1.5, "etd": 1.5, "icm": 1.5, PPO: 1.5}
"""The bonuses and the agent, and how many times as fast they were to become."""
COLUMNS = ["transitions per second", "before", "now", "ratio", "aim", "GFLOP a transition", "GFLOP per second"]


def beside_before(before: str, rounds: int) -> dict[str, Any]:
    """Rates of the older state and of this one, and the median of the rounds' ratios."""
    options = argparse.Namespace(before=before, threads=1, clock="cpu", cycles=2, keep_memory=True)
    roots = {"ours": Path(__file__).resolve().parents[1], "before": Path(before).resolve()}

    def rate(name: str, kind: str) -> float:
        if name == PPO:
            script = roots[kind] / "benchmarks" / "training.py"
            child = ["env", f"PYTHONPATH={roots[kind]}", sys.executable, str(script), "--child", "atari", "none"]
            found = training.in_child(child)
        else:
            found = bonuses.spawn(sys.executable, kind, name, "image", options)
        if "error" in found:
            raise SystemExit(f"{name}, {kind}: {found['error']}")
        return float(found["cpu" if name == PPO else "rate"])

    rows = []
    for name, aim in AIMS.items():
        pairs = [(rate(name, "before"), rate(name, "ours")) for _ in range(rounds)]
        ratio = statistics.median(now / earlier for earlier, now in pairs)
        medians = [statistics.median(rates) for rates in zip(*pairs, strict=True)]
        needed = operations(name) / 1e9
        rows.append(
            [
                name,
                *(f"{rate:,.0f}" for rate in medians),
                f"{ratio:.2f}",
                f"{aim:.1f}",
                f"{needed:.2f}",
                f"{medians[1] * needed:.0f}",
            ]
        )
        print(*rows[-1], sep="\t", flush=True)
    return {"columns": COLUMNS, "rows": rows, "rounds": rounds}


def operations(name: str) -> float:
    """Floating-point operations of the products and convolutions of one transition, or of one step of PPO."""
    from torch.utils.flop_counter import FlopCounterMode

    import lpm

    if name == PPO:
        agent = training.agent_of(training.CASES["atari"], "none")
        cycle, transitions = agent.cycle, agent.config.num_envs * agent.config.rollout_steps
    else:
        block = bonuses.block_of("image")
        steps, envs = block.shape
        bonus = lpm.make(name, lpm.Spaces(*bonuses.spaces("image")), num_envs=envs, rollout_steps=steps)
        transitions = steps * envs

        def cycle() -> None:
            bonus.step(block)
            bonus.update()

    cycle()
    with FlopCounterMode(display=False) as counted:
        cycle()
    return float(counted.get_total_flops()) / transitions


def compiled(cycles: int = 4) -> dict[str, Any]:
    """Steps per second of PPO as it is and with a compiled loss, and what compiling takes where nothing is cached."""
    import torch

    from lpm.agents import PPOConfig
    from lpm.runs import RunConfig, build
    from lpm.sweeps.job import keep_freed_memory
    from lpm_paper import atari

    torch.set_num_threads(1)
    keep_freed_memory()
    game = {"game": "breakout", "num_threads": 1}
    cases = {
        "84 × 84, the paper's network": (game, PPOConfig(num_envs=16, rollout_steps=32)),
        "42 × 42, ICM's network": ({**game, **atari.SMALL_ENV}, atari.SMALL_AGENT),
    }
    rows = []
    for name, (env, agent) in cases.items():
        modes = ("off", "default")
        agents = {
            mode: build(
                RunConfig("lpm/Atari-v0", bonus="none", env=env, device="cpu", agent=replace(agent, compile=mode))
            )
            for mode in modes
        }
        first = {mode: _seconds(agents[mode].cycle, time.perf_counter) for mode in modes}
        turns = [[_seconds(agents[mode].cycle, time.process_time) for mode in modes] for _ in range(cycles)]
        plain, fast = (statistics.median(seconds) for seconds in zip(*turns, strict=True))
        steps = agent.num_envs * agent.rollout_steps
        ratio = statistics.median(a / b for a, b in turns)
        waited = first["default"] - first["off"]
        rows.append([name, f"{steps / plain:,.0f}", f"{steps / fast:,.0f}", f"{ratio:.2f}", f"{waited:.0f}"])
        print(*rows[-1], sep="\t", flush=True)
    return {
        "columns": ["PPO, Breakout", "as it is, steps/s", "compiled, steps/s", "ratio", "compiling, s"],
        "rows": rows,
    }


def _seconds(function: Callable[[], Any], clock: Callable[[], float]) -> float:
    start = clock()
    function()
    return clock() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--before", metavar="FOLDER", help="an older state of this library to compare with")
    what.add_argument("--compiled", action="store_true", help="measure a compiled loss; needs a C++ compiler")
    parser.add_argument("--rounds", type=int, default=2, help="how often the two states take turns")
    parser.add_argument("--json", type=Path, help="also write each table as a file into this folder")
    options = parser.parse_args()
    about = {"machine": machine(), "load": os.getloadavg()[0]}
    if options.compiled:
        with tempfile.TemporaryDirectory() as empty:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = empty
            tables = {"compiled": compiled()}
    else:
        tables = {"pixels": beside_before(options.before, options.rounds)}
    for name, table in tables.items():
        if options.json:
            write_atomic(options.json / f"{name}.json", json.dumps({**table, **about}, indent=1).encode())


if __name__ == "__main__":
    main()
