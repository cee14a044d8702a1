"""One run on the workers of Ray Train: the same training as under torchrun, wherever Ray has room."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lpm.core.group import SINGLE_PROCESS, ProcessGroup
from lpm.runs.build import shard
from lpm.runs.config import RunConfig
from lpm.runs.distributed import TIMEOUT_SECONDS, check_versions
from lpm.runs.train import TrainOptions, train
from lpm.utils.versions import pip_install


def train_on_ray(
    config: RunConfig,
    out: Path,
    workers: int,
    options: TrainOptions | None = None,
    *,
    resume: bool = False,
    gpu: bool = False,
    timeout: float = TIMEOUT_SECONDS,
    storage: str | None = None,
) -> Any:
    """Train with so many workers and write the run folder; Ray's own result, or its error, which quotes the worker's.

    `out` must be reachable from the node of rank 0, which alone writes there; to resume on other nodes it
    must be on shared storage. Each worker has a CPU, and a GPU if asked for. `storage` is where Ray keeps its own
    files. Connect to a cluster with `ray.init` before; otherwise Ray starts on this machine. Workers for which it finds
    no room within `timeout`, in rounds of a minute, are an error.
    """
    if workers < 1:
        raise ValueError(f"workers: expected at least 1, got {workers}")
    shard(config.learner.num_envs, workers)  # before anything starts
    try:
        from ray import train as ray_train
        from ray.train.torch import TorchConfig, TorchTrainer
    except ImportError as error:
        raise ImportError(f"train_on_ray needs Ray Train: {pip_install('rllib')}") from error
    settings = {
        "config": config.to_dict(),
        "out": str(out.absolute()),
        "options": asdict(options or TrainOptions()),
        "resume": resume,
    }
    trainer = TorchTrainer(
        _work,
        train_loop_config=settings,
        torch_config=TorchConfig(backend="nccl" if gpu else "gloo", timeout_s=math.ceil(timeout)),
        scaling_config=ray_train.ScalingConfig(num_workers=workers, use_gpu=gpu),
        run_config=ray_train.RunConfig(
            name=out.name,
            storage_path=storage,
            # Ray would look for room for ever, one attempt a minute, and begin again after a lost node
            failure_config=ray_train.FailureConfig(
                controller_failure_limit=int(timeout // 60), max_preemption_failures=0
            ),
        ),
    )
    return trainer.fit()


def _work(settings: dict[str, Any]) -> None:
    """What each worker does, in the process group that Ray made."""
    from ray import train as ray_train

    group = SINGLE_PROCESS if ray_train.get_context().get_world_size() == 1 else ProcessGroup.of_torch()
    check_versions(group)
    train(
        RunConfig.from_dict(settings["config"]),
        Path(settings["out"]),
        TrainOptions(**settings["options"]),
        resume=settings["resume"],
        group=group,
    )
