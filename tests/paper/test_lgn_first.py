"""The first form of LGN and LGN without its prior run, and differ from LGN."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from lpm import Spaces, Transitions, make

VECTOR = Spaces(Box(-np.inf, np.inf, (3,)), Discrete(3))
IMAGE = Spaces(Box(0, 255, (1, 40, 40), np.uint8), Discrete(3))


@pytest.mark.parametrize("spaces", [VECTOR, IMAGE])
@pytest.mark.parametrize("name", ["lpm_paper.lgn_first:LGNFirst", "lpm_paper.lgn_parts:LGNWithoutPrior"])
def test_forms_of_ablations_run(name: str, spaces: Spaces) -> None:
    draw, rewards = torch.Generator().manual_seed(0), {}
    blocks = [torch.randint(0, 256, (33, 2, *spaces.obs_shape), generator=draw, dtype=torch.uint8) for _ in range(3)]
    for bonus in (make(kind, spaces, num_envs=2, rollout_steps=32, warmup=16) for kind in (name, "lgn")):
        for block in blocks:
            line = block if spaces is IMAGE else block.float()
            action = torch.randint(0, 3, (32, 2), generator=torch.Generator().manual_seed(1))
            rewards[bonus.label] = bonus.step(Transitions.build(line[:-1], action, line[1:]))
            bonus.update()
        assert rewards[bonus.label].isfinite().all()
    first, second = rewards.values()
    assert not torch.equal(first, second)
