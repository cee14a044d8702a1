"""One place where numba is imported: the compiler settings of the maze, and the help when numba is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

try:
    import numba
except ImportError as error:
    raise ImportError(
        'the maze needs numba for its simulation and renderer: pip install "lpm-exploration[maze]"'
    ) from error

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F) -> F:
    """Compile `function` to machine code that runs without the GIL and is kept on disk between processes.

    No `fastmath`: frames and poses are the same on every machine. No `parallel`: numba's thread pools do not
    survive a fork, so callers split the work over Python threads instead. The cache does not notice a change in
    another file, so a compiled function calls only functions of its own module; after editing a constant elsewhere
    (`maze_geometry`), delete `__pycache__`.
    """
    return cast(F, numba.njit(nogil=True, cache=True, error_model="numpy")(function))


def default_threads() -> int:
    """Threads to use: what numba would, so that `NUMBA_NUM_THREADS` is respected."""
    return int(vars(numba.config)["NUMBA_NUM_THREADS"])
