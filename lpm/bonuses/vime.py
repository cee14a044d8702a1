"""Information gain about the dynamics, exactly, in a Bayesian linear model (after VIME, Houthooft et al. 2016)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from lpm.bonuses._settings import expect, expect_at_least, expect_choice
from lpm.core.bonus import IntrinsicReward
from lpm.core.registry import register
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.bayes import BayesianRegression, RandomFeatures, expected_gain, realised_gain
from lpm.nn.experience import Experience, Rows
from lpm.nn.networks import Encoder
from lpm.nn.random_target import random_encoder
from lpm.nn.seeding import seeded
from lpm.nn.statistics import RunningMoments


@dataclass(frozen=True)
class VIMEConfig:
    """Settings of the information gain. "Code" is openai/vime, whose model is a Bayesian neural network."""

    gain: Literal["realised", "expected"] = "realised"
    """What is paid: the KL between the posteriors after and before the transition (paper, Eq. 5), or its expectation
    before the next observation is seen, which noise cannot raise."""
    features: int = 128
    """Random features of the linear model. Code: a network with 32 hidden units."""
    noise: float = 0.5
    """σ of the likelihood, in units of the standardised next observation (code: 5.0)."""
    prior: float = 1.0
    """Standard deviation of the weights' prior (code: 0.5, for a network)."""
    length_scale: float | None = None
    """Of the random Fourier features. None: the root of the number of inputs."""
    state: int = 32
    """Images only: width of the frozen random features that stand for the state. Code: no images."""
    warmup: int = 1
    """Transitions to observe before the statistics of states freeze; nothing is paid before."""

    def __post_init__(self) -> None:
        expect_choice(self, "gain", "realised", "expected")
        expect_at_least(self, 1, "features", "state", "warmup")
        expect(self, "length_scale", self.length_scale is None or self.length_scale > 0, "more than 0, or None")
        for name in ("noise", "prior"):
            expect(self, name, getattr(self, name) > 0, "more than 0")


@register("vime")
class VIME(IntrinsicReward):
    """Information gain: nats that the transition teaches a Bayesian linear model on random features, per output."""

    Config = VIMEConfig
    reference = "Houthooft et al. 2016, VIME: Variational Information Maximizing Exploration"

    def __init__(
        self, spaces: Spaces, config: VIMEConfig, *, num_envs: int = 1, rollout_steps: int = 128, seed: int = 0
    ) -> None:
        super().__init__(spaces, num_envs=num_envs, rollout_steps=rollout_steps, seed=seed)
        self.config = config
        self.experience = Experience(spaces, num_envs * rollout_steps)
        vector = spaces.kind == "vector"
        state = math.prod(spaces.input_shape) if vector else config.state
        inputs = state + spaces.action_width
        scale = math.sqrt(inputs) if config.length_scale is None else config.length_scale
        with seeded(self.generator):
            self.encoder: Encoder | None = None if vector else random_encoder(spaces.input_shape, config.state)
            self.features = RandomFeatures(inputs, config.features, scale)
        self.moments = RunningMoments((state,))
        self.model = BayesianRegression(config.features, state, noise=config.noise, prior=config.prior)

    @property
    def _ready(self) -> bool:
        """Whether states can be put in their final scale, which is frozen at the first update."""
        return bool(self.moments.commits > 0)

    def _score(self, batch: Transitions) -> Tensor:
        if not self._ready:
            return torch.zeros(batch.shape, device=batch.device)
        return self.experience.each(self._gain, batch)

    def _observe(self, batch: Transitions) -> None:
        self.experience.observe(batch)

    def _state(self, x: Tensor) -> Tensor:
        """What stands for the state before standardisation: the vector itself, or random features of the image."""
        return x if self.encoder is None else self.encoder(x)

    def _design(self, rows: Rows) -> tuple[Tensor, Tensor]:
        """Features of (o, a) and standardised states at o', in float64."""
        state, target = (self.moments.normalise(self._state(x), 10.0) for x in (rows.x, rows.x_next))
        return self.features(torch.cat([state, rows.code], dim=1)), target.double()

    def _gain(self, rows: Rows) -> Tensor:
        x, y = self._design(rows)
        q = self.model.ratio(x)
        if self.config.gain == "expected":
            return expected_gain(q)
        return realised_gain(q.unsqueeze(1), self.model.squares(x, y)).mean(1)

    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        if not self.experience.begin_update():
            return {}
        if not self._freeze_statistics():
            self.experience.end_update()
            return {}
        before = self.model.log_determinant()
        self.experience.each_fresh(self._learn)
        self.model.refresh()
        self.experience.end_update()
        return {"information": 0.5 * (self.model.log_determinant() - before)}

    def _freeze_statistics(self) -> bool:
        """Take the scale of states from the first rollouts and keep it: the posterior is in its units."""
        if not self._ready:
            self.moments.observe(self.experience.each_fresh(lambda rows: self._state(rows.x_next)))
            if self.moments.total >= self.config.warmup:
                self.moments.commit()
        return self._ready

    def _learn(self, rows: Rows) -> Tensor:
        x, y = self._design(rows)
        self.model.add(x, y)
        return rows.index
