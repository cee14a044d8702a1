"""LBS: the KL and the loss by hand, what noise pays at the optimum, and what a plain transcription computes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from bonus_cases import IMAGE, VECTOR, arm, train

import lpm
from lpm.bonuses.lbs import LBS, Gaussian, evidence_loss, kl
from lpm.core.check import random_block
from lpm.core.spaces import Spaces

SIZE = {"num_envs": 4, "rollout_steps": 32}


def build(spaces: Spaces = VECTOR, **fields: Any) -> LBS:
    bonus = lpm.make("lbs", spaces, **SIZE, **fields)
    assert isinstance(bonus, LBS)
    return bonus


# ---- formulas -----------------------------------------------------------------------------------------------
def test_surprise_by_hand() -> None:
    q = Gaussian(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 2.0]]))
    p = Gaussian(torch.tensor([[0.0, 0.0]]), torch.tensor([[2.0, 1.0]]))
    # log(σp/σq) + (σq² + (μq − μp)²) / 2σp² − 1/2 of each
    expected = (math.log(2) + (1 + 1) / 8 - 0.5) + (-math.log(2) + 4 / 2 - 0.5)
    assert kl(q, p).item() == pytest.approx(expected)
    assert kl(q, q).item() == 0


def test_surprise_is_that_of_torch_and_never_negative() -> None:
    rng = torch.Generator().manual_seed(0)
    means, stds = torch.randn(2, 50, 6, generator=rng), 0.1 + torch.rand(2, 50, 6, generator=rng)
    q, p = Gaussian(means[0], stds[0]), Gaussian(means[1], stds[1])
    normal = torch.distributions.Normal
    expected = torch.distributions.kl_divergence(normal(*q), normal(*p)).sum(1)
    torch.testing.assert_close(kl(q, p), expected)
    assert kl(q, p).min() > 0


def test_loss_by_hand_and_against_the_likelihood() -> None:
    decoded, target = torch.tensor([[0.0, 1.0]]), torch.tensor([[2.0, 1.0]])
    loss = evidence_loss(torch.tensor([3.0]), decoded, target, 0.5)
    assert loss.item() == pytest.approx(0.5 * 3 + 2)
    likelihood = torch.distributions.Normal(decoded, 1.0).log_prob(target).sum()
    assert loss.item() == pytest.approx(1.5 - likelihood.item() - math.log(2 * math.pi))


def test_the_reward_is_what_a_plain_transcription_gives() -> None:
    bonus = build(normalise="none")
    train(bonus, 0.5, 2)
    block = random_block(VECTOR, seed=3)
    net = {name: p.detach().double().numpy() for name, p in bonus.named_parameters()}

    def layer(x: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
        return x @ net[f"{name}.weight"].T + net[f"{name}.bias"]

    def belief(x: np.ndarray[Any, Any], name: str) -> tuple[Any, Any, Any]:
        h = np.maximum(layer(np.maximum(layer(x, f"{name}.body.0"), 0), f"{name}.body.2"), 0)
        return layer(h, f"{name}.mean"), np.log1p(np.exp(layer(h, f"{name}.spread"))) + 1e-4, h

    o, o2 = (x.double().flatten(0, 1).numpy() for x in (block.obs, block.next_obs))
    mp, sp, h = belief(np.concatenate([o, np.eye(2)[block.action.flatten().numpy()]], 1), "prior")
    mq, sq, _ = belief(np.concatenate([h, o2], 1), "posterior")
    expected = (np.log(sp / sq) + (sq**2 + (mq - mp) ** 2) / (2 * sp**2) - 0.5).sum(1)
    np.testing.assert_allclose(bonus.score(block).flatten().numpy(), expected, rtol=1e-4, atol=1e-6)


# ---- noise --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("beta", [0.25, 1.0])
def test_noise_pays_half_the_log_of_variance_over_beta_for_ever(beta: float) -> None:
    """The optimum of the linear Gaussian case: a rate of ½ log(v / β) in each dimension with v > β, else 0."""
    sigma, dims = 1.5, 4
    bonus = build(normalise="none", beta=beta, lr=1e-2, epochs=4)
    means = train(bonus, sigma, 50)
    expected = dims * 0.5 * math.log(sigma**2 / beta)
    assert sum(means[-10:]) / 10 == pytest.approx(expected, rel=0.1)


def test_noise_below_beta_pays_nothing_in_the_end() -> None:
    means = train(build(normalise="none", beta=1.0, lr=1e-2, epochs=4), 0.5, 25)
    assert abs(sum(means[-5:]) / 5) < 0.01


def test_a_learnable_transition_pays_less_and_less() -> None:
    bonus = build(normalise="none", beta=0.1, lr=1e-2, epochs=4)
    means = train(bonus, 0.0, 25)
    assert means[-1] < 0.01
    assert max(means) > 10 * means[-1]
    away = float(bonus.score(arm(0.0, 0, start=6.0)).mean())
    assert away > 10 * means[-1]  # somewhere new is surprising again


# ---- images -------------------------------------------------------------------------------------------------
def test_random_features_are_standardised_once_and_pay_from_then_on() -> None:
    bonus = build(IMAGE, features=16, hidden=(16,), warmup=100, epochs=1)
    small = random_block(IMAGE, steps=8, envs=4)
    for seen in (32, 64, 96):
        assert bonus.step(small).abs().max() == 0
        assert bonus.update() == {}
        assert bonus.moments is not None
        assert int(bonus.moments.total) == seen
    bonus.step(small)
    assert "surprise" in bonus.update()
    frozen = bonus.moments.mean.clone()
    assert bonus.step(small).min() > 0
    bonus.update()
    assert torch.equal(bonus.moments.mean, frozen)
    assert not any(p.requires_grad for p in bonus.random.parameters())


@pytest.mark.parametrize(("field", "value"), [("beta", 0.0), ("latent", 0), ("normalise", "robust"), ("features", 0)])
def test_bad_settings_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"LBSConfig\.{field}: expected .*, got "):
        LBS.Config(**{field: value})
