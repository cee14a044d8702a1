from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from counting import LENGTHS, counting_envs
from gymnasium.vector import AutoresetMode

import lpm.envs  # noqa: F401
from lpm.agents.collect import Block, Collector
from lpm.agents.policy import ActorCritic, NetworkConfig
from lpm.core.monitor import NonFiniteError
from lpm.core.spaces import Spaces

MODES = list(AutoresetMode)


def collector_of(envs: Any, steps: int = 7) -> tuple[Collector, ActorCritic, torch.Generator]:
    generator = torch.Generator().manual_seed(0)
    spaces = Spaces.of(envs)
    return Collector(envs, spaces, steps, seed=3), ActorCritic(spaces, NetworkConfig(), 1, generator), generator


def rows(block: Block) -> list[tuple[int, ...]]:
    """(environment, episode, step before, step after, reward, terminated, truncated) of every valid transition."""
    t = block.transitions
    found = []
    for time, env in np.argwhere(block.valid):
        before, after = t.obs[time, env].int().tolist(), t.next_obs[time, env].int().tolist()
        assert before[:2] == after[:2], "a transition crosses from one episode into another"
        assert before[0] == env
        end = (int(block.terminated[time, env]), int(block.truncated[time, env]))
        found.append((*before, after[2], int(block.reward[time, env]), *end))
    return found


@pytest.mark.parametrize("mode", MODES)
def test_every_real_transition_arrives_once_and_no_reset_observation_is_a_successor(mode: AutoresetMode) -> None:
    collector, policy, generator = collector_of(counting_envs(mode))
    seen: list[tuple[int, ...]] = []
    for _ in range(9):
        seen += rows(collector.collect(policy, generator))
    for env, length in enumerate(LENGTHS):
        mine = [row for row in seen if row[0] == env]
        expected = []
        for k in range(len(mine)):
            episode, step = divmod(k, length)
            last = step == length - 1
            even = episode % 2 == 0
            expected.append(
                (env, episode, step, step + 1, 100 * episode + step + 1, int(last and even), int(last and not even))
            )
        assert mine == expected
        assert len(mine) >= 45, "no transition was lost"


@pytest.mark.parametrize("mode", MODES)
def test_filler_only_in_next_step_mode_and_exactly_after_each_end(mode: AutoresetMode) -> None:
    collector, policy, generator = collector_of(counting_envs(mode), steps=20)
    block = collector.collect(policy, generator)
    if mode is not AutoresetMode.NEXT_STEP:
        assert block.valid.all()
        return
    done = block.terminated | block.truncated
    np.testing.assert_array_equal(block.valid[1:], ~done[:-1])
    assert block.valid[0].all()


@pytest.mark.parametrize("mode", MODES)
def test_episode_returns_and_lengths(mode: AutoresetMode) -> None:
    collector, policy, generator = collector_of(counting_envs(mode, rows=1), steps=5)
    for _ in range(3):
        collector.collect(policy, generator)
    # episode k of environment 0 pays 100k + 1, 100k + 2, 100k + 3
    assert list(collector.sums.recent)[:3] == [(6.0, 3), (306.0, 3), (606.0, 3)]


def test_the_three_modes_see_the_same_transitions_of_a_native_environment() -> None:
    streams = []
    for mode in MODES:
        envs = gymnasium.make_vec(
            "lpm/MountainCar-v0", num_envs=2, noise=True, max_episode_steps=6, autoreset_mode=mode
        )
        collector, policy, generator = collector_of(envs, steps=40)
        block = collector.collect(policy, generator, uniform=True)
        t = block.transitions
        per_env = [t.next_obs[:, e][t.valid[:, e]][:6] for e in range(2)]
        streams.append(torch.cat(per_env))
    assert torch.equal(streams[0], streams[1])
    assert torch.equal(streams[0], streams[2])


@pytest.mark.parametrize("mode", MODES)
def test_coverage_counts_final_and_first_cells_and_noise_share(mode: AutoresetMode) -> None:
    envs = gymnasium.make_vec("lpm/MountainCar-v0", num_envs=2, noise=True, max_episode_steps=6, autoreset_mode=mode)
    collector, policy, generator = collector_of(envs, steps=30)
    block = collector.collect(policy, generator, uniform=True)
    resets = int((block.terminated | block.truncated).sum()) if mode is not AutoresetMode.NEXT_STEP else 0
    # one visit per step (filler shows the first cell of an episode), one per explicit reset, and the first reset
    assert collector.visits.sum() == 30 * 2 + resets + 2
    assert block.noise_share is not None
    assert 0.2 < block.noise_share < 0.8


def test_filler_counts_for_nothing_in_the_share_of_noise() -> None:
    """Episodes of two steps: the third row only begins the next one, and shows no noise."""
    envs = gymnasium.make_vec("lpm/MountainCar-v0", num_envs=2, noise=True, max_episode_steps=2)
    collector, policy, generator = collector_of(envs, steps=30)
    block = collector.collect(policy, generator, uniform=True)
    assert not block.valid[2::3].any()
    assert block.noise_share == pytest.approx(collector._noise[block.valid].mean())
    assert collector._noise[block.valid].mean() > collector._noise.mean()


