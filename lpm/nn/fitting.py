"""Gradient steps on minibatches of stored rows, the same for every model of LPM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from lpm.nn.fused import Layer, least_squares

NUMBERS_AT_ONCE = 2**23
"""Numbers that are preprocessed at a time: all minibatches of vectors, one of images."""

View = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
"""Slots (B,) to preprocessed (x, encoded action, target)."""


class Regressor(Protocol):
    """A model that is fitted to rows of (x, action, target)."""

    def loss(self, x: Tensor, action: Tensor, target: Tensor) -> Tensor:
        """What is minimised."""

    def layers(self) -> list[Layer] | None:
        """The layers, if the model is an MLP whose `loss` is its mean squared error on a `problem`."""

    def problem(self, x: Tensor, action: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """What that MLP sees and what it is to say, (B, inputs) and (B, outputs)."""


def fit(
    model: Regressor,
    batches: Sequence[Tensor],
    view: View,
    *,
    row_numbers: int,
    descend: Callable[[Tensor], None],
    apply_gradients: Callable[[], None],
) -> Tensor:
    """One gradient step on each minibatch of slots (all of one size); the mean loss.

    Rows of `row_numbers` numbers are gathered and preprocessed for as many minibatches at once as memory allows.
    `descend` takes a loss, `apply_gradients` finds the gradients set.
    """
    size, layers, losses = len(batches[0]), model.layers(), []
    at_once = max(1, NUMBERS_AT_ONCE // (size * max(1, row_numbers)))
    for start in range(0, len(batches), at_once):
        x, action, target = view(torch.cat(list(batches[start : start + at_once])))
        if layers is not None:
            inputs, outputs = model.problem(x, action, target)
            parts = zip(torch.split(inputs, size), torch.split(outputs, size), strict=True)
            losses += least_squares(layers, parts, apply_gradients)
            continue
        for part in zip(*(torch.split(rows, size) for rows in (x, action, target)), strict=True):
            loss = model.loss(*part)
            descend(loss)
            losses.append(loss.detach())
    return torch.stack(losses).mean()
