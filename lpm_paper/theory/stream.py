"""A learning stream whose information gain is known exactly, and the rank correlation of any bonus with it.

Transitions (o, a, o') arrive in cycles. `a` picks the region: 0 is nearly deterministic, 1 is noisy; o is uniform
on a cube, so the observation alone says nothing about the region. o' = W' phi(o, a) + sigma(a) z with fixed random
features phi and Gaussian W, and the learner is Bayesian regression with the true prior and noise: its information
gains are exact. All scores of a cycle use the model as it was before the cycle.

A bonus is anything with `score(obs, action, next_obs)`, which gives rewards (n,) by the models as they were before the
cycle, and `update(obs, action, next_obs)`, which learns from it, after the shared learner. A `BonusFactory` gets the
world, the learner and a seed, and may ignore the first two.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import rankdata

from lpm_paper.theory.grid import FloatArray, IntArray
from lpm_paper.theory.linear import expected_gain, realised_gain, retrospective_gain

TARGETS = ("realised", "expected", "retrospective")
RESAMPLES = 2000


@dataclass(frozen=True)
class StreamConfig:
    """One stream."""

    name: str
    """Label in tables and figures."""
    dim: int
    """Dimension of o and of o'."""
    features: int
    """Random features per region."""
    length_scale: float
    """Length scale of the random features."""
    cycles: int
    """Model updates."""
    cycle: int = 16
    """Transitions per model update."""
    noise: tuple[float, float] = (0.02, 1.0)
    """Noise standard deviation of the deterministic and the noisy region."""
    warmup: int = 2
    """Cycles left out of the correlations: g is fitted for the first time after cycle 0, so r means progress from
    cycle 1 on."""


ONE_DIM = StreamConfig("1-D", dim=1, features=48, length_scale=0.05, cycles=40)
FIVE_DIM = StreamConfig("5-D", dim=5, features=96, length_scale=1.0, cycles=40)


class World:
    """The true process: random Fourier features gated by the region, weights drawn from the prior N(0, I)."""

    def __init__(self, config: StreamConfig, rng: np.random.Generator) -> None:
        self.config = config
        self._frequency = rng.standard_normal((config.dim, config.features)) / config.length_scale
        self._phase = rng.uniform(0.0, 2 * np.pi, size=config.features)
        self.weights: FloatArray = rng.standard_normal((2 * config.features, config.dim))

    def features(self, obs: FloatArray, action: IntArray) -> FloatArray:
        """phi(o, a), shape (n, 2 * features): the block of the region, zeros elsewhere."""
        wave = np.sqrt(2 / self.config.features) * np.cos(obs @ self._frequency + self._phase)
        out = np.zeros((len(obs), 2 * self.config.features))
        for region in (0, 1):
            block = slice(region * self.config.features, (region + 1) * self.config.features)
            out[action == region, block] = wave[action == region]
        return out

    def noise_var(self, action: IntArray) -> FloatArray:
        """sigma(a)^2."""
        return np.asarray(np.square(self.config.noise)[action])

    def sample(self, rng: np.random.Generator, count: int) -> tuple[FloatArray, IntArray, FloatArray]:
        """`count` transitions (o, a, o')."""
        obs = rng.uniform(-1.0, 1.0, size=(count, self.config.dim))
        action = rng.integers(0, 2, size=count)
        noise = np.sqrt(self.noise_var(action))[:, None] * rng.standard_normal((count, self.config.dim))
        return obs, action, self.features(obs, action) @ self.weights + noise


@dataclass(frozen=True)
class Belief:
    """Posterior over the weights: one covariance shared by all outputs."""

    mean: FloatArray
    """Shape (k, D)."""
    cov: FloatArray
    """Shape (k, k)."""

    def variance(self, features: FloatArray) -> FloatArray:
        """Epistemic variance phi' S phi of every output."""
        return np.asarray(np.sum((features @ self.cov) * features, axis=1))


