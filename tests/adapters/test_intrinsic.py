"""lpm.Intrinsic: true successors in all autoreset modes, arrays and tensors, exactly what the parts give by hand."""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from adapter_envs import LENGTHS, TASK, Constant, Paying, Tracing, assert_true_successors
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import lpm
import lpm.envs
from lpm import MixerConfig
from lpm.adapters.gymnasium import IntrinsicVectorReward
from lpm.core.monitor import PATIENCE

PLAIN = MixerConfig(weight=1.0, scale="none")
MODES = list(AutoresetMode)
ROWS = 3


def tracing(mode: AutoresetMode = AutoresetMode.NEXT_STEP, kind: Any = SyncVectorEnv, **settings: Any) -> Any:
    return kind([lambda row=row: Tracing(row, **settings) for row in range(ROWS)], autoreset_mode=mode)


def known(envs: Any, kind: type[Paying] = Paying, obs_key: str | None = None) -> Paying:
    observation = envs.single_observation_space if obs_key is None else envs.single_observation_space[obs_key]
    return kind(lpm.Spaces(observation, envs.single_action_space), num_envs=ROWS, rollout_steps=32)


def play(envs: Any, steps: int, seed: int | None = 0) -> Any:
    """The task's rewards (T, N); `seed` None goes on."""
    rng = np.random.default_rng(envs.steps if hasattr(envs, "steps") else 0)
    if seed is not None:
        envs.reset(seed=seed)
    rewards = []
    for _ in range(steps):
        _, reward, terminated, truncated, _ = envs.step(rng.integers(2, size=ROWS))
        done = terminated | truncated
        if envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED and done.any():
            envs.reset(options={"reset_mask": done})
        rewards.append(reward)
    return np.stack(rewards)


# ---- what the bonus sees ----------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
@pytest.mark.parametrize("mode", MODES)
def test_true_successors_in_every_mode(mode: AutoresetMode, kind: Any) -> None:
    inner = tracing(mode, kind)
    envs = lpm.Intrinsic(inner, known(inner), mixer=PLAIN)
    for block in range(2):
        envs.add_bonus(play(envs, 20, seed=0 if block == 0 else None))
    envs.close()
    blocks = envs.bonus.seen
    assert [block.shape for block in blocks] == [(20, ROWS)] * 2
    assert sum(map(assert_true_successors, blocks)) > 20
    assert any(not block.valid.all() for block in blocks) == (mode is AutoresetMode.NEXT_STEP)


@pytest.mark.parametrize("mode", MODES)
def test_native_environments_agree_with_gymnasiums_own(mode: AutoresetMode) -> None:
    """Successors of lpm's batched environments, against the same environments one by one."""
    seen = []
    for vectorization in ("vector_entry_point", "sync"):
        settings: Any = (
            {"vector_kwargs": {"autoreset_mode": mode}} if vectorization == "sync" else {"autoreset_mode": mode}
        )
        inner = gymnasium.make_vec(
            "lpm/Rooms-v0", num_envs=ROWS, vectorization_mode=vectorization, max_episode_steps=7, **settings
        )
        envs = lpm.Intrinsic(inner, known(inner, Constant), mixer=PLAIN)
        envs.add_bonus(play(envs, 20))
        (block,) = envs.bonus.seen
        before, after = block.obs[1:], block.next_obs[:-1]
        runs_on = ~block.done[:-1] & block.valid[1:] & block.valid[:-1]
        assert torch.equal(before[runs_on], after[runs_on])
        assert int(block.done.sum()) >= 6
        seen.append(block)
    ours, theirs = seen
    assert torch.equal(ours.done, theirs.done)
    assert torch.equal(ours.valid, theirs.valid)


@pytest.mark.parametrize("mode", MODES)
def test_dict_observations_with_a_chosen_key(mode: AutoresetMode) -> None:
    inner = tracing(mode, keyed=True)
    envs = lpm.Intrinsic(inner, known(inner, obs_key="here"), obs_key="here")
    envs.add_bonus(play(envs, 30))
    assert sum(map(assert_true_successors, envs.bonus.seen)) > 15
    named = lpm.Intrinsic(tracing(mode, keyed=True), "rnd", obs_key="here", rollout_steps=30)
    assert named.add_bonus(play(named, 30)).shape == (30, ROWS)


def test_the_environments_answers_pass_through() -> None:
    inner, envs = tracing(), lpm.Intrinsic(tracing(), "rnd")
    inner.reset(seed=0)
    envs.reset(seed=0)
    for _ in range(12):
        actions = np.array([0, 1, 0])
        for ours, theirs in zip(envs.step(torch.from_numpy(actions))[:4], inner.step(actions)[:4], strict=True):
            assert np.array_equal(ours, theirs)


