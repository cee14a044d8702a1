"""Networks for acting on a few observations at a time, without the overhead that costs more than their arithmetic."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lpm.nn.inputs import ObservationInput


def can_fuse(layers: nn.Sequential) -> bool:
    """Whether these are linear layers with tanh between them."""
    kinds = [type(layer) for layer in layers]
    return kinds[::2] == [nn.Linear] * len(kinds[::2]) and kinds[1::2] == [nn.Tanh] * len(kinds[1::2])


class ActingMLP:
    """Linear layers with tanh between them: weights prepared once for a block, four operations for two hidden layers.

    σ(u) replaces tanh: with h = 2 σ(u) − 1 the factors 2 and −1 go into the weights and biases around it.
    """

    def __init__(self, observations: ObservationInput, layers: nn.Sequential) -> None:
        linears = [layer for layer in layers if isinstance(layer, nn.Linear)]
        with torch.no_grad():
            self._layers: list[tuple[Tensor, Tensor]] = []
            for i, linear in enumerate(linears):
                weight, bias = linear.weight.t(), linear.bias.detach().clone()
                if i > 0:
                    weight, bias = 2 * weight, bias - weight.sum(0)
                if i < len(linears) - 1:
                    weight, bias = 2 * weight, 2 * bias
                self._layers.append((weight.contiguous(), bias))
        moments = observations.moments
        self._mean = None if moments is None else moments.mean
        self._scale = None if moments is None else 1 / moments.std
        self._squashes = moments is not None and moments.squashes
        self._clip = observations.clip

    def __call__(self, obs: Tensor) -> Tensor:
        """(B, ...) raw observations to (B, outputs)."""
        x = obs.reshape(obs.shape[0], -1)
        if self._mean is not None and self._scale is not None:
            x = (x - self._mean).mul_(self._scale)
            if self._squashes:
                x.asinh_()
            if self._clip is not None:
                x.clamp_(-self._clip, self._clip)
        for weight, bias in self._layers[:-1]:
            x = torch.addmm(bias, x, weight).sigmoid_()
        weight, bias = self._layers[-1]
        return torch.addmm(bias, x, weight)