class Learner:
    """Exact Bayesian regression on the stream, keeping every past belief."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self._precision: FloatArray = np.eye(inputs)
        self._information: FloatArray = np.zeros((inputs, outputs))
        self.history: list[Belief] = [Belief(np.zeros((inputs, outputs)), np.eye(inputs))]

    @property
    def current(self) -> Belief:
        """f^(tau)."""
        return self.history[-1]

    def past(self, lag: int) -> Belief:
        """f^(tau - lag), or the prior if there were fewer updates."""
        return self.history[max(0, len(self.history) - 1 - lag)]

    @property
    def log_det_precision(self) -> float:
        """log det of the posterior precision; the prior's is 0."""
        return float(np.linalg.slogdet(self._precision)[1])

    def update(self, features: FloatArray, next_obs: FloatArray, noise_var: FloatArray) -> None:
        """One model update with a cycle of transitions."""
        weighted = features / noise_var[:, None]
        self._precision = self._precision + weighted.T @ features
        self._information = self._information + weighted.T @ next_obs
        cov = np.linalg.inv(self._precision)
        self.history.append(Belief(cov @ self._information, 0.5 * (cov + cov.T)))


BonusFactory = Callable[[World, Learner, int], Any]
"""Builds a bonus for one run from the world (truth), the exact learner, and a seed."""


@dataclass
class StreamRun:
    """Everything measured along one stream, one row per transition."""

    cycle: IntArray
    """Index of the model version that scored the transition."""
    region: IntArray
    """0 deterministic, 1 noisy."""
    targets: dict[str, FloatArray]
    """Exact information: `realised`, `expected` (this sample), `retrospective` (last update, about f(o, a))."""
    scores: dict[str, FloatArray] = field(default_factory=dict)
    """Rewards per bonus."""


def exact_targets(
    world: World, learner: Learner, obs: FloatArray, action: IntArray, next_obs: FloatArray
) -> dict[str, FloatArray]:
    """Information gains of single samples given f^(tau), and of the last update about f(o, a)."""
    features, noise_var = world.features(obs, action), world.noise_var(action)
    variance = learner.current.variance(features)
    outputs = world.config.dim
    squared = np.sum((next_obs - features @ learner.current.mean) ** 2, axis=1)
    q = variance / noise_var
    # D outputs share q: D - 1 of the D gains are taken at zero error, the last carries the whole squared error.
    realised = (outputs - 1) * realised_gain(q, np.zeros_like(q), 1.0) + realised_gain(q, squared, noise_var)
    return {
        "realised": realised,
        "expected": outputs * expected_gain(q),
        "retrospective": retrospective_gain(learner.past(1).variance(features), variance, outputs),
    }


def run_stream(config: StreamConfig, factories: Mapping[str, BonusFactory], seed: int) -> StreamRun:
    """Play one stream: score every bonus, update the learner, update every bonus."""
    rng = np.random.default_rng(seed)
    world = World(config, rng)
    learner = Learner(2 * config.features, config.dim)
    bonuses = {name: build(world, learner, seed) for name, build in factories.items()}
    targets: dict[str, list[FloatArray]] = {name: [] for name in TARGETS}
    scores: dict[str, list[FloatArray]] = {name: [] for name in bonuses}
    regions: list[IntArray] = []
    for _ in range(config.cycles):
        obs, action, next_obs = world.sample(rng, config.cycle)
        regions.append(action)
        for name, value in exact_targets(world, learner, obs, action, next_obs).items():
            targets[name].append(value)
        for name, bonus in bonuses.items():
            reward = np.asarray(bonus.score(obs, action, next_obs), dtype=np.float64)
            if reward.shape != (config.cycle,):
                raise ValueError(f"{name}: score must have shape ({config.cycle},), got {reward.shape}")
            scores[name].append(reward)
        learner.update(world.features(obs, action), next_obs, world.noise_var(action))
        for bonus in bonuses.values():
            bonus.update(obs, action, next_obs)
    return StreamRun(
        cycle=np.repeat(np.arange(config.cycles), config.cycle),
        region=np.concatenate(regions),
        targets={name: np.concatenate(parts) for name, parts in targets.items()},
        scores={name: np.concatenate(parts) for name, parts in scores.items()},
    )


