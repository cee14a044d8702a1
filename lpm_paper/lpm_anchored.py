"""LPM with an error model that goes back to what f's error was before it learnt anything, where there is no data."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from lpm.bonuses.lpm import MINIWORLD_F, MNIST_F, AlgorithmOne, QueueConfig, shared_encoder
from lpm.core.registry import register
from lpm.core.settings import Count, NonNegative, Positive, Share, reject_unused
from lpm.nn.closed_form import BayesianRegression, RandomFeatures, median_distance
from lpm.nn.experience import Prepared
from lpm.nn.frozen import random_encoder
from lpm_paper import lpm_release

ENCODED = 128  # features of the frozen random encoder of images
LEAST = 32  # transitions that floor, anchor and length scale are measured on, and that make a whole update


@dataclass(frozen=True)
class LPMAnchoredConfig(QueueConfig):
    """Settings of LPM with an anchored g: those of f, B and D, and of g."""

    form: Literal["log", "exp", "linear"] = "log"
    """Reward: "log" g − log(MSE + floor) (the paper's), or one of `lpm_release`."""
    relative_floor: NonNegative = 0.1
    """Added to `error_floor`, as a share of the median error of predicting the mean of the first observations: what is
    learnt better than this is hardly rewarded. For the log and exp forms."""
    shared_encoder: bool = False
    """Let g read f's image encoder instead of a frozen random one."""
    anchor_features: Count = 512
    """Random Fourier features of g."""
    anchor_scale: Positive = 0.25
    """Length scale of g, as a multiple of the median distance between the inputs of its first fit."""
    anchor_forgetting: Share = 0.98
    """What g keeps of old data at each update: the counterpart of the queue's length. An update of fewer than 32
    transitions takes less away, in proportion."""
    anchor_ridge: Positive = 1.0
    """Noise of an error over the prior variance of g."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.form == "linear":
            reject_unused(self, "with form='linear'", "relative_floor")


class AnchoredErrorModel(nn.Module):
    """g(x) = m₀ + w · φ(x), with the posterior mean of w in closed form.

    φ are random Fourier features of a Gaussian kernel, so g is a Gaussian-process regression in F dimensions: near
    data it follows the data, further away than the length scale it goes back to m₀. The length scale is a multiple of
    the median distance between the inputs of the first fit. Everything is a buffer; there is no optimiser.
    """

    anchor: Tensor  # m₀
    rows: Tensor  # how many rows the caller had seen at the last fit

    def __init__(
        self, inputs: int, *, features: int = 512, length_scale: float, forgetting: float, ridge: float
    ) -> None:
        """Build inside `seeded`. `ridge` is the noise variance over the variance of g's prior."""
        super().__init__()
        self.length_scale, self.forgetting = length_scale, forgetting
        self.features = RandomFeatures(inputs, features)
        self.posterior = BayesianRegression(features, 1, prior_precision=ridge)
        self.register_buffer("anchor", torch.zeros(()))
        self.register_buffer("rows", torch.zeros((), dtype=torch.int64))

    @property
    def fitted(self) -> bool:
        """Whether there is a length scale yet."""
        return bool(self.features.scale > 0)

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs) to (B, 1); m₀ everywhere before the first fit."""
        if not self.fitted:
            return self.anchor.expand(len(x), 1)
        g: Tensor = self.anchor + self.features(x) @ self._mean
        return g.unsqueeze(1)

    @property
    def _mean(self) -> Tensor:
        return self.posterior.mean.squeeze(1).to(self.anchor.dtype)

    def forget_all(self) -> None:
        """Go back to before the first fit."""
        self.features.scale.zero_()
        self.posterior.forget(0.0)
        self.posterior.refresh()

    @torch.no_grad()
    def fit(self, x: Tensor, errors: Tensor) -> Tensor:
        """Forget a little, then condition on rows (B, inputs) and their errors (B,); the squared residual before.

        Rows without finite features or error, as a diverged encoder makes them, are left out.
        """
        if not self.fitted:
            self.features.scale.fill_(self.length_scale * median_distance(x))
        phi = self.features(x)
        sound = phi.isfinite().all(1) & errors.isfinite()
        phi, difference = phi[sound], errors[sound] - self.anchor
        loss: Tensor = (difference - phi @ self._mean).square().mean()
        self.posterior.forget(self.forgetting ** min(1.0, len(x) / LEAST))
        self.posterior.precision.add_((phi.T @ phi).double())
        self.posterior.moment.add_((phi.T @ difference).double().unsqueeze(1))
        self.posterior.refresh()
        return loss


@register("lpm_anchored")
class LPMAnchored(AlgorithmOne):
    """Learning progress with an anchored g: off the data, what the error of the untrained f was."""

    label = "LPM, anchored g"
    family = "progress"
    use = "LPM whose error model starts from the dynamics model's prior."
    Config = LPMAnchoredConfig
    config: LPMAnchoredConfig
    reference = "docs/beyond.md; Algorithm 1 of Hou, An & Du 2026 with another g"
    variants = {"mnist": MNIST_F, "miniworld": MINIWORLD_F}
    auto_normalise = "robust"

    error_model: AnchoredErrorModel

    def _build_error_model(self) -> None:
        c, spaces = self.config, self.spaces
        width, self.encoder = math.prod(spaces.input_shape), None
        if c.shared_encoder:
            width = shared_encoder(spaces, self.dynamics).features
        elif spaces.kind != "vector":
            width, self.encoder = ENCODED, random_encoder(spaces.input_shape, ENCODED)
        settings = {"length_scale": c.anchor_scale, "forgetting": c.anchor_forgetting, "ridge": c.anchor_ridge}
        self.error_model = AnchoredErrorModel(width + spaces.action_width, features=c.anchor_features, **settings)

    def _error_inputs(self, rows: Prepared) -> Tensor:
        x = rows.x
        if self.config.shared_encoder:
            x = shared_encoder(self.spaces, self.dynamics)(x)
        elif self.encoder is not None:
            x = self.encoder(x)
        return torch.cat([x.flatten(1), rows.code], dim=1)

    def _predict_error(self, rows: Prepared) -> Tensor:
        return self.error_model(self._error_inputs(rows))  # type: ignore[no-any-return]

    def _target(self, mse: Tensor) -> Tensor:
        form = self.config.form
        return super()._target(mse) if form == "log" else lpm_release.target(form, mse, self.floor)

    def _progress(self, g: Tensor, mse: Tensor) -> Tensor:
        form = self.config.form
        return super()._progress(g, mse) if form == "log" else lpm_release.reward(form, g, mse, self.floor)

    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        return {} if self.buffer.total < max(self.config.warmup, LEAST) else super()._update(generator)

    def _before_first_update(self) -> None:
        """Fix the floor, then m₀: the mean error of the untrained f on what came so far. D and g start again."""
        self.error_model.forget_all()
        if self.config.form != "linear" and self.config.relative_floor:
            self._raise_floor(self.config.relative_floor)
            self.queue.clear()
        mse = self.experience.at(self.buffer.last(len(self.buffer)), self._errors)
        self.error_model.anchor.copy_(self._target(mse).mean())

    def _fit_error_model(self, slots: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """One exact update on the stored errors that g has not seen; nothing is drawn."""
        unseen = self.buffer.total - int(self.error_model.rows)
        self.error_model.rows.fill_(self.buffer.total)
        self.fits += 1
        slots = slots[max(len(slots) - unseen, 0) :]
        if not len(slots):
            return {}
        x = self.experience.at(slots, self._error_inputs)
        return {"error_model_loss": self.error_model.fit(x, self.buffer["error"][slots])}
