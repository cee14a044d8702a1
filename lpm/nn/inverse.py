"""Inverse dynamics: which action led from one observation to the next, and features learnt by predicting it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from lpm.core.spaces import Spaces
from lpm.nn.experience import Prepared
from lpm.nn.networks import Encoder, mlp

IMAGES = 4  # axes of a batch


def encode_both(encode: Callable[[Tensor], Tensor], x: Tensor, x_next: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors encoded in one pass; images in two, because the larger pass would leave the processor's cache."""
    if x.ndim == IMAGES:
        return encode(x), encode(x_next)
    first, second = encode(torch.cat([x, x_next])).chunk(2)
    return first, second


class InverseModel(nn.Module):
    """Predicts the raw action from φ(o) and φ(o'), for every action space.

    The loss is the negative log-likelihood of the action without its constant. Discrete factors: the sum of their
    cross-entropies. Continuous: half the sum of squared differences to the encoded action, a Gaussian of unit
    variance. Either way it is reduced to one number per sample, so that it can be masked or weighted.
    """

    def __init__(self, spaces: Spaces, features: int, hidden: Sequence[int] = (256,)) -> None:
        super().__init__()
        self.spaces = spaces
        self.continuous = spaces.action_kind == "continuous"
        outputs = spaces.action_width if self.continuous else sum(spaces.factors)
        self.body = mlp(2 * features, hidden, outputs)

    def forward(self, phi: Tensor, phi_next: Tensor) -> Tensor:
        """Features (B, F) twice to logits of all factors, or to the encoded action, (B, outputs)."""
        return self.body(torch.cat([phi, phi_next], dim=1))  # type: ignore[no-any-return]

    def loss(self, phi: Tensor, phi_next: Tensor, action: Tensor) -> Tensor:
        """Loss of each sample, (B,), from raw actions."""
        output: Tensor = self(phi, phi_next)
        if self.continuous:
            return 0.5 * (output - self.spaces.encode_action(action)).square().sum(1)
        index = self.spaces.action_index(action)
        parts = [
            nn.functional.cross_entropy(logits, index[:, i], reduction="none")
            for i, logits in enumerate(torch.split(output, list(self.spaces.factors), dim=1))
        ]
        return torch.stack(parts).sum(0)


class InverseFeatures(nn.Module):
    """φ with its inverse model; `layer_norm` fixes the scale of φ, which the inverse loss leaves free."""

    def __init__(
        self,
        spaces: Spaces,
        features: int,
        *,
        hidden: Sequence[int] = (256, 256),
        inverse_hidden: Sequence[int] = (256,),
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        encoder = Encoder(spaces.input_shape, features, hidden=hidden, final_activation=False)
        self.encoder = nn.Sequential(encoder)
        if layer_norm:
            self.encoder.append(nn.LayerNorm(features, elementwise_affine=False))
        self.inverse = InverseModel(spaces, features, inverse_hidden)

    def forward(self, x: Tensor) -> Tensor:
        """φ of preprocessed observations, (B, features)."""
        return self.encoder(x)  # type: ignore[no-any-return]

    def pair(self, rows: Prepared) -> tuple[Tensor, Tensor]:
        """φ(o) and φ(o'), (B, F) each."""
        return encode_both(self, rows.x, rows.x_next)

    def loss(self, rows: Prepared) -> Tensor:
        """Inverse loss of each row, (B,)."""
        return self.inverse.loss(*self.pair(rows), rows.action)
