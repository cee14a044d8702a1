"""`metrics.jsonl`: one JSON object a line, append-only, readable while the run goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_AVERAGED = ("bonus/", "learn/", "reward/", "noise_share")


class MetricsFile:
    """Appends lines; a resumed run first cuts the file back to where its checkpoint left it."""

    def __init__(self, path: Path, size: int = 0) -> None:
        self.path = path
        if size and (not path.exists() or path.stat().st_size < size):
            raise ValueError(
                f"{path}: expected at least {size} bytes, as when the checkpoint was written; the file was changed"
            )
        self._stream = path.open("a+b")
        self._stream.truncate(size)
        self._stream.seek(0)
        self.rows: list[dict[str, float]] = [json.loads(line) for line in self._stream]
        """All lines, those of earlier parts of the run included."""

    def append(self, row: Mapping[str, float]) -> None:
        """Write one line, visible to readers at once."""
        self._stream.write(json.dumps(row).encode() + b"\n")
        self._stream.flush()
        self.rows.append(dict(row))

    def sync(self) -> int:
        """Flush to the disk; the size of the file."""
        self._stream.flush()
        os.fsync(self._stream.fileno())
        return self._stream.tell()

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


def read_metrics(path: Path) -> list[dict[str, float]]:
    """All whole lines; the last one may be missing its end while the run goes on."""
    lines = path.read_bytes().split(b"\n")
    return [json.loads(line) for line in lines[:-1]]


class Averages:
    """Rates and losses averaged over the cycles since the last line; counters as they are now."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._latest: dict[str, float] = {}

    def add(self, metrics: Mapping[str, float]) -> None:
        """Take in one cycle."""
        for name, value in metrics.items():
            if name.startswith(_AVERAGED):
                self._sums[name] = self._sums.get(name, 0.0) + value
                self._counts[name] = self._counts.get(name, 0) + 1
        self._latest = {name: value for name, value in metrics.items() if not name.startswith(_AVERAGED)}

    def take(self) -> dict[str, float]:
        """The line, and start again."""
        row = {**self._latest, **{name: total / self._counts[name] for name, total in self._sums.items()}}
        self.__init__()  # type: ignore[misc]
        return row

    def state_dict(self) -> dict[str, Any]:
        """What was taken in since the last line."""
        return {"sums": dict(self._sums), "counts": dict(self._counts), "latest": dict(self._latest)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` saved."""
        self._sums, self._counts, self._latest = (dict(state[key]) for key in ("sums", "counts", "latest"))
