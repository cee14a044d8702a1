"""Dict observations with binary parts: the bonus reads them as numbers, and the policy keeps its Dict."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

pytest.importorskip("stable_baselines3")
from stable_baselines3 import PPO

from lpm.adapters.sb3 import IntrinsicCallback, make_bonus


class Switches(gymnasium.Env[Any, Any]):
    """Eight switches, one of which each action turns."""

    observation_space = Dict({"on": MultiBinary(8), "number": Discrete(9), "noise": Box(-1, 1, (2,), np.float32)})
    action_space = Discrete(8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.on = np.zeros(8, np.int8)
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        self.on[action] ^= 1
        return self._seen(), 0.0, False, False, {}

    def _seen(self) -> dict[str, Any]:
        noise = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return {"on": self.on.copy(), "number": int(self.on.sum()), "noise": noise}


def test_a_binary_part_is_read_as_numbers() -> None:
    model = PPO("MultiInputPolicy", Switches(), n_steps=32, batch_size=32, n_epochs=1, device="cpu")
    bonus = make_bonus("rnd", model, obs_key="on")
    assert bonus.spaces.obs_shape == (8,)
    callback = IntrinsicCallback(bonus, obs_key="on")
    model.learn(128, callback=callback)
    assert np.abs(model.rollout_buffer.rewards).max() > 0  # the task pays nothing


def test_a_discrete_part_is_refused_with_what_a_user_of_a_dict_can_do() -> None:
    model = PPO("MultiInputPolicy", Switches(), n_steps=32, batch_size=32, device="cpu")
    with pytest.raises(ValueError, match=r"expected a gymnasium Box, got Discrete\(9\); choose another entry"):
        make_bonus("rnd", model, obs_key="number")
