"""How the cost of a bonus grows: with environments, with what it remembers, with the size of an observation.

    python benchmarks/growth.py                              # LGN, every axis
    python benchmarks/growth.py --bonus rnd --axes width image
    python benchmarks/growth.py --json results/benchmarks/growth.json --figure docs/images/growth.png

One axis is varied at a time; a cycle is a block of 128 steps scored and learnt from. Printed is processor time per
1,000 transitions, the median of some cycles after memories are full, and beside it the ratio to the axis's first row:
cost that is linear in the axis grows at most as fast as the axis does. One thread.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from gymnasium.spaces import Box, Discrete

import lpm
from lpm.core.registry import lookup
from lpm.runs.machine import machine
from lpm.storage.files import write_atomic

STEPS, ACTIONS = 128, 6
AXES: dict[str, tuple[int, ...]] = {
    "environments": (1, 4, 16, 64),
    "memory": (256, 512, 1024, 2048, 4096, 8192),
    "width": (4, 16, 64, 256, 1024),
    "image": (42, 64, 84, 128, 168),
}
"""What is varied, and its values: environments of an 8-number world; states remembered in 4 of them; numbers of an
observation in 16; pixels along each side of a stack of four frames in 4."""
TITLES = {
    "environments": "environments",
    "memory": "states remembered",
    "width": "numbers seen",
    "image": "pixels a side",
}


def case(axis: str, value: int) -> tuple[tuple[int, ...], int, dict[str, Any], int]:
    """Observation shape, environments, settings of the bonus, and blocks until its memory is full."""
    if axis == "environments":
        return (8,), value, {}, 8
    if axis == "memory":
        return (8,), 4, {"memory_size": value}, value // STEPS
    if axis == "width":
        return (value,), 16, {}, 8
    return (4, value, value), 4, {}, 1


def seconds_per_thousand(name: str, axis: str, value: int, cycles: int) -> float:
    """Processor seconds per 1,000 transitions of the median cycle."""
    shape, envs, fields, fill = case(axis, value)
    image = len(shape) == 3
    box = Box(0, 255, shape, "uint8") if image else Box(-9, 9, shape)
    bonus = lpm.make(name, lpm.Spaces(box, Discrete(ACTIONS)), num_envs=envs, rollout_steps=STEPS, **fields)
    generator = torch.Generator().manual_seed(0)

    def block() -> lpm.Transitions:
        size = (STEPS + 1, envs, *shape)
        seen = torch.randn(size, generator=generator)
        if image:
            seen = torch.randint(0, 256, size, dtype=torch.uint8, generator=generator)
        return lpm.Transitions.build(seen[:-1], torch.randint(0, ACTIONS, (STEPS, envs), generator=generator), seen[1:])

    taken = []
    for number in range(fill + cycles + 1):
        batch = block()
        start = time.process_time()
        bonus.step(batch)
        bonus.update()
        if number > fill:
            taken.append(time.process_time() - start)
    return 1000 * statistics.median(taken) / (STEPS * envs)


def draw(found: dict[str, dict[str, float]], name: str, path: Path) -> None:
    """One panel an axis, both scales logarithmic; the grey line is growth as fast as the axis's own."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(found), figsize=(3.1 * len(found), 2.9), squeeze=False)
    for panel, (axis, rows) in zip(panels[0], found.items(), strict=True):
        x, y = [int(value) for value in rows], [1000 * seconds for seconds in rows.values()]
        power = 2 if axis == "image" else 1
        if axis != "environments":  # the cost is that of a transition: more environments should not raise it
            panel.loglog(x, [y[0] * (value / x[0]) ** power for value in x], color="#bbbbbb", label="linear")
            panel.legend(frameon=False, fontsize=8)
        panel.loglog(x, y, "o-", color="#c1440e", base=2)
        panel.set_xticks(x, [f"{value:,}" for value in x], fontsize=8)
        panel.yaxis.set_major_formatter("{x:,.0f}")
        panel.minorticks_off()
        panel.set_xlabel(TITLES[axis])
        panel.spines[["top", "right"]].set_visible(False)
    panels[0, 0].set_ylabel(f"{name}: ms per 1,000 transitions")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=140)
    pyplot.close(figure)


def main() -> None:
    """Measure, print, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bonus", default="lgn")
    parser.add_argument("--axes", nargs="+", choices=list(AXES), default=list(AXES))
    parser.add_argument("--cycles", type=int, default=5, help="measured cycles")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    parser.add_argument("--figure", type=Path, help="also draw them here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    settings = {field.name for field in dataclasses.fields(lookup(options.bonus).bonus.Config)}
    if "memory" in options.axes and "memory_size" not in settings:
        options.axes.remove("memory")
        print(f"{options.bonus} has no memory_size: that axis is left out")
    found: dict[str, dict[str, float]] = {}
    for axis in options.axes:
        print(f"\n| {TITLES[axis]} | ms per 1,000 transitions | of the first |\n|---:|---:|---:|", flush=True)
        rows = found.setdefault(axis, {})
        for value in AXES[axis]:
            rows[str(value)] = seconds_per_thousand(options.bonus, axis, value, options.cycles)
            first = next(iter(rows.values()))
            print(f"| {value:,} | {1000 * rows[str(value)]:.2f} | {rows[str(value)] / first:.1f} × |", flush=True)
    if options.json:
        columns = [options.bonus, "ms per 1,000 transitions", "of the first"]
        rows = [
            [
                f"{TITLES[axis]}: {int(value):,}",
                f"{1000 * taken:.2f}",
                f"{taken / next(iter(axis_rows.values())):.1f} ×",
            ]
            for axis, axis_rows in found.items()
            for value, taken in axis_rows.items()
        ]
        result = {"machine": machine(), "columns": columns, "rows": rows}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(options.json, json.dumps(result, indent=1).encode())
    if options.figure:
        draw(found, options.bonus, options.figure)


if __name__ == "__main__":
    main()
