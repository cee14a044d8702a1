"""Bonuses for the stream that need no network: each is its method's reward under perfect estimates.

They read the exact learner and, where the name says so, the truth. Their correlation with information gain is
therefore a property of the *idea*, free of any optimiser; networks can only be plugged in beside them.
"""

from collections.abc import Callable

import numpy as np

from lpm_paper.theory.grid import FloatArray, IntArray
from lpm_paper.theory.linear import realised_gain
from lpm_paper.theory.noise import BiasPayout, log_error_mean
from lpm_paper.theory.stream import Belief, BonusFactory, Learner, World


class ExactBonus:
    """Common parts: prediction errors of any past model. Nothing to learn, so `update` does nothing."""

    def __init__(self, world: World, learner: Learner) -> None:
        self.world = world
        self.learner = learner

    def squared_error(self, belief: Belief, obs: FloatArray, action: IntArray, next_obs: FloatArray) -> FloatArray:
        """Sum over outputs of the squared error of the belief's mean."""
        return np.asarray(np.sum((next_obs - self.world.features(obs, action) @ belief.mean) ** 2, axis=1))

    def log_mse(self, belief: Belief, obs: FloatArray, action: IntArray, next_obs: FloatArray) -> FloatArray:
        """eps = log mean squared error."""
        return np.asarray(np.log(self.squared_error(belief, obs, action, next_obs) / self.world.config.dim))

    def update(self, obs: FloatArray, action: IntArray, next_obs: FloatArray) -> None:
        """The shared learner is the only thing that learns."""


class ExactErrorModel(ExactBonus):
    """LPM with g = E over o' of the previous model's log error, which needs the truth.

    With `averaged` ε is averaged over o' too: no luck of the outcome is left.
    """

    def __init__(self, world: World, learner: Learner, payout: BiasPayout, averaged: bool = False) -> None:
        super().__init__(world, learner)
        self._payout, self._averaged = payout, averaged

    def mean_log_mse(self, belief: Belief, obs: FloatArray, action: IntArray) -> FloatArray:
        """E over o' of log MSE under the belief's mean."""
        noise_var, dim = self.world.noise_var(action), self.world.config.dim
        bias = self.world.features(obs, action) @ (belief.mean - self.world.weights)
        excess = self._payout(np.sum(bias**2, axis=1) / noise_var)
        return np.asarray(np.log(noise_var) + log_error_mean(dim) + excess)

    def score(self, obs: FloatArray, action: IntArray, next_obs: FloatArray) -> FloatArray:
        """g - eps."""
        g, now = self.mean_log_mse(self.learner.past(1), obs, action), self.learner.current
        return g - (self.mean_log_mse(now, obs, action) if self._averaged else self.log_mse(now, obs, action, next_obs))


class TabularErrorModel(ExactBonus):
    """LPM with a table for g: the mean of the last cycle's errors per (region, bin of the first coordinate)."""

    def __init__(self, world: World, learner: Learner, bins: int = 4) -> None:
        super().__init__(world, learner)
        self._bins = bins
        self._pending: FloatArray | None = None
        self._table: FloatArray = np.zeros(2 * bins)

    def _cell(self, obs: FloatArray, action: IntArray) -> IntArray:
        place = np.clip((obs[:, 0] + 1) / 2 * self._bins, 0, self._bins - 1).astype(np.int64)
        return action * self._bins + place

    def score(self, obs: FloatArray, action: IntArray, next_obs: FloatArray) -> FloatArray:
        """g - eps; the errors are kept as numbers for the next fit of g."""
        self._pending = self.log_mse(self.learner.current, obs, action, next_obs)
        return self._table[self._cell(obs, action)] - self._pending

    def update(self, obs: FloatArray, action: IntArray, next_obs: FloatArray) -> None:
        """g = mean error per cell; a cell without errors keeps its value."""
        if self._pending is None:
            raise ValueError("update must follow score on the same cycle")
        cells = self._cell(obs, action)
        count = np.bincount(cells, minlength=len(self._table))
        total = np.bincount(cells, weights=self._pending, minlength=len(self._table))
        self._table = np.where(count > 0, total / np.maximum(count, 1), self._table)


