"""Checks of what the algorithm does: pure noise, queues, the two expectations, single-sample gains."""

import numpy as np

from lpm_paper.theory import noise
from lpm_paper.theory.limits import demo
from lpm_paper.theory.linear import (
    Gaussian,
    LinearRegression,
    expected_gain,
    expected_lpm_reward,
    gaussian_kl,
    random_regression,
    realised_gain,
    retrospective_gain,
)
from lpm_paper.theory.noise import geometric_errors, mean_lag, tabular_rewards
from lpm_paper.theory.result import CheckResult, Effort, section
from lpm_paper.theory.stream import ONE_DIM, Learner, World

# methods table: D, E[log MSE/sigma^2], std, exp-form mean / sigma^2
NOISE_TABLE = (
    (1, -1.270363, 2.221441, -0.719270),
    (2, -0.577216, 1.282550, -0.438541),
    (3, -0.368975, 0.966852, -0.308557),
    (4, -0.270363, 0.803078, -0.236897),
    (8, -0.130177, 0.532750, -0.122060),
    (64, -0.015706, 0.178167, -0.015584),
    (784, -0.001276, 0.050540, -0.001275),
)


def check_noise(effort: Effort) -> list[CheckResult]:
    """The chi-square table by psi, psi1 and by Monte Carlo (five standard errors), and what follows from it."""
    equal, _, at_most = section("Pure noise")
    rng = np.random.default_rng(4)
    checks = []
    for dim, mean, std, bias in NOISE_TABLE:
        exact = {
            "E[log MSE/sigma^2] by psi": (mean, noise.log_error_mean(dim)),
            "std of log MSE by psi1": (std, noise.log_error_std(dim)),
            "mean of exp(g) - MSE, over sigma^2": (bias, noise.exp_form_bias(dim)),
        }
        drawn = noise.simulate_noise(rng, dim, effort.draws)
        for (name, (stated, closed)), (sampled, error) in zip(exact.items(), drawn, strict=True):
            checks.append(equal(f"D = {dim}: {name}", stated, closed, 1e-6))
            checks.append(equal(f"D = {dim}: the same, sampled", stated, sampled, 5 * error))
    expected = noise.log_reward_std(2, 4)
    draws = effort.draws // 4
    checks.append(
        equal(
            "D = 2, g from 4 errors: std of r = sqrt(psi1 (1 + 1/n))",
            expected,
            noise.simulate_reward_std(rng, 2, 4, draws),
            5 * expected / np.sqrt(draws),
        )
    )
    mean, std, bias = noise.uniform_square_moments()
    sample = np.log(np.mean(rng.uniform(-1, 1, size=(effort.draws, 2)) ** 2, axis=1))
    spread = 5 * std / np.sqrt(effort.draws)
    clamp = -10.0 - np.log(1e-6)
    short_queue = np.hypot(np.exp(noise.log_error_mean(8)) * noise.log_error_std(8), 0.5) / np.sqrt(1000)
    checks += [
        equal("uniform noise on [-1,1]^2: E log MSE = pi/2 - 3", -1.429, mean, 5e-4),
        equal("uniform noise on [-1,1]^2: the same, sampled", mean, sample.mean(), spread),
        equal("uniform noise on [-1,1]^2: std", 1.023, std, 5e-4),
        equal("uniform noise on [-1,1]^2: exp-form bias", -0.0938, bias, 5e-5),
        equal("exp form with eta = 0.4, D = 784: mean / sigma^2", -0.6, 0.4 * (1 + noise.exp_form_bias(784)) - 1, 2e-3),
        equal("samples to detect 0.05 nats at D = 2", 660, noise.samples_to_detect(0.05, noise.log_error_std(2)), 5),
        equal("g clamped at -10, floor 1e-6: permanent pay", 3.816, clamp, 1e-3),
        at_most(
            "exp form, D = 8, queue and evaluation of 1000: |-0.157 + 0.122| in standard errors",
            2.0,
            (0.157 + noise.exp_form_bias(8)) / short_queue,
            note="one run of that size is this uncertain; the reported -0.157 is ordinary luck",
        ),
    ]
    return checks


