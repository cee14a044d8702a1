"""Locks that end with their owner: a file that the kernel releases when the process that holds it is gone."""

from __future__ import annotations

import errno
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path


class BusyError(ValueError):
    """Another process holds the lock."""


@contextmanager
def exclusive(path: Path, wait: float = 0.0) -> Iterator[None]:
    """Hold the lock file `path`; `BusyError` if another process still holds it after `wait` seconds.

    The file says who holds it. One left behind by a killed process does not count: not the file is the lock but the
    kernel's `flock` on it. Where the file system has no locks this does nothing.
    """
    deadline = time.monotonic() + wait
    while (handle := _try(path)) is None:
        if time.monotonic() >= deadline:
            raise BusyError(f"{path} is held by {_holder(path)}")
        time.sleep(0.05)
    try:
        os.ftruncate(handle, 0)
        since = datetime.now().astimezone().isoformat(timespec="seconds")
        os.pwrite(handle, f"process {os.getpid()} on {platform.node()} since {since}\n".encode(), 0)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def _try(path: Path) -> int | None:
    """An open handle that holds the lock, or None if another process does."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    if sys.platform == "win32":
        return handle
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        if problem.errno not in (errno.EAGAIN, errno.EACCES):
            return handle
        os.close(handle)
        return None
    try:
        same = os.fstat(handle).st_ino == path.stat().st_ino
    except FileNotFoundError:
        same = False
    if same:
        return handle
    os.close(handle)  # its last holder deleted it in between: what was locked is no longer the file
    return _try(path)


def _holder(path: Path) -> str:
    try:
        return path.read_text().strip() or "another process"
    except OSError:
        return "another process"