# ---- what the loop gets -----------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_come_back_as_arrays_and_tensors_as_tensors(dtype: Any) -> None:
    for given in (lambda x: x.astype(dtype), lambda x: torch.from_numpy(x.astype(dtype))):
        envs = lpm.Intrinsic(tracing(), known(tracing(), Constant), mixer=PLAIN)
        rewards = given(play(envs, 5))
        mixed = envs.add_bonus(rewards)
        assert type(mixed) is type(rewards)
        assert mixed.dtype == rewards.dtype
    whole = lpm.Intrinsic(tracing(), known(tracing(), Constant), mixer=MixerConfig(0.5, scale="none"))
    play(whole, 2)
    assert whole.add_bonus(np.zeros((2, ROWS), np.int64)).tolist() == [[0.5] * ROWS] * 2  # not cut to integers


@pytest.mark.parametrize("mode", MODES)
def test_a_known_bonus_is_an_environment_that_gives_it_as_reward(mode: AutoresetMode) -> None:
    inner = tracing(mode)
    envs = lpm.Intrinsic(inner, known(inner), mixer=PLAIN)
    mixed = envs.add_bonus(play(envs, 20).astype(np.float32))
    given = lpm.Intrinsic(tracing(mode, pays=True), "none")
    assert np.allclose(mixed, play(given, 20), atol=1e-6)


@pytest.mark.parametrize("name", ["rnd", "lgn"])
def test_weight_zero_gives_the_tasks_rewards_back_bit_for_bit(name: str) -> None:
    envs = lpm.Intrinsic(tracing(), name, 0.0, rollout_steps=20)
    for _ in range(3):
        task = play(envs, 20, None if envs.steps else 0).astype(np.float32)
        assert np.array_equal(envs.add_bonus(task), task)


def test_mixing_settings_of_our_own_agents_leave_the_tasks_reward_as_it_is() -> None:
    envs = lpm.Intrinsic(tracing(), "rnd", mixer=MixerConfig(weight=0.0, scale="unit"), rollout_steps=20)
    task = play(envs, 20).astype(np.float32)
    assert np.array_equal(envs.add_bonus(task), task)


def test_it_is_what_the_parts_give_by_hand() -> None:
    envs = lpm.Intrinsic(tracing(AutoresetMode.SAME_STEP), "rnd", rollout_steps=15, seed=3)
    bonus = lpm.make("rnd", lpm.Spaces.of(tracing()), num_envs=ROWS, rollout_steps=15, seed=3)
    mixer = lpm.RewardMixer(MixerConfig(scale="task"), ROWS)
    by_hand = tracing(AutoresetMode.SAME_STEP)
    rng = np.random.default_rng(0)
    obs, _ = by_hand.reset(seed=0)
    envs.reset(seed=0)
    for _ in range(3):
        columns: list[list[Any]] = [[] for _ in range(6)]
        task = []
        for _ in range(15):
            actions = rng.integers(2, size=ROWS)
            after, reward, terminated, truncated, info = by_hand.step(actions)
            task.append(envs.step(actions)[1])
            successor = after.copy()
            for row in np.flatnonzero(terminated | truncated):
                successor[row] = info["final_obs"][row]
            for column, value in zip(columns, (obs, actions, successor, terminated, truncated, reward), strict=True):
                column.append(np.array(value))
            obs = after
        tensors = [torch.from_numpy(np.stack(column)) for column in columns]
        block = lpm.Transitions.build(
            *tensors[:3], terminated=tensors[3], truncated=tensors[4], reward=tensors[5].float()
        )
        raw = bonus.step(block)
        expected = mixer.mix(np.stack(columns[5]), raw.numpy(), block.valid.numpy()).total
        bonus.update()
        assert np.array_equal(envs.add_bonus(np.stack(task)), expected)


def test_metrics_hold_bonus_scales_and_both_returns() -> None:
    envs = lpm.Intrinsic(tracing(), "rnd", rollout_steps=20)
    envs.add_bonus(play(envs, 20))
    expected = {"bonus_mean", "predictor_loss", "task_scale", "bonus_scale", "share", "task_return", "shaped_return"}
    assert expected <= envs.metrics.keys()
    assert envs.steps == 60


