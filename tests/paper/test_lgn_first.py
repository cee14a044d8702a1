"""The first form of LGN and LGN without its prior run, and differ from LGN."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from lpm import Spaces, Transitions, make
from lpm.nn.inputs import ObservationInput
from lpm_paper.lgn_first import halved

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


@pytest.mark.parametrize(
    "box",
    [
        Box(0, 255, (2, 84, 84), np.uint8),
        Box(0, 255, (75, 81, 3), np.uint8),
        Box(0, 10, (72, 74), np.uint8),
        Box(-2, 2, (3, 72, 72)),
        Box(-np.inf, np.inf, (3, 72, 73)),
    ],
)
def test_halved_images_are_means_of_four_pixels(box: Box) -> None:
    read = ObservationInput(Spaces(box, Discrete(2)))
    if box.dtype == np.uint8:
        obs = torch.randint(int(box.low.min()), int(box.high.max()) + 1, (5, *box.shape)).to(torch.uint8)
    else:
        obs = torch.randn(5, *box.shape)
    expected = torch.nn.functional.avg_pool2d(read.raw(obs), 2)
    assert halved(read, obs).shape == expected.shape
    assert torch.allclose(halved(read, obs), expected, atol=1e-6)
