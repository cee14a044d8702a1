"""Computing in torch's initial state: float32 on the CPU, gradients recorded where they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def default_torch_state(function: Callable[P, R]) -> Callable[P, R]:
    """The function, whatever the caller's default dtype, default device and inference mode are.

    While it runs, torch's default dtype is float32 for all threads.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        dtype = torch.get_default_dtype()
        with torch.inference_mode(False):
            if dtype == torch.float32 and torch.get_default_device().type == "cpu":
                return function(*args, **kwargs)
            torch.set_default_dtype(torch.float32)
            try:
                with torch.device("cpu"):
                    return function(*args, **kwargs)
            finally:
                torch.set_default_dtype(dtype)

    return call