def spearman(first: FloatArray, second: FloatArray) -> FloatArray:
    """Rank correlation along the last axis, average ranks for ties; nan where either side is constant."""
    a, b = rankdata(first, axis=-1), rankdata(second, axis=-1)
    a, b = a - a.mean(axis=-1, keepdims=True), b - b.mean(axis=-1, keepdims=True)
    norm = np.sqrt(np.sum(a * a, axis=-1) * np.sum(b * b, axis=-1))
    return np.where(norm > 0.0, np.sum(a * b, axis=-1) / np.where(norm > 0.0, norm, 1.0), np.nan)


def region_means(values: FloatArray, run: StreamRun, cycles: IntArray) -> FloatArray:
    """Mean per (cycle, region); regions absent from a cycle are left out."""
    cell = run.cycle * 2 + run.region
    count, total = np.bincount(cell), np.bincount(cell, weights=values)
    kept = (np.arange(len(count)) >= 2 * cycles[0]) & (count > 0)
    return np.asarray(total[kept] / count[kept])


def correlations(run: StreamRun, config: StreamConfig) -> dict[tuple[str, str, str], float]:
    """Rank correlation per (bonus, target, scope), warm-up left out.

    `all` mixes regions and times. `within cycles` is the mean correlation among transitions scored by one model
    version: the trend in time, which any shrinking signal shares with information gain, cannot help there.
    `deterministic` and `noisy` are one region over all times. `averaged` correlates means per (cycle, region), where
    the luck of single outcomes is largely averaged away.
    """
    live = run.cycle >= config.warmup
    cycles = np.arange(config.warmup, config.cycles)
    result: dict[tuple[str, str, str], float] = {}
    for bonus, score in run.scores.items():
        for target, truth in run.targets.items():
            by_cycle = (value[live].reshape(len(cycles), config.cycle) for value in (score, truth))
            result[bonus, target, "all"] = float(spearman(score[live], truth[live]))
            result[bonus, target, "within cycles"] = float(np.mean(spearman(*by_cycle)))
            for region, scope in ((0, "deterministic"), (1, "noisy")):
                chosen = live & (run.region == region)
                result[bonus, target, scope] = float(spearman(score[chosen], truth[chosen]))
            means = (region_means(value, run, cycles) for value in (score, truth))
            result[bonus, target, "averaged"] = float(spearman(*means))
    return result


@dataclass(frozen=True)
class Correlation:
    """A rank correlation averaged over seeds."""

    stream: str
    """Name of the stream."""
    bonus: str
    """Name of the bonus."""
    target: str
    """One of TARGETS."""
    scope: str
    """All transitions, or those "within cycles", "deterministic", "noisy" or "averaged"."""
    mean: float
    """Mean over seeds."""
    low: float
    """Lower end of the 95% bootstrap interval of the mean."""
    high: float
    """Upper end."""
    seeds: int
    """Number of independent streams."""


def measure(config: StreamConfig, factories: Mapping[str, BonusFactory], seeds: int) -> list[Correlation]:
    """Correlations over `seeds` independent streams with percentile bootstrap intervals over streams."""
    if seeds < 2:
        raise ValueError(f"seeds must be at least 2 to give an interval, got {seeds}")
    tables = [correlations(run_stream(config, factories, seed), config) for seed in range(seeds)]
    draws = np.random.default_rng(0).integers(0, seeds, size=(RESAMPLES, seeds))
    rows = []
    for bonus, target, scope in tables[0]:
        values = np.array([table[bonus, target, scope] for table in tables])
        low, high = np.quantile(values[draws].mean(axis=1), [0.025, 0.975])
        found = float(values.mean()), float(low), float(high)
        rows.append(Correlation(config.name, bonus, target, scope, *found, seeds))
    return rows
