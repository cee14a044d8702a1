"""Small MLPs on the CPU, without the overhead that costs more than their arithmetic: for policies and for bonuses.

`FusedMLP` learns: manual forward and backward passes that reuse their storage, because for networks of this size
autograd's bookkeeping and fresh memory take as long as the matrix products. `InferenceMLP` acts: weights prepared once
per rollout. The numbers are those of the ordinary modules up to rounding.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from lpm.nn.inputs import ObservationInput
from lpm.nn.networks import Encoder, SkipMLP

Layer = tuple[nn.Linear, nn.Module | None]
"""A linear layer and what follows it."""
STORED_SIZES = 8
"""Numbers of rows that storage is kept for."""
NARROW = 32
"""Inputs below which the transposed product is several times faster."""


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
    """Forward and backward pass of an MLP; gradients replace those of the parameters.

    A call records one node for autograd, so that a loss on several networks takes one `loss.backward()`.
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.layers = list(layers)
        for parameter in (p for layer, _ in layers for p in (layer.weight, layer.bias)):
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self._storage: dict[int, tuple[list[Tensor], list[Tensor]]] = {}
        self._inputs: list[Tensor] = []

    def __call__(self, x: Tensor) -> Tensor:
        """`forward`, whose gradient autograd hands to `backward`."""
        return _Fused.apply(self.layers[0][0].weight, self, x)  # type: ignore[no-any-return,no-untyped-call]

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
    def backward(self, gradient: Tensor) -> None:
        """Set the parameters' gradients from that of the last `forward`'s outputs."""
        storage = self._storage[gradient.shape[0]][1]
        for i in reversed(range(len(self.layers))):
            (layer, act), x, result = self.layers[i], self._inputs[i], self._inputs[i + 1]
            assert layer.weight.grad is not None
            assert layer.bias.grad is not None
            # the activations are monotone: their results tell where they were flat
            back, into = torch.ops.aten, storage[i]
            if isinstance(act, nn.Tanh):
                gradient = back.tanh_backward.grad_input(gradient, result, grad_input=into)
            elif isinstance(act, nn.ReLU):
                gradient = back.threshold_backward.grad_input(gradient, result, 0, grad_input=into)
            elif isinstance(act, nn.LeakyReLU):
                slope = act.negative_slope
                gradient = back.leaky_relu_backward.grad_input(gradient, result, slope, True, grad_input=into)
            if x.shape[1] < NARROW:
                layer.weight.grad.copy_(torch.mm(x.t(), gradient).t())
            else:
                torch.mm(gradient.t(), x, out=layer.weight.grad)
            torch.sum(gradient, dim=0, out=layer.bias.grad)
            if i:
                gradient = torch.mm(gradient, layer.weight, out=storage[i - 1])


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, _: Tensor, network: FusedMLP, x: Tensor) -> Tensor:
        ctx.network = network
        return network.forward(x).detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, None]:
        ctx.network.backward(gradients[0])
        return None, None, None


class InferenceMLP:
    """Observations to the outputs of an MLP with its present parameters: one or two operations per layer.

    σ(u) replaces tanh: with h = 2 σ(u) − 1 the factors 2 and −1 go into the weights and biases around it.
    """

    def __init__(self, observations: ObservationInput, layers: Sequence[Layer]) -> None:
        self._layers: list[tuple[Tensor, Tensor, Callable[[Tensor], Tensor] | None]] = []
        squashed = False
        with torch.no_grad():
            for linear, act in layers:
                weight, bias = linear.weight.t(), linear.bias.detach().clone()
                if squashed:
                    weight, bias = 2 * weight, bias - weight.sum(0)
                squashed = isinstance(act, nn.Tanh)
                if squashed:
                    weight, bias = 2 * weight, 2 * bias
                self._layers.append((weight.contiguous(), bias, torch.sigmoid_ if squashed else act))
        assert not squashed, "the last layer is linear"
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
        for weight, bias, act in self._layers:
            x = torch.addmm(bias, x, weight)
            if act is not None:
                x = act(x)
        return x


def least_squares(
    layers: Sequence[Layer], batches: Iterable[tuple[Tensor, Tensor]], optimizer: torch.optim.Optimizer
) -> list[Tensor]:
    """Fit an MLP to minibatches of inputs and targets, one gradient step each: the mean squared errors before it."""
    network, losses = FusedMLP(layers), []
    with torch.no_grad():
        for x, y in batches:
            difference = network.forward(x).sub_(y)
            losses.append(difference.square().mean())
            network.backward(difference.mul_(2 / difference.numel()))
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
