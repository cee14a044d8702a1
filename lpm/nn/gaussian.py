"""A dynamics model that also predicts how uncertain the next observation is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lpm.core.spaces import Spaces
from lpm.nn.networks import Activation, Decoder, Encoder, mlp


class GaussianDynamicsModel(nn.Module):
    """Mean and log-variance of every dimension of the next observation, from a shared trunk.

    Vectors: an MLP trunk, then for each head the `head_hidden` layers and a linear one; `skip` lets the last layer of
    the mean head, and only that one, see the input. Images: encoder and hidden layers, then one decoder per head.
    `bounds` limits the log-variance smoothly, so that its gradient never dies.
    """

    def __init__(
        self,
        spaces: Spaces,
        *,
        hidden: Sequence[int] | None = None,
        head_hidden: Sequence[int] = (),
        features: int | None = 512,
        act: Activation = "relu",
        skip: bool = False,
        bounds: tuple[float, float] | None = (-10.0, 10.0),
        squash: bool = True,
    ) -> None:
        super().__init__()
        shape, actions = spaces.input_shape, spaces.action_width
        self.bounds = bounds
        self.skip = skip
        self.encoder: Encoder | None = None
        self.mean_hidden, self.variance_hidden = nn.Sequential(), nn.Sequential()
        if spaces.kind == "vector":
            inputs, outputs = math.prod(shape) + actions, math.prod(shape)
            hidden = (256, 256) if hidden is None else hidden
            self.trunk = mlp(inputs, hidden)
            width = hidden[-1] if hidden else inputs
            self.mean_hidden, self.variance_hidden = mlp(width, head_hidden), mlp(width, head_hidden)
            width = head_hidden[-1] if head_hidden else width
            self.mean_head: nn.Module = nn.Linear(width + inputs if skip else width, outputs)
            self.variance_head: nn.Module = nn.Linear(width, outputs)
        else:
            if skip or head_hidden:
                name = "skip" if skip else "head_hidden"
                raise ValueError(f"{name}: only for vector observations, got {spaces.observation}")
            self.encoder = Encoder(shape, features, act=act)
            hidden = (512,) if hidden is None else hidden
            self.trunk = mlp(self.encoder.features + actions, hidden)
            width = hidden[-1] if hidden else self.encoder.features + actions
            image = (shape[0], shape[1], shape[2])
            self.mean_head = Decoder(width, image, squash=squash)
            self.variance_head = Decoder(width, image, squash=False)

    def forward(self, x: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """(B, *input_shape) and (B, action width) to mean and log-variance, (B, *input_shape) each."""
        seen = torch.cat([x if self.encoder is None else self.encoder(x), action], dim=1)
        trunk = self.trunk(seen)
        mean = self.mean_hidden(trunk)
        mean = self.mean_head(torch.cat([seen, mean], dim=1) if self.skip else mean)
        log_variance = self.variance_head(self.variance_hidden(trunk))
        return mean, log_variance if self.bounds is None else soft_clamp(log_variance, *self.bounds)


def soft_clamp(x: Tensor, low: float, high: float) -> Tensor:
    """Nearly x between the bounds, at most log(1 + exp(low − high)) beyond them, and with a gradient everywhere."""
    x = high - nn.functional.softplus(high - x)
    return low + nn.functional.softplus(x - low)
