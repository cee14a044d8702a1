"""Where metrics go besides `metrics.jsonl`. Each service is an optional package, imported only if asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol
from uuid import uuid4

from lpm.storage.files import read_regular, write_atomic
from lpm.utils.versions import pip_install

Service = Literal["none", "wandb", "mlflow"]


class Logger(Protocol):
    """Receives each line of the metrics."""

    def log(self, step: int, row: Mapping[str, float]) -> None:
        """One line."""

    def close(self) -> None:
        """No more lines."""


class TensorBoard:
    """Event files in the run folder; a resumed run hides the events after its checkpoint."""

    def __init__(self, folder: Path, first_step: int) -> None:
        module: Any = import_module("torch.utils.tensorboard")
        self._writer = module.SummaryWriter(str(folder), purge_step=first_step if first_step else None)

    def log(self, step: int, row: Mapping[str, float]) -> None:
        """One line."""
        for name, value in row.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


class WandB:
    """Weights & Biases; a resumed run continues the same page, whose id is kept in its folder."""

    def __init__(self, folder: Path, name: str, config: Mapping[str, Any]) -> None:
        self._module = _require("wandb")
        page = folder / "wandb-id.txt"
        if not page.exists():
            write_atomic(page, uuid4().hex.encode())
        self._run = self._module.init(
            project="lpm",
            name=name,
            id=read_regular(page, 100).decode(),
            config=dict(config),
            dir=str(folder),
            resume="allow",
        )

    def log(self, step: int, row: Mapping[str, float]) -> None:
        """One line."""
        self._run.log(dict(row), step=step)

    def close(self) -> None:
        """Finish the page."""
        self._run.finish()


class MLflow:
    """MLflow, at the tracking server its own settings name."""

    def __init__(self, name: str, config: Mapping[str, Any]) -> None:
        self._module = _require("mlflow")
        self._module.set_experiment("lpm")
        self._module.start_run(run_name=name)
        self._module.log_params(dict(config))

    def log(self, step: int, row: Mapping[str, float]) -> None:
        """One line."""
        self._module.log_metrics({key.replace("/", "."): value for key, value in row.items()}, step=step)

    def close(self) -> None:
        """End the run."""
        self._module.end_run()


def open_loggers(
    service: Service,
    folder: Path,
    config: Mapping[str, Any],
    first_step: int,
    say: Callable[[str], None],
    tensorboard: bool = True,
) -> list[Logger]:
    """TensorBoard if it is wanted and installed, and the chosen service."""
    loggers: list[Logger] = []
    if not tensorboard:
        pass
    elif find_spec("tensorboard") is None:
        say(f"No TensorBoard events: {pip_install('tensorboard')} to have them.")
    else:
        loggers.append(TensorBoard(folder / "tensorboard", first_step))
    if service == "wandb":
        loggers.append(WandB(folder, folder.name, config))
    elif service == "mlflow":
        loggers.append(MLflow(folder.name, config))
    elif service != "none":
        raise ValueError(f"log: expected none, wandb or mlflow, got {service!r}")
    return loggers


def _require(name: str) -> Any:
    if find_spec(name) is None:
        raise ValueError(f"--log {name}: the package is not installed; pip install {name}")
    return import_module(name)
