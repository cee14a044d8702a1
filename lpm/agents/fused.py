"""Networks for acting on a few observations at a time, without the overhead that costs more than their arithmetic."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lpm.nn.inputs import ObservationInput
from lpm.nn.networks import Encoder

FEW_NUMBERS = 2**16
"""Images of up to as many numbers in all are convolved faster by products that are written out than by the library
(`benchmarks/pixels.py`)."""


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
        x = obs.reshape(obs.shape[0], -1).float()
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


def can_write_out(encoder: Encoder) -> bool:
    """Whether these are convolutions without padding, on the CPU."""
    return all(
        layer.padding == (0, 0) and layer.weight.device.type == "cpu"
        for layer in encoder.body
        if isinstance(layer, nn.Conv2d)
    )


class ActingEncoder:
    """The features of a few images: each convolution is one product of windows and weights, prepared for a block.

    The library's convolution lays out its weights anew at every call, which for a single frame takes as long as the
    arithmetic. The numbers are the encoder's up to rounding.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._head = encoder.head
        self._layers: list[tuple[Tensor, Tensor, int, int] | nn.Module] = []
        for layer in encoder.body:
            if isinstance(layer, nn.Conv2d):
                assert layer.bias is not None
                weight = layer.weight.detach().permute(2, 3, 1, 0).flatten(0, 2).contiguous()
                self._layers.append((weight, layer.bias.detach(), layer.kernel_size[0], layer.stride[0]))
            else:
                self._layers.append(layer)

    def __call__(self, images: Tensor) -> Tensor:
        """(B, C, H, W) to (B, features)."""
        x = images.permute(0, 2, 3, 1).contiguous()
        for layer in self._layers:
            if isinstance(layer, nn.Module):
                x = layer(x)
                continue
            weight, bias, side, stride = layer
            rows, height, width, channels = x.shape
            h, w = (height - side) // stride + 1, (width - side) // stride + 1
            # a row of a window is one piece of memory
            windows = x.as_strided(
                (rows, h, w, side, side * channels),
                (height * width * channels, stride * width * channels, stride * channels, width * channels, 1),
            )
            x = torch.addmm(bias, windows.reshape(rows * h * w, -1), weight).view(rows, h, w, -1)
        return self._head(x.permute(0, 3, 1, 2))  # type: ignore[no-any-return]
