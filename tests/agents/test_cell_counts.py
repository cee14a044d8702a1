"""The count of true cells: its reward, that an agent learns from it, that its counts are saved."""

from __future__ import annotations

import copy

import gymnasium
import numpy as np
import pytest

from lpm.agents import PPO, PPOConfig
from lpm.agents.agent import rank_biserial
from lpm.agents.cell_counts import CellCounts
from lpm.runs import RunConfig

YES = np.ones((4, 1), dtype=np.bool_)
NO = ~YES


def column(*cells: int) -> np.ndarray:
    return np.array(cells, dtype=np.int64)[:, None]


def test_entering_a_cell_is_paid_by_how_often_it_was_entered() -> None:
    counts = CellCounts(1, 3)
    paid = counts.reward(column(0, 1, 0, 1), YES, NO)[:, 0]
    np.testing.assert_allclose(paid, [1, 1, 2**-0.5, 2**-0.5], rtol=1e-6)


def test_staying_filler_and_unknown_places_are_not_paid() -> None:
    counts = CellCounts(1, 3)
    assert counts.reward(column(2, 2, 2, 2), YES, NO)[:, 0].tolist() == [1, 0, 0, 0]
    assert counts.reward(column(-1, 1, 1, 1), NO, NO).sum() == 0
    assert counts.reward(column(-1, -1, -1, -1), YES, NO).sum() == 0


def rooms_agent(**settings: object) -> PPO:
    envs = gymnasium.make_vec("lpm.envs:lpm/Rooms-v0", num_envs=4, num_rooms=3, max_episode_steps=60)
    config = PPOConfig(num_envs=4, rollout_steps=32)
    return PPO(envs, None, config, total_steps=20_000, seed=0, policy="cell_counts", **settings)  # type: ignore[arg-type]


def test_an_agent_with_true_counts_resumes_exactly() -> None:
    agent, other = rooms_agent(), rooms_agent()
    for _ in range(3):
        agent.cycle()
    other.load_state_dict(copy.deepcopy(agent.state_dict()))
    assert [agent.cycle() for _ in range(2)] == [other.cycle() for _ in range(2)]


def test_first_visits_are_all_that_a_count_rewards_in_full() -> None:
    agent = rooms_agent()
    block = agent.collector.collect(agent.policy, agent.generator)
    paid = agent.raw_bonus(block)
    assert block.first_visits.sum() == len(np.unique(block.cells[block.valid & (block.cells > 0)]))
    assert paid[block.first_visits].min() == 1
    assert rank_biserial(paid[block.first_visits], paid[block.valid & ~block.first_visits]) > 0.8


def test_what_it_cannot_do_is_said() -> None:
    envs = gymnasium.make_vec("CartPole-v1", num_envs=4)
    with pytest.raises(ValueError, match="an environment with cells"):
        PPO(envs, None, PPOConfig(num_envs=4), total_steps=100, policy="cell_counts")
    with pytest.raises(ValueError, match=r"expected the bonus .none., got .rnd."):
        RunConfig("lpm/Rooms-v0", bonus="rnd", policy="cell_counts")
