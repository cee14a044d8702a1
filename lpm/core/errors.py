"""Numbers that are not finite stop a run, with the name of what made them; sizes that do not fit are refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray


class NonFiniteError(ArithmeticError):
    """A number that is not finite, with the module that made it and the environment step at which it came."""

    def __init__(self, module: str, step: int, value: float) -> None:
        super().__init__(f"{module} is {value} at step {step:,}: training cannot go on from here")
        self.module = module
        self.step = step
        self.value = value


def finite(values: NDArray[Any], module: str, step: int) -> NDArray[Any]:
    """The values as they came; `NonFiniteError` if one of them is not a number."""
    if not np.isfinite(values).all():
        raise NonFiniteError(module, step, float(values[~np.isfinite(values)][0]))
    return values


@contextmanager
def enough_memory() -> Iterator[None]:
    """What cannot be allocated is the fault of a setting; of which, only the size can tell."""
    try:
        yield
    except (MemoryError, RuntimeError) as problem:
        if isinstance(problem, RuntimeError) and not any(word in str(problem) for word in ("alloc", "overflow")):
            raise
        raise ValueError(
            f"expected settings that fit into memory: {str(problem).partition(chr(10))[0]}; choose fewer environments "
            "or steps per rollout, or a smaller network, buffer or memory"
        ) from problem
