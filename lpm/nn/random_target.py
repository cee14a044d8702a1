"""Random network distillation: a trained network imitates a frozen random one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lpm.core.spaces import Spaces
from lpm.nn.dynamics import mean_square
from lpm.nn.networks import Activation, Encoder, mlp


class RandomTargetModel(nn.Module):
    """A frozen random target and a deeper predictor of it; the error is large where nothing was learnt.

    Images: the paper's convolutions to `features`; the predictor has `extra` more layers of that width. Vectors: an
    MLP of the `hidden` widths instead of the convolutions.
    """

    def __init__(
        self,
        spaces: Spaces,
        *,
        features: int = 512,
        hidden: Sequence[int] = (128, 128),
        extra: int = 1,
        act: Activation = "leaky_relu",
    ) -> None:
        super().__init__()
        self.features = features
        shape = spaces.input_shape
        self.target = Encoder(shape, features, hidden=hidden, act=act, final_activation=False)
        self.target.requires_grad_(False)
        self.predictor = nn.Sequential(Encoder(shape, features, hidden=hidden, act=act, final_activation=extra > 0))
        if extra:
            self.predictor.append(mlp(features, (features,) * (extra - 1), features))

    def errors(self, x: Tensor, action: Tensor, target: Tensor) -> Tensor:
        """Mean squared feature error on the next observation `target`, (B,); `x` and `action` play no part."""
        return mean_square(self.predictor(target), self.target(target))


class RandomTargetErrorModel(nn.Module):
    """The error model of the authors' Montezuma code: it reads the target's features of the next observation."""

    def __init__(self, model: RandomTargetModel, spaces: Spaces, *, hidden: Sequence[int] = (512, 512)) -> None:
        super().__init__()
        self._model = [model]  # not a submodule: the frozen target is saved once, with its owner
        self.body = mlp(model.features + spaces.action_width, hidden, 1)

    def forward(self, x: Tensor, action: Tensor) -> Tensor:
        """Next observation and encoded action to (B, 1)."""
        with torch.no_grad():
            features = self._model[0].target(x)
        return self.body(torch.cat([features, action], dim=1))  # type: ignore[no-any-return]

    def calibrate(self, errors: Tensor) -> None:
        """Nothing to calibrate: the release uses the raw output."""

    def loss(self, x: Tensor, action: Tensor, target: Tensor) -> Tensor:
        """Squared error against the stored error."""
        difference: Tensor = self(x, action) - target.unsqueeze(1)
        return difference.square().mean()
