"""Checks of the exact models, the two theorems and their limits."""

import numpy as np

from lpm_paper.theory import limits
from lpm_paper.theory.grid import RegressionGrid
from lpm_paper.theory.linear import random_regression
from lpm_paper.theory.result import CheckResult, Effort, section
from lpm_paper.theory.theorems import (
    jeffreys_constant,
    jeffreys_log_marginal,
    joint_information_gain,
    random_grids,
    random_member,
    theorem1,
    theorem2,
)


def random_cell(rng: np.random.Generator) -> RegressionGrid:
    """A cell with a random grid, prior and data set."""
    points, samples = int(rng.integers(2, 30)), int(rng.integers(1, 40))
    outcomes = rng.normal(rng.normal(), 10.0 ** rng.uniform(-1.0, 1.0), size=samples)
    return limits.cell(rng.standard_normal(points), rng.dirichlet(np.ones(points)), outcomes)


def check_models(effort: Effort) -> list[CheckResult]:
    """Posterior, evidence and the two forms of information gain."""
    equal, at_least, _ = section("Exact models")
    grid = random_grids(np.random.default_rng(1), effort.grids)
    mass = np.exp(grid.log_posterior).sum(axis=-1)
    gap = grid.information_gain - grid.information_gain_by_definition
    rng = np.random.default_rng(2)
    problems = [random_regression(rng) for _ in range(effort.regressions)]
    linear_gap = max(abs(p.information_gain() - p.information_gain_by_definition()) for p in problems)
    checks = [
        equal(f"grid posterior sums to 1, {effort.grids} models", 0, np.abs(mass - 1).max(), 1e-10),
        equal("grid: KL(post||prior) = E_post[l] - log p(D), largest gap", 0, np.abs(gap).max(), 1e-10),
        equal(f"regression: the same, {effort.regressions} problems, largest gap", 0, linear_gap, 1e-9),
    ]
    model = limits.bell_cell(np.array([1.1, 2.9, 2.3, 1.7]))
    for name, estimate in model.estimates().items():
        terms = theorem1(model.grid(), estimate.log_mse)
        checks.append(
            at_least(f"example cell, theta_D = {name}: r >= IG/c", float(terms.gain / terms.c), float(terms.reward))
        )
    return checks


def check_theorem1(effort: Effort) -> list[CheckResult]:
    """The identity, the bound, the zero directions, the corollary."""
    equal, at_least, _ = section("Theorem 1")
    grid = random_grids(np.random.default_rng(1), effort.grids)
    best = theorem1(grid, grid.log_mse_at(grid.mle()))
    drawn = theorem1(grid, random_member(grid, np.random.default_rng(3)))
    # At the boundary both sides of the equivalence are rounding errors, so only clear cases are counted.
    clear = np.abs(drawn.slack) > 1e-9
    mismatches = int(np.sum(clear & ((drawn.slack > 0) != drawn.bound_condition)))
    rng = np.random.default_rng(2)
    problems = [random_regression(rng) for _ in range(effort.regressions)]
    linear = max(abs(p.identity_error(p.mle())) / (1 + abs(p.c_linear * p.reward_linear(p.mle()))) for p in problems)
    mean_gap = []
    for p in problems:
        posterior = p.posterior()
        trace = np.einsum("ni,ij,nj->", p.x, posterior.cov, p.x) / (2 * p.noise_var)
        mean_gap.append(abs(p.optimism(posterior.mean) - trace) / (1 + trace))
    slack = min(p.c_linear * p.reward_linear(p.mle()) - p.information_gain() for p in problems)
    cells = [random_cell(rng) for _ in range(effort.regressions)]
    corollary = min(
        float(theorem1(cell.grid(), cell.estimates()["mle"].log_mse).reward)
        - 2 / len(cell.y) * float(cell.grid().information_gain)
        for cell in cells
    )
    constant = limits.constant_likelihood()
    return [
        equal(
            f"c r = KL + KL + optimism, theta_D = MLE, {effort.grids} grids, largest error",
            0,
            np.abs(best.identity_error).max(),
            1e-10,
        ),
        equal("the same for theta_D drawn from the prior", 0, np.abs(drawn.identity_error).max(), 1e-10),
        at_least("c r - IG, theta_D = MLE, smallest of all grids", 0, best.slack.min()),
        equal("r >= IG/c exactly when optimism >= -KL(prior||post), exceptions", 0, mismatches, 0),
        at_least(f"corollary, c = n/2, {effort.regressions} random cells: r - 2 IG/n, smallest", 0, corollary, 1e-13),
        equal("IG = 0 gives r = 0 (constant likelihood)", 0, abs(float(constant.reward)), 1e-14),
        at_least("IG > 0 gives r > 0, smallest r among those grids", 0, best.reward[best.gain > 1e-12].min()),
        equal("regression: c' r_lin identity, largest relative error", 0, linear, 1e-10),
        at_least("regression: c' r_lin - IG, theta_D = MLE, smallest", 0, slack, 1e-12),
        equal(
            "regression: optimism of the posterior mean = tr(XSX')/(2 sigma^2), largest error", 0, max(mean_gap), 1e-10
        ),
    ]


