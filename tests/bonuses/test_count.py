"""Counts over the run and within the episode."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

import lpm
from lpm.bonuses.count import CountConfig, EpisodicCountConfig
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions

GRID = Spaces(Box(0, 10, (7, 7, 3), np.uint8), Discrete(4))
LAW = [1.0, 0.707107, 0.577350, 0.5]


def block(states: list[list[int]], done: list[list[bool]] | None = None) -> Transitions:
    """A walk through grid states named by one number, (T + 1) × N."""
    obs = torch.tensor(states, dtype=torch.uint8)[..., None, None, None].expand(-1, -1, 7, 7, 3).clone()
    action = torch.zeros(len(states) - 1, len(states[0]), dtype=torch.int64)
    return Transitions.build(obs[:-1], action, obs[1:], terminated=None if done is None else torch.tensor(done))


def test_one_state_pays_one_over_root_n() -> None:
    bonus = lpm.make("count", GRID)
    rewards = bonus.step(block([[0], [1], [1], [1], [1]]))[:, 0]
    assert rewards.tolist() == pytest.approx(LAW, abs=1e-6)


def test_environments_share_one_table_and_are_paid_alike() -> None:
    bonus = lpm.make("count", GRID, num_envs=2)
    rewards = bonus.step(block([[0, 0], [1, 1], [1, 2]]))
    assert rewards[0].tolist() == pytest.approx([LAW[1], LAW[1]])  # both visits count before either is paid
    assert rewards[1].tolist() == pytest.approx([LAW[2], LAW[0]])


def test_global_counts_survive_the_end_of_an_episode() -> None:
    bonus = lpm.make("count", GRID)
    rewards = [bonus.step(block([[0], [1]], [[True]])).item() for _ in range(4)]
    assert rewards == pytest.approx(LAW, abs=1e-6)


def test_episodic_counts_start_again_with_the_episode() -> None:
    bonus = lpm.make("episodic_count", GRID, num_envs=2)
    end = [[False, False], [False, False], [True, False], [False, False]]
    rewards = bonus.step(block([[0, 0], [1, 1], [1, 1], [1, 1], [1, 1]], end))
    assert rewards[:, 1].tolist() == pytest.approx(LAW, abs=1e-6)
    # environment 0 starts anew in state 1: arriving there again is the second visit of that episode
    assert rewards[:, 0].tolist() == pytest.approx([*LAW[:3], LAW[1]], abs=1e-6)


def test_the_first_observation_of_an_episode_is_a_visit() -> None:
    bonus = lpm.make("episodic_count", GRID)
    assert bonus.step(block([[0], [0]])).item() == pytest.approx(LAW[1])


def test_a_full_memory_forgets_the_oldest_visit() -> None:
    bonus = lpm.make("episodic_count", GRID, memory_size=2)
    rewards = bonus.step(block([[0], [1], [2], [0]]))[:, 0]
    assert rewards.tolist() == [1.0, 1.0, 1.0]


def test_vectors_are_counted_by_cell() -> None:
    spaces = Spaces(Box(-1.0, 1.0, (2,)), Discrete(2))
    bonus = lpm.make("count", spaces, bins=10)
    obs = torch.tensor([[0.0, 0.0], [0.51, 0.51], [0.55, 0.55], [0.75, 0.55]])[:, None]
    rewards = bonus.step(Transitions.build(obs[:-1], torch.zeros(3, 1, dtype=torch.int64), obs[1:]))[:, 0]
    assert rewards.tolist() == pytest.approx([LAW[0], LAW[1], LAW[0]])


def test_noise_is_always_new() -> None:
    """The known failure: float noise never falls twice in the same cell, so the bonus never decays."""
    spaces = Spaces(Box(-1.0, 1.0, (8,)), Discrete(2))
    bonus = lpm.make("count", spaces)
    noise = torch.rand(201, 1, 8, generator=torch.Generator().manual_seed(0)) * 2 - 1
    rewards = bonus.step(Transitions.build(noise[:-1], torch.zeros(200, 1, dtype=torch.int64), noise[1:]))
    assert rewards[-50:].min().item() == 1.0


@pytest.mark.parametrize(
    ("config", "field", "value"),
    [
        (CountConfig, "table_bits", 0),
        (CountConfig, "key", "dict"),
        (CountConfig, "bin_width", 0.0),
        (EpisodicCountConfig, "memory_size", 0),
    ],
)
def test_bad_settings_say_what_was_expected(config: type, field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"{config.__name__}\.{field}: expected .*, got"):
        config(**{field: value})
