"""Computing as if torch's defaults were untouched: float32 on the CPU, gradients recorded where they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch.overrides import TorchFunctionMode

P = ParamSpec("P")
R = TypeVar("R")

_FLOATS: frozenset[Any] = frozenset(
    [torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn, torch.eye, torch.linspace, torch.full, torch.tensor]
)
_OTHERS: frozenset[Any] = frozenset([torch.arange, torch.randint, torch.randperm, torch.as_tensor])


class _Float32OnCPU(TorchFunctionMode):
    """In this thread, tensors made without a dtype or device get those that torch starts with."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func not in _FLOATS and func not in _OTHERS:
            return func(*args, **kwargs)
        if kwargs.get("device") is None and not (func is torch.as_tensor and isinstance(args[0], torch.Tensor)):
            kwargs["device"] = "cpu"
        if func in _FLOATS and kwargs.get("dtype") is None:
            value = (
                args[0] if func is torch.tensor and args else args[1] if func is torch.full and len(args) > 1 else 0.0
            )
            if _made_of_floats(value):
                kwargs["dtype"] = torch.float32
        return func(*args, **kwargs)


def _made_of_floats(value: Any) -> bool:
    """Whether torch gives a tensor of this its default dtype."""
    if isinstance(value, (list, tuple)):
        return not value or any(_made_of_floats(part) for part in value)
    return isinstance(value, float)


def _usual_defaults() -> AbstractContextManager[Any]:
    usual = torch.get_default_dtype() == torch.float32 and torch.get_default_device().type == "cpu"
    return nullcontext() if usual else _Float32OnCPU()


def undisturbed(function: Callable[P, R]) -> Callable[P, R]:
    """The function, whatever the caller's default dtype, default device and inference mode are."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with torch.inference_mode(False), _usual_defaults():
            return function(*args, **kwargs)

    return call
