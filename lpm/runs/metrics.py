"""Where metrics go: `metrics.jsonl`, one JSON object a line, readable while the run goes on; and other services."""

import json
import math
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from itertools import repeat
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import uuid4

from lpm.core.settings import fits
from lpm.storage.files import parse_json, read_regular, write_atomic
from lpm.utils.versions import pip_install

MAX_METRICS = 2**30
"""Bytes of metrics.jsonl that are read at most."""
_AVERAGED = ("bonus/", "learn/", "reward/", "noise_share")


class MetricsFile:
    """Appends lines; a resumed run first cuts the file back to where its checkpoint left it."""

    def __init__(self, path: Path, size: int = 0) -> None:
        self.path = path
        self.rows = kept_metrics(path, size)
        """All lines, those of earlier parts of the run included."""
        with path.open("ab") as stream:
            stream.truncate(size)
        self._stream = path.open("ab")

    def append(self, row: Mapping[str, float]) -> None:
        """Write one line, visible to readers at once."""
        # JSON has no NaN; the few numbers that may have no value are null
        plain = {name: value if math.isfinite(value) else None for name, value in row.items()}
        self._stream.write(json.dumps(plain, allow_nan=False).encode() + b"\n")
        self._stream.flush()
        self.rows.append(dict(row))

    def sync(self) -> int:
        """Flush to the disk; the size of the file."""
        self._stream.flush()
        os.fsync(self._stream.fileno())
        return self._stream.tell()

    def close(self) -> None:
        with suppress(OSError):  # a line that could not be written was reported when it was appended
            self._stream.close()


def kept_metrics(path: Path, size: int) -> list[dict[str, float]]:
    """The lines of a run that goes on from a checkpoint, which was written when the file had `size` bytes."""
    if path.is_symlink():
        raise ValueError(f"{path} is a symbolic link: expected the file itself")
    if size < 0 or (size and (not path.exists() or path.stat().st_size < size)):
        raise ValueError(
            f"{path}: expected at least {size} bytes, as when the checkpoint was written; the file was changed"
        )
    return read_metrics(path, size) if size else []


def read_metrics(path: Path, size: int | None = None) -> list[dict[str, float]]:
    """All whole lines within the first `size` bytes; the last one may be missing its end while the run goes on."""
    lines = read_regular(path, MAX_METRICS)[:size].split(b"\n")
    rows = []
    for number, line in enumerate(lines[:-1], 1):
        try:
            rows.append(numbers(parse_json(line), "a line"))
        except ValueError as problem:
            raise ValueError(f"{path}, line {number}: {problem}") from None
    return rows


def numbers(table: Any, what: str) -> dict[str, float]:
    """A table from names to numbers, where null stands for NaN; anything else is refused."""
    known = isinstance(table, dict) and all(map(fits, table, repeat(str)))
    if not known or not all(map(fits, table.values(), repeat(float | None))):
        raise ValueError(f"{what}: expected names and numbers, got {str(table)[:100]}")
    return {name: math.nan if value is None else value for name, value in table.items()}


class Averages:
    """Rates and losses averaged over the cycles since the last line; counters as they are now."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._latest: dict[str, float] = {}

    def add(self, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            if name.startswith(_AVERAGED):
                self._sums[name] = self._sums.get(name, 0.0) + value
                self._counts[name] = self._counts.get(name, 0) + 1
        self._latest = {name: value for name, value in metrics.items() if not name.startswith(_AVERAGED)}

    def take(self) -> dict[str, float]:
        row = {**self._latest, **{name: total / self._counts[name] for name, total in self._sums.items()}}
        self.__init__()  # type: ignore[misc]
        return row

    def state_dict(self) -> dict[str, Any]:
        """What was taken in since the last line."""
        return {"sums": dict(self._sums), "counts": dict(self._counts), "latest": dict(self._latest)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        tables = [numbers(state[key], key) for key in ("sums", "counts", "latest")]
        if set(tables[0]) != set(tables[1]) or not all(type(n) is int and n > 0 for n in tables[1].values()):
            raise ValueError(f"averages: expected a count above 0 for every sum, got {tables[1]}")
        self._sums, self._latest = tables[0], tables[2]
        self._counts = {name: int(count) for name, count in tables[1].items()}


# ---- services: each is an optional package, imported only if asked for ----------------------------------------
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
