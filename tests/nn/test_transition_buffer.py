"""The buffer of transitions, and what is fresh in it."""

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from lpm import Spaces
from lpm.core.check import random_block
from lpm.nn.memory import TransitionBuffer

IMAGE = Spaces(Box(0, 255, (5, 5, 3), np.uint8), MultiDiscrete([2, 3]))
VECTOR = Spaces(Box(-1, 1, (3,)), Discrete(4, start=2))


def test_valid_rows_only_in_raw_form_and_order() -> None:
    for spaces in (IMAGE, VECTOR):
        buffer, block = TransitionBuffer(spaces, 100), random_block(spaces, filler=True)
        assert buffer.observe(block) == int(block.valid.sum()) < block.valid.numel()
        obs, action, next_obs = buffer.rows(buffer.last(100))
        expected = block.rows()
        assert torch.equal(obs, expected.obs)
        assert torch.equal(action, expected.action)
        assert torch.equal(next_obs, expected.next_obs)
        assert obs.dtype == spaces.obs_dtype


def test_fresh_counts_from_the_mark() -> None:
    buffer, block = TransitionBuffer(VECTOR, 10), random_block(VECTOR, steps=4, envs=3)
    assert buffer.fresh == 0
    buffer.observe(block)
    assert (buffer.fresh, len(buffer)) == (12, 10)
    buffer.mark()
    assert buffer.fresh == 0
    buffer.observe(block[:1])
    assert torch.equal(buffer.rows(buffer.last(buffer.fresh))[0], block.obs[0])


def test_extra_columns_stay_beside_their_rows() -> None:
    buffer = TransitionBuffer(VECTOR, 6, {"error": ((), torch.float32)})
    block = random_block(VECTOR, steps=4, envs=2, filler=True)
    rows = block.rows()
    buffer.observe(block, error=rows.obs[:, 0])
    slots = buffer.last(6)
    assert torch.equal(buffer["error"][slots], buffer["obs"][slots][:, 0])


def test_the_mark_is_saved() -> None:
    buffer, other = TransitionBuffer(VECTOR, 10), TransitionBuffer(VECTOR, 10)
    buffer.observe(random_block(VECTOR, steps=2))
    buffer.mark()
    buffer.observe(random_block(VECTOR, steps=1))
    other.load_state_dict(buffer.state_dict())
    assert (other.fresh, other.total) == (3, 9)


def test_half_and_double_precision_are_stored_as_float32() -> None:
    for dtype in (torch.float16, torch.float64):
        buffer, block = TransitionBuffer(VECTOR, 10), random_block(VECTOR, steps=2, envs=2)
        rows = block.rows()
        buffer.push(obs=rows.obs.to(dtype), action=rows.action.int(), next_obs=rows.next_obs.to(dtype))
        assert torch.equal(buffer["obs"][:4], rows.obs.to(dtype).float())
        assert torch.equal(buffer["action"][:4], rows.action)
