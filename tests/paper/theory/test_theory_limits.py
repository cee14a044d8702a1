"""Limits of the theorem, not bugs: explicit models in which a stronger claim fails.

A change that makes one of these fail has changed the mathematics, not repaired it.
"""

import numpy as np
import pytest

from lpm_paper.theory import limits
from lpm_paper.theory.limits import demo


def test_limit_not_monotone() -> None:
    more, less = limits.not_monotone()
    assert (float(more.gain), float(more.reward)) == pytest.approx((0.988512, 3.070113), abs=5e-7)
    assert (float(less.gain), float(less.reward)) == pytest.approx((0.405458, 4.605170), abs=5e-7)
    assert more.gain > less.gain
    assert more.reward < less.reward


def test_limit_reward_is_unbounded_at_bounded_gain() -> None:
    terms = limits.unbounded_reward()
    assert float(terms.gain) == pytest.approx(np.log(2), abs=1e-6)
    assert float(terms.reward) == pytest.approx(13.8155, abs=5e-5)


def test_limit_zero_gain_but_positive_reward_off_the_support() -> None:
    terms = limits.estimate_off_support()
    assert terms.gain == 0.0
    assert float(terms.reward) == pytest.approx(np.log(4))


def test_limit_identifiability_clause_is_not_needed() -> None:
    terms = limits.constant_likelihood()
    assert float(terms.gain) == pytest.approx(0.0, abs=1e-14)
    assert float(terms.reward) == pytest.approx(0.0, abs=1e-14)


def test_limit_map_breaks_the_bound() -> None:
    terms = limits.map_breaks_bound()
    assert (float(terms.reward), float(terms.gain)) == pytest.approx((-0.1099, 0.0923), abs=5e-5)
    assert terms.optimism < 0


def test_limit_posterior_mean_breaks_the_bound() -> None:
    terms = limits.posterior_mean_breaks_bound()
    assert terms.slack < -4.0
    assert not terms.bound_condition


def test_limit_negative_pointwise_reward_is_impossible_with_the_mle() -> None:
    both = limits.theorem2_with_mle()
    assert both.pointwise.min() == 0.0
    assert float(both.gain) / 2 == pytest.approx(0.237749, abs=5e-7)


def test_limit_negative_pointwise_reward_needs_an_estimate_other_than_the_mle() -> None:
    terms, both = limits.theorem2_without_mle()
    assert terms.optimism >= 0
    assert (float(terms.gain), float(terms.reward), both.pointwise[0]) == pytest.approx(
        (0.207848, 1.023256, -0.095310), abs=5e-7
    )


def test_limit_reward_does_not_see_the_number_of_samples() -> None:
    few, many = limits.sample_size_is_invisible(2), limits.sample_size_is_invisible(200)
    assert few.reward == many.reward
    assert many.gain > 20 * few.gain


def test_limit_orders_differ_near_zero() -> None:
    strong, weak = limits.weak_data(0.01), limits.weak_data(0.001)
    assert float(strong.reward / weak.reward) == pytest.approx(10.0, rel=1e-6)
    assert float(strong.gain / weak.gain) == pytest.approx(100.0, rel=0.01)


def test_limit_log_reward_needs_sigma_integrated_out() -> None:
    near, far = limits.fixed_sigma(10.0), limits.fixed_sigma(100.0)
    assert near[1] == far[1] == pytest.approx(0.5 * (np.log(3) + 1 / 3 - 1))
    assert near[0] < near[1]
    assert far[0] == pytest.approx(1e-4, rel=0.01)


def test_limit_parameter_average_and_outcome_average_differ() -> None:
    learning = demo("learning")
    assert abs(learning.theorem_reward - learning.algorithm_reward) > 0.05
    lucky = demo("lucky")
    assert lucky.theorem_reward >= lucky.bound > 0.0
    assert lucky.algorithm_reward == pytest.approx(-0.6032, abs=5e-5)
    known = demo("known")
    assert known.gain == known.theorem_reward == known.algorithm_reward == 0.0
    assert known.algorithm_std == pytest.approx(2.221441, abs=1e-6)


def test_unknown_demo_is_refused() -> None:
    with pytest.raises(ValueError, match="'learning', 'lucky' or 'known'"):
        demo("other")
