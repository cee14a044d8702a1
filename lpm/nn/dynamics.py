"""The dynamics model f(o, a), one that also predicts its variance, the error model g(o, a), and inverse dynamics."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from lpm.core.spaces import Spaces
from lpm.nn.experience import Prepared
from lpm.nn.fused import Layer, linear_layers
from lpm.nn.networks import Activation, Decoder, Encoder, SkipMLP, mlp, pixel_error


def mean_square(prediction: Tensor, target: Tensor) -> Tensor:
    """Mean of squared differences over everything but the first axis, (B,)."""
    return (prediction - target).square().flatten(1).mean(1)


def image_encoder(spaces: Spaces, features: int | None, act: Activation) -> tuple[Encoder | None, int]:
    """The encoder of images, none of vectors; and the width of what comes out."""
    if spaces.kind == "vector":
        return None, math.prod(spaces.input_shape)
    encoder = Encoder(spaces.input_shape, features, act=act)
    return encoder, encoder.features


def refuse_for_images(spaces: Spaces, **given: bool) -> None:
    """Refuse settings that only models of vectors have."""
    for name in (name for name, value in given.items() if value):
        raise ValueError(f"{name}: only for vector observations, got {spaces.observation}")


class DynamicsModel(nn.Module):
    """Predicts the next observation from the (preprocessed) observation and the encoded action.

    Images: convolutions, a linear layer (if `features`), hidden layers that also see the action, a transposed
    convolution decoder, with a sigmoid if `squash`. Vectors: an MLP; `skip` lets its last layer see the input,
    `delta` makes it predict the change.
    """

    def __init__(
        self,
        spaces: Spaces,
        *,
        hidden: Sequence[int] | None = None,
        features: int | None = 512,
        act: Activation = "relu",
        skip: bool = False,
        delta: bool = False,
        squash: bool = True,
    ) -> None:
        super().__init__()
        self.delta = delta
        self.encoder, width = image_encoder(spaces, features, act)
        inputs = width + spaces.action_width
        if self.encoder is None:
            build = SkipMLP if skip else mlp
            self.body: nn.Module = build(inputs, (128, 128) if hidden is None else hidden, width)
            return
        refuse_for_images(spaces, skip=skip, delta=delta)
        hidden = (512,) if hidden is None else hidden
        self.body = mlp(inputs, hidden, None)
        self.decoder = Decoder(hidden[-1] if hidden else inputs, spaces.input_shape, squash=squash)

    def forward(self, x: Tensor, action: Tensor) -> Tensor:
        """(B, *input_shape) and (B, action width) to the predicted next (B, *input_shape)."""
        if self.encoder is None:
            change = self.body(torch.cat([x, action], dim=1))
            return x + change if self.delta else change  # type: ignore[no-any-return]
        return self.decoder(self._hidden(x, action))  # type: ignore[no-any-return]

    def _hidden(self, x: Tensor, action: Tensor) -> Tensor:
        assert self.encoder is not None
        return self.body(torch.cat([self.encoder(x), action], dim=1))  # type: ignore[no-any-return]

    def errors(self, x: Tensor, action: Tensor, target: Tensor) -> Tensor:
        """Mean squared error of each prediction, (B,)."""
        if self.encoder is None:
            return mean_square(self(x, action), target)
        shown, target = self.decoder.beside(self._hidden(x, action), target)
        return mean_square(torch.sigmoid(shown) if self.decoder.squash else shown, target)

    def loss(self, x: Tensor, action: Tensor, target: Tensor) -> Tensor:
        if self.encoder is None:
            return self.errors(x, action, target).mean()
        return pixel_error(*self.decoder.beside(self._hidden(x, action), target), squash=self.decoder.squash)

    def layers(self) -> list[Layer] | None:
        return linear_layers(self.body) if self.encoder is None else None

    def problem(self, x: Tensor, action: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cat([x, action], dim=1), target - x if self.delta else target


class GaussianDynamicsModel(nn.Module):
    """Mean and log-variance of every dimension of the next observation, from a shared trunk.

    Vectors: an MLP trunk, then for each head the `head_hidden` layers and a linear one; `skip` lets the last layer of
    the mean head, and only that one, see the input. Images: encoder and hidden layers, then one decoder per head.
    `bounds` limits the log-variance smoothly, so that its gradient never dies.
    """

    def __init__(
        self,
        spaces: Spaces,
        *,
        hidden: Sequence[int] | None = None,
        head_hidden: Sequence[int] = (),
        features: int | None = 512,
        act: Activation = "relu",
        skip: bool = False,
        bounds: tuple[float, float] | None = (-10.0, 10.0),
        squash: bool = True,
    ) -> None:
        super().__init__()
        self.bounds = bounds
        self.skip = skip
        self.encoder, outputs = image_encoder(spaces, features, act)
        inputs = outputs + spaces.action_width
        if hidden is None:
            hidden = (256, 256) if self.encoder is None else (512,)
        self.trunk = mlp(inputs, hidden)
        width = hidden[-1] if hidden else inputs
        self.mean_hidden, self.variance_hidden = mlp(width, head_hidden), mlp(width, head_hidden)
        if self.encoder is None:
            width = head_hidden[-1] if head_hidden else width
            self.mean_head: nn.Module = nn.Linear(width + inputs if skip else width, outputs)
            self.variance_head: nn.Module = nn.Linear(width, outputs)
        else:
            refuse_for_images(spaces, skip=skip, head_hidden=bool(head_hidden))
            self.mean_head = Decoder(width, spaces.input_shape, squash=squash)
            self.variance_head = Decoder(width, spaces.input_shape, squash=False)

    def forward(self, x: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """(B, *input_shape) and (B, action width) to mean and log-variance, (B, *input_shape) each."""
        seen = torch.cat([x if self.encoder is None else self.encoder(x), action], dim=1)
        trunk = self.trunk(seen)
        mean = self.mean_hidden(trunk)
        mean = self.mean_head(torch.cat([seen, mean], dim=1) if self.skip else mean)
        log_variance = self.variance_head(self.variance_hidden(trunk))
        return mean, log_variance if self.bounds is None else soft_clamp(log_variance, *self.bounds)


def soft_clamp(x: Tensor, low: float, high: float) -> Tensor:
    """Nearly x between the bounds, at most log(1 + exp(low − high)) beyond them, and with a gradient everywhere."""
    x = high - nn.functional.softplus(high - x)
    return low + nn.functional.softplus(x - low)


class ErrorModel(nn.Module):
    """g(o, a) = mean + scale · h(o, a): predicts the error that f made before its last update.

    With `affine`, h starts at zero, and before every fit `calibrate` moves the mean by the average residual on the
    queue: rewards are centred from the start instead of showing an arbitrary initial output, a fall of all errors is
    followed at once, and h only has to learn how inputs differ.
    """

    mean: Tensor
    scale: Tensor

    def __init__(
        self,
        spaces: Spaces,
        *,
        hidden: Sequence[int] | None = None,
        features: int | None = 512,
        act: Activation = "relu",
        outputs: int = 1,
        affine: bool = True,
        encoder: Encoder | None = None,
    ) -> None:
        super().__init__()
        self.affine = affine
        # a shared encoder belongs to f: kept out of this module's parameters, and its features are detached
        self._shared = [encoder] if encoder is not None else []
        self.encoder, width = image_encoder(spaces, features, act) if encoder is None else (None, encoder.features)
        if hidden is None:
            hidden = (128, 64) if spaces.kind == "vector" else (256, 128)
        self.body = mlp(width + spaces.action_width, hidden, outputs)
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("scale", torch.ones(()))
        if affine:
            for parameter in self.body[-1].parameters():
                nn.init.zeros_(parameter)

    def forward(self, x: Tensor, action: Tensor) -> Tensor:
        """(B, *input_shape) and (B, action width) to (B, outputs)."""
        if self._shared:
            with torch.no_grad():
                x = self._shared[0](x)
        elif self.encoder is not None:
            x = self.encoder(x)
        return self.mean + self.scale * self.body(torch.cat([x, action], dim=1))  # type: ignore[no-any-return]

    @torch.no_grad()
    def calibrate(self, errors: Tensor, predicted: Tensor) -> None:
        """Remove the average residual, and measure h in units of the errors' spread; the rest of g stays as it was.

        Residuals, not errors: a queue with more easy transitions must not lower the prediction for hard ones.
        """
        scale = errors.std(correction=0).clamp_min(1e-3)
        for parameter in self.body[-1].parameters():
            parameter.mul_(self.scale / scale)
        self.mean += (errors - predicted).mean()
        self.scale.copy_(scale)

    def loss(self, x: Tensor, action: Tensor, target: Tensor) -> Tensor:
        """Squared error of every output against the same stored error, in units of `scale`."""
        return ((self(x, action) - target.unsqueeze(1)) / self.scale).square().mean()  # type: ignore[no-any-return]

    def layers(self) -> list[Layer] | None:
        return linear_layers(self.body) if self.encoder is None and not self._shared else None

    def problem(self, x: Tensor, action: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cat([x, action], dim=1), ((target - self.mean) / self.scale).unsqueeze(1)


# ---- inverse dynamics: which action led from one observation to the next -------------------------------------------
def encode_both(encode: Callable[[Tensor], Tensor], x: Tensor, x_next: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors encoded in one pass; images in two, because the larger pass would leave the processor's cache."""
    if x.ndim == 4:
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
