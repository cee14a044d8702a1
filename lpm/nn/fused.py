"""Small MLPs on the CPU, without the overhead that costs more than their arithmetic.

Forward and backward passes are written out and use the same storage again and again: for networks of this size
autograd's bookkeeping and fresh memory take as long as the matrix products. The numbers are those of the ordinary
modules up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from lpm.nn.networks import Encoder, SkipMLP

Layer = tuple[nn.Linear, nn.Module | None]
"""A linear layer and what follows it."""
STORED_SIZES = 8
"""Numbers of rows that storage is kept for."""
NARROW = 32
"""Inputs below which the transposed product is several times faster."""
Average = Callable[[Sequence[Tensor], float], None]
"""Replaces tensors by their means over several processes, each counting by its rows."""


def linear_layers(module: nn.Module) -> list[Layer] | None:
    """The layers of an MLP, however nested, each with its activation; None if it is anything else."""
    layers: list[Layer] = []
    for part in _parts(module):
        if isinstance(part, nn.Linear):
            layers.append((part, None))
        elif isinstance(part, (nn.ReLU, nn.LeakyReLU, nn.Tanh)) and layers and layers[-1][1] is None:
            layers[-1] = (layers[-1][0], part)
        elif not isinstance(part, nn.Flatten):
            return None
    plain = all(layer.weight.device.type == "cpu" and layer.bias is not None for layer, _ in layers)
    return layers if layers and plain else None


def _parts(module: nn.Module) -> list[nn.Module]:
    if isinstance(module, nn.Sequential):
        return [part for child in module for part in _parts(child)]
    if isinstance(module, Encoder):
        return [*_parts(module.body), *_parts(module.head)]
    if isinstance(module, SkipMLP) and not len(module.trunk):
        return [module.head]
    return [module]


class FlatParameters:
    """Parameters as views of one vector, and their gradients likewise."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self.vector = nn.Parameter(torch.cat([p.detach().flatten() for p in parameters]))
        self.vector.grad = torch.zeros_like(self.vector)
        start = 0
        for p in parameters:
            span = slice(start, start + p.numel())
            p.data = self.vector.data[span].view_as(p)
            p.grad = self.vector.grad[span].view_as(p)
            start += p.numel()

    def clip(self, bound: float, parts: Sequence[int]) -> Tensor:
        """Scale the gradient of each part, given by its size, down to this norm if it is larger; the norm it had."""
        assert self.vector.grad is not None
        norms = []
        for gradient in torch.split(self.vector.grad, list(parts)):
            norms.append(torch.linalg.vector_norm(gradient))
            gradient.mul_((bound / (norms[-1] + 1e-6)).clamp_(max=1.0))
        whole: Tensor = torch.linalg.vector_norm(torch.stack(norms))
        return whole


class FusedMLP:
    """Forward and backward pass of an MLP; gradients go where the parameters' are."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.layers = list(layers)
        for parameter in (p for layer, _ in layers for p in (layer.weight, layer.bias)):
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self._storage: dict[int, tuple[list[Tensor], list[Tensor]]] = {}
        self._inputs: list[Tensor] = []

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs) to (B, outputs), which the next call overwrites."""
        rows = x.shape[0]
        if rows not in self._storage:
            if len(self._storage) >= STORED_SIZES:
                self._storage.clear()
            values = [x.new_empty(rows, layer.out_features) for layer, _ in self.layers]
            self._storage[rows] = values, [torch.empty_like(value) for value in values]
        self._inputs = [x]
        for (layer, act), out in zip(self.layers, self._storage[rows][0], strict=True):
            # tanh x = 2 σ(2x) − 1, and torch computes σ several times faster than tanh
            factor = 2 if isinstance(act, nn.Tanh) else 1
            torch.addmm(layer.bias, x, layer.weight.t(), beta=factor, alpha=factor, out=out)
            if isinstance(act, nn.Tanh):
                out.sigmoid_().mul_(2).sub_(1)
            elif isinstance(act, nn.ReLU):
                out.relu_()
            elif isinstance(act, nn.LeakyReLU):
                nn.functional.leaky_relu_(out, act.negative_slope)
            self._inputs.append(x := out)
        return x

    @torch.no_grad()
    def backward(self, gradient: Tensor, *, inputs: bool = False) -> Tensor | None:
        """Set the parameters' gradients from that of the last `forward`'s outputs; that of its `inputs` if wanted."""
        storage = self._storage[gradient.shape[0]][1]
        for i in reversed(range(len(self.layers))):
            (layer, act), x, result = self.layers[i], self._inputs[i], self._inputs[i + 1]
            assert layer.weight.grad is not None
            assert layer.bias.grad is not None
            # the activations are monotone: their results tell where they were flat
            if isinstance(act, nn.Tanh):
                gradient = torch.ops.aten.tanh_backward.grad_input(gradient, result, grad_input=storage[i])
            elif isinstance(act, nn.ReLU):
                gradient = torch.ops.aten.threshold_backward.grad_input(gradient, result, 0, grad_input=storage[i])
            elif isinstance(act, nn.LeakyReLU):
                slope = act.negative_slope
                gradient = torch.ops.aten.leaky_relu_backward.grad_input(
                    gradient, result, slope, True, grad_input=storage[i]
                )
            if x.shape[1] < NARROW:
                layer.weight.grad.copy_(torch.mm(x.t(), gradient).t())
            else:
                torch.mm(gradient.t(), x, out=layer.weight.grad)
            torch.sum(gradient, dim=0, out=layer.bias.grad)
            if i:
                gradient = torch.mm(gradient, layer.weight, out=storage[i - 1])
        return torch.mm(gradient, self.layers[0][0].weight) if inputs else None


def least_squares(
    layers: Sequence[Layer],
    batches: Iterable[tuple[Tensor, Tensor]],
    optimizer: torch.optim.Optimizer,
    average: Average | None = None,
) -> list[Tensor]:
    """Fit an MLP to minibatches of inputs and targets, one gradient step each: the mean squared errors before it.

    `average` is called on the gradients and the error of each step; minibatches may then have no rows here.
    """
    network, losses = FusedMLP(layers), []
    gradients = [parameter.grad for parameter in optimizer.param_groups[0]["params"]]
    with torch.no_grad():
        for x, y in batches:
            difference = network.forward(x).sub_(y)
            losses.append(
                difference.square().sum() / max(difference.numel(), 1) if average else difference.square().mean()
            )
            network.backward(difference.mul_(2 / max(difference.numel(), 1)))
            if average is not None:
                average([*gradients, losses[-1]], len(x))
            adam_step(optimizer)
    return losses


def adam_step(optimizer: torch.optim.Optimizer) -> None:
    """`optimizer.step()` of a fused Adam with one group, without the bookkeeping that takes longer than the step."""
    (group,) = optimizer.param_groups
    states = [optimizer.state[parameter] for parameter in group["params"]]
    plain = not (group["amsgrad"] or group["maximize"] or group["weight_decay"])
    if not (plain and group["fused"] and all(states)):
        optimizer.step()  # also the first step, which makes the state
        return
    with torch.no_grad():
        adam(
            group["params"],
            [parameter.grad for parameter in group["params"]],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=True,
            amsgrad=False,
            maximize=False,
            weight_decay=0.0,
            lr=group["lr"],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            eps=group["eps"],
        )