class Scored(ExactBonus):
    """A bonus that is one expression of the exact learner."""

    def __init__(self, world: World, learner: Learner, expression: Callable[..., FloatArray]) -> None:
        super().__init__(world, learner)
        self._expression = expression

    def score(self, obs: FloatArray, action: IntArray, next_obs: FloatArray) -> FloatArray:
        """The expression of this bonus and of the cycle."""
        return self._expression(self, obs, action, next_obs)


def realised(belief: Belief, features: FloatArray, next_obs: FloatArray, noise_var: FloatArray) -> FloatArray:
    """KL(posterior || prior) of each sample, for a regression that assumes this noise."""
    q = belief.variance(features) / noise_var
    squared = (next_obs - features @ belief.mean) ** 2
    return np.asarray(np.sum(realised_gain(q[:, None], squared, noise_var[:, None]), axis=1))


class OneSigmaVime(ExactBonus):
    """VIME's usual likelihood: its own regression with one assumed noise level everywhere."""

    def __init__(self, world: World, learner: Learner, sigma: float) -> None:
        super().__init__(world, learner)
        self._sigma = sigma
        self._own = Learner(2 * world.config.features, world.config.dim)

    def score(self, obs: FloatArray, action: IntArray, next_obs: FloatArray) -> FloatArray:
        """Gain under the assumed noise."""
        noise_var = np.full(len(obs), self._sigma**2)
        return realised(self._own.current, self.world.features(obs, action), next_obs, noise_var)

    def update(self, obs: FloatArray, action: IntArray, next_obs: FloatArray) -> None:
        """Learn with the assumed noise."""
        self._own.update(self.world.features(obs, action), next_obs, np.full(len(obs), self._sigma**2))


def exact_factories(dim: int) -> dict[str, BonusFactory]:
    """The bonuses of this module by name, for streams of output dimension `dim`."""
    payout = BiasPayout(dim)

    def pointwise(lag: int) -> BonusFactory:
        """log MSE of an old snapshot minus log MSE now, on the same o'."""
        return scored(lambda b, *step: b.log_mse(b.learner.past(lag), *step) - b.log_mse(b.learner.current, *step))

    def scored(expression: Callable[..., FloatArray]) -> BonusFactory:
        return lambda world, learner, seed: Scored(world, learner, expression)

    def mse(b: Scored, obs: FloatArray, action: IntArray, next_obs: FloatArray) -> FloatArray:
        return b.squared_error(b.learner.current, obs, action, next_obs) / dim

    return {
        "LPM, exact g": lambda world, learner, seed: ExactErrorModel(world, learner, payout),
        "LPM, tabular g": lambda world, learner, seed: TabularErrorModel(world, learner),
        "LPM, mean over o'": lambda world, learner, seed: ExactErrorModel(world, learner, payout, averaged=True),
        "pointwise, lag 1": pointwise(1),
        "pointwise, lag 5": pointwise(5),
        "forward error": scored(mse),
        # the true aleatoric variance in place of a learnt one
        "AMA, true variance": scored(lambda b, o, a, then: mse(b, o, a, then) - b.world.noise_var(a)),
        # infinitely many posterior samples disagree by the epistemic variance
        "ensemble, limit": scored(lambda b, o, a, then: b.learner.current.variance(b.world.features(o, a))),
        # the target itself, hence correlation 1
        "VIME, true sigma": scored(
            lambda b, o, a, then: realised(b.learner.current, b.world.features(o, a), then, b.world.noise_var(a))
        ),
        "VIME, sigma 0.5": lambda world, learner, seed: OneSigmaVime(world, learner, sigma=0.5),
    }
