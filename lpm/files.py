"""Files that are whole or absent: a reader sees the old one or the new one, never half of one; and PNG pictures."""

from __future__ import annotations

import os
import struct
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import tomli_w

if TYPE_CHECKING:
    from numpy.typing import NDArray


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


def png_bytes(picture: NDArray[Any]) -> bytes:
    """A picture (height, width, 3) of uint8 as a PNG file, with nothing but the standard library."""
    height, width, _ = picture.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + row.tobytes() for row in picture)  # 0: no filter
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def expect_own(folder: Path, what: str, *marks: str) -> None:
    """Refuse to write into a folder that holds other people's files: one of the marks (patterns) must be in it."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: expected a folder for --out")
    if not folder.is_dir() or all(entry.name.startswith(".") for entry in folder.iterdir()):
        return
    if not any(next(folder.glob(mark), None) for mark in marks):
        raise ValueError(f"{folder} is not empty and holds no {what}: choose an empty or new folder as --out")
