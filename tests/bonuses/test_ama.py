"""AMA: what it pays on noise depends on η, λ and where it is clipped."""

from __future__ import annotations

import math

import pytest
import torch
from bonus_cases import MORE_SPACES, VECTOR, arm, train
from gymnasium.spaces import Box, Discrete

import lpm
from lpm.bonuses.ama import loss, reward
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions

FAST = {"normalise": "none", "hidden": (64,), "lr": 3e-3}


# ---- by hand ------------------------------------------------------------------------------------------------
def test_reward_and_loss_by_hand() -> None:
    square = torch.tensor([[4.0, 0.0]])
    s = torch.log(torch.tensor([[1.0, 2.0]]))
    assert reward(square, s).item() == pytest.approx((3 - 2) / 2)
    assert reward(square, s, clip="elem").item() == pytest.approx(3 / 2)
    assert reward(square, s, eta=3.0).item() == pytest.approx((1 - 6) / 2)
    assert reward(square, s, eta=3.0, clip="mean").item() == 0
    assert loss(square, s, lam=2.0).item() == pytest.approx((4 + 0 + 2 * math.log(2)) / 2)


def calibrated(count: int, dims: int) -> torch.Tensor:
    """Squared errors of unit Gaussian noise around a perfect mean."""
    return torch.randn(count, dims, generator=torch.Generator().manual_seed(0)).square()


def test_clipping_reinstates_the_noisy_tv() -> None:
    s = torch.zeros(1)
    assert reward(calibrated(4000, 256), s).mean() == pytest.approx(0, abs=0.01)
    # E max(z² − 1, 0) = 2·φ(1) per element, whatever the dimension
    density = math.exp(-0.5) / math.sqrt(2 * math.pi)
    assert reward(calibrated(4000, 256), s, clip="elem").mean() == pytest.approx(2 * density, rel=0.01)
    assert 2 * density == pytest.approx(0.4839, abs=5e-5)
    # after averaging: half the mean absolute value of a Gaussian of variance 2/D, so 1/√(π·D)
    assert reward(calibrated(20_000, 784), s, clip="mean").mean() == pytest.approx(
        1 / math.sqrt(784 * math.pi), rel=0.03
    )
    assert 1 / math.sqrt(784 * math.pi) == pytest.approx(0.0201, abs=6e-5)


def test_the_effective_setting_of_the_minigrid_code_is_robust_through_lambda() -> None:
    # λ = 0.1 settles the variance at 10 times the squared error: E max(z² − 10, 0) = 2(√10 φ(√10) − 9 Q(√10))
    root = math.sqrt(10)
    expected = 2 * (root * math.exp(-5) / math.sqrt(2 * math.pi) - 9 * 0.5 * math.erfc(root / math.sqrt(2)))
    assert expected == pytest.approx(0.0029, abs=5e-5)
    paid = reward(calibrated(40_000, 64), torch.log(torch.tensor(10.0)), clip="elem").mean()
    assert paid == pytest.approx(expected, rel=0.05)


# ---- learnt -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("lam", "factor"), [(1.0, 0.0), (0.5, -1.0), (2.0, 0.5)])
def test_on_noise_the_reward_tends_to_mse_times_one_minus_eta_over_lambda(lam: float, factor: float) -> None:
    bonus = lpm.make("ama", VECTOR, num_envs=4, rollout_steps=32, lam=lam, **FAST)
    train(bonus, 0.5, 150)
    final = torch.cat([bonus.score(arm(0.5, 1000 + i)) for i in range(40)]).mean()
    assert final == pytest.approx(factor * 0.25, abs=0.02)
    s = bonus.dynamics(torch.ones(1, 4), torch.tensor([[1.0, 0.0]]))[1].detach()
    assert float(s.mean()) == pytest.approx(math.log(0.25 / lam), abs=0.1)


def test_a_deterministic_arm_pays_nothing_in_the_end() -> None:
    bonus = lpm.make("ama", VECTOR, num_envs=4, rollout_steps=32, **FAST)
    means = train(bonus, 0.0, 150)
    assert abs(means[-1]) < 0.02 < 0.05 < abs(means[0])


def test_log_variance_never_leaves_its_bounds_and_keeps_a_gradient() -> None:
    bonus = lpm.make("ama", VECTOR, bounds=(-2.0, 3.0), **FAST)
    bias = bonus.dynamics.variance_head.bias
    for extreme, bound in ((-50.0, -2.0), (50.0, 3.0)):
        torch.nn.init.constant_(bias, extreme)
        s = bonus.dynamics(torch.zeros(1, 4), torch.zeros(1, 2))[1]
        torch.testing.assert_close(s, torch.full_like(s, bound), rtol=0, atol=math.log1p(math.exp(-5.0)))
    torch.nn.init.constant_(bias, -6.0)
    bonus.dynamics(torch.zeros(1, 4), torch.zeros(1, 2))[1].sum().backward()
    assert bias.grad.abs().min() > 1e-3


def test_mnist_variant_has_the_published_layers() -> None:
    spaces = Spaces(Box(0.0, 1.0, (784,)), Discrete(1))
    bonus = lpm.make("ama", spaces, variant="mnist", num_envs=32, rollout_steps=1)
    shapes = {n: tuple(p.shape) for n, p in bonus.dynamics.named_parameters() if p.ndim == 2}
    assert shapes == {
        "trunk.0.weight": (784, 784),
        "trunk.2.weight": (784, 784),
        "mean_hidden.0.weight": (784, 784),
        "variance_hidden.0.weight": (784, 784),
        "mean_head.weight": (784, 1568),
        "variance_head.weight": (784, 784),
    }
    assert bonus.optimizer("dynamics").param_groups[0]["lr"] == 1e-4
    pixels = torch.rand(1, 32, 784, generator=torch.Generator().manual_seed(0))
    batch = Transitions.build(pixels, torch.zeros(1, 32, dtype=torch.int64), pixels)
    # untrained: mean and log-variance near 0, so the reward is near MSE − 1
    assert float(bonus.step(batch).mean()) == pytest.approx(float(pixels.square().mean()) - 1, abs=0.15)


def test_parts_for_vectors_are_refused_for_images() -> None:
    images = MORE_SPACES["grid/discrete"]
    for field, value in (("skip", True), ("head_hidden", (8,))):
        with pytest.raises(ValueError, match=f"{field}: only for vector observations"):
            lpm.make("ama", images, **{field: value})


@pytest.mark.parametrize(
    ("field", "value"), [("clip", "both"), ("lam", 0.0), ("eta", -1.0), ("bounds", (1.0, 1.0)), ("normalise", "x")]
)
def test_bad_settings_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"AMAConfig\.{field}: expected .*, got "):
        lpm.make("ama", VECTOR, **{field: value})
