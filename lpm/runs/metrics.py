"""`metrics.jsonl`: one JSON object a line, append-only, readable while the run goes on."""

import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from itertools import repeat
from pathlib import Path
from typing import Any

from lpm.core.settings import fits
from lpm.storage.files import parse_json, read_regular

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
