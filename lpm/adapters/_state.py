"""The file that keeps a bonus beside the model it trained."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Protocol

import torch

from lpm.core.bonus import IntrinsicReward
from lpm.files import write_atomic

STATE_FORMAT = "lpm.adapters/1"


class Stateful(Protocol):
    """A part of an adapter that has a bonus and can be saved."""

    bonus: IntrinsicReward

    def state_dict(self) -> dict[str, Any]:
        """Everything, as tensors and plain Python."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` saved."""


def write_state(path: str | Path, part: Stateful, **about: int) -> None:
    """Write the state of an adapter and a few integers about it: whole or not at all."""
    content = io.BytesIO()
    kind = type(part.bonus).__name__
    torch.save({"format": STATE_FORMAT, "bonus": kind, "about": about, "state": part.state_dict()}, content)
    write_atomic(Path(path), content.getvalue())


def read_about(path: str | Path) -> dict[str, int]:
    """The integers that were saved with a state."""
    about: dict[str, int] = _read(Path(path))["about"]
    return about


def read_state(path: str | Path, part: Stateful) -> None:
    """Put a state back into an adapter with a bonus of the same kind and sizes."""
    stored, kind = _read(Path(path)), type(part.bonus).__name__
    if stored["bonus"] != kind:
        raise ValueError(f"{path}: expected the state of {kind}, got that of {stored['bonus']}")
    try:
        part.load_state_dict(stored["state"])
    except (RuntimeError, KeyError, ValueError) as error:
        raise ValueError(f"{path}: does not fit this {kind}: {error}") from error


def _read(path: Path) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(path) as archive:  # torch.load itself takes changed bytes for weights
            if archive.testzip() is not None:
                raise ValueError(f"{path}: changed after it was written")
        # tensors and plain Python only: nothing in the file can run
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except (UnpicklingError, RuntimeError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: expected the state of a bonus, but the file cannot be read") from error
    if (
        not isinstance(stored, dict)
        or stored.get("format") != STATE_FORMAT
        or not {"bonus", "about", "state"} <= stored.keys()
    ):
        raise ValueError(f"{path}: expected the state of a bonus, got another kind of file")
    return stored
