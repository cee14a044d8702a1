"""Several networks of one shape as stacked parameters: one batched matrix product instead of a loop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from lpm.nn.networks import expect_widths


class StackedLinear(nn.Module):
    """Linear layers of K independent networks, each initialised like `nn.Linear`."""

    def __init__(self, members: int, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs) if inputs else 0.0
        self.weight = nn.Parameter(torch.empty(members, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(members, 1, outputs).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs), the same for every member, or (K, B, inputs) to (K, B, outputs)."""
        if len(self.weight) == 1:  # a plain matrix product has less overhead than a batch of one
            return torch.addmm(self.bias[0], x.reshape(-1, x.shape[-1]), self.weight[0]).unsqueeze(0)
        if x.ndim == 2:
            x = x.expand(len(self.weight), *x.shape)
        return torch.baddbmm(self.bias, x, self.weight)


class StackedForward(nn.Module):
    """K models that predict the next features from features and an encoded action.

    Hidden layers, then residual blocks of two layers, then a linear output; the action is shown to every layer.
    """

    def __init__(
        self,
        features: int,
        actions: int,
        *,
        hidden: Sequence[int] = (512,),
        blocks: int = 0,
        members: int = 1,
    ) -> None:
        super().__init__()
        if blocks and not hidden:
            raise ValueError(f"hidden: expected a layer for the {blocks} residual blocks to keep the width of, got ()")
        expect_widths(hidden)
        self.act = nn.LeakyReLU(inplace=True)
        widths = [features, *hidden]

        def layer(inputs: int, outputs: int) -> StackedLinear:
            return StackedLinear(members, inputs + actions, outputs)

        self.hidden = nn.ModuleList(layer(a, b) for a, b in pairwise(widths))
        self.blocks = nn.ModuleList(layer(widths[-1], widths[-1]) for _ in range(2 * blocks))
        self.out = layer(widths[-1], features)

    def forward(self, phi: Tensor, action: Tensor) -> Tensor:
        """(B, features) and (B, action width) to the predicted next features of every member, (K, B, features)."""

        def seen(h: Tensor) -> Tensor:
            code = action if h.ndim == 2 else action.expand(h.shape[0], *action.shape)
            return torch.cat([h, code], dim=-1)

        h = phi
        for layer in self.hidden:
            h = self.act(layer(seen(h)))
        for first, second in zip(self.blocks[::2], self.blocks[1::2], strict=True):
            h = h + second(seen(self.act(first(seen(h)))))
        return self.out(seen(h))  # type: ignore[no-any-return]

    def errors(self, phi: Tensor, action: Tensor, target: Tensor) -> Tensor:
        """Mean squared error of each member's prediction of the features `target` (B, F), (K, B)."""
        return (self(phi, action) - target).square().mean(2)  # type: ignore[no-any-return]
