"""The random-policy reference: what uniform random actions reach. A method means something only above it.

    python benchmarks/random_policy.py results/random_policy --table docs/random_policy.md

runs every environment and condition that can run here, writes one JSON file per environment and seed, skips those
that exist, and makes the table from the files.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from lpm.envs.atari import rooms_of
from lpm.envs.catalogue import EnvEntry, find_env, list_envs
from lpm.storage.files import write_atomic
from lpm.utils.versions import versions

SEEDS = 10
_CHECKPOINTS = 10


def rows_and_steps(entry: EnvEntry) -> tuple[int, int]:
    """Rows stepped together, and steps summed over them."""
    if entry.id == "lpm/Atari-v0":
        return 8, 8_000
    return (16 if entry.id == "lpm/LavaCrossing-v0" else 1), 50_000


def settings_of(entry: EnvEntry) -> dict[str, Any]:
    """The entry's settings; mazes are drawn small, unless it depends on the size whether a frame shows noise."""
    small = entry.id == "lpm/NMaze-v0" and entry.settings["noise"] != "state"
    return {**entry.settings, **({"width": 16, "height": 12} if small else {})}


def run_reference(entry: EnvEntry, seed: int, steps: int | None = None) -> dict[str, Any]:
    """Random actions in one environment for one seed; steps count real transitions over all rows."""
    num_envs, total = rows_and_steps(entry)
    total = steps or total
    settings = settings_of(entry)
    env = gym.make_vec(entry.id, num_envs=num_envs, **settings)
    env.action_space.seed(seed)
    num_cells = int(getattr(env, "num_cells", 0))
    visited = np.zeros(num_cells, dtype=np.bool_)
    # Row i is seeded with the first seed + i; the factor keeps the rows of different runs apart.
    _, info = env.reset(seed=seed * num_envs)
    if num_cells:
        visited[info["cell"]] = True
    marks = [round(total * k / _CHECKPOINTS) for k in range(1, _CHECKPOINTS + 1)]
    curve: list[int] = []
    done_steps, noise_steps, successes = 0, 0, 0
    running, returns = np.zeros(env.num_envs), []
    reward_sum = 0.0
    ended = np.zeros(env.num_envs, dtype=np.bool_)
    while done_steps < total:
        real = ~ended
        _, reward, terminated, truncated, info = env.step(env.action_space.sample())
        ended = terminated | truncated
        done_steps += int(real.sum())
        noise_steps += int((info["noise"] & real).sum())
        successes += int((info["success"] & real).sum()) if "success" in info else 0
        reward_sum += float(reward.sum())
        running += reward
        returns += running[ended].tolist()
        running[ended] = 0.0
        if num_cells:
            visited[info["cell"][real]] = True
            while len(curve) < _CHECKPOINTS and done_steps >= marks[len(curve)]:
                curve.append(int(visited.sum()))
    result: dict[str, Any] = {
        "name": entry.name,
        "id": entry.id,
        "settings": settings,
        "seed": seed,
        "steps": done_steps,
        "num_envs": num_envs,
        "noise_share": noise_steps / done_steps,
        "episodes": len(returns),
        "mean_return": float(np.mean(returns)) if returns else None,
        "reward_per_step": reward_sum / done_steps,
        "images_source": str(getattr(env, "images_source", "none")),
        "versions": versions("numpy", "gymnasium", "ale-py", "numba"),
    }
    if num_cells:
        of = int(getattr(env, "maze_cells", num_cells))
        result |= {"cells": int(visited.sum()), "num_cells": of, "checkpoints": marks, "curve": curve}
    if "room" in info and num_cells:
        result["rooms"] = len(np.unique(rooms_of(np.flatnonzero(visited))))
    if "success" in info:
        result["success_rate"] = successes / len(returns) if returns else None
    env.close()
    return result


def run_all(folder: Path, names: Sequence[str] | None = None, seeds: int = SEEDS) -> None:
    """Run what can run here and has not been run yet."""
    for entry in list_envs() if not names else [find_env(name) for name in names]:
        if entry.missing:
            print(f"{entry.name}: left out, needs {entry.missing}")
            continue
        for seed in range(seeds):
            path = folder / f"{entry.name}_seed{seed}.json"
            if not path.exists():
                data = json.dumps(run_reference(entry, seed), indent=1)
                write_atomic(path, f"{data}\n".encode())
                print(path.name, flush=True)


def table(folder: Path) -> str:
    """The page with the table made from all result files."""
    lines = [
        "# Random actions",
        "",
        "What uniform random actions reach: mean ± standard deviation over seeds [range]. A method means something",
        "only above these numbers. *Noise* is the share of steps that show noise. Made by",
        "`python benchmarks/random_policy.py results/random_policy --table docs/random_policy.md`.",
        "",
        "| environment | steps × seeds | grid cells visited | of | noise | return | other |",
        "|---|---|---|---|---|---|---|",
    ]
    sources, versions = set(), set()
    for entry in list_envs():
        paths = sorted(folder.glob(f"{entry.name}_seed*.json"))
        runs = [json.loads(path.read_text()) for path in paths]
        if runs:
            lines.append(_row(entry, runs))
            sources |= {run["images_source"] for run in runs} - {"none"}
            versions |= {", ".join(f"{name} {number}" for name, number in run["versions"].items()) for run in runs}
    lines += [
        "",
        "- Conditions that differ only in what is shown have equal rows: random actions do not depend on it.",
        "- `maze`: 1,876 of the 2,176 cells can be reached.",
        "- Atari: 8 environments of about 1,000 steps for each seed; only episodes that ended count, which favours",
        "  short ones.",
        "- Montezuma's cells are (x, y, room) triples; most of them never occur.",
        f"- Images: {'; '.join(sorted(sources)) or 'none'}.",
        f"- Versions: {'; '.join(sorted(versions))}.",
        "",
    ]
    return "\n".join(lines)


def _row(entry: EnvEntry, runs: list[dict[str, Any]]) -> str:
    cells = _spread([run["cells"] for run in runs], 1) if "cells" in runs[0] else "–"
    of = f"{runs[0]['num_cells']:,}" if "cells" in runs[0] else "–"
    returns = [run["mean_return"] for run in runs if run["mean_return"] is not None]
    other = "–"
    if "rooms" in runs[0]:
        other = f"rooms {_spread([run['rooms'] for run in runs], 1)}"
    if "success_rate" in runs[0]:
        other = f"success {100 * np.mean([run['success_rate'] for run in runs]):.2f} %"
    noise = f"{100 * np.mean([run['noise_share'] for run in runs]):.1f} %"
    earned = _spread(returns, 2) if returns else "–"
    return f"| `{entry.name}` | {runs[0]['steps']:,} × {len(runs)} | {cells} | {of} | {noise} | {earned} | {other} |"


def _spread(values: Sequence[float], digits: int) -> str:
    deviation = np.std(values, ddof=1) if len(values) > 1 else 0.0
    return (
        f"{np.mean(values):,.{digits}f} ± {deviation:,.{digits}f} [{min(values):,.{digits}f}–{max(values):,.{digits}f}]"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Random-policy reference for every environment.")
    parser.add_argument("folder", type=Path, help="where the result files are")
    parser.add_argument("--names", nargs="*", help="only these environments")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--table", type=Path, help="write the table to this file")
    options = parser.parse_args(arguments)
    run_all(options.folder, options.names, options.seeds)
    if options.table is not None:
        write_atomic(options.table, table(options.folder).encode())


if __name__ == "__main__":
    main()
