"""The folder of a run and what is in it.

config.toml      everything that decides the numbers
machine.json     versions and hardware, one entry per start
metrics.jsonl    one line of metrics at a time
tensorboard/     the same as events, if TensorBoard is installed
checkpoints/     the last two
result.json      how it ended
"""

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

from lpm.runs.config import RunConfig
from lpm.runs.machine import machine
from lpm.storage.files import expect_own, read_json, read_regular, remove_unfinished, replacing, write_atomic
from lpm.storage.lock import exclusive
from lpm.storage.state_file import write

MAX_CONFIG = 2**20
"""Bytes of config.toml."""

WAIT_SECONDS = 2.0
"""For a process that was killed and lives a moment longer."""


class RunFolder:
    """Paths and small files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / "config.toml"
        self.metrics_file = path / "metrics.jsonl"
        self.machine_file = path / "machine.json"
        self.result_file = path / "result.json"
        self.checkpoints = path / "checkpoints"

    @classmethod
    def unused(cls, path: Path) -> Self:
        """The folder of a new run; one that already holds a run is refused."""
        folder = cls(path)
        if folder.config_file.exists():
            raise ValueError(f"{path} already holds a run: add --resume to go on with it, or choose another --out")
        expect_own(path, "run", "config.toml")
        return folder

    def locked(self) -> AbstractContextManager[None]:
        """Nobody else trains in the folder meanwhile, which is made if need be; `BusyError` if somebody does."""
        self.path.mkdir(parents=True, exist_ok=True)
        return exclusive(self.path / ".run.lock", "run", WAIT_SECONDS)

    def write_config(self, config: RunConfig) -> None:
        write_atomic(self.config_file, config.to_toml().encode())

    @classmethod
    def open(cls, path: Path, config: RunConfig | None = None, *, extend: bool = False) -> Self:
        """The folder of an earlier run; refused if `config` differs from its own, but with `extend` for more steps."""
        folder = cls(path)
        if not folder.config_file.exists():
            raise ValueError(f"{path} holds no run: expected a file {folder.config_file.name} in it")
        for entry in path.iterdir():
            if entry.is_symlink():  # what is written there would land somewhere else
                raise ValueError(f"{entry} is a symbolic link: expected a run's own files")
        if folder.checkpoints.exists() and not folder.checkpoints.is_dir():
            raise ValueError(f"{folder.checkpoints}: expected a folder, got a file")
        folder.starts()
        if config is not None:
            saved = folder.config
            changes = saved.differences(config)
            if extend and [line.split(":")[0] for line in changes] == ["run.steps"]:
                if config.steps < saved.steps:
                    raise ValueError(
                        f"--steps: {path} has {saved.steps:,} steps, expected at least as many, got {config.steps:,}"
                    )
            elif changes:
                raise ValueError(
                    f"{path} holds a run with other settings (saved -> given):\n  "
                    + "\n  ".join(changes)
                    + "\nResume without these changes, or start a new run with another --out."
                )
        return folder

    @property
    def config(self) -> RunConfig:
        """The run's settings. A bonus given as `package.module:Class` is imported."""
        return self._read(imports=True)

    @property
    def described(self) -> RunConfig:
        """The run's settings for those who only look: nothing is imported."""
        return self._read(imports=False)

    def _read(self, imports: bool) -> RunConfig:
        try:
            return RunConfig.from_toml(read_regular(self.config_file, MAX_CONFIG).decode(), imports=imports)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as problem:
            raise ValueError(f"{self.config_file}: expected the settings of a run: {problem}") from problem

    def remove_unfinished(self) -> None:
        for folder in (self.path, self.checkpoints):
            remove_unfinished(folder)

    def starts(self) -> list[Any]:
        """What machine.json has of the starts so far."""
        earlier = read_json(self.machine_file) if self.machine_file.exists() else []
        if not isinstance(earlier, list):
            raise ValueError(f"{self.machine_file}: expected a list of starts, got {type(earlier).__name__}")
        return earlier

    def note_machine(self) -> None:
        """Add an entry for this start, with the number of steps that it aims at."""
        write_atomic(self.machine_file, _json([*self.starts(), {**machine(), "steps": self.config.steps}]))

    def write_result(self, result: dict[str, Any]) -> None:
        write_atomic(self.result_file, _json(result))

    def save_models(self, name: str, models: dict[str, Any]) -> Path:
        """Networks alone, outside the series of checkpoints."""
        path = self.path / name
        with replacing(path) as stream:
            write(stream, models, "models")
        return path


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
