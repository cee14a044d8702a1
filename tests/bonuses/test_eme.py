"""EME: the pieces of the metric by hand, its fixed point, and what it needs."""

import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch.distributions import Categorical, Normal, kl_divergence

from lpm.bonuses.eme import EME, EMEConfig, distance, doubt_scale, policy_divergence, reward_gap
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions

SPACES = Spaces(Box(0.0, 1.0, (2,)), Discrete(1))


def chain(rewards: tuple[float, float], generator: torch.Generator, policies: float = 0.0) -> Transitions:
    """Two states that each lead to themselves, in random order; policies differ by `policies` in a logit."""
    state = torch.randint(0, 2, (16, 4), generator=generator)
    obs = torch.eye(2)[state]
    return Transitions.build(
        obs,
        torch.zeros(16, 4, dtype=torch.int64),
        obs,
        reward=torch.tensor(rewards)[state],
        policy=policies * state.float().unsqueeze(2),
    )


def learnt_distance(bonus: EME) -> float:
    with torch.no_grad():
        psi = bonus.psi(bonus.experience.input(torch.eye(2)))
    return distance(psi[:1], psi[1:]).item()


def train(discount: float, rewards: tuple[float, float], updates: int) -> EME:
    config = EMEConfig(discount=discount, normalise="none", lr=2e-3, target_decay=0.9, batch_size=64, epochs=8)
    bonus = EME(SPACES, config, num_envs=4, rollout_steps=16)
    rng = torch.Generator().manual_seed(0)
    for _ in range(updates):
        bonus.step(chain(rewards, rng))
        bonus.update()
    return bonus


# ---- pieces -------------------------------------------------------------------------------------------------
def test_scale_is_the_clipped_variance() -> None:
    zeta = torch.tensor([0.0, 0.3, 1.0, 5.0, 50.0])
    assert doubt_scale(zeta, 10.0).tolist() == [1, 1, 1, 5, 10]


def test_the_reward_gap_removes_the_noise() -> None:
    """E(r_i − r_j)² − var_i − var_j = (2 − (−1))² for N(2, 1.5) and N(−1, 0.5): the root of the mean is 3."""
    rng = torch.Generator().manual_seed(0)
    r_i = 2 + 1.5 * torch.randn(400_000, generator=rng, dtype=torch.float64)
    r_j = -1 + 0.5 * torch.randn(400_000, generator=rng, dtype=torch.float64)
    mean_square = (r_i - r_j).square().mean()
    gap = reward_gap(mean_square.sqrt(), torch.zeros(()), torch.tensor(2.25), torch.tensor(0.25))
    assert gap.item() == pytest.approx(3.0, abs=0.02)
    one, zero = torch.ones(()), torch.zeros(())
    assert reward_gap(one, one, one, zero).item() == 0  # a negative radicand


def test_distance_of_a_state_to_itself_is_zero() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    d = distance(x, x)
    assert d.tolist() == [0, 0, 0]
    d.sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert bool(torch.isfinite(x.grad).all())


def test_divergence_of_discrete_policies_adds_up_over_factors() -> None:
    spaces = Spaces(Box(0.0, 1.0, (2,)), MultiDiscrete([3, 2]))
    p, q = torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(0))
    expected = sum(
        kl_divergence(Categorical(logits=p[:, part]), Categorical(logits=q[:, part]))
        for part in (slice(0, 3), slice(3, 5))
    )
    assert torch.allclose(policy_divergence(spaces, p, q), torch.as_tensor(expected), atol=1e-6)


def test_divergence_of_gaussian_policies() -> None:
    spaces = Spaces(Box(0.0, 1.0, (2,)), Box(-1.0, 1.0, (3,)))
    p, q = torch.randn(2, 6, 6, generator=torch.Generator().manual_seed(0))
    expected = kl_divergence(Normal(p[:, :3], p[:, 3:].exp()), Normal(q[:, :3], q[:, 3:].exp())).sum(1)
    assert torch.allclose(policy_divergence(spaces, p, q), expected, rtol=1e-5)
    far = torch.tensor([[0.0, 0, 0, 1e4, 1e4, 1e4]])
    assert bool(torch.isfinite(policy_divergence(spaces, far, -far)).all())


def test_equal_members_have_no_doubt() -> None:
    bonus = EME(SPACES, EMEConfig(normalise="none"))
    psi, code = torch.randn(5, 128, generator=torch.Generator().manual_seed(0)), torch.zeros(5, 0)
    assert bonus._doubt(psi, code).min().item() > 0
    with torch.no_grad():
        for parameter in bonus.ensemble.parameters():
            parameter.copy_(parameter[:1].expand_as(parameter))
    assert bonus._doubt(psi, code).max().item() < 1e-12


# ---- the fixed point ----------------------------------------------------------------------------------------
def test_two_states_with_rewards_0_and_1_are_one_over_one_minus_gamma_apart() -> None:
    assert learnt_distance(train(0.5, (0.0, 1.0), 30)) == pytest.approx(2.0, rel=0.1)


def test_equal_rewards_and_policies_bring_states_together() -> None:
    assert learnt_distance(train(0.5, (0.3, 0.3), 30)) < 0.1


def test_the_bonus_is_the_distance_travelled() -> None:
    bonus = train(0.5, (0.0, 1.0), 2)
    step = Transitions.build(
        torch.tensor([[[1.0, 0.0]]]),
        torch.zeros(1, 1, dtype=torch.int64),
        torch.tensor([[[0.0, 1.0]]]),
        reward=torch.zeros(1, 1),
        policy=torch.zeros(1, 1, 1),
    )
    assert bonus.score(step).item() == pytest.approx(learnt_distance(bonus), rel=1e-4)  # doubt below 1: scale 1


def test_nothing_lies_ahead_of_a_terminal_state() -> None:
    """Terminal self-loops: the distance is the reward gap alone."""
    config = EMEConfig(discount=0.5, normalise="none", lr=2e-3, target_decay=0.9, batch_size=64, epochs=8)
    bonus = EME(SPACES, config, num_envs=4, rollout_steps=16)
    rng = torch.Generator().manual_seed(0)
    for _ in range(30):
        block = chain((0.0, 1.0), rng)
        bonus.step(Transitions(**{**vars(block), "terminated": torch.ones(16, 4, dtype=torch.bool)}))
        bonus.update()
    assert learnt_distance(bonus) == pytest.approx(1.0, rel=0.1)


def test_missing_fields_are_named() -> None:
    bonus = EME(SPACES, EMEConfig())
    obs = torch.zeros(1, 1, 2)
    bare = Transitions.build(obs, torch.zeros(1, 1, dtype=torch.int64), obs)
    with pytest.raises(ValueError, match=r"EME needs Transitions\.reward, which is missing"):
        bonus.step(bare)


@pytest.mark.parametrize(("field", "value"), [("discount", 1.0), ("max_scale", 0.5), ("keep", 0.0), ("members", 0)])
def test_bad_settings_say_what_was_expected(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"EMEConfig\.{field}: expected .*, got"):
        EMEConfig(**{field: value})  # type: ignore[arg-type]
