"""Information gain about the dynamics: VIME's objective (Houthooft et al. 2016) in an exact Bayesian linear model."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from lpm.bonuses._learner import Learner
from lpm.core.registry import register
from lpm.core.settings import Count, Positive, Settings
from lpm.core.transitions import Transitions
from lpm.nn.closed_form import BayesianRegression, RandomFeatures, expected_gain, realised_gain
from lpm.nn.experience import Experience, Prepared
from lpm.nn.frozen import random_encoder
from lpm.nn.inputs import RangeWatch, RunningMoments
from lpm.nn.networks import Encoder


@dataclass(frozen=True)
class BayesGainConfig(Settings):
    """Settings of the information gain. "Code" is openai/vime, whose model is a Bayesian neural network."""

    gain: Literal["realised", "expected"] = "realised"
    """The reward: the KL between the posteriors after and before the transition (paper, Eq. 5), or its expectation
    before the next observation is seen, which noise cannot raise."""
    features: Count = 128
    """Random features of the linear model. Code: a network with 32 hidden units."""
    noise: Positive = 0.5
    """σ of the likelihood, in units of the standardised next observation (code: 5.0)."""
    prior: Positive = 1.0
    """Standard deviation of the weights' prior (code: 0.5, for a network)."""
    length_scale: Positive | None = None
    """Of the random Fourier features. None: the root of the number of inputs."""
    state: Count = 32
    """Images only: width of the frozen random features that stand for the state. Code: no images."""
    warmup: Count = 1
    """Transitions to observe before the statistics of states freeze; rewards are 0 before."""


@register("bayes_gain")
class BayesGain(Learner):
    """Information gain: nats that the transition teaches a Bayesian linear model on random features, per output."""

    label = "Bayesian gain"
    family = "disagreement"
    use = "Information gain of Bayesian linear dynamics on random features."
    Config = BayesGainConfig
    config: BayesGainConfig
    reference = "the objective of Houthooft et al. 2016, VIME: Variational Information Maximizing Exploration"

    def _build(self) -> None:
        spaces, config = self.spaces, self.config
        vector = spaces.kind == "vector"
        self.experience = Experience(spaces, self.rollout, clip=math.inf if vector else None)  # any unit: see moments
        state = math.prod(spaces.input_shape) if vector else config.state
        inputs = state + spaces.action_width
        scale = math.sqrt(inputs) if config.length_scale is None else config.length_scale
        self.encoder: Encoder | None = None if vector else random_encoder(spaces.input_shape, config.state)
        self.features = RandomFeatures(inputs, config.features, scale, torch.float64)
        self.moments = RunningMoments((state,))
        self.watch = RangeWatch(self.moments)
        self.model = BayesianRegression(config.features, state, noise=config.noise, prior_precision=1 / config.prior**2)

    def _score(self, batch: Transitions) -> Tensor:
        if not self.moments.ready:
            return torch.zeros(batch.shape, device=batch.device)
        return self.experience.each(self._gain, batch)

    def _state(self, x: Tensor) -> Tensor:
        """What stands for the state before standardisation: the vector itself, or random features of the image."""
        return x if self.encoder is None else self.encoder(x)

    def _design(self, rows: Prepared) -> tuple[Tensor, Tensor]:
        """Features of (o, a) and standardised states at o', in float64."""
        state, target = (self.moments.normalise(self._state(x), 10.0) for x in (rows.x, rows.x_next))
        return self.features(torch.cat([state, rows.code], dim=1)), target.double()

    def _gain(self, rows: Prepared) -> Tensor:
        x, y = self._design(rows)
        q = self.model.ratio(x)
        if self.config.gain == "expected":
            return expected_gain(q)
        return realised_gain(q.unsqueeze(1), self.model.squares(x, y)).mean(1)

    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        # A scale of states that turns out too narrow is measured again, and what was learnt in its units is forgotten.
        self.watch.observe(self.experience.at_fresh(lambda rows: self._state(rows.x_next)))
        if self.moments.ready:
            if self.watch.review():
                self.model.forget(0.0)
        elif self.moments.total < self.config.warmup:
            return {}
        else:
            self.watch.freeze()
        before = self.model.log_determinant()
        self.experience.at_fresh(self._condition)
        self.model.refresh()
        return {"information": 0.5 * (self.model.log_determinant() - before)}

    def _condition(self, rows: Prepared) -> Tensor:
        x, y = self._design(rows)
        self.model.add(x, y)
        return rows.index
