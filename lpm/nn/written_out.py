"""Inverse and forward models on features, their passes written out as `fused.py` does for a single MLP."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from lpm.nn.experience import Loss, Prepared, WrittenOut
from lpm.nn.fused import STORED_SIZES, FusedMLP, linear_layers
from lpm.nn.inverse import InverseFeatures, InverseModel
from lpm.nn.stacked import StackedForward


class FusedForward:
    """Forward and backward pass of a `StackedForward`; gradients go where the parameters' are.

    What the weights do to the features and to the action is added up, so that nothing is put side by side.
    """

    def __init__(self, model: StackedForward) -> None:
        self.layers = [*model.hidden, model.out]
        self.members = len(model.out.weight)
        self.slope = model.act.negative_slope
        for parameter in model.parameters():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self._storage: dict[int, tuple[list[Tensor], list[Tensor]]] = {}
        self._inputs: list[Tensor] = []
        self._code = torch.empty(0)

    @staticmethod
    def can(model: StackedForward) -> bool:
        """Whether this model is of the kind: on the CPU, no residual blocks."""
        return not len(model.blocks) and model.out.weight.device.type == "cpu"

    @torch.no_grad()
    def forward(self, phi: Tensor, code: Tensor) -> Tensor:
        """(B, features) and (B, action width) to (K, B, features), which the next call overwrites."""
        rows = len(phi)
        if rows not in self._storage:
            if len(self._storage) >= STORED_SIZES:
                self._storage.clear()
            values = [phi.new_empty(self.members, rows, layer.bias.shape[2]) for layer in self.layers]
            self._storage[rows] = values, [torch.empty_like(value) for value in values]
        self._code = code
        self._inputs = [phi.expand(self.members, *phi.shape)]
        for layer, out in zip(self.layers, self._storage[rows][0], strict=True):
            x, width = self._inputs[-1], self._inputs[-1].shape[2]
            for k in range(self.members):
                torch.addmm(layer.bias[k], code, layer.weight[k, width:], out=out[k])
                out[k].addmm_(x[k], layer.weight[k, :width])
            if layer is not self.layers[-1]:
                nn.functional.leaky_relu_(out, self.slope)
            self._inputs.append(out)
        return self._inputs[-1]

    @torch.no_grad()
    def backward(self, gradient: Tensor, *, inputs: bool = False) -> Tensor | None:
        """Set the parameters' gradients from that of the last `forward`'s outputs; that of `phi` if wanted."""
        storage = self._storage[gradient.shape[1]][1]
        for i in reversed(range(len(self.layers))):
            layer, x = self.layers[i], self._inputs[i]
            width = x.shape[2]
            assert layer.weight.grad is not None
            assert layer.bias.grad is not None
            if i < len(self.layers) - 1:
                gradient = torch.ops.aten.leaky_relu_backward.grad_input(
                    gradient, self._inputs[i + 1], self.slope, True, grad_input=storage[i]
                )
            torch.sum(gradient, dim=1, keepdim=True, out=layer.bias.grad)
            for k in range(self.members):
                torch.mm(x[k].t(), gradient[k], out=layer.weight.grad[k, :width])
                torch.mm(self._code.t(), gradient[k], out=layer.weight.grad[k, width:])
                if i:
                    torch.mm(gradient[k], layer.weight[k, :width].t(), out=storage[i - 1][k])
            if i:
                gradient = storage[i - 1]
        if not inputs:
            return None
        weight = self.layers[0].weight[:, : self._inputs[0].shape[2]]
        result: Tensor = torch.bmm(gradient, weight.mT).sum(0)
        return result


class FusedInverse:
    """φ of both observations, the inverse model on it, and the way back."""

    def __init__(self, encoder: FusedMLP, inverse: InverseModel, body: FusedMLP) -> None:
        self.encoder, self.inverse, self.body = encoder, inverse, body
        self._gradient = torch.empty(0)

    @classmethod
    def of(cls, encoder: nn.Module, inverse: InverseModel) -> FusedInverse | None:
        """None if these are not MLPs on the CPU, or if there is but one action, which has no code."""
        first, second = linear_layers(encoder), linear_layers(inverse.body)
        if not inverse.spaces.action_width:
            return None
        return None if first is None or second is None else cls(FusedMLP(first), inverse, FusedMLP(second))

    @torch.no_grad()
    def forward(self, rows: Prepared) -> tuple[Tensor, Tensor, Tensor]:
        """φ(o), φ(o') (B, F) and the inverse loss of each row, (B,)."""
        # taking turns, so that the two φ of a transition lie side by side, as the inverse model wants them
        both = torch.stack([rows.x.flatten(1), rows.x_next.flatten(1)], 1).flatten(0, 1)
        phi = self.encoder.forward(both)
        loss, self._gradient = self.inverse.error(self.body.forward(phi.view(len(rows.action), -1)), rows.code)
        pair = phi.view(len(rows.action), 2, -1)
        return pair[:, 0], pair[:, 1], loss

    @torch.no_grad()
    def backward(self, weight: float, first: Tensor | None = None, second: Tensor | None = None) -> None:
        """Set all gradients: of `weight` times the sum of the losses, and of what else moves φ(o) and φ(o')."""
        gradient = self.body.backward(self._gradient.mul_(weight), inputs=True)
        assert gradient is not None
        pair = gradient.view(len(gradient), 2, -1)
        for place, other in ((0, first), (1, second)):
            if other is not None:
                pair[:, place] += other
        self.encoder.backward(pair.flatten(0, 1))


def inverse_loss(features: InverseFeatures) -> Loss:
    """The loss of features that learn from nothing but their inverse model, without autograd where that can be."""
    model = FusedInverse.of(features.encoder, features.inverse)
    if model is None:
        return features.loss

    def descend(rows: Prepared) -> Tensor:
        loss = model.forward(rows)[2]
        model.backward(1 / len(loss))
        return loss.mean()

    return WrittenOut(descend)


def forward_loss(model: StackedForward, phi: Tensor, phi_next: Tensor, keep: Callable[[Tensor], Tensor] | None) -> Loss:
    """Mean squared error of predicted features, summed over members, on known features of all rows (B, F).

    `keep` makes of the errors (K, B) the weight that each has.
    """

    def loss(rows: Prepared) -> Tensor:
        errors: Tensor = (model(phi[rows.index], rows.code) - phi_next[rows.index]).square().mean(2)
        return (errors if keep is None else errors * keep(errors)).sum(0)

    if not FusedForward.can(model):
        return loss
    fused = FusedForward(model)

    def descend(rows: Prepared) -> Tensor:
        difference = fused.forward(phi[rows.index], rows.code).sub_(phi_next[rows.index])
        errors = difference.square().mean(2)
        scale = 2 / (errors.shape[1] * difference.shape[2])
        if keep is None:
            difference.mul_(scale)
        else:
            weight = keep(errors)
            errors *= weight
            difference.mul_(weight.mul(scale).unsqueeze(2))
        fused.backward(difference)
        return errors.sum(0).mean()

    return WrittenOut(descend)