def check_transient() -> list[CheckResult]:
    """The reward while f learns the mean of a noisy transition: log((b^2 + sigma^2)/sigma^2) only for large D."""
    equal, at_least, _ = section("Reward while noise is learnt")
    simple = float(np.log(2.0))
    checks = [
        equal(
            f"D = {dim}, b = sigma: Poisson sum = integral",
            noise.bias_payout_by_integral(dim, float(dim)),
            noise.bias_payout(dim, float(dim)),
            1e-9,
        )
        for dim in (1, 2, 8, 64)
    ]
    checks += [
        equal("D = 784, b = sigma: log((b^2 + sigma^2)/sigma^2) is close", simple, noise.bias_payout(784, 784.0), 1e-3),
        at_least(
            "D = 1, b = sigma: pays more than log 2 by at least 0.15",
            simple + 0.15,
            noise.bias_payout(1, 1.0),
            note="correction: log((b^2+sigma^2)/sigma^2) is the large-D limit, not the value",
        ),
    ]
    return checks


def check_queue() -> list[CheckResult]:
    """Telescoping and the lag of a FIFO error queue."""
    equal, _, _ = section("Error queue")
    errors = geometric_errors(0.5, 60, floor=1e-6)
    paid = tabular_rewards(errors, capacity=1, per_cycle=1)
    steep = geometric_errors(1e-3, 8, floor=1e-6)
    delta = -np.log(0.7)
    checks = [
        equal("K = 1: rewards add up to eps_first - eps_last", errors[0] - errors[-1], paid[1:].sum(), 1e-12),
        equal("from MSE 1 to 0 with floor 1e-6, sum of rewards", 13.8155, tabular_rewards(steep, 1, 1)[1:].sum(), 5e-5),
        equal(
            "including the first visit: g_0 - eps_last",
            2.0 - errors[-1],
            tabular_rewards(errors, 1, 1, initial=2.0).sum(),
            1e-12,
        ),
    ]
    long = -delta * np.arange(40)
    for capacity, per_cycle in ((128, 32), (32, 32), (8, 32), (100, 64), (100, 32)):
        measured = tabular_rewards(long, capacity, per_cycle)[-1]
        expected = mean_lag(capacity, per_cycle) * delta
        label = f"K = {capacity / per_cycle:g}: steady reward = mean lag x 0.3567"
        checks.append(equal(label, expected, measured, 1e-10))
    checks.append(
        equal("K = 4: (K+1)/2 x 0.3567", 0.8917, 2.5 * delta, 5e-5, "reported as 0.891: truncated, not rounded")
    )
    checks.append(
        equal(
            "K = 1.5625: mean lag is 1.36, not (K+1)/2 = 1.28",
            1.36,
            mean_lag(100, 64),
            1e-12,
            "(K+1)/2 needs integer K",
        )
    )
    return checks


def check_mismatch(effort: Effort) -> list[CheckResult]:
    """Averages over parameters and over next observations are different numbers."""
    equal, at_least, at_most = section("Two expectations")
    learning, lucky, known = demo("learning"), demo("lucky"), demo("known")
    rng = np.random.default_rng(5)
    old_var, new_var, noise_var, measured, error = simulate_expected_reward(rng, effort.draws)
    closed = float(expected_lpm_reward(np.array(old_var), np.array(new_var), np.array(noise_var)))
    ceiling = 2 * float(retrospective_gain(np.array(old_var), np.array(new_var)))
    squared = np.linspace(0.01, 9.0, 50)
    gains = realised_gain(np.full(50, 0.7), squared, 1.0)
    return [
        at_least(
            "learning cell: the two rewards differ by", 0.05, abs(learning.theorem_reward - learning.algorithm_reward)
        ),
        at_least("lucky prior, misleading data: theorem's r >= IG/c", lucky.bound, lucky.theorem_reward),
        at_most(
            "lucky prior, misleading data: mean reward over o' is negative",
            -0.5,
            lucky.algorithm_reward,
            note="IG is 0.788 nats; no error model, however good, restores the bound",
        ),
        equal("nothing left to learn: theorem's r", 0, known.theorem_reward, 1e-15),
        equal("nothing left to learn: std of the algorithm's r (D = 1)", 2.221441, known.algorithm_std, 1e-6),
        equal("prior-averaged r = log((sigma^2+s_old)/(sigma^2+s_new)), sampled", closed, measured, 5 * error),
        at_most("prior-averaged r <= 2 I(f(x); last update)", ceiling, closed),
        equal(
            "fixed (o, a): rank correlation of r with the sample's realised gain",
            -1,
            float(np.corrcoef(np.argsort(np.argsort(gains)), np.argsort(np.argsort(-np.log(squared))))[0, 1]),
            1e-12,
            "a surprise raises the gain and lowers r",
        ),
    ]


