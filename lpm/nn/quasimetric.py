"""Temporal distances: a metric residual network (MRN) trained by contrast between states and their futures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lpm.core.spaces import Spaces
from lpm.nn.networks import Encoder, mlp

TINY = torch.finfo(torch.float32).tiny


def mrn_distances(x: Tensor, y: Tensor, epsilon: float = 1e-8) -> Tensor:
    """d(x_i → y_j) of all pairs of rows (..., B, D) and (..., C, D), (..., B, C), with gradients to both.

    d(x → y) is the maximum of relu(x − y) over the first half of D, plus the Euclidean distance of the rest: not
    symmetric, with the triangle inequality. `epsilon` keeps the square root differentiable at 0, so that d(x → x) is
    √epsilon.

    >>> import torch
    >>> x, y = torch.tensor([[1.0, 0, 0, 0]]), torch.tensor([[0.0, 0, 3, 4]])
    >>> mrn_distances(x, y).item(), mrn_distances(y, x).item()
    (6.0, 5.0)
    """
    if x.ndim == 2:
        return mrn_distances(x.unsqueeze(0), y.unsqueeze(0), epsilon).squeeze(0)
    distances: Tensor = _AllPairs.apply(x, y, epsilon)  # type: ignore[no-untyped-call]
    return distances


class _AllPairs(torch.autograd.Function):
    """Dimension by dimension, without (B, C, D) tensors: what is passed over again and again stays in the cache."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, epsilon: float) -> Tensor:
        half = x.shape[2] // 2
        a, b = x[..., :half].mT.contiguous(), y[..., :half].mT.contiguous()
        largest = x.new_full((*x.shape[:2], y.shape[1]), -torch.inf)
        difference = torch.empty_like(largest)
        for d in range(half):
            torch.sub(a[:, d, :, None], b[:, d, None, :], out=difference)
            torch.maximum(largest, difference, out=largest)
        # a product in float64 keeps the digits of small distances
        p, q = x[..., half:].double(), y[..., half:].double()
        squares = p.square().sum(2).unsqueeze(2) + q.square().sum(2).unsqueeze(1)
        root = squares.baddbmm_(p, q.mT, alpha=-2).to(x.dtype).clamp_min_(0).add_(epsilon).sqrt_()
        ctx.save_for_backward(x, y, largest, root)
        return largest.clamp_min(0).add_(root)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        x, y, largest, root = ctx.saved_tensors
        gradient, half = gradients[0], x.shape[2] // 2
        for_x, for_y = torch.empty_like(x), torch.empty_like(y)
        a, b = x[..., :half].mT.contiguous(), y[..., :half].mT.contiguous()
        left = gradient * (largest >= 0)  # what no dimension has taken yet: the first that is largest takes it
        difference, taken = torch.empty_like(largest), torch.empty_like(largest)
        for d in range(half):
            torch.sub(a[:, d, :, None], b[:, d, None, :], out=difference)
            # 0 where the dimension is the largest, else below: faster than a comparison
            torch.ops.aten.threshold_backward.grad_input(left, difference.sub_(largest), -TINY, grad_input=taken)
            left.sub_(taken)
            for_x[..., d] = taken.sum(2)
            for_y[..., d] = taken.sum(1).neg_()
        # where states (nearly) coincide the terms are large and cancel
        share, p, q = (gradient / root).double(), x[..., half:].double(), y[..., half:].double()
        for_x[..., half:] = share.sum(2, keepdim=True) * p - share @ q
        for_y[..., half:] = share.sum(1).unsqueeze(2) * q - share.mT @ p
        return for_x, for_y, None


def contrastive_loss(energy: Tensor, logsumexp_weight: float = 0.0) -> Tensor:
    """Symmetric InfoNCE of energies (B, B) whose diagonal holds the true pairs; 0-d."""
    rows, columns = energy.logsumexp(1), energy.logsumexp(0)
    loss = ((rows + columns) / 2 - energy.diagonal()).mean()
    if logsumexp_weight:
        loss = loss + logsumexp_weight * rows.square().mean()
    return loss


def truncated_geometric(remaining: Tensor, discount: float, uniform: Tensor) -> Tensor:
    """Steps ahead j in 1..remaining with P(j) ∝ discount^j, by inversion of `uniform` numbers in [0, 1)."""
    log_discount = math.log(discount)
    mass = -torch.expm1(remaining.double() * log_discount)
    steps = torch.ceil(torch.log1p(-mass * uniform.double()) / log_discount).long()
    return steps.clamp_min(1).minimum(remaining)


def last_of_segment(ends: Tensor) -> Tensor:
    """For each row (B,), the index of the first row at or after it that ends its segment; the last row always does."""
    rows = torch.arange(len(ends), device=ends.device)
    own = torch.where(ends, rows, len(ends) - 1)
    return own.flip(0).cummin(0).values.flip(0)


class QuasimetricModel(nn.Module):
    """Encoder with two heads: the embedding that distances are taken of, and the potential c(y)."""

    def __init__(
        self,
        spaces: Spaces,
        *,
        features: int = 256,
        embedding: int = 64,
        hidden: Sequence[int] = (256,),
        layer_norm: bool = True,
    ) -> None:
        super().__init__()
        encoder = Encoder(spaces.input_shape, features, hidden=hidden)
        self.encoder = nn.Sequential(encoder, nn.LayerNorm(features)) if layer_norm else nn.Sequential(encoder)
        self.head = mlp(features, hidden, embedding)
        self.potential = mlp(features, hidden, 1)

    def embed(self, x: Tensor) -> Tensor:
        """Preprocessed observations (B, *input_shape) to embeddings (B, D)."""
        return self.head(self.encoder(x))  # type: ignore[no-any-return]

    def energies(self, x: Tensor, y: Tensor) -> Tensor:
        """e(x_i, y_j) = c(y_j) − d(x_i → y_j) of all pairs of a batch, (B, B)."""
        features = self.encoder(torch.cat([x, y]))
        start, end = self.head(features).chunk(2)
        return self.potential(features[len(x) :]).T - mrn_distances(start, end)  # type: ignore[no-any-return]