def test_a_warning_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    inner = tracing()
    envs = lpm.Intrinsic(inner, known(inner, Constant), 1000.0)
    with caplog.at_level(logging.WARNING, "lpm"):
        for _ in range(2 * PATIENCE):
            envs.add_bonus(play(envs, 10, None if envs.steps else 0))
    assert len(caplog.records) == 1
    assert envs.monitor.found == {"dominates"}


# ---- state ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["rnd", "lgn", "ngu"])
def test_a_saved_one_goes_on_exactly(name: str, tmp_path: Path) -> None:
    def made() -> Any:
        return lpm.Intrinsic(gymnasium.make_vec("CartPole-v1", num_envs=ROWS), name, rollout_steps=20)

    def go_on(envs: Any, task: Any) -> Any:
        found = [envs.add_bonus(np.concatenate((task, play(envs, 13, 7))))]
        return found + [envs.add_bonus(play(envs, 20, seed)) for seed in (8, 9)]

    first, second, third = made(), made(), made()
    first.add_bonus(play(first, 20))
    waiting = play(first, 7, 3)  # in the middle of a rollout
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    first.save(tmp_path / "bonus.safetensors")
    third.load(tmp_path / "bonus.safetensors")
    expected = go_on(first, waiting)
    for other in (second, third):
        assert all(np.array_equal(a, b) for a, b in zip(go_on(other, waiting), expected, strict=True))
        assert other.steps == first.steps
        assert other.returns.means() == first.returns.means()


def test_rewards_of_the_steps_after_a_load_are_enough() -> None:
    """A loop that is begun anew has lost the rewards of the rollout that it was in."""
    first, second = (lpm.Intrinsic(tracing(), "rnd", rollout_steps=20) for _ in range(2))
    play(first, 7)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    after = play(second, 13)
    assert second.add_bonus(after).shape == after.shape
    play(second, 9)
    with pytest.raises(ValueError, match=r"expected rewards of shape \(9, 3\)"):
        second.add_bonus(np.zeros((2, ROWS)))  # as many as came after the load, once
    second.add_bonus(np.zeros((9, ROWS)))
    assert second.add_bonus(play(second, 20)).shape == (20, ROWS)


# ---- a reset in the middle of episodes --------------------------------------------------------------------
class Ending(Constant):
    """Notes the episodes that end without a transition."""

    def end_episodes(self, rows: torch.Tensor) -> None:
        self.ended = [*getattr(self, "ended", []), rows.tolist()]


@pytest.mark.parametrize("kind", [lpm.Intrinsic, IntrinsicVectorReward])
def test_a_reset_in_the_middle_ends_the_episode_for_the_bonus_and_counts_for_nothing(kind: Any) -> None:
    inner = gymnasium.make_vec("CartPole-v1", num_envs=ROWS)
    envs = kind(inner, known(inner, Ending), mixer=PLAIN)
    play(envs, 3)
    envs.reset(seed=1)
    play(envs, 3, None)
    if kind is lpm.Intrinsic:
        envs.add_bonus(np.ones((6, ROWS)))
        (block,) = envs.bonus.seen
        assert block.truncated[:, 0].tolist() == [False, False, True, False, False, False]
    else:
        assert envs.bonus.ended[-1] == [True] * ROWS
    assert envs.returns.means() == {}


def test_a_return_begins_at_the_reset_also_right_after_an_update() -> None:
    inner = gymnasium.make_vec("CartPole-v1", num_envs=ROWS)
    envs = lpm.Intrinsic(inner, known(inner), mixer=PLAIN)
    envs.add_bonus(play(envs, 3))
    envs.reset(seed=1)
    lengths = np.zeros(ROWS)
    task, over = [], np.zeros(ROWS, np.bool_)
    while not over.all():
        _, reward, terminated, _, _ = envs.step(np.zeros(ROWS, np.int64))
        task.append(reward)
        lengths += ~over
        over |= terminated
    envs.add_bonus(np.stack(task)[: len(task)])
    assert min(envs.returns._sums.recent)[0] == lengths.min()
    assert envs.metrics["task_return"] <= lengths.max()


def test_the_step_after_a_reset_is_a_transition_though_an_episode_had_just_ended() -> None:
    inner = tracing()  # at NEXT_STEP the step after an end is filler, unless the caller has reset
    envs = lpm.Intrinsic(inner, known(inner), mixer=PLAIN)
    play(envs, min(LENGTHS))
    envs.reset()
    rewards = play(envs, 1, None)
    envs.add_bonus(np.concatenate([np.zeros((min(LENGTHS), ROWS)), rewards]))
    (block,) = envs.bonus.seen
    assert block.valid.all()


