"""One run on several workers of Ray Train: `python examples/ray_train.py --workers 2 --out runs/on-ray`.

The folder that it leaves is that of any run: `lpm train --out runs/on-ray --resume` goes on with it in one process,
`torchrun --nproc-per-node 4 -m lpm train --out runs/on-ray --resume` in four. It must be reachable from the node of
rank 0, which alone writes there. Connect to a cluster with `ray.init` before; otherwise Ray starts on this machine.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ray import train as ray_train
from ray.train.torch import TorchConfig, TorchTrainer

from lpm.agents import PPOConfig
from lpm.core.group import SINGLE_PROCESS, ProcessGroup
from lpm.runs import RunConfig, train
from lpm.runs.build import shard
from lpm.runs.distributed import TIMEOUT_SECONDS, check_versions


def work(settings: dict[str, Any]) -> None:
    """What each worker does, in the process group that Ray made: the same training as under torchrun."""
    group = SINGLE_PROCESS if ray_train.get_context().get_world_size() == 1 else ProcessGroup.of_torch()
    check_versions(group)
    config = RunConfig.from_dict(settings["config"])
    train(config, Path(settings["out"]), resume=settings["resume"], group=group)


def main(words: list[str] | None = None) -> Any:
    """Parse, train, say what was reached."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--env-id", default="lpm/MountainCar-v0")
    parser.add_argument("--bonus", default="lgn")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--num-envs", type=int, default=16, help="of all workers together")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--timeout", type=int, default=int(TIMEOUT_SECONDS), help="seconds to look for room")
    parser.add_argument("--out", type=Path, default=Path("runs/on-ray"))
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--storage", default=None, help="where Ray keeps its own files")
    given = parser.parse_args(words)
    agent = PPOConfig(num_envs=given.num_envs)
    config = RunConfig(given.env_id, bonus=given.bonus, steps=given.steps, agent=agent, device="cpu")
    shard(given.num_envs, given.workers)  # refuses what cannot be shared out, before anything starts
    trainer = TorchTrainer(
        work,
        train_loop_config={"config": config.to_dict(), "out": str(given.out.absolute()), "resume": given.resume},
        torch_config=TorchConfig(backend="gloo", timeout_s=given.timeout),
        scaling_config=ray_train.ScalingConfig(num_workers=given.workers),
        run_config=ray_train.RunConfig(
            name=given.out.name,
            storage_path=given.storage,
            # Ray would look for room for ever, one attempt a minute, and begin again after a lost node
            failure_config=ray_train.FailureConfig(
                controller_failure_limit=given.timeout // 60, max_preemption_failures=0
            ),
        ),
    )
    result = trainer.fit()
    if result.error is None:
        reached = json.loads((given.out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
        print(f"reached after {reached['step']} steps: task reward {reached['reward/task']:.3f} a step, in {given.out}")
    return result


if __name__ == "__main__":
    main()
