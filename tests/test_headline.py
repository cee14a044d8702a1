"""What the project claims, as tests: lgn explores where noise is, and the learner learns with its defaults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

import lpm.envs
from lpm.agents import PPO, PPOConfig
from lpm.agents.ppo import PRESETS
from lpm.core.mixer import MixerConfig
from lpm.runs.build import build
from lpm.runs.config import RunConfig


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    """Small networks are slower on several threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def run(env_id: str, steps: int, **settings: Any) -> dict[str, float]:
    """The last metrics of a run with the defaults."""
    agent = build(RunConfig(env_id, steps=steps, **settings))
    metrics: dict[str, float] = {}
    while agent.steps < steps:
        metrics = agent.cycle()
    return metrics


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_lgn_covers_more_than_no_bonus_in_front_of_a_tv(seed: int) -> None:
    env = {"num_rooms": 6, "max_episode_steps": 400, "noise": "action"}
    agent = replace(PRESETS["noisy"], num_envs=16)
    found = {
        bonus: run("lpm/Rooms-v0", 40_960, bonus=bonus, seed=seed, env=env, agent=agent)["cells"]
        for bonus in ("none", "lgn")
    }
    assert found["lgn"] > 1.4 * found["none"], found


def test_doorkey_is_learnt_with_the_defaults() -> None:
    pytest.importorskip("minigrid")
    assert run("MiniGrid-DoorKey-5x5-v0", 24_000, bonus="lgn", seed=0)["success"] > 0.9


class Identity(gymnasium.Env[Any, Any]):
    """The right action is the one that is shown."""

    observation_space = Box(0, 1, (4,), np.float32)
    action_space = Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self._shown(), {}

    def step(self, action: int) -> Any:
        right = float(action == self.wanted)
        self.steps += 1
        return self._shown(), right, False, self.steps == 20, {}

    def _shown(self) -> Any:
        self.wanted = int(self.np_random.integers(4))
        return np.eye(4, dtype=np.float32)[self.wanted]


@pytest.mark.parametrize("weight", [0.0, 0.3])
def test_an_agent_learns_the_identity(weight: float) -> None:
    envs = gymnasium.vector.SyncVectorEnv([Identity] * 8)
    bonus = lpm.make("lgn", lpm.Spaces.of(envs), num_envs=8, rollout_steps=32)
    agent = PPO(envs, bonus, PPOConfig(rollout_steps=32), MixerConfig(weight=weight), total_steps=8_192, seed=0)
    while agent.steps < 8_192:
        metrics = agent.cycle()
    assert metrics["return"] > 17, metrics  # of 20; random actions: 5


def test_lgn_in_sb3_explores_in_front_of_a_tv() -> None:
    pytest.importorskip("stable_baselines3")
    from stable_baselines3 import PPO as SB3PPO
    from stable_baselines3.common.env_util import make_vec_env

    from lpm.adapters.sb3 import IntrinsicCallback

    def cells(weight: float) -> int:
        rooms = {"num_rooms": 6, "max_episode_steps": 400, "noise": "action"}
        env = make_vec_env("lpm/Rooms-v0", n_envs=8, seed=0, env_kwargs=rooms)
        seen: set[int] = set()
        stepped = env.step_wait

        def step_wait() -> Any:
            outcome = stepped()
            seen.update(info["cell"] for info in outcome[3])
            return outcome

        env.step_wait = step_wait  # type: ignore[method-assign]
        model = SB3PPO("MlpPolicy", env, n_steps=128, batch_size=256, n_epochs=4, seed=0, device="cpu")
        model.learn(16_000, callback=IntrinsicCallback("lgn", weight=weight))
        return len(seen)

    with_bonus, without = cells(0.3), cells(0.0)
    assert with_bonus > 1.3 * without, (with_bonus, without)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["none", "action"])
def test_multiroom_is_solved_with_a_tv_and_without(noise: str) -> None:
    pytest.importorskip("minigrid")
    assert run("MiniGrid-MultiRoom-N4-S5-v0", 200_000, bonus="lgn", seed=0, env={"noise": noise})["success"] > 0.8