@pytest.mark.parametrize("name", ["ngu", "e3b", "lgn"])
def test_an_episode_ended_from_outside_is_as_one_that_ended(name: str) -> None:
    spaces = lpm.Spaces(Box(-1, 1, (3,)), Discrete(2))
    obs = torch.randn(5, 101, ROWS, 3, generator=torch.Generator().manual_seed(0)).cumsum(1)
    actions, rewards = torch.zeros(100, ROWS, dtype=torch.int64), []
    for outside in (True, False):
        bonus = lpm.make(name, spaces, num_envs=ROWS, rollout_steps=100)
        for block in obs[:4]:
            ended = torch.zeros(100, ROWS, dtype=torch.bool)
            ended[-1] = not outside
            bonus.step(lpm.Transitions.build(block[:-1], actions, block[1:], truncated=ended))
            bonus.end_episodes(torch.full((ROWS,), outside))
            bonus.update()
        rewards.append(bonus.score(lpm.Transitions.build(obs[4, :-1], actions, obs[4, 1:])))
    assert rewards[0].any()
    assert torch.equal(*rewards)


# ---- bad input --------------------------------------------------------------------------------------------
def test_a_rollout_longer_than_the_bonus_keeps_is_refused() -> None:
    envs = lpm.Intrinsic(tracing(), "rnd", rollout_steps=8)
    play(envs, 8)
    with pytest.raises(ValueError, match="add_bonus after at most rollout_steps=8 steps; for longer rollouts pass"):
        play(envs, 1, None)


@pytest.mark.parametrize("given", [[[1.0] * ROWS] * 5, None])
def test_rewards_must_be_an_array_or_a_tensor(given: Any) -> None:
    envs = lpm.Intrinsic(tracing(), "rnd")
    play(envs, 5)
    with pytest.raises(ValueError, match=f"expected a NumPy array or a tensor, got {type(given).__name__}"):
        envs.add_bonus(given)


def test_bfloat16_comes_back_as_bfloat16() -> None:
    envs = lpm.Intrinsic(tracing(), "rnd")
    assert envs.add_bonus(torch.from_numpy(play(envs, 5)).bfloat16()).dtype == torch.bfloat16


def test_a_sum_beyond_single_precision_is_refused_with_what_came() -> None:
    inner = tracing()
    envs = lpm.Intrinsic(inner, known(inner, Constant), mixer=MixerConfig(weight=1e38, scale="none"))
    task = play(envs, 5)
    with pytest.raises(ValueError, match=r"finite sum .* task rewards up to 3e\+38 .*weight=1e\+38"):
        envs.add_bonus(np.full(task.shape, 3e38, np.float32))


@pytest.mark.parametrize("state", [{}, None, {"bonus": {}}])
def test_a_state_that_is_none_is_refused(state: Any) -> None:
    with pytest.raises(ValueError, match="Intrinsic: "):
        lpm.Intrinsic(tracing(), "rnd").load_state_dict(state)


def test_environments_of_stable_baselines_are_told_what_to_use() -> None:
    from stable_baselines3.common.env_util import make_vec_env

    with pytest.raises(ValueError, match=r"got DummyVecEnv; for Stable-Baselines3 there is .*IntrinsicCallback"):
        lpm.Intrinsic(make_vec_env("CartPole-v1"), "rnd")  # type: ignore[arg-type]


def test_rewards_of_another_shape_and_a_second_call_are_refused() -> None:
    envs = lpm.Intrinsic(tracing(), "rnd")
    with pytest.raises(ValueError, match=r"\(T, N\) with T of at least 1, .* got \(0, 3\) after 0 steps"):
        envs.add_bonus(np.zeros((0, ROWS)))
    task = play(envs, 5)
    for wrong in (task[:4], task[:, :2], task[0], task[None]):
        with pytest.raises(ValueError, match=r"expected rewards of shape \(5, 3\), those of all steps since the last"):
            envs.add_bonus(wrong)
    envs.add_bonus(task)
    with pytest.raises(ValueError, match=r"those of all steps since the last call, got \(5, 3\) after 0 steps"):
        envs.add_bonus(task)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rewards_that_are_no_numbers_are_refused_and_change_nothing(value: float) -> None:
    envs = lpm.Intrinsic(tracing(), "rnd")
    task = play(envs, 5)
    before = copy.deepcopy(envs.state_dict())
    bad = task.copy()
    bad[2, 1] = value
    with pytest.raises(ValueError, match="expected finite rewards"):
        envs.add_bonus(bad)
    after = envs.state_dict()
    assert all(torch.equal(before["mixer"][key], after["mixer"][key]) for key in before["mixer"])
    assert np.isfinite(envs.add_bonus(task)).all()


