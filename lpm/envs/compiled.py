"""Kernels are compiled with numba where it is installed and run as plain Python, with equal results, where not."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar, cast

import numpy as np

Kernel = TypeVar("Kernel", bound=Callable[..., object])


def compiled(kernel: Kernel) -> Kernel:
    """Compile a kernel that works on arrays and scalars only."""
    try:
        from numba import njit
    except ImportError:
        return uncompiled(kernel)
    return cast(Kernel, njit(cache=True)(kernel))


def uncompiled(kernel: Kernel) -> Kernel:
    """The kernel as plain Python; 64-bit counters wrap around silently, as they do in compiled code."""

    @wraps(kernel)
    def call(*args: object) -> object:
        with np.errstate(over="ignore"):
            return kernel(*args)

    return cast(Kernel, call)
