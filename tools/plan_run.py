"""Hours and cost of a large run, from measured rates: `python tools/plan_run.py rates.json --steps 5e7 --price 3.2`.

rates.json comes from `benchmarks/processes.py`, on the machine that the plan is for. The price is that of one machine
for one hour, in whatever currency; none is built in.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Plan:
    """What a number of equal runs takes."""

    processes: int
    rate: float
    hours_a_run: float
    hours: float
    machine_hours: float
    cost: float | None


def plan(
    rate: float, processes: int, steps: float, *, runs: int = 1, machines: int = 1, price: float | None = None
) -> Plan:
    """Runs one after the other on each machine: time until the last is finished, machine-hours and their price.

    >>> plan(1000.0, 2, 3.6e6, runs=3, machines=2, price=2.0)
    Plan(processes=2, rate=1000.0, hours_a_run=1.0, hours=2.0, machine_hours=3.0, cost=6.0)
    """
    for name, value in (("rate", rate), ("steps", steps), ("runs", runs), ("machines", machines)):
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{name}: expected a number above 0, got {value}")
    if price is not None and not (price >= 0 and math.isfinite(price)):
        raise ValueError(f"price: expected a number of at least 0, got {price}")
    each = steps / rate / 3600
    total = each * runs
    return Plan(
        processes, rate, each, each * math.ceil(runs / machines), total, None if price is None else total * price
    )


def read_rates(path: Path) -> tuple[list[str], dict[int, float]]:
    """What `lpm train` was given, and the measured steps per second of each number of processes."""
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
        return [str(word) for word in found["train"]], {
            int(rate["processes"]): float(rate["steps_per_second"]) for rate in found["rates"]
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: expected the file that benchmarks/processes.py writes ({error!r})") from error


def command(words: list[str], processes: int, steps: float) -> str:
    """The exact command of one run."""
    kept, skip = [], False
    for word in words:
        if not skip and word != "--steps" and not word.startswith("--steps="):
            kept.append(word)
        skip = word == "--steps"
    start = ["lpm"] if processes == 1 else f"torchrun --standalone --nproc-per-node {processes} -m lpm".split()
    return shlex.join([*start, "train", *kept, "--steps", f"{steps:.0f}", "--seed", "SEED", "--out", "runs/SEED"])


def main(words: list[str] | None = None) -> int:
    """Parse, plan, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rates", type=Path)
    parser.add_argument("--steps", type=float, required=True, help="environment steps of one run")
    parser.add_argument("--runs", type=int, default=1, help="seeds times methods")
    parser.add_argument("--machines", type=int, default=1, help="that work side by side, a run at a time each")
    parser.add_argument("--price", type=float, help="of one machine for one hour")
    given = parser.parse_args(words)
    try:
        trained, rates = read_rates(given.rates)
        plans = [
            plan(rate, count, given.steps, runs=given.runs, machines=given.machines, price=given.price)
            for count, rate in sorted(rates.items())
        ]
    except ValueError as error:
        print(f"plan_run: {error}", file=sys.stderr)
        return 1
    print("| processes | steps/s | hours a run | hours until all are done | machine-hours | cost |\n|" + "---|" * 6)
    for each in plans:
        cost = "not given" if each.cost is None else f"{each.cost:,.2f}"
        print(
            f"| {each.processes} | {each.rate:,.0f} | {each.hours_a_run:,.2f} | {each.hours:,.2f} | "
            f"{each.machine_hours:,.2f} | {cost} |"
        )
    best = min(plans, key=lambda each: each.hours)
    print(f"\nFastest, each run:\n\n    {command(trained, best.processes, given.steps)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
