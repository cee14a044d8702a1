"""Deterministic initialisation that never touches the global random state."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_METHODS = ("uniform_", "normal_", "random_", "bernoulli_", "exponential_", "geometric_", "cauchy_", "log_normal_")
_FUNCTIONS = ("rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson")
_INITIALISERS = ("uniform_", "normal_", "trunc_normal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_",
                 "kaiming_normal_", "orthogonal_", "sparse_")  # fmt: skip
DRAWING: frozenset[Any] = frozenset(
    [
        *(getattr(Tensor, name) for name in _METHODS),
        *(getattr(torch, name) for name in _FUNCTIONS),
        *(getattr(nn.init, name) for name in _INITIALISERS),
    ]
)
"""What draws random numbers, and takes a generator to draw them from."""


class _DrawFrom(TorchFunctionMode):
    """In this thread, whatever would draw from the global generator draws from another one."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.generator = generator

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in DRAWING and kwargs.get("generator") is None:
            kwargs["generator"] = self.generator
        return func(*args, **kwargs)


@contextmanager
def seeded(generator: torch.Generator) -> Iterator[None]:
    """Build modules inside: their initial weights follow from `generator` alone.

    Threads may build at the same time: the global generator is neither read nor reseeded.
    """
    seed = int(torch.randint(2**62, (), generator=generator, device="cpu"))
    with _DrawFrom(torch.Generator("cpu").manual_seed(seed)):
        yield
