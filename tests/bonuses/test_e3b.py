"""E3B: the elliptical bonus by hand, against the explicit inverse, and over episodes."""

import math

import pytest
import torch
from gymnasium.spaces import Box, Discrete

from lpm.bonuses.e3b import E3B, E3BConfig, elliptical_bonuses
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions

SPACES = Spaces(Box(-10.0, 10.0, (3,)), Discrete(2))
LAW = [10.0, 0.909091, 0.476190, 0.322581, 0.243902]  # b₁/(1 + n·b₁), b₁ = 1/0.1


def build(num_envs: int = 1, **fields: object) -> E3B:
    return E3B(SPACES, E3BConfig(normalise="none", features=8, **fields), num_envs=num_envs)  # type: ignore[arg-type]


def elliptical_bonus(inverse: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    """One row of the running episode of each environment."""
    none = torch.zeros(len(h), dtype=torch.int64)
    return elliptical_bonuses(inverse, h.unsqueeze(1), none.unsqueeze(1), none, 0.1).squeeze(1)


def walk(states: torch.Tensor, done: torch.Tensor | None = None) -> Transitions:
    action = torch.zeros(states.shape[0] - 1, states.shape[1], dtype=torch.int64)
    return Transitions.build(states[:-1], action, states[1:], terminated=done)


def test_the_same_unit_vector_again_and_again() -> None:
    inverse = torch.eye(4, dtype=torch.float64).unsqueeze(0) / 0.1
    h = torch.tensor([[0.6, 0.0, 0.8, 0.0]], dtype=torch.float64)
    assert [elliptical_bonus(inverse, h).item() for _ in range(5)] == pytest.approx(LAW, abs=1e-6)


def test_an_orthogonal_vector_pays_in_full() -> None:
    inverse = torch.eye(2, dtype=torch.float64).unsqueeze(0) / 0.1
    for _ in range(7):
        elliptical_bonus(inverse, torch.tensor([[1.0, 0.0]], dtype=torch.float64))
    assert elliptical_bonus(inverse, torch.tensor([[0.0, 1.0]], dtype=torch.float64)).item() == pytest.approx(10.0)


def test_the_recursion_equals_the_explicit_inverse_and_stays_symmetric() -> None:
    rng = torch.Generator().manual_seed(0)
    inverse = torch.eye(16, dtype=torch.float64).repeat(3, 1, 1) / 0.1
    matrix = 0.1 * torch.eye(16, dtype=torch.float64).repeat(3, 1, 1)
    for _ in range(500):
        h = torch.randn(3, 16, generator=rng, dtype=torch.float64)
        expected = (h * torch.linalg.solve(matrix, h)).sum(1)
        assert torch.allclose(elliptical_bonus(inverse, h), expected, rtol=1e-8)
        matrix += h.unsqueeze(2) * h.unsqueeze(1)
    assert torch.allclose(inverse, torch.linalg.inv(matrix), atol=1e-10)
    assert torch.equal(inverse, inverse.mT)


def test_zero_features_pay_nothing_and_change_nothing() -> None:
    inverse = torch.eye(3, dtype=torch.float64).unsqueeze(0) / 0.1
    before = inverse.clone()
    assert elliptical_bonus(inverse, torch.zeros(1, 3, dtype=torch.float64)).item() == 0
    assert torch.equal(inverse, before)


def test_a_constant_episode_follows_the_law_from_its_first_observation() -> None:
    """The first observation enters C unpaid, so n starts at 1."""
    bonus = build()
    state = torch.tensor([1.0, -2.0, 0.5])
    rewards = bonus.step(walk(state.expand(5, 1, 3)))[:, 0]
    with torch.no_grad():
        b1 = bonus.model(state[None]).square().sum().item() / 0.1
    assert rewards.tolist() == pytest.approx([b1 / (1 + n * b1) for n in range(1, 5)], rel=1e-5)


def test_the_end_of_an_episode_restores_only_that_environment() -> None:
    bonus = build(num_envs=2)
    states = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0))
    done = torch.zeros(3, 2, dtype=torch.bool)
    done[2, 0] = True
    ending, going_on = bonus.score(walk(states, done)), bonus.score(walk(states))
    assert torch.equal(ending, going_on)  # the terminal transition is paid with the memory of its own episode
    bonus.step(walk(states, done))
    assert torch.equal(bonus.inverse[0], torch.eye(8, dtype=torch.float64) / 0.1)
    assert not torch.equal(bonus.inverse[1], torch.eye(8, dtype=torch.float64) / 0.1)
    assert bonus.running.tolist() == [False, True]


def test_layer_norm_fixes_the_scale() -> None:
    bonus = build(layer_norm=True)
    state = torch.tensor([[1.0, -2.0, 0.5]])
    with torch.no_grad():
        assert bonus.model(state).norm().item() == pytest.approx(math.sqrt(8), rel=1e-3)


def test_inverse_dynamics_is_learnt() -> None:
    """The action moves the first coordinate; the loss falls well below log 2."""
    bonus = build(num_envs=8, lr=1e-2)
    rng = torch.Generator().manual_seed(0)
    for _ in range(6):
        obs = torch.randn(16, 8, 3, generator=rng)
        action = torch.randint(0, 2, (16, 8), generator=rng)
        step = torch.zeros(16, 8, 3)
        step[..., 0] = 2.0 * action - 1
        bonus.step(Transitions.build(obs, action, obs + step, terminated=torch.ones(16, 8, dtype=torch.bool)))
        loss = bonus.update()["inverse_loss"].item()
    assert loss < 0.3 * math.log(2)


@pytest.mark.parametrize(("field", "value"), [("ridge", 0.0), ("features", 0), ("normalise", "x"), ("epochs", 0)])
def test_bad_settings_say_what_was_expected(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"E3BConfig\.{field}: expected .*, got"):
        E3BConfig(**{field: value})  # type: ignore[arg-type]


def test_a_block_with_ends_of_episodes_equals_one_row_at_a_time() -> None:
    rng = torch.Generator().manual_seed(0)
    rows = torch.randn(3, 40, 6, generator=rng, dtype=torch.float64)
    rows[:, 7] = 0
    ends = torch.rand(3, 40, generator=rng) < 0.1
    ends[2] = False
    episode = ends.cumsum(1) - ends.long()
    inverse = torch.eye(6, dtype=torch.float64).repeat(3, 1, 1) / 0.1
    block = inverse.clone()
    expected = []
    for t in range(40):
        expected.append(elliptical_bonus(inverse, rows[:, t]))
        inverse[ends[:, t]] = torch.eye(6, dtype=torch.float64) / 0.1
    bonuses = elliptical_bonuses(block, rows, episode, ends.sum(1), 0.1)
    assert torch.allclose(bonuses, torch.stack(expected, 1), rtol=1e-9)
    assert torch.allclose(block, inverse, rtol=1e-9, atol=1e-12)
