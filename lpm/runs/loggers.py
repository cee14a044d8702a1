"""Where metrics go besides `metrics.jsonl`. Each service is an optional package, imported only if asked for."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import uuid4

from lpm.storage.files import read_regular, write_atomic
from lpm.utils.versions import pip_install

Service = Literal["none", "wandb", "mlflow"]


class Logger(NamedTuple):
    """Receives each line of the metrics, with its step, until it is closed."""

    log: Callable[[int, Mapping[str, float]], None]
    close: Callable[[], None]


def _tensorboard(folder: Path, first_step: int) -> Logger:
    """Event files in the run folder; a resumed run hides the events after its checkpoint."""
    module: Any = import_module("torch.utils.tensorboard")
    writer = module.SummaryWriter(str(folder), purge_step=first_step if first_step else None)

    def log(step: int, row: Mapping[str, float]) -> None:
        for name, value in row.items():
            writer.add_scalar(name, value, step)

    return Logger(log, writer.close)


def _wandb(folder: Path, config: Mapping[str, Any]) -> Logger:
    """Weights & Biases; a resumed run continues the same page, whose id is kept in its folder."""
    module: Any = import_module("wandb")
    page = folder / "wandb-id.txt"
    if not page.exists():
        write_atomic(page, uuid4().hex.encode())
    page_id, settings = read_regular(page, 100).decode(), dict(config)
    run = module.init(project="lpm", name=folder.name, id=page_id, config=settings, dir=str(folder), resume="allow")
    return Logger(lambda step, row: run.log(dict(row), step=step), run.finish)


def _mlflow(folder: Path, config: Mapping[str, Any]) -> Logger:
    """MLflow, at the tracking server its own settings name."""
    module: Any = import_module("mlflow")
    module.set_experiment("lpm")
    module.start_run(run_name=folder.name)
    module.log_params(dict(config))

    def log(step: int, row: Mapping[str, float]) -> None:
        module.log_metrics({key.replace("/", "."): value for key, value in row.items()}, step=step)

    return Logger(log, module.end_run)


SERVICES: Mapping[str, Callable[[Path, Mapping[str, Any]], Logger]] = {"wandb": _wandb, "mlflow": _mlflow}


def open_loggers(
    service: Service,
    folder: Path,
    config: Mapping[str, Any],
    first_step: int,
    log: Callable[[str], None],
    tensorboard: bool = True,
) -> list[Logger]:
    """TensorBoard if it is wanted and installed, and the chosen service."""
    if service not in ("none", *SERVICES):
        raise ValueError(f"log: expected none, {' or '.join(SERVICES)}, got {service!r}")
    if service != "none" and find_spec(service) is None:
        raise ValueError(f"--log {service}: the package is not installed; pip install {service}")
    loggers = [] if service == "none" else [SERVICES[service](folder, config)]
    if tensorboard and find_spec("tensorboard") is None:
        log(f"No TensorBoard events: {pip_install('tensorboard')} to have them.")
    elif tensorboard:
        loggers.append(_tensorboard(folder / "tensorboard", first_step))
    return loggers
