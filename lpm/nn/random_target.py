"""Random network distillation: a trained network imitates a frozen random one."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lpm.core.spaces import Spaces
from lpm.nn.experience import Experience, LeastSquares, Loss, Prepared
from lpm.nn.fused import Layer, linear_layers
from lpm.nn.networks import Activation, Encoder, mlp, orthogonal_


def random_encoder(
    input_shape: tuple[int, ...],
    features: int = 512,
    *,
    hidden: Sequence[int] = (128, 128),
    act: Activation = "leaky_relu",
) -> Encoder:
    """A frozen random encoder with a linear last layer."""
    encoder = Encoder(input_shape, features, hidden=hidden, act=act, final_activation=False)
    orthogonal_(encoder)
    encoder.requires_grad_(False)
    return encoder


class RandomTargetModel(nn.Module):
    """A frozen random target and a deeper predictor of it; the error is large where nothing was learnt.

    Images: the paper's convolutions to `features`; the predictor has `extra` more layers of that width. Vectors: an
    MLP of the `hidden` widths instead of the convolutions. `channels` keeps only the last channels of an image: 1 is
    the last frame of a stack of grey ones.
    """

    def __init__(
        self,
        spaces: Spaces,
        *,
        features: int = 512,
        hidden: Sequence[int] = (128, 128),
        extra: int = 1,
        act: Activation = "leaky_relu",
        channels: int | None = None,
    ) -> None:
        super().__init__()
        self.features = features
        self.channels = channels
        shape = spaces.input_shape
        if channels is not None:
            if len(shape) != 3 or channels > shape[0]:
                raise ValueError(f"channels: expected an image with at least {channels} channels, got {shape}")
            shape = (channels, *shape[1:])
        self.target = random_encoder(shape, features, hidden=hidden, act=act)
        self.predictor = nn.Sequential(Encoder(shape, features, hidden=hidden, act=act, final_activation=extra > 0))
        if extra:
            self.predictor.append(mlp(features, (features,) * (extra - 1), features))
        orthogonal_(self.predictor)

    def truth(self, x: Tensor) -> Tensor:
        """The target's features of observations, (B, features)."""
        return self.target(self._seen(x))  # type: ignore[no-any-return]

    def gap(self, x: Tensor, truth: Tensor | None = None) -> Tensor:
        """Predicted minus true features of observations, (B, features); `truth` if it is known already."""
        return self.predictor(self._seen(x)) - (self.truth(x) if truth is None else truth)  # type: ignore[no-any-return]

    def distances(self, rows: Prepared) -> Tensor:
        """Mean squared feature error at the next observations, (B,)."""
        return self.gap(rows.x_next).square().mean(1)

    def _seen(self, x: Tensor) -> Tensor:
        return x if self.channels is None else x[:, -self.channels :]

    def errors(self, x: Tensor, action: Tensor, target: Tensor) -> Tensor:
        """Mean squared feature error on the next observation `target`, (B,); `x` and `action` play no part."""
        return self.gap(target).square().mean(1)

    def loss(self, x: Tensor, action: Tensor, target: Tensor) -> Tensor:
        return self.errors(x, action, target).mean()

    def distillation(self, experience: Experience) -> Loss:
        """The loss on what came since the last update. The target never changes: its features are computed once."""
        truth = experience.at_fresh(lambda rows: self.truth(rows.x_next))
        if layers := self.layers():
            return LeastSquares(layers, lambda rows: (rows.x_next, truth[rows.index]))
        return lambda rows: self.gap(rows.x_next, truth[rows.index]).square().mean(1)

    def layers(self) -> list[Layer] | None:
        """The predictor's layers, if it is an MLP: its loss is then the mean squared error on a `problem`."""
        return linear_layers(self.predictor)

    @torch.no_grad()
    def problem(self, x: Tensor, action: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        return target, self.truth(target)


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

    def loss(self, x: Tensor, action: Tensor, target: Tensor) -> Tensor:
        """Squared error against the stored error."""
        return (self(x, action) - target.unsqueeze(1)).square().mean()  # type: ignore[no-any-return]

    def layers(self) -> list[Layer] | None:
        return linear_layers(self.body)

    @torch.no_grad()
    def problem(self, x: Tensor, action: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cat([self._model[0].target(x), action], dim=1), target.unsqueeze(1)