def check_surrogate() -> list[CheckResult]:
    """log MSE from sigma^2 integrated out."""
    equal, _, _ = section("Why log MSE")
    checks = []
    for n, stated in ((3, -0.728980), (10, -4.869136), (50, -25.687166)):
        values = [jeffreys_log_marginal(n, mse) + 0.5 * n * np.log(mse) for mse in (1e-3, 0.1, 1.0, 7.0, 1e3)]
        checks.append(equal(f"quadrature + (n/2) log MSE, n = {n}", stated, values[2], 5e-7))
        checks.append(equal(f"its spread over MSE from 1e-3 to 1e3, n = {n}", 0, np.ptp(values), 1e-10))
        checks.append(
            equal(f"closed form log Gamma(n/2) - (n/2) log(n/2), n = {n}", jeffreys_constant(n), values[2], 1e-10)
        )
    model = limits.bell_cell(np.array([1.1, 2.9, 2.3, 1.7]))
    joint = joint_information_gain(model, np.linspace(-15.0, 60.0, 20_001))
    checks.append(
        equal(
            "IG about theta: joint (theta, sigma) grid = log-MSE grid with c = n/2",
            joint,
            float(model.grid().information_gain),
            1e-9,
            "the joint side never uses log MSE",
        )
    )
    return checks


def check_theorem2(effort: Effort) -> list[CheckResult]:
    """The valid versions of Theorem 2."""
    equal, at_least, _ = section("Theorem 2")
    grid = random_grids(np.random.default_rng(1), effort.grids)
    both = theorem2(grid, grid.log_mse_at(grid.mle()))
    lowest = np.where(grid.support, both.pointwise, np.inf).min()
    with_mle = limits.theorem2_with_mle()
    terms, without = limits.theorem2_without_mle()
    return [
        at_least(
            "theta_D = MLE: r_point over all theta and grids, smallest",
            0,
            lowest,
            note="so the paper's 'r_point < 0' cannot happen with its own choice of theta_D",
        ),
        equal("E_prior[r_point] = r_exp, largest gap", 0, np.abs(both.pointwise_mean - both.reward).max(), 1e-10),
        equal("MLE, MSE (1, 2, 5), c = 2: IG/c", 0.237749, float(with_mle.gain) / 2, 5e-7),
        equal("MLE: r_point(MLE) = 0 < IG/c", 0, with_mle.pointwise[0], 1e-15),
        equal("admissible non-MLE: IG", 0.207848, float(terms.gain), 5e-7),
        equal("admissible non-MLE: r_exp", 1.023256, float(terms.reward), 5e-7),
        equal("admissible non-MLE: r_point(MLE)", -0.095310, without.pointwise[0], 5e-7),
        equal("its condition, l(theta_D)", -0.0953, -np.log(1.1), 5e-5),
        equal("its condition, E_post[l]", -0.7314, -np.log(1.1) - float(terms.optimism), 5e-5),
    ]


def check_limits() -> list[CheckResult]:
    """Counterexamples: limits of the theorem, not bugs."""
    equal, at_least, at_most = section("Limits of the theorem")
    more, less = limits.not_monotone()
    wide, off = limits.unbounded_reward(), limits.estimate_off_support()
    posterior_max, posterior_mean = limits.map_breaks_bound(), limits.posterior_mean_breaks_bound()
    few, many = limits.sample_size_is_invisible(2), limits.sample_size_is_invisible(200)
    weak = limits.weak_data(1e-3)
    reward_log, bound = limits.fixed_sigma(10.0)
    return [
        equal("not monotone, MSE (1, 100, 100): IG", 0.988512, float(more.gain), 5e-7),
        equal("not monotone, MSE (1, 100, 100): r", 3.070113, float(more.reward), 5e-7),
        equal("not monotone, MSE (1, 1, 1e6): IG is lower", 0.405458, float(less.gain), 5e-7),
        equal("not monotone, MSE (1, 1, 1e6): r is higher", 4.605170, float(less.reward), 5e-7),
        equal("two points, ratio 1e12: IG at its cap log 2", 0.693147, float(wide.gain), 5e-7),
        equal("two points, ratio 1e12: r keeps growing", 13.8155, float(wide.reward), 5e-5),
        equal("theta_D off the support: IG", 0, float(off.gain), 1e-15),
        equal("theta_D off the support: r", 1.3863, float(off.reward), 5e-5),
        equal("theta_D = MAP: r is negative", -0.1099, float(posterior_max.reward), 5e-5),
        equal("theta_D = MAP: IG/c", 0.0923, float(posterior_max.gain), 5e-5),
        at_most(
            "theta_D = posterior mean, linear model, two modes: r < IG/c",
            float(posterior_mean.gain / posterior_mean.c),
            float(posterior_mean.reward),
        ),
        equal("same MSE curve, n = 2 or 200: change of r", 0, float(many.reward - few.reward), 1e-12),
        at_least("same MSE curve, n = 2 or 200: change of IG", 0.5, float(many.gain - few.gain)),
        at_least(
            "weak data (MSE^0.001): c r / IG", 1000, float(weak.reward / weak.gain), note="r is first order, IG second"
        ),
        at_most("Gaussian with fixed sigma, A = 10: r_log < IG/c", bound, reward_log),
    ]
