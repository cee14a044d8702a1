"""Processes of a test: who is alive, who descends from whom, waiting."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path


def wait_for(condition: Callable[[], bool], seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def alive(process: int) -> bool:
    return _stat(process)[:1] not in ([], ["Z"])


def descendants(process: int) -> list[int]:
    """The process and all below it."""
    parents = {int(p.name): int(s[1]) for p in Path("/proc").glob("[0-9]*") if (s := _stat(int(p.name)))}
    found = [process]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def kill_all(processes: list[int]) -> None:
    for process in processes:
        if alive(process):
            os.kill(process, signal.SIGKILL)


def _stat(process: int) -> list[str]:
    """State, parent and the rest."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