@pytest.mark.parametrize("kind", [lpm.Intrinsic, IntrinsicVectorReward])
def test_a_reward_of_the_environment_that_is_no_number_is_refused_at_its_step(
    kind: type[lpm.Intrinsic], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It once waited with the next steps, of which one more was refused, or the whole rollout was lost."""
    inner, still = tracing(), np.zeros(ROWS, dtype=np.int64)
    envs = kind(inner, known(inner), mixer=PLAIN)
    envs.reset(seed=0)
    rewards = [envs.step(still)[1]]
    with monkeypatch.context() as broken:
        broken.setattr("adapter_envs.TASK", np.full_like(TASK, np.nan))
        with pytest.raises(ValueError, match="reward: expected finite rewards of single precision, got nan"):
            envs.step(still)
    rewards += [envs.step(still)[1] for _ in range(3)]
    if kind is lpm.Intrinsic:
        envs.add_bonus(np.stack(rewards))
    assert sum(block.shape[0] for block in envs.bonus.seen) == 4  # type: ignore[attr-defined, union-attr]


def test_observations_beyond_single_precision_are_refused_with_no_other_warning() -> None:
    class Far(Tracing):
        def __init__(self, row: int) -> None:
            super().__init__(row)
            self.observation_space = Box(-np.inf, np.inf, (3,), np.float64)

        def _obs(self) -> Any:
            return np.full(3, 1e300)

    inner = SyncVectorEnv([lambda: Far(0)] * ROWS)
    envs = lpm.Intrinsic(inner, known(inner))
    rewards = play(envs, 4)
    with pytest.raises(ValueError, match="expected finite float32 numbers"):
        envs.add_bonus(rewards)


@pytest.mark.parametrize("kind", [complex, object, np.dtype("U1"), np.dtype("datetime64[s]")], ids=str)
def test_rewards_of_another_type_are_refused_and_the_rollout_still_waits(kind: Any) -> None:
    """Complex ones were refused by NumPy, after the bonus had taken the rollout."""
    envs = lpm.Intrinsic(tracing(), "rnd")
    task = play(envs, 5)
    with pytest.raises(ValueError, match="rewards: expected real numbers, got"):
        envs.add_bonus(np.zeros(task.shape, np.int64).astype(kind))
    assert np.isfinite(envs.add_bonus(task)).all()


def test_environments_that_cannot_be_read_are_refused() -> None:
    class Silent(gymnasium.vector.VectorWrapper):
        def step(self, actions: Any) -> Any:
            *rest, info = super().step(actions)
            return *rest, {key: value for key, value in info.items() if key != "final_obs"}

    envs = lpm.Intrinsic(Silent(tracing(AutoresetMode.SAME_STEP)), "rnd")
    with pytest.raises(ValueError, match=r"expected info\['final_obs'\]"):
        play(envs, max(LENGTHS))
    unknown = Silent(tracing())
    unknown.metadata = {}
    with pytest.raises(ValueError, match=r"expected metadata\['autoreset_mode'\]"):
        lpm.Intrinsic(unknown, "rnd")
    with pytest.raises(ValueError, match=r"expected a gymnasium\.vector\.VectorEnv, got Tracing"):
        lpm.Intrinsic(Tracing(), "rnd")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected reset\(\) before the first step"):
        lpm.Intrinsic(tracing(), "rnd").step(np.zeros(ROWS, np.int64))


def test_bad_settings_are_refused() -> None:
    for settings, message in (
        ({"bonus": "rdn"}, "unknown bonus 'rdn'; did you mean rnd"),
        ({"bonus": "eme"}, "needs the policy's parameters"),
        ({"weight": -0.1}, "MixerConfig.weight"),
        ({"weight": PLAIN}, "weight: expected a number, got a MixerConfig; pass it as mixer="),
        ({"weight": 0.1, "mixer": PLAIN}, "weight: expected it in the MixerConfig"),
        ({"rollout_steps": 0}, "rollout_steps: expected an integer of at least 1, got 0"),
        ({"obs_key": "here"}, "obs_key: expected None"),
        ({"num_envs": 5}, "bonus: expected no num_envs, which the environments say, got"),
        ({"bonus": "lgn", "memory_size": 10**13}, "expected settings that fit into memory"),
    ):
        with pytest.raises(ValueError, match=message):
            lpm.Intrinsic(tracing(), **settings)