def simulate_expected_reward(rng: np.random.Generator, draws: int) -> tuple[float, float, float, float, float]:
    """(s_old, s_new, sigma^2, mean reward, standard error) of LPM over worlds drawn from the prior.

    Three weights, two samples known already, three in the last update, one fresh outcome at x for each model.
    """
    noise_var, x = 0.3, np.array([0.5, -1.0, 0.8])
    inputs = rng.standard_normal((5, 3))
    prior = Gaussian(np.zeros(3), np.eye(3))
    theta = rng.standard_normal((draws, 3))
    targets = theta @ inputs.T + np.sqrt(noise_var) * rng.standard_normal((draws, 5))
    variances, logs = [], []
    for count in (2, 5):
        cov = LinearRegression(prior, inputs[:count], np.zeros(count), noise_var).posterior().cov
        mean = targets[:, :count] @ inputs[:count] @ cov / noise_var
        fresh = theta @ x + np.sqrt(noise_var) * rng.standard_normal(draws)
        logs.append(np.log((fresh - mean @ x) ** 2))
        variances.append(float(x @ cov @ x))
    reward = logs[0] - logs[1]
    return variances[0], variances[1], noise_var, float(reward.mean()), float(reward.std() / np.sqrt(draws))


def check_single_samples() -> list[CheckResult]:
    """The one-sample gain of Bayesian regression."""
    equal, _, _ = section("Gain of one sample")
    rng = np.random.default_rng(6)
    gaps = []
    for _ in range(100):
        p = random_regression(rng)
        row, target = p.x[:1], p.y[:1]
        one = LinearRegression(p.prior, row, target, p.noise_var)
        q = row @ p.prior.cov @ row.T / p.noise_var
        formula = realised_gain(q[0], (target - row @ p.prior.mean) ** 2, p.noise_var)[0]
        gaps.append(abs(formula - gaussian_kl(one.posterior(), p.prior)) / (1 + formula))
    repeated = 1 / (1 + np.arange(1, 2001))
    world = World(ONE_DIM, rng)
    learner = Learner(2 * ONE_DIM.features, ONE_DIM.dim)
    total = 0.0
    for _ in range(150):
        obs, action, next_obs = world.sample(rng, 1)
        features, noise_var = world.features(obs, action), world.noise_var(action)
        total += float(np.sum(expected_gain(learner.current.variance(features) / noise_var)))
        learner.update(features, next_obs, noise_var)
    one_ = np.ones(1)
    return [
        equal("q = 1, e = 0", 0.096574, realised_gain(one_, 0 * one_, 1.0)[0], 5e-7),
        equal(
            "q = 1, e^2 = 2 sigma^2 (equals the expected gain)", 0.346574, realised_gain(one_, 2 * one_, 1.0)[0], 5e-7
        ),
        equal("expected gain at q = 1", 0.346574, expected_gain(one_)[0], 5e-7),
        equal("closed form against the generic Gaussian KL, largest error", 0, max(gaps), 1e-10),
        equal("same x again and again: 2 n x expected gain -> 1", 1, 2 * 2000 * expected_gain(repeated)[-1], 1e-3),
        equal("expected gains of 150 samples add up to log det / 2", learner.log_det_precision / 2, total, 1e-6),
    ]
