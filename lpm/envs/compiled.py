"""Kernels: compiled with numba where it is installed, run as plain Python with equal results where it is not."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar, cast

import numpy as np

from lpm.versions import pip_install

Kernel = TypeVar("Kernel", bound=Callable[..., object])


def compiled(kernel: Kernel) -> Kernel:
    """Compile a kernel that works on arrays and scalars only; it runs without the GIL and is kept on disk.

    No `fastmath`: results are the same on every machine. No `parallel`: numba's thread pools do not survive a fork,
    so callers split the work over Python threads instead. The cache does not notice a change in another file: after
    editing a constant or a function that a kernel takes from elsewhere, delete `__pycache__`.
    """
    try:
        from numba import njit
    except ImportError:
        return uncompiled(kernel)
    return cast(Kernel, njit(nogil=True, cache=True, error_model="numpy")(kernel))


def uncompiled(kernel: Kernel) -> Kernel:
    """The kernel as plain Python; 64-bit counters wrap around silently, as they do in compiled code."""

    @wraps(kernel)
    def call(*args: object) -> object:
        with np.errstate(over="ignore"):
            return kernel(*args)

    return cast(Kernel, call)


def numba_threads(what: str) -> int:
    """The threads numba would use (`NUMBA_NUM_THREADS`); without numba, an error that says how to get it."""
    try:
        from numba import config
    except ImportError as error:
        raise ImportError(f"{what} needs numba: {pip_install('maze')}") from error
    return int(vars(config)["NUMBA_NUM_THREADS"])