def test_a_step_that_says_nothing_of_noise_shows_none() -> None:
    """Some environments speak of noise only where there is some: that of the block before must not be left."""
    envs = counting_envs(AutoresetMode.SAME_STEP)
    collector, policy, generator = collector_of(envs, steps=4)
    original, said = envs.step, [True] * 4 + [True, False, False, False]

    def speaking(actions: Any) -> Any:
        *outcome, info = original(actions)
        return *outcome, {**info, "noise": np.ones(3, dtype=bool)} if said.pop(0) else info

    envs.step = speaking  # type: ignore[method-assign]
    shares = [collector.collect(policy, generator).noise_share for _ in range(2)]
    assert shares == [1.0, 0.25]


def test_filler_is_no_first_visit() -> None:
    collector, _, _ = collector_of(gymnasium.make_vec("lpm/MountainCar-v0", num_envs=1))
    collector.visits[:] = 0
    first = collector._first_visits(np.array([[5], [5], [5]]), np.array([[False], [True], [True]]))
    assert first.ravel().tolist() == [False, True, False]


@pytest.mark.parametrize("limit", [11, 7])  # 7: episodes end with the block, and the next step is filler
def test_state_round_trip_is_exact(limit: int) -> None:
    def envs() -> Any:
        return gymnasium.make_vec("lpm/MountainCar-v0", num_envs=3, noise=True, max_episode_steps=limit)

    collector, policy, generator = collector_of(envs())
    collector.collect(policy, generator)
    state, draws = collector.state_dict(), generator.get_state()
    expected = collector.collect(policy, generator)
    other, _, _ = collector_of(envs())
    other.load_state_dict(state)
    generator.set_state(draws)
    got = other.collect(policy, generator)
    assert torch.equal(expected.transitions.next_obs, got.transitions.next_obs)
    assert torch.equal(expected.raw_action, got.raw_action)
    np.testing.assert_array_equal(expected.valid, got.valid)
    np.testing.assert_array_equal(collector.visits, other.visits)
    assert collector.sums.recent == other.sums.recent


def test_without_saved_state_new_episodes_begin() -> None:
    collector, policy, generator = collector_of(counting_envs(AutoresetMode.NEXT_STEP))
    assert not collector.exact
    collector.collect(policy, generator)
    state = collector.state_dict()
    assert state["envs"] is None
    other, _, _ = collector_of(counting_envs(AutoresetMode.NEXT_STEP))
    other.load_state_dict(state)
    block = other.collect(policy, generator)
    assert block.transitions.obs[0, :, 2].tolist() == [0, 0, 0]
    assert block.valid[0].all()
    assert other.total_steps == 2 * 7 * 3


def test_new_episodes_of_a_resumed_run_are_not_those_of_its_start() -> None:
    def envs() -> Any:
        return gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")

    collector, policy, generator = collector_of(envs())
    first = collector.collect(policy, generator).transitions.obs[0].clone()
    other, _, _ = collector_of(envs())
    other.load_state_dict(collector.state_dict())
    assert not torch.equal(other.collect(policy, generator).transitions.obs[0], first)


def test_an_environment_without_autoreset_mode_is_refused() -> None:
    envs = counting_envs(AutoresetMode.NEXT_STEP)
    envs.metadata = {}
    with pytest.raises(ValueError, match="autoreset_mode"):
        collector_of(envs)


def showing(change: Callable[[Any], Any]) -> Any:
    """Environments whose observations of a step are changed first."""
    envs = counting_envs(AutoresetMode.SAME_STEP)
    original = envs.step

    def step(actions: Any) -> Any:
        obs, *rest = original(actions)
        return change(obs), *rest

    envs.step = step  # type: ignore[method-assign]
    return envs


def test_nan_observations_are_named() -> None:
    def broken(obs: Any) -> Any:
        obs[1, 0] = np.nan
        return obs

    collector, policy, generator = collector_of(showing(broken))
    with pytest.raises(NonFiniteError, match=r"environment 1 \(observation\) is nan at step 1"):
        collector.collect(policy, generator)


def test_numbers_near_the_end_of_single_precision_are_numbers() -> None:
    """Their sum is none, which once gave a warning."""
    collector, policy, generator = collector_of(showing(lambda obs: np.full_like(obs, 3e38)))
    assert collector.collect(policy, generator).transitions.obs.max() == np.float32(3e38)


@pytest.mark.parametrize("mode", MODES)
def test_uniform_actions_follow_the_generator_not_the_policy(mode: AutoresetMode) -> None:
    collector, policy, generator = collector_of(counting_envs(mode), steps=400)
    with torch.no_grad():
        policy.actor[-1].bias[0] = 50.0  # type: ignore[union-attr, index]
    assert float(collector.collect(policy, generator).transitions.action.float().mean()) == 0.0
    share = float(collector.collect(policy, generator, uniform=True).transitions.action.float().mean())
    assert 0.45 < share < 0.55


def test_environments_that_only_claim_to_save_are_found_out() -> None:
    envs = gymnasium.make_vec("lpm/MountainCar-v0", num_envs=2)

    def refuse() -> Any:
        raise NotImplementedError("no")

    envs.get_state = refuse  # type: ignore[attr-defined]
    collector, policy, generator = collector_of(envs)
    assert not collector.exact
    collector.collect(policy, generator)
    assert collector.state_dict()["envs"] is None
