"""Files that are whole or absent: a reader sees the old one or the new one, never half of one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import tomli_w


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A stream to a temporary file beside `path`; at the end it is flushed to the disk and renamed to `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w+b") as stream:
            yield stream
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


def write_atomic(path: Path, content: bytes) -> None:
    """Write the whole file at once."""
    with replacing(path) as stream:
        stream.write(content)


def flush_folder(folder: Path) -> None:
    """Make a rename itself durable, where the system allows it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def to_toml(table: Mapping[str, Any]) -> str:
    """A nested mapping as TOML. None has no TOML form and is left out.

    >>> print(to_toml({"steps": 10, "ppo": {"clip": None, "hidden": (64, 64)}}), end="")
    steps = 10
    <BLANKLINE>
    [ppo]
    hidden = [
        64,
        64,
    ]
    """
    return tomli_w.dumps(_without_none(table))


def _without_none(table: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _without_none(v) if isinstance(v, Mapping) else v for k, v in table.items() if v is not None}
