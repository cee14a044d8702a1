"""Learning streams: exact gains, bonuses, correlations, and the plug for other bonuses."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import spearmanr

from lpm_paper.theory.exact_bonuses import ExactErrorModel, TabularErrorModel, exact_factories
from lpm_paper.theory.grid import FloatArray, IntArray
from lpm_paper.theory.linear import Gaussian, gaussian_kl, realised_gain
from lpm_paper.theory.noise import BiasPayout
from lpm_paper.theory.stream import (
    FIVE_DIM,
    ONE_DIM,
    Learner,
    StreamConfig,
    World,
    correlations,
    exact_targets,
    measure,
    run_stream,
    spearman,
)

SMALL = dataclasses.replace(ONE_DIM, features=8, cycles=8)


class Expected:
    """A plugged bonus that knows the answer, with a call log."""

    def __init__(self, world: World, learner: Learner) -> None:
        self.world, self.learner = world, learner
        self.calls: list[str] = []

    def score(self, obs: FloatArray, action: IntArray, next_obs: FloatArray) -> FloatArray:
        self.calls.append(f"score {len(self.learner.history)}")
        return exact_targets(self.world, self.learner, obs, action, next_obs)["expected"]

    def update(self, obs: FloatArray, action: IntArray, next_obs: FloatArray) -> None:
        self.calls.append(f"update {len(self.learner.history)}")


def advanced(config: StreamConfig, cycles: int = 4) -> tuple[World, Learner, np.random.Generator]:
    rng = np.random.default_rng(3)
    world, learner = World(config, rng), Learner(2 * config.features, config.dim)
    for _ in range(cycles):
        obs, action, next_obs = world.sample(rng, config.cycle)
        learner.update(world.features(obs, action), next_obs, world.noise_var(action))
    return world, learner, rng


@pytest.mark.parametrize("config", [SMALL, dataclasses.replace(FIVE_DIM, features=8)])
def test_realised_gain_is_the_divergence_between_beliefs(config: StreamConfig) -> None:
    world, learner, rng = advanced(config)
    obs, action, next_obs = world.sample(rng, 1)
    targets = exact_targets(world, learner, obs, action, next_obs)
    before = learner.current
    learner.update(world.features(obs, action), next_obs, world.noise_var(action))
    after = learner.current
    direct = sum(
        gaussian_kl(Gaussian(after.mean[:, d], after.cov), Gaussian(before.mean[:, d], before.cov))
        for d in range(config.dim)
    )
    assert targets["realised"][0] == pytest.approx(direct, rel=1e-6)


def test_expected_gain_is_the_change_of_entropy() -> None:
    world, learner, rng = advanced(dataclasses.replace(FIVE_DIM, features=8))
    obs, action, next_obs = world.sample(rng, 1)
    expected = exact_targets(world, learner, obs, action, next_obs)["expected"][0]
    before = learner.log_det_precision
    learner.update(world.features(obs, action), next_obs, world.noise_var(action))
    assert expected == pytest.approx(5 * (learner.log_det_precision - before) / 2, rel=1e-8)


def test_exact_error_model_is_the_mean_log_error_over_outcomes() -> None:
    world, learner, rng = advanced(SMALL)
    bonus = ExactErrorModel(world, learner, BiasPayout(1))
    obs, action, _ = world.sample(rng, 4)
    features = world.features(obs, action)
    fresh = features @ world.weights + np.sqrt(world.noise_var(action))[:, None] * rng.standard_normal((4, 200_000))
    logs = np.log((fresh - features @ learner.current.mean) ** 2)
    np.testing.assert_allclose(bonus.mean_log_mse(learner.current, obs, action), logs.mean(axis=1), atol=0.03)


def test_mean_progress_is_zero_when_nothing_was_learnt() -> None:
    world, learner, rng = advanced(SMALL)
    learner.history.append(learner.current)
    obs, action, next_obs = world.sample(rng, 10)
    assert np.all(ExactErrorModel(world, learner, BiasPayout(1), averaged=True).score(obs, action, next_obs) == 0.0)


def test_tabular_error_model_uses_the_errors_as_they_were_scored() -> None:
    world, learner, rng = advanced(SMALL)
    bonus = TabularErrorModel(world, learner, bins=1)
    obs, action, next_obs = world.sample(rng, 40)
    errors = -bonus.score(obs, action, next_obs)
    learner.update(world.features(obs, action), next_obs, world.noise_var(action))
    bonus.update(obs, action, next_obs)
    again = bonus.score(obs, action, next_obs) + bonus.log_mse(learner.current, obs, action, next_obs)
    for region in (0, 1):
        np.testing.assert_allclose(again[action == region], errors[action == region].mean())


def test_tabular_error_model_refuses_update_before_score() -> None:
    world, learner, rng = advanced(SMALL)
    with pytest.raises(ValueError, match="must follow score"):
        TabularErrorModel(world, learner).update(*world.sample(rng, 2))


def test_plugged_bonus_is_scored_before_and_updated_after_the_learner() -> None:
    made: list[Expected] = []

    def factory(world: World, learner: Learner, seed: int) -> Expected:
        made.append(Expected(world, learner))
        return made[-1]

    run = run_stream(SMALL, {"mine": factory}, seed=0)
    assert made[0].calls[:4] == ["score 1", "update 2", "score 2", "update 3"]
    np.testing.assert_array_equal(run.scores["mine"], run.targets["expected"])
    assert correlations(run, SMALL)["mine", "expected", "all"] == pytest.approx(1.0)


def test_wrong_score_shape_is_refused() -> None:
    class Scalar(Expected):
        def score(self, obs: FloatArray, action: IntArray, next_obs: FloatArray) -> FloatArray:
            return np.zeros(1)

    with pytest.raises(ValueError, match=r"mine: score must have shape \(16,\)"):
        run_stream(SMALL, {"mine": lambda w, n, s: Scalar(w, n)}, seed=0)


def test_streams_are_reproducible_and_differ_by_seed() -> None:
    first, second, other = (run_stream(SMALL, exact_factories(1), seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.scores["LPM, exact g"], second.scores["LPM, exact g"])
    assert not np.array_equal(first.targets["realised"], other.targets["realised"])


def test_spearman_matches_scipy_and_handles_constants() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 5, size=(2, 30)).astype(np.float64), rng.standard_normal((2, 30))
    expected = [spearmanr(x, y).statistic for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(spearman(a, b), expected)
    assert np.isnan(spearman(np.ones(5), np.arange(5.0)))


def test_one_sample_lpm_is_anticorrelated_with_the_gain_of_that_sample() -> None:
    """The measured headline, on a small stream: a surprise raises the sample's gain and lowers r."""
    rows = measure(SMALL, exact_factories(1), seeds=4)
    found = {(r.bonus, r.target, r.scope): r for r in rows}
    lpm = found["LPM, exact g", "realised", "within cycles"]
    assert lpm.high < -0.3
    assert lpm.low <= lpm.mean <= lpm.high
    assert found["VIME, true sigma", "realised", "all"].mean == pytest.approx(1.0)
    assert found["ensemble, limit", "expected", "noisy"].mean == pytest.approx(1.0)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        measure(SMALL, {}, seeds=1)


