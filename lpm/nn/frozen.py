"""Random features that are never trained: what closed-form models see, and the target that RND imitates."""

import math
from collections.abc import Sequence

import torch
from gymnasium.spaces import Box
from torch import Tensor, nn

from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.closed_form import median_distance
from lpm.nn.experience import Experience, LeastSquares, Loss, Prepared
from lpm.nn.fused import Layer, linear_layers
from lpm.nn.inputs import HashedSample, ObservationInput, in_chunks, same_rows
from lpm.nn.networks import Activation, Encoder, mlp, orthogonal_

KNEE = 10.0
"""Vectors: robust units up to which the scale is as good as linear; logarithmic beyond."""
LARGEST = 1e30
"""What a division that overflows counts as."""
SIDE = 4
"""Pixels on a side of the picture that is made of an image: few enough that noise in single pixels averages out."""
MIN_SCALE = 1e-3
"""Least scale of pixels, which are between 0 and 1."""
CHUNK = 1 << 21
"""Numbers that are encoded at a time: what a cache holds."""
MOST_ACTIONS = 32
"""Discrete actions with a regression each; more share one."""


class FrozenFeatures(nn.Module):
    """φ: raw observations to features in two steps, `encoded` (fixed from the start) and `scaled` (once known).

    Images: a grey picture of SIDE × SIDE pixels, each the mean of its part and of all channels; then one shift per
    pixel and one common scale. Vectors and grids: as they come; then the robust scale. `projected` makes at most
    `features` numbers of wide ones, by a random matrix.
    """

    shift: Tensor
    scale: Tensor
    projection: Tensor

    def __init__(self, spaces: Spaces, features: int) -> None:
        super().__init__()
        vector = spaces.kind != "image"
        if vector:
            size = math.prod(spaces.input_shape)
            spaces = Spaces(Box(-math.inf, math.inf, (size,)), spaces.action)
        self.input = ObservationInput(spaces, "robust" if vector else "none")
        self.numbers = math.prod(spaces.input_shape)
        self._sized(self.numbers if vector else SIDE**2, features, vector)

    def _sized(self, raw_width: int, features: int, vector: bool) -> None:
        self.raw_width, self.width = raw_width, min(raw_width, features)
        wide = (self.raw_width, self.width) if self.raw_width > self.width else (0, 0)
        self.register_buffer("projection", torch.randn(wide) / math.sqrt(self.width))
        self.sample = None if vector else HashedSample(2048, (self.raw_width,))
        self.register_buffer("shift", torch.zeros(0 if vector else self.raw_width))
        self.register_buffer("scale", torch.ones(()))

    def encoded(self, obs: Tensor) -> Tensor:
        """Raw observations (B, ...) to (B, W)."""
        if self.sample is None:
            return obs.reshape(len(obs), self.raw_width).float()
        grey = self.input.raw(obs).mean(1, keepdim=True)
        return nn.functional.adaptive_avg_pool2d(grey, SIDE).flatten(1)

    def observe(self, rows: Tensor) -> None:
        """Take encoded rows into the statistics that `fix` makes final."""
        statistics = self.input.moments if self.sample is None else self.sample
        assert isinstance(statistics, HashedSample)
        statistics.observe(rows)

    def fix(self) -> None:
        """Fix shift and scale."""
        if self.sample is None:
            self.input.commit()
            return
        rows = self.sample.rows
        self.shift.copy_(rows.mean(0))
        self.scale.copy_((rows - self.shift).square().mean().sqrt().clamp_min(MIN_SCALE))

    def scaled(self, rows: Tensor) -> Tensor:
        """Encoded rows (..., W) in units of their scale."""
        moments = self.input.moments
        if moments is None:
            return (rows - self.shift) / self.scale
        return KNEE * ((rows - moments.mean) / (KNEE * moments.std)).clamp(-LARGEST, LARGEST).asinh()

    def projected(self, rows: Tensor) -> Tensor:
        """Scaled rows (..., W) to φ (..., D)."""
        return rows @ self.projection if len(self.projection) else rows

    def of_block(self, batch: Transitions, *, scaled: bool) -> tuple[Tensor, Tensor]:
        """Encoded, or also scaled, observations and successors of a block, each (T, N, W); zero where not valid.

        An observation that is the successor of the step before is not encoded again.
        """
        known = torch.zeros_like(batch.valid)
        if batch.shape[0] > 1:
            pairs = (part.reshape(known[1:].numel(), -1) for part in (batch.obs[1:], batch.next_obs[:-1]))
            known[1:] = batch.valid[:-1] & same_rows(*pairs).view_as(known[1:])
        new = batch.valid & ~known
        following = self._encode(batch.next_obs, batch.valid, scaled)
        seen = self._encode(batch.obs, new, scaled)
        seen[1:] = torch.where(known[1:].unsqueeze(2), following[:-1], seen[1:])
        return seen * batch.valid.unsqueeze(2), following

    def _encode(self, frames: Tensor, which: Tensor, scaled: bool) -> Tensor:
        """The chosen frames of (T, N, ...) as (T, N, W); zero for the others."""
        rows, index = frames.flatten(0, 1), which.flatten().nonzero().squeeze(1)
        features = torch.zeros(len(rows), self.raw_width, device=rows.device)
        if len(index):
            chunk = max(CHUNK // self.numbers, 1)
            found = in_chunks(lambda part: self.encoded(rows.index_select(0, part)), index, chunk=chunk)
            features[index] = self.scaled(found) if scaled else found
        return features.view(*which.shape, -1)


class Design(nn.Module):
    """What regressions see: columns (φ, action code, 1, Fourier features), and the number of the regression."""

    frequency: Tensor
    phase: Tensor
    length: Tensor

    def __init__(self, spaces: Spaces, width: int, fourier: int) -> None:
        """`fourier` random features of vectors and grids besides φ itself; of images none, linear models do."""
        super().__init__()
        self.spaces = spaces
        count = math.prod(spaces.factors) if spaces.factors else 1
        apart = bool(spaces.factors) and count <= MOST_ACTIONS
        self.actions = count if apart else 1
        self.code_width = 0 if apart else spaces.action_width
        fourier = fourier if spaces.kind != "image" else 0
        self.one = width + self.code_width
        self.columns = self.one + 1 + fourier
        self.register_buffer("frequency", torch.randn(fourier, self.one))
        self.register_buffer("phase", 2 * math.pi * torch.rand(fourier))
        self.register_buffer("length", torch.ones(()))

    def fix(self, phi: Tensor) -> None:
        """Measure the length scale of the Fourier features on the first states."""
        self.length.fill_(median_distance(phi, 256))

    def forward(self, phi: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Rows of φ (B, D) and raw actions to columns (B, K) and numbers of regressions (B,)."""
        number = torch.zeros(len(phi), dtype=torch.int64, device=phi.device)
        if self.actions > 1:
            index = self.spaces.action_index(action)
            for factor, size in enumerate(self.spaces.factors):
                number = number * size + index[:, factor]
        code = self.spaces.encode_action(action) if self.code_width else phi[:, :0]
        seen = torch.cat([phi, code], 1)
        parts = [seen, phi.new_ones(len(phi), 1)]
        if len(self.phase):
            angle = torch.addmm(self.phase, seen, self.frequency.T / self.length)
            parts.append(angle.cos_().mul_(math.sqrt(2 / len(self.phase))))
        return torch.cat(parts, 1), number


# ---- random network distillation ------------------------------------------------------------------------------
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
