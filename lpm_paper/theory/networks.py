"""The library's bonuses, networks and all, on the learning streams whose information gain is known exactly."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete

from lpm.core.registry import make
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm_paper.theory.stream import BonusFactory, StreamConfig

NAMES = ("lpm", "pointwise", "ama", "ensemble", "rnd", "forward_error", "bayes_gain")


class StreamBonus:
    """A registered bonus as the streams call it: a cycle is one step of as many environments."""

    def __init__(self, name: str, config: StreamConfig, seed: int) -> None:
        spaces = Spaces(Box(-np.inf, np.inf, (config.dim,)), Discrete(2))
        self.bonus = make(name, spaces, num_envs=config.cycle, rollout_steps=1, seed=seed)

    def score(self, obs: Any, action: Any, next_obs: Any) -> Any:
        """Rewards of a cycle, before it is learnt from."""
        return self.bonus.score(_block(obs, action, next_obs))[0].numpy()

    def update(self, obs: Any, action: Any, next_obs: Any) -> None:
        """Observe the cycle with the models that scored it, then learn."""
        self.bonus.observe(_block(obs, action, next_obs))
        self.bonus.update()


def network_bonuses(config: StreamConfig) -> Mapping[str, BonusFactory]:
    """Factories for `lpm_paper.theory.run(extra=...)`, named after the registered bonuses."""

    def factory(name: str) -> BonusFactory:
        return lambda world, learner, seed: StreamBonus(name, config, seed)

    return {f"{name} (library)": factory(name) for name in NAMES}


def _block(obs: Any, action: Any, next_obs: Any) -> Transitions:
    first, then = (torch.as_tensor(x, dtype=torch.float32).unsqueeze(0) for x in (obs, next_obs))
    ended = torch.ones(first.shape[:2], dtype=torch.bool)
    return Transitions.build(first, torch.as_tensor(action).unsqueeze(0), then, terminated=ended)
