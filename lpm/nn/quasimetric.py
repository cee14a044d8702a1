"""Temporal distances: a metric residual network (MRN) trained by contrast between states and their futures."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lpm.core.spaces import Spaces
from lpm.nn.networks import Encoder, mlp


def mrn_distance(x: Tensor, y: Tensor, epsilon: float = 1e-8) -> Tensor:
    """d(x → y) of embeddings (..., D): max of relu(x − y) over the first half, plus the Euclidean distance of the rest.

    Not symmetric, satisfies the triangle inequality. `epsilon` keeps the square root differentiable at 0, so that
    d(x → x) is √epsilon.

    >>> import torch
    >>> x, y = torch.tensor([1.0, 0, 0, 0]), torch.tensor([0.0, 0, 3, 4])
    >>> mrn_distance(x, y).item(), mrn_distance(y, x).item()
    (6.0, 5.0)
    """
    half = x.shape[-1] // 2
    one_way = (x[..., :half] - y[..., :half]).amax(-1).clamp_min(0)
    both_ways = (x[..., half:] - y[..., half:]).square().sum(-1)
    return one_way + torch.sqrt(both_ways + epsilon)


def mrn_distances(x: Tensor, y: Tensor, epsilon: float = 1e-8) -> Tensor:
    """d(x_i → y_j) of all pairs of rows (B, D) and (C, D), (B, C): `mrn_distance` without its (B, C, D) tensors.

    The largest difference is found without gradient, a few rows at a time; the gradient then flows through the two
    numbers it is made of.
    """
    half = x.shape[1] // 2
    a, b = x[:, :half], y[:, :half]
    with torch.no_grad():
        columns = b.T.contiguous()
        largest = torch.cat([(rows.unsqueeze(2) - columns).max(1).indices for rows in torch.split(a, 32)])
    one_way = (a.gather(1, largest) - b.gather(1, largest.T).T).clamp_min(0)
    both_ways = torch.cdist(x[:, half:], y[:, half:], compute_mode="donot_use_mm_for_euclid_dist")
    return one_way + torch.sqrt(both_ways.square() + epsilon)


def contrastive_loss(energy: Tensor, logsumexp_weight: float = 0.0) -> Tensor:
    """Symmetric InfoNCE of energies (B, B) whose diagonal holds the true pairs; 0-d."""
    labels = torch.arange(energy.shape[0], device=energy.device)
    forward = nn.functional.cross_entropy(energy, labels)
    backward = nn.functional.cross_entropy(energy.T, labels)
    loss = (forward + backward) / 2
    if logsumexp_weight:
        loss = loss + logsumexp_weight * energy.logsumexp(1).square().mean()
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
        features = self.encoder(y)
        return self.potential(features).T - mrn_distances(self.embed(x), self.head(features))  # type: ignore[no-any-return]
