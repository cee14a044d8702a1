"""Files that are whole or absent: a reader sees the old one or the new one, never half of one; untrusted files, read
within bounds."""

import json
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import tomli_w

UNFINISHED = ".unfinished"
"""How the names of temporary files end."""
MAX_TEXT = 64 * 2**20
"""Bytes of a JSON or TOML file that are read at most."""


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A stream to a temporary file beside `path`; at the end it is flushed to the disk and renamed to `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=UNFINISHED)
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


def remove_unfinished(folder: Path) -> None:
    """Remove what a killed process left half written in a folder that no other process writes to."""
    if folder.is_dir():
        for path in folder.glob(f".*{UNFINISHED}"):
            path.unlink(missing_ok=True)


def flush_folder(folder: Path) -> None:
    """Make a rename itself durable, where the system allows it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# ---- untrusted files ------------------------------------------------------------------------------------------
def open_regular(path: Path, limit: int | None = None) -> BinaryIO:
    """A stream of a file that is a file: no link, device or pipe, and of at most `limit` bytes (None: of the memory).

    A link could name any file of this machine; a pipe never ends.
    """
    if path.is_symlink():
        raise ValueError(f"{path} is a symbolic link: expected the file itself")
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{path}: expected a file, got a folder, a device or a pipe")
        limit = _memory() if limit is None else limit
        if status.st_size > limit:
            raise ValueError(f"{path}: expected at most {limit:,} bytes, got {status.st_size:,}")
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_json(path: Path, limit: int = MAX_TEXT) -> Any:
    """What a JSON file holds, read as `open_regular` and `parse_json` do; a ValueError names the file."""
    content = read_regular(path, limit)
    try:
        return parse_json(content)
    except ValueError as problem:
        raise ValueError(f"{path}: expected JSON: {problem}") from None


def read_regular(path: Path, limit: int = MAX_TEXT) -> bytes:
    """The content of a file, as `open_regular` opens it."""
    with open_regular(path, limit) as stream:
        return stream.read(limit)


def _memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2**40


def parse_json(text: bytes | str) -> Any:
    """JSON as its standard says: a name twice in one object, NaN and Infinity are refused with a ValueError."""
    try:
        return json.loads(text, object_pairs_hook=_each_once, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for name, value in pairs:
        if name in table:
            raise ValueError(f"JSON has the name {name[:100]!r} twice in one object")
        table[name] = value
    return table


def _no_constant(name: str) -> None:
    raise ValueError(f"JSON has no {name}")


def printable(text: str) -> str:
    r"""Untrusted text as a terminal may show it: what moves the cursor, or turns text round, as escapes.

    >>> print(printable("seed\x1b[2J"))
    seed\x1b[2J
    """
    if text.isprintable():
        return text
    return "".join(c if c in "\n\t" or c.isprintable() else c.encode("unicode_escape").decode() for c in text)


# ---- formats --------------------------------------------------------------------------------------------------
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


def expect_own(folder: Path, what: str, *marks: str) -> None:
    """Refuse to write into a folder that holds other people's files: one of the marks (patterns) must be in it."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: expected a folder for --out")
    if not folder.is_dir() or all(entry.name.startswith(".") for entry in folder.iterdir()):
        return
    if not any(next(folder.glob(mark), None) for mark in marks):
        raise ValueError(f"{folder} is not empty and holds no {what}: choose an empty or new folder as --out")
