"""Locks that end with their owner: the kernel's, which it releases when the process that holds one is gone."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from lpm.storage.files import read_regular


class BusyError(ValueError):
    """Another process holds the lock."""


@contextmanager
def exclusive(path: Path, what: str, wait: float = 0.0) -> Iterator[None]:
    """Hold the lock file `path`; `BusyError` if another process, `what` it is said to be, has it after `wait` seconds.

    The file says who holds it. One left behind by a killed process does not count: not the file is the lock.
    """
    if path.is_symlink():
        raise ValueError(f"{path} is a symbolic link: expected the file itself")
    lock = FileLock(path)
    try:
        lock.acquire(timeout=wait)
    except Timeout:
        raise BusyError(
            f"another {what} is writing there: {path} is held by {_holder(path)}; wait for it, or use another --out"
        ) from None
    try:
        with suppress(OSError):  # Windows lets nobody write to a locked file
            since = datetime.now().astimezone().isoformat(timespec="seconds")
            path.write_text(f"process {os.getpid()} on {platform.node()} since {since}\n")
        yield
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)  # while it is held: whoever waits for it sees that and makes a new one
        lock.release()


def _holder(path: Path) -> str:
    try:
        return read_regular(path, 1000).decode(errors="replace").strip() or "another process"
    except (OSError, ValueError):
        return "another process"
