"""One run on the workers of Ray Train: the same training as under torchrun, wherever Ray has room."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from lpm.core.group import ALONE, Processes
from lpm.runs.config import RunConfig
from lpm.runs.distributed import TIMEOUT_SECONDS, check_versions
from lpm.runs.train import TrainOptions, train
from lpm.versions import pip_install


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
    """Train with so many workers and write the run folder; Ray's own result, whose `error` is None if all went well.

    `out` must be reachable from the node of the first worker, which alone writes there; to resume on other nodes it
    must be on shared storage. Each worker has a CPU, and a GPU if asked for. `storage` is where Ray keeps its own
    files. Connect to a cluster with `ray.init` before; otherwise Ray starts on this machine.
    """
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
        torch_config=TorchConfig(backend="nccl" if gpu else "gloo", timeout_s=int(timeout)),
        scaling_config=ray_train.ScalingConfig(num_workers=workers, use_gpu=gpu),
        run_config=ray_train.RunConfig(name=out.name, storage_path=storage),
    )
    return trainer.fit()


def _work(settings: dict[str, Any]) -> None:
    """What each worker does, in the process group that Ray made."""
    from ray import train as ray_train

    group = ALONE if ray_train.get_context().get_world_size() == 1 else Processes()
    check_versions(group)
    train(
        RunConfig.from_dict(settings["config"]),
        Path(settings["out"]),
        TrainOptions(**settings["options"]),
        resume=settings["resume"],
        group=group,
    )
