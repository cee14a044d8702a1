"""Controllable features: an encoder trained to tell which action led from one observation to the next."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lpm.core.spaces import Spaces
from lpm.nn.experience import Prepared
from lpm.nn.inverse import InverseModel
from lpm.nn.networks import Activation, Encoder


class InverseFeatures(nn.Module):
    """φ with its inverse model; `layer_norm` fixes the scale of φ, which the inverse loss leaves free."""

    def __init__(
        self,
        spaces: Spaces,
        features: int,
        *,
        hidden: Sequence[int] = (256, 256),
        inverse_hidden: Sequence[int] = (256,),
        act: Activation = "relu",
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        encoder = Encoder(spaces.input_shape, features, hidden=hidden, act=act, final_activation=False)
        self.encoder = nn.Sequential(encoder)
        if layer_norm:
            self.encoder.append(nn.LayerNorm(features, elementwise_affine=False))
        self.inverse = InverseModel(spaces, features, inverse_hidden)

    def forward(self, x: Tensor) -> Tensor:
        """φ of preprocessed observations, (B, features)."""
        return self.encoder(x)  # type: ignore[no-any-return]

    def pair(self, rows: Prepared) -> tuple[Tensor, Tensor]:
        """φ(o) and φ(o'), encoded in one pass."""
        first, second = self(torch.cat([rows.x, rows.x_next])).chunk(2)
        return first, second

    def loss(self, rows: Prepared) -> Tensor:
        """Inverse loss of each row, (B,)."""
        return self.inverse.loss(*self.pair(rows), rows.action)
