"""Small tanh networks on the CPU, without the overhead that costs more than their arithmetic.

`tanh x = 2 σ(2x) − 1`, and torch computes σ several times faster than tanh. Parameters lie in one vector, so that the
optimiser and the gradient norm are one operation each; forward and backward passes write into storage that is used
again. The numbers are those of the ordinary modules up to rounding.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lpm.nn.inputs import ObservationInput


def can_fuse(layers: nn.Sequential) -> bool:
    """Whether these are linear layers with tanh between them."""
    kinds = [type(layer) for layer in layers]
    return kinds[::2] == [nn.Linear] * len(kinds[::2]) and kinds[1::2] == [nn.Tanh] * len(kinds[1::2])


class FlatParameters:
    """All parameters of a module as views of one vector, and their gradients likewise."""

    def __init__(self, module: nn.Module) -> None:
        parameters = list(module.parameters())
        self.vector = nn.Parameter(torch.cat([p.detach().flatten() for p in parameters]))
        self.vector.grad = torch.zeros_like(self.vector)
        start = 0
        for p in parameters:
            span = slice(start, start + p.numel())
            p.data = self.vector.data[span].view_as(p)
            p.grad = self.vector.grad[span].view_as(p)
            start += p.numel()

    def clip(self, bound: float) -> Tensor:
        """Scale the gradient down to this norm if it is larger; the norm it had."""
        gradient = self.vector.grad
        assert gradient is not None
        norm: Tensor = torch.linalg.vector_norm(gradient)
        gradient.mul_((bound / (norm + 1e-6)).clamp_(max=1.0))
        return norm


class FusedMLP:
    """Forward and backward pass of linear layers with tanh between them; gradients go where the parameters' are."""

    def __init__(self, layers: nn.Sequential) -> None:
        self.linears = [layer for layer in layers if isinstance(layer, nn.Linear)]
        self._hidden: dict[int, list[Tensor]] = {}
        self._inputs: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs) to (B, outputs): a leaf of the graph that follows."""
        rows = x.shape[0]
        if rows not in self._hidden:
            self._hidden[rows] = [x.new_empty(rows, linear.out_features) for linear in self.linears[:-1]]
        self._inputs = [x]
        with torch.no_grad():
            for linear, hidden in zip(self.linears[:-1], self._hidden[rows], strict=True):
                torch.addmm(linear.bias, x, linear.weight.t(), beta=2, alpha=2, out=hidden)
                x = hidden.sigmoid_().mul_(2).sub_(1)
                self._inputs.append(x)
            last = self.linears[-1]
            outputs = torch.addmm(last.bias, x, last.weight.t())
        return outputs.requires_grad_()

    @torch.no_grad()
    def backward(self, gradient: Tensor) -> None:
        """Set the parameters' gradients from that of the last `forward`'s outputs."""
        for linear, x in zip(reversed(self.linears), reversed(self._inputs), strict=True):
            assert linear.weight.grad is not None
            assert linear.bias.grad is not None
            torch.mm(gradient.t(), x, out=linear.weight.grad)
            torch.sum(gradient, dim=0, out=linear.bias.grad)
            if linear is not self.linears[0]:
                gradient = torch.ops.aten.tanh_backward(gradient @ linear.weight, x)


class ActingMLP:
    """The same network for acting: weights prepared once for a block, four operations for two hidden layers.

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
        self._clip = observations.clip

    def __call__(self, obs: Tensor) -> Tensor:
        """(B, ...) raw observations to (B, outputs)."""
        x = obs.reshape(obs.shape[0], -1)
        if self._mean is not None and self._scale is not None:
            x = (x - self._mean).mul_(self._scale)
            if self._clip is not None:
                x.clamp_(-self._clip, self._clip)
        for weight, bias in self._layers[:-1]:
            x = torch.addmm(bias, x, weight).sigmoid_()
        weight, bias = self._layers[-1]
        return torch.addmm(bias, x, weight)
