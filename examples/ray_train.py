"""One run on several workers of Ray Train: `python examples/ray_train.py --workers 2 --out runs/on-ray`.

The folder that it leaves is that of any run: `lpm train --out runs/on-ray --resume` goes on with it in one process,
`torchrun --nproc-per-node 4 -m lpm train --out runs/on-ray --resume` in four.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from lpm.agents import PPOConfig
from lpm.runs import RunConfig
from lpm.runs.ray_train import train_on_ray


def main(words: list[str] | None = None) -> Any:
    """Parse, train, say what was reached."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--env-id", default="lpm/MountainCar-v0")
    parser.add_argument("--bonus", default="lgn")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--num-envs", type=int, default=16, help="of all workers together")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/on-ray"))
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--storage", default=None, help="where Ray keeps its own files")
    given = parser.parse_args(words)
    agent = PPOConfig(num_envs=given.num_envs)
    config = RunConfig(given.env_id, bonus=given.bonus, steps=given.steps, agent=agent, device="cpu")
    result = train_on_ray(config, given.out, given.workers, resume=given.resume, storage=given.storage)
    if result.error is None:
        reached = json.loads((given.out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
        print(f"reached after {reached['step']} steps: task reward {reached['reward/task']:.3f} a step, in {given.out}")
    return result


if __name__ == "__main__":
    main()
