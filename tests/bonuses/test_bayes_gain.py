"""The Bayesian information gain: the gains by hand, against a generic Gaussian KL, and on noise."""

import itertools
import math

import pytest
import torch
from gymnasium.spaces import Box, Discrete
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import MultivariateNormal, kl_divergence

from lpm.bonuses.bayes_gain import BayesGain, BayesGainConfig
from lpm.core.seeding import seeded
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.closed_form import BayesianRegression, RandomFeatures, expected_gain, realised_gain

SPACES = Spaces(Box(-10.0, 10.0, (2,)), Discrete(2))


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_gains_by_hand() -> None:
    assert realised_gain(tensor(1.0), tensor(0.0)).item() == pytest.approx(0.096574, abs=1e-6)
    assert realised_gain(tensor(1.0), tensor(2.0)).item() == pytest.approx(0.346574, abs=1e-6)
    assert expected_gain(tensor(1.0)).item() == pytest.approx(0.346574, abs=1e-6)


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_the_gain_is_the_kl_between_the_posteriors(seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    model = BayesianRegression(4, 1, noise=0.7, prior_precision=1 / 1.3**2)
    model.add(torch.randn(6, 4, generator=rng, dtype=torch.float64), torch.randn(6, 1, generator=rng).double())
    model.refresh()
    x, y = torch.randn(1, 4, generator=rng, dtype=torch.float64), torch.randn(1, 1, generator=rng).double()
    gain = realised_gain(model.ratio(x).unsqueeze(1), model.squares(x, y)).item()
    before = MultivariateNormal(model.mean[:, 0].clone(), precision_matrix=model.precision.clone())
    model.add(x, y)
    model.refresh()
    after = MultivariateNormal(model.mean[:, 0], precision_matrix=model.precision)
    assert gain == pytest.approx(kl_divergence(after, before).item(), abs=1e-12)


def test_expected_gains_add_up_to_half_the_log_determinant() -> None:
    rng = torch.Generator().manual_seed(0)
    model = BayesianRegression(5, 2, noise=0.5, prior_precision=0.25)
    start, total = model.log_determinant(), 0.0
    for _ in range(30):
        x, y = torch.randn(1, 5, generator=rng, dtype=torch.float64), torch.randn(1, 2, generator=rng).double()
        total += expected_gain(model.ratio(x)).item()
        model.add(x, y)
        model.refresh()
    assert total == pytest.approx(0.5 * (model.log_determinant() - start).item(), rel=1e-10)


def test_a_repeated_input_teaches_about_one_over_two_n() -> None:
    model = BayesianRegression(3, 1, noise=0.3)
    x, gains = torch.ones(1, 3, dtype=torch.float64), []
    for _ in range(200):
        gains.append(expected_gain(model.ratio(x)).item())
        model.add(x, torch.zeros(1, 1, dtype=torch.float64))
        model.refresh()
    assert all(a > b for a, b in itertools.pairwise(gains))
    assert gains[-1] == pytest.approx(1 / (2 * 200), rel=0.02)


def test_random_features_approximate_the_gaussian_kernel() -> None:
    with seeded(torch.Generator().manual_seed(0)):
        features = RandomFeatures(3, 20_000, 2.0)
    x = torch.tensor([[0.0, 0, 0], [1, 1, 0]])
    kernel = features(x) @ features(x).T
    assert kernel[0, 0].item() == pytest.approx(1.0, abs=0.03)
    assert kernel[0, 1].item() == pytest.approx(math.exp(-2 / (2 * 4)), abs=0.03)


def arm(next_obs: torch.Tensor, action: int) -> Transitions:
    obs = torch.zeros_like(next_obs)
    return Transitions.build(obs, torch.full(next_obs.shape[:2], action), next_obs)


def final_over_first(gain: str, sigma: float) -> float:
    """Mean gain after 30 rollouts of one arm, over that of the first paid rollout."""
    bonus = BayesGain(SPACES, BayesGainConfig(gain=gain), num_envs=4, rollout_steps=16)  # type: ignore[arg-type]
    rng, means = torch.Generator().manual_seed(1), []
    for _ in range(30):
        means.append(bonus.step(arm(1 + sigma * torch.randn(16, 4, 2, generator=rng), 0)).mean().item())
        bonus.update()
    assert means[0] == 0  # no scale yet
    return means[-1] / means[1]


@pytest.mark.parametrize("gain", ["realised", "expected"])
def test_the_gain_on_a_gaussian_arm_decreases_to_nothing(gain: str) -> None:
    assert final_over_first(gain, sigma=1.0) < 0.1


def test_the_posterior_moves_only_in_update() -> None:
    bonus = BayesGain(SPACES, BayesGainConfig(), num_envs=2, rollout_steps=4)
    block = arm(torch.randn(4, 2, 2, generator=torch.Generator().manual_seed(0)), 1)
    bonus.step(block)
    bonus.update()
    first = bonus.step(block)
    assert torch.equal(first, bonus.step(block))
    metrics = bonus.update()
    assert metrics["information"].item() > 0
    assert bonus.step(block).mean().item() < first.mean().item()


def test_statistics_wait_for_the_warmup() -> None:
    bonus = BayesGain(SPACES, BayesGainConfig(warmup=12), num_envs=2, rollout_steps=4)
    block = arm(torch.randn(4, 2, 2, generator=torch.Generator().manual_seed(0)), 1)
    paid = []
    for _ in range(4):
        paid.append(bonus.step(block).abs().sum().item() > 0)
        bonus.update()
    assert paid == [False, False, True, True]


@pytest.mark.parametrize(("field", "value"), [("gain", "x"), ("noise", 0.0), ("features", 0), ("length_scale", 0.0)])
def test_bad_settings_say_what_was_expected(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"BayesGainConfig\.{field}: expected .*, got"):
        BayesGainConfig(**{field: value})  # type: ignore[arg-type]
