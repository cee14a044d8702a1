"""Cells of one's own environment are counted inside Gymnasium's vector environments, in every autoreset mode."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from lpm.agents.collect import Collector, find_attribute
from lpm.agents.policy import ActorCritic, NetworkConfig
from lpm.core.spaces import Spaces

PAGE = Path(__file__).parents[2] / "docs" / "own_environment.md"
CODE = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0].partition("gymnasium.register(")[0]


def corridor(says_where_it_starts: bool) -> Any:
    """The environment of the page, in episodes of seven steps that begin in the middle."""
    names: dict[str, Any] = {}
    exec(CODE, names)

    class Short(names["Corridor"]):  # type: ignore[misc]
        def reset(self, **options: Any) -> Any:
            super().reset(**options)
            self.place = 20
            return self._seen(0.0), {"cell": 20} if says_where_it_starts else {}

    return gymnasium.wrappers.TimeLimit(Short(), 7)


@pytest.mark.parametrize("says_where_it_starts", [True, False])
@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("vector", [SyncVectorEnv, AsyncVectorEnv])
def test_every_visit_is_counted_once(vector: Any, mode: AutoresetMode, says_where_it_starts: bool) -> None:
    envs = vector([partial(corridor, says_where_it_starts)] * 3, autoreset_mode=mode)
    try:
        spaces, generator = Spaces.of(envs), torch.Generator().manual_seed(0)
        collector = Collector(envs, spaces, 24, seed=0)
        policy = ActorCritic(spaces, NetworkConfig(), 1, generator)
        expected, resets, fillers = np.zeros(40, dtype=np.int64), 3, 0
        for _ in range(3):
            block = collector.collect(policy, generator)
            places = (block.transitions.next_obs[..., 0].numpy()[block.valid] + 1) * 20
            expected += np.bincount(places.round().astype(int), minlength=40)
            resets += int((block.terminated | block.truncated).sum())
            fillers += int((~block.valid).sum())
        if says_where_it_starts:
            expected[20] += 3 + fillers if mode is AutoresetMode.NEXT_STEP else resets
        assert len(np.flatnonzero(expected)) > 3
        np.testing.assert_array_equal(collector.visits, expected)
    finally:
        envs.close()


@pytest.mark.parametrize("vector", [SyncVectorEnv, AsyncVectorEnv])
def test_what_no_environment_has_leaves_them_working(vector: Any) -> None:
    envs = vector([partial(gymnasium.make, "CartPole-v1")] * 2)
    try:
        assert find_attribute(envs, "num_cells", 0) == 0
        envs.reset(seed=0)
        envs.step(envs.action_space.sample())
    finally:
        envs.close()
