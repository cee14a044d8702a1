"""Atomic file writes: a reader sees the old file or the new one, never half of one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomic(path: Path, content: bytes) -> None:
    """Write to a temporary file beside `path`, flush it to disk, rename it over `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        # mkstemp makes files private; the result should have the permissions of any other new file.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def expect_own(folder: Path, what: str, *marks: str) -> None:
    """Refuse to write into a folder that holds other people's files: one of the marks (patterns) must be in it."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: expected a folder for --out")
    if not folder.is_dir() or all(entry.name.startswith(".") for entry in folder.iterdir()):
        return
    if not any(next(folder.glob(mark), None) for mark in marks):
        raise ValueError(f"{folder} is not empty and holds no {what}: choose an empty or new folder as --out")