def test_every_score_from_first_principles() -> None:
    config = dataclasses.replace(FIVE_DIM, features=8)
    world, learner, rng = advanced(config, cycles=7)
    obs, action, next_obs = world.sample(rng, 12)
    phi, noise_var = world.features(obs, action), np.square(config.noise)[action]
    bonuses = {name: build(world, learner, 0) for name, build in exact_factories(5).items()}
    scores = {name: bonus.score(obs, action, next_obs) for name, bonus in bonuses.items()}

    def log_mse(index: int) -> FloatArray:
        return np.asarray(np.log(np.mean((next_obs - phi @ learner.history[index].mean) ** 2, axis=1)))

    mse = np.exp(log_mse(-1))
    exact = ExactErrorModel(world, learner, BiasPayout(5))
    old, new = (exact.mean_log_mse(learner.history[index], obs, action) for index in (-2, -1))
    np.testing.assert_allclose(scores["LPM, exact g"], old - log_mse(-1))
    np.testing.assert_allclose(scores["LPM, mean over o'"], old - new)
    np.testing.assert_allclose(scores["LPM, tabular g"], -log_mse(-1))
    np.testing.assert_allclose(scores["pointwise, lag 1"], log_mse(-2) - log_mse(-1))
    np.testing.assert_allclose(scores["pointwise, lag 5"], log_mse(-6) - log_mse(-1))
    np.testing.assert_allclose(scores["forward error"], mse)
    np.testing.assert_allclose(scores["AMA, true variance"], mse - noise_var)
    np.testing.assert_allclose(scores["ensemble, limit"], np.diag(phi @ learner.current.cov @ phi.T))
    targets = exact_targets(world, learner, obs, action, next_obs)
    np.testing.assert_allclose(scores["VIME, true sigma"], targets["realised"])
    variances = [np.diag(phi @ belief.cov @ phi.T) for belief in learner.history[-2:]]
    np.testing.assert_allclose(targets["retrospective"], 2.5 * np.log(variances[0] / variances[1]))


def test_one_sigma_vime_learns_with_its_own_noise() -> None:
    world, learner, rng = advanced(SMALL)
    bonus = exact_factories(1)["VIME, sigma 0.5"](world, learner, 0)
    own = Learner(2 * SMALL.features, SMALL.dim)
    for _ in range(3):
        obs, action, next_obs = world.sample(rng, 16)
        phi, quarter = world.features(obs, action), np.full(16, 0.25)
        bonus.update(obs, action, next_obs)
        own.update(phi, next_obs, quarter)
    q = own.current.variance(phi) / 0.25
    squared = ((next_obs - phi @ own.current.mean) ** 2)[:, 0]
    np.testing.assert_allclose(bonus.score(obs, action, next_obs), realised_gain(q, squared, 0.25))
