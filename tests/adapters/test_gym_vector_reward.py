"""IntrinsicVectorReward: true successors in all autoreset modes, both rewards, updates, state."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from adapter_envs import LENGTHS, PAY, TASK, Paying, Tracing, assert_true_successors
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import lpm
import lpm.envs
from lpm import MixerConfig
from lpm.adapters.gymnasium import IntrinsicVectorReward
from lpm.storage.state_file import load
from lpm.utils.versions import pip_install

PLAIN = MixerConfig(weight=1.0, scale="none")
MODES = list(AutoresetMode)


def tracing(mode: AutoresetMode = AutoresetMode.NEXT_STEP, kind: Any = SyncVectorEnv, **settings: Any) -> Any:
    return kind([lambda row=row: Tracing(row, **settings) for row in range(3)], autoreset_mode=mode)


def wrapped(
    envs: Any, mixer: MixerConfig = PLAIN, kind: type[Paying] = Paying, obs_key: str | None = None, every: int = 8
) -> Any:
    observation = envs.single_observation_space if obs_key is None else envs.single_observation_space[obs_key]
    bonus = kind(lpm.Spaces(observation, envs.single_action_space), num_envs=3, rollout_steps=every)
    return IntrinsicVectorReward(envs, bonus, mixer=mixer, obs_key=obs_key)


def play(envs: Any, steps: int, mode: AutoresetMode, seed: int = 0) -> list[tuple[Any, ...]]:
    rng = np.random.default_rng(seed)
    envs.reset(seed=0)
    outcomes = []
    for _ in range(steps):
        actions = rng.integers(2, size=3)
        outcome = envs.step(actions)
        done = outcome[2] | outcome[3]
        if mode is AutoresetMode.DISABLED and done.any():
            envs.reset(options={"reset_mask": done})
        outcomes.append((actions, *outcome))
    return outcomes


@pytest.mark.parametrize("mode", MODES)
def test_the_bonus_sees_final_observations_and_no_reset(mode: AutoresetMode) -> None:
    envs = wrapped(tracing(mode))
    outcomes = play(envs, 40, mode)
    blocks = envs.bonus.seen
    ended = sum(map(assert_true_successors, blocks))
    assert ended == sum(int((o[3] | o[4]).sum()) for o in outcomes) > 20
    filler = sum(int((~block.valid).sum()) for block in blocks)
    ends_before_the_last = sum(int((o[3] | o[4]).sum()) for o in outcomes[:-1])
    assert filler == (ends_before_the_last if mode is AutoresetMode.NEXT_STEP else 0)


@pytest.mark.parametrize("mode", MODES)
def test_the_reward_is_what_an_environment_that_pays_the_bonus_itself_returns(mode: AutoresetMode) -> None:
    mixed, paid = play(wrapped(tracing(mode)), 40, mode), play(tracing(mode, pays=True), 40, mode)
    for ours, theirs in zip(mixed, paid, strict=True):
        assert np.array_equal(ours[1], theirs[1])
        assert np.allclose(ours[2], theirs[2], atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_both_rewards_are_in_info(mode: AutoresetMode) -> None:
    ended = np.zeros(3, dtype=bool)
    for actions, obs, reward, terminated, truncated, info in play(wrapped(tracing(mode)), 30, mode):
        if mode is AutoresetMode.NEXT_STEP:
            assert (info["extrinsic_reward"][ended] == 0).all()
            assert (info["intrinsic_reward"][ended] == 0).all()
            alive = ~ended & ~(terminated | truncated)
        else:
            alive = ~(terminated | truncated)
        step = obs[:, 2].astype(int)
        assert np.allclose(info["extrinsic_reward"][alive], TASK[step, actions][alive])
        assert np.array_equal(info["intrinsic_reward"][alive], PAY[step, actions][alive])
        assert np.array_equal(reward, info["extrinsic_reward"] + info["intrinsic_reward"])
        assert info["_intrinsic_reward"].all()
        ended = terminated | truncated


def test_the_reward_can_be_replaced() -> None:
    envs = wrapped(tracing(), mixer=MixerConfig(weight=0.5, extrinsic_weight=0.0, scale="none"))
    for _, _, reward, *_, info in play(envs, 20, AutoresetMode.NEXT_STEP):
        assert np.allclose(reward, 0.5 * info["intrinsic_reward"])


def test_weight_zero_returns_the_rewards_of_the_environment_exactly() -> None:
    envs = wrapped(tracing(), mixer=MixerConfig(weight=0.0, scale="task"))
    for ours, theirs in zip(
        play(envs, 30, AutoresetMode.NEXT_STEP), play(tracing(), 30, AutoresetMode.NEXT_STEP), strict=True
    ):
        assert np.array_equal(ours[2], theirs[2])


def test_updates_come_as_often_as_asked() -> None:
    envs = wrapped(tracing(), every=7)
    play(envs, 30, AutoresetMode.NEXT_STEP)
    assert envs.bonus.updates == 4
    assert envs.metrics["updates"] == 4.0


@pytest.mark.parametrize("mode", MODES)
def test_dict_observations_with_a_chosen_key(mode: AutoresetMode) -> None:
    envs = wrapped(tracing(mode, keyed=True), obs_key="here")
    play(envs, 30, mode)
    assert sum(map(assert_true_successors, envs.bonus.seen)) > 15


def test_a_dict_of_final_observations_is_read_too() -> None:
    class Whole(gymnasium.vector.VectorWrapper):
        """Final observations as one dict of arrays, as some batched environments give them."""

        def step(self, actions: Any) -> Any:
            obs, *rest, info = super().step(actions)
            if "final_obs" in info:
                rows = [np.zeros(3, np.float32) if row is None else row["here"] for row in info["final_obs"]]
                info["final_obs"] = {"here": np.stack(rows)}
            return obs, *rest, info

    envs = wrapped(Whole(tracing(AutoresetMode.SAME_STEP, keyed=True)), obs_key="here")
    play(envs, 30, AutoresetMode.SAME_STEP)
    assert sum(map(assert_true_successors, envs.bonus.seen)) > 15


def test_async_environments_that_reuse_their_memory() -> None:
    envs = wrapped(tracing(AutoresetMode.SAME_STEP, AsyncVectorEnv, continuous=False))
    play(envs, 20, AutoresetMode.SAME_STEP)
    envs.close()
    assert sum(map(assert_true_successors, envs.bonus.seen)) > 10


def test_a_reset_in_the_middle_begins_anew_and_makes_no_transition() -> None:
    envs = wrapped(tracing())
    play(envs, 2, AutoresetMode.NEXT_STEP)
    play(envs, 2, AutoresetMode.NEXT_STEP)
    assert len(envs.bonus.seen) == 4
    for block in envs.bonus.seen:
        assert_true_successors(block)


@pytest.mark.parametrize(("name", "quick"), [("lpm", {"dynamics_steps": 2, "error_steps": 2}), ("lgn", {"warmup": 16})])
def test_save_load_and_go_on_equals_going_on(name: str, quick: dict[str, Any], tmp_path: Path) -> None:
    def lpm_envs() -> Any:
        envs = gymnasium.make_vec("lpm/MountainCar-v0", num_envs=3, noise=True, max_episode_steps=20)
        bonus = lpm.make(name, lpm.Spaces.of(envs), num_envs=3, rollout_steps=10, **quick)
        return IntrinsicVectorReward(envs, bonus, 0.5)

    def go_on(envs: Any, seed: int, steps: int) -> list[Any]:
        rng = np.random.default_rng(seed)
        envs.reset(seed=seed)
        return [envs.step(rng.uniform(-1, 1, (3, 2)).astype(np.float32))[1] for _ in range(steps)]

    first, second = lpm_envs(), lpm_envs()
    go_on(first, 0, 37)  # in the middle of a block
    first.save(tmp_path / "bonus.safetensors")
    second.load(tmp_path / "bonus.safetensors")
    assert np.array_equal(go_on(first, 1, 33), go_on(second, 1, 33))
    assert (first.steps, second.steps) == (210, 210)
    first.save(tmp_path / "a.safetensors")
    second.save(tmp_path / "b.safetensors")
    stored = [load(tmp_path / name, "adapter")["state"]["bonus"] for name in ("a.safetensors", "b.safetensors")]
    assert all(torch.equal(stored[0][k], stored[1][k]) for k in stored[0] if isinstance(stored[0][k], torch.Tensor))


# ---- bad input --------------------------------------------------------------------------------------------
def test_bad_parts_are_refused() -> None:
    envs = tracing()
    bonus = lpm.make("rnd", lpm.Spaces.of(envs), num_envs=3)
    with pytest.raises(ValueError, match=r"expected a gymnasium\.vector\.VectorEnv, got Tracing"):
        IntrinsicVectorReward(Tracing(), bonus)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="num_envs=3, got num_envs=1"):
        IntrinsicVectorReward(envs, lpm.make("rnd", lpm.Spaces.of(envs)))
    with pytest.raises(ValueError, match="built for the action space"):
        IntrinsicVectorReward(tracing(continuous=True), bonus)
    with pytest.raises(ValueError, match="weight: expected a number, got a MixerConfig; pass it as mixer="):
        IntrinsicVectorReward(envs, bonus, PLAIN)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="weight: expected it in the MixerConfig"):
        IntrinsicVectorReward(envs, bonus, 0.5, mixer=PLAIN)
    with pytest.raises(ValueError, match="rollout_steps: expected an integer of at least 1, got 0"):
        IntrinsicVectorReward(envs, bonus, rollout_steps=0)
    with pytest.raises(ValueError, match=r"settings \['beta'\] are for a bonus given by its name"):
        IntrinsicVectorReward(envs, bonus, beta=1)
    with pytest.raises(ValueError, match="needs the policy's parameters"):
        IntrinsicVectorReward(envs, lpm.make("eme", lpm.Spaces.of(envs), num_envs=3))
    with pytest.raises(ValueError, match=r"expected a name, .* or an lpm\.IntrinsicReward; got 3"):
        IntrinsicVectorReward(envs, 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"use lpm\.Intrinsic instead"):
        IntrinsicVectorReward(envs, bonus).add_bonus(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="the observations are a Dict"):
        IntrinsicVectorReward(tracing(keyed=True), bonus)
    with pytest.raises(ValueError, match=r"expected reset\(\) before the first step"):
        IntrinsicVectorReward(envs, bonus).step(np.zeros(3, np.int64))


def test_a_missing_autoreset_mode_or_final_observation_is_named() -> None:
    class Silent(gymnasium.vector.VectorWrapper):
        def step(self, actions: Any) -> Any:
            *rest, info = super().step(actions)
            return *rest, {key: value for key, value in info.items() if key != "final_obs"}

    envs = wrapped(Silent(tracing(AutoresetMode.SAME_STEP)))
    with pytest.raises(ValueError, match=r"expected info\['final_obs'\]"):
        play(envs, max(LENGTHS), AutoresetMode.SAME_STEP)
    unknown = Silent(tracing())
    unknown.metadata = {}
    with pytest.raises(ValueError, match=r"expected metadata\['autoreset_mode'\]"):
        wrapped(unknown)


def test_importing_adapters_imports_no_library_and_a_missing_one_is_named_in_one_sentence() -> None:
    code = (
        "import sys\nimport lpm.adapters\n"
        "heavy = {'torch', 'stable_baselines3', 'torchrl', 'ray'} & set(sys.modules)\nassert not heavy, heavy\n"
        "sys.modules['stable_baselines3'] = None\n"
        "try:\n    import lpm.adapters.sb3\nexcept ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        f"this adapter needs the package stable-baselines3, which is not installed: {pip_install('sb3')}"
    )
