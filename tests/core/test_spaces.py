"""Spaces: kinds and encodings of observations and actions, and blocks that do not fit."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text

from lpm import Spaces, Transitions
from lpm.core.check import random_block

VECTOR = Box(-1.0, 1.0, (4,))


def block(
    action: Discrete | MultiDiscrete | MultiBinary | Box, observation: Box = VECTOR
) -> tuple[Spaces, Transitions]:
    spaces = Spaces(observation, action)
    return spaces, random_block(spaces, steps=3, envs=2)


# ---- observations ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("box", "kind", "input_shape", "dtype"),
    [
        (Box(-1, 1, ()), "vector", (1,), torch.float32),
        (Box(-1, 1, (5,)), "vector", (5,), torch.float32),
        (Box(-1, 1, (5,), np.float64), "vector", (5,), torch.float32),
        (Box(0, 9, (5,), np.int64), "vector", (5,), torch.float32),
        (Box(0, 255, (128,), np.uint8), "vector", (128,), torch.uint8),
        (Box(-1, 1, (3, 4)), "vector", (12,), torch.float32),
        (Box(0, 255, (40, 50), np.uint8), "image", (1, 40, 50), torch.uint8),
        (Box(0, 255, (84, 84, 3), np.uint8), "image", (3, 84, 84), torch.uint8),
        (Box(0, 255, (4, 84, 84), np.uint8), "image", (4, 84, 84), torch.uint8),
        (Box(0, 255, (120, 160, 3), np.uint8), "image", (3, 120, 160), torch.uint8),
        (Box(0, 1, (3, 36, 36)), "image", (3, 36, 36), torch.float32),
        (Box(0, 1, (3, 35, 36)), "grid", (3, 35, 36), torch.float32),
        (Box(0, 10, (7, 7, 3), np.uint8), "grid", (3, 7, 7), torch.uint8),
    ],
)
def test_kind_of_observation(box: Box, kind: str, input_shape: tuple[int, ...], dtype: torch.dtype) -> None:
    spaces = Spaces(box, Discrete(2))
    assert (spaces.kind, spaces.input_shape, spaces.obs_dtype) == (kind, input_shape, dtype)
    assert spaces.obs_shape == box.shape
    spaces.check(random_block(spaces, steps=2, envs=2))


def test_the_channel_axis_can_be_said() -> None:
    cube = Box(0, 255, (40, 40, 40), np.uint8)
    with pytest.raises(
        ValueError, match=r"cannot tell the channel axis of shape \(40, 40, 40\); pass channels='first'"
    ):
        Spaces(cube, Discrete(2))
    assert Spaces(cube, Discrete(2), channels="last").channels_last
    assert not Spaces(cube, Discrete(2), channels="first").channels_last
    wide = Box(0, 255, (3, 40, 40), np.uint8)
    assert Spaces(wide, Discrete(2), channels="last").input_shape == (40, 3, 40)
    with pytest.raises(ValueError, match="expected 'auto', 'first' or 'last', got 'middle'"):
        Spaces(wide, Discrete(2), channels="middle")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("observation", "action", "message"),
    [
        (Dict({"x": VECTOR}), Discrete(2), r"Spaces.observation: expected a gymnasium Box, got Dict.*choose keys"),
        (Discrete(5), Discrete(2), r"Spaces.observation: expected a gymnasium Box, got Discrete\(5\)"),
        (Box(0, 1, (4, 3, 36, 36)), Discrete(2), r"at most 3 dimensions, got shape \(4, 3, 36, 36\); stack frames"),
        (VECTOR, Text(3), r"Spaces.action: expected Discrete, MultiDiscrete, MultiBinary or Box, got Text"),
    ],
)
def test_refuses_spaces(observation: object, action: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Spaces(observation, action)  # type: ignore[arg-type]


def test_of_something_else() -> None:
    with pytest.raises(ValueError, match=r"Spaces.of: expected a Gymnasium environment, got 'CartPole-v1'"):
        Spaces.of("CartPole-v1")


def test_of_single_and_vector_environments() -> None:
    action = Discrete(2)
    single = SimpleNamespace(observation_space=VECTOR, action_space=action)
    vector = SimpleNamespace(
        observation_space=Box(-1, 1, (8, 4)), action_space=MultiDiscrete([2] * 8),
        single_observation_space=VECTOR, single_action_space=action,
    )  # fmt: skip
    assert Spaces.of(single) == Spaces.of(vector) == Spaces(VECTOR, action)


# ---- actions --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("space", "action", "encoded", "policy_width"),
    [
        (Discrete(3), 2, [0, 0, 1], 3),
        (Discrete(3, start=5), 6, [0, 1, 0], 3),
        (Discrete(2, start=-1), -1, [1, 0], 2),
        (Discrete(1), 0, [], 1),
        (MultiDiscrete([2, 3]), [1, 2], [0, 1, 0, 0, 1], 5),
        (MultiDiscrete([2, 3], start=[1, -1]), [2, -1], [0, 1, 1, 0, 0], 5),
        (MultiDiscrete([[2], [3]]), [[0], [1]], [1, 0, 0, 1, 0], 5),
        (MultiBinary(2), [0, 1], [1, 0, 0, 1], 4),
        (MultiBinary((1, 2)), [[1, 1]], [0, 1, 0, 1], 4),
        (Box(-2, 2, (2,)), [1.0, -2.0], [0.5, -1.0], 4),
        (Box(0, 4, ()), 1.0, [-0.5], 2),
        (Box(0, np.inf, (1,)), [7.0], [7.0], 2),
        (Box(-np.inf, np.inf, (1,)), [-3.0], [-3.0], 2),
        (Box(1, 1, (1,)), [1.0], [1.0], 2),
        (Box(np.float32([0, -np.inf]), np.float32([2, 5])), [1.5, 4.0], [0.5, 4.0], 4),
        (Box(0, 4, (1,), np.int32), [3.0], [0.5], 2),
    ],
)
def test_encoded_actions(space: Box, action: object, encoded: list[float], policy_width: int) -> None:
    spaces = Spaces(VECTOR, space)
    raw = torch.as_tensor(np.asarray([action])).to(spaces.action_dtype)
    assert spaces.encode_action(raw).tolist() == [encoded]
    assert spaces.encode_action(raw).dtype == torch.float32
    assert spaces.action_width == len(encoded)
    assert spaces.policy_width == policy_width
    assert spaces.encode_action(raw[:0]).shape == (0, len(encoded))


@pytest.mark.parametrize(
    "space",
    [Discrete(3, start=5), MultiDiscrete([[2, 3], [1, 2]]), MultiBinary((2, 2)), Box(-1, 1, ()), Box(-1, 1, (2, 2))],
)
def test_blocks_that_fit(space: Box) -> None:
    spaces, batch = block(space)
    spaces.check(batch)
    spaces.check(batch[:0])


@pytest.mark.parametrize(
    ("space", "came", "where", "message"),
    [
        (Discrete(3, start=5), 4, (1, 0), r"action\[1, 0\].*expected an action in .*start=5\), got 4"),
        (Discrete(3, start=5), 8, (0, 1), r"action\[0, 1\].*got 8"),
        (Discrete(3), -1, (2, 1), r"action\[2, 1\].*got -1"),
        (MultiDiscrete([2, 3]), [2, 0], (1, 1), r"action\[1, 1\].*got \[2, 0\]"),
        (MultiDiscrete([2, 3], start=[1, 1]), [1, 0], (1, 1), r"action\[1, 1\].*got \[1, 0\]"),
        (MultiBinary(2), [0, 2], (0, 0), r"action\[0, 0\].*got \[0, 2\]"),
        (Box(-1, 1, (2,)), [0.0, 1.5], (2, 0), r"action\[2, 0\].*got \[0.0, 1.5\]; pass the executed"),
        (Box(-1, 1, ()), -1.5, (2, 0), r"action\[2, 0\].*got -1.5; pass the executed"),
    ],
)  # fmt: skip
def test_actions_out_of_range(space: Box, came: object, where: tuple[int, int], message: str) -> None:
    spaces, batch = block(space)
    batch.action[where] = torch.as_tensor(came).to(batch.action.dtype)
    with pytest.raises(ValueError, match=message):
        spaces.check(batch)


# ---- blocks that do not fit -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"obs": torch.zeros(3, 2, 5)}, r"obs: expected shape \(T, N, \*\(4,\)\), got \(3, 2, 5\)"),
        ({"next_obs": torch.zeros(3, 2)}, r"next_obs: expected shape \(T, N, \*\(4,\)\), got \(3, 2\)"),
        ({"obs": torch.zeros(3, 2, 4, dtype=torch.uint8)}, r"obs: expected dtype torch.float32.*got torch.uint8"),
        ({"obs": torch.zeros(3, 2, 4, dtype=torch.int64)}, r"obs: expected dtype torch.float32.*got torch.int64"),
        ({"action": torch.zeros(3, 2)}, r"action: expected an integer dtype for Discrete\(2\), got torch.float32"),
        ({"action": torch.zeros(3, 2, 1, dtype=torch.int64)}, r"action: expected shape .* got \(3, 2, 1\)"),
        ({"reward": torch.zeros(3, 2, 1)}, r"reward: expected shape .* got \(3, 2, 1\)"),
        ({"reward": torch.full((3, 2), torch.nan)}, r"reward\[0, 0\].*got nan"),
        ({"policy": torch.zeros(3, 2, 3)}, r"policy: expected shape \(T, N, \*\(2,\)\), got \(3, 2, 3\)"),
        ({"policy": torch.full((3, 2, 2), torch.inf)}, r"policy\[0, 0, 0\].*got inf"),
    ],
)  # fmt: skip
def test_refuses_blocks(changes: dict[str, torch.Tensor], message: str) -> None:
    spaces, batch = block(Discrete(2))
    with pytest.raises(ValueError, match=message):
        spaces.check(replace(batch, **changes))


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("field", ["obs", "next_obs"])
def test_non_finite_observations_are_shown_with_their_index(field: str, value: float) -> None:
    spaces, batch = block(Discrete(2))
    getattr(batch, field)[2, 1, 3] = value
    message = (
        rf"Transitions.{field}\[2, 1, 3\] \(time, environment, ...\): expected finite float32 numbers, got {value}"
    )
    with pytest.raises(ValueError, match=message):
        spaces.check(batch)


def test_float64_beyond_float32_is_not_finite() -> None:
    spaces, batch = block(Discrete(2))
    obs = batch.obs.double()
    spaces.check(replace(batch, obs=obs))
    obs[1, 0, 2] = 1e300
    with pytest.raises(ValueError, match=r"obs\[1, 0, 2\].*expected finite float32 numbers, got 1e\+300"):
        spaces.check(replace(batch, obs=obs))


def test_images_stay_uint8() -> None:
    spaces, batch = block(Discrete(2), Box(0, 255, (3, 36, 36), np.uint8))
    with pytest.raises(ValueError, match=r"obs: expected dtype torch.uint8.*got torch.float32"):
        spaces.check(replace(batch, obs=batch.obs.float()))


def test_continuous_actions_are_floats() -> None:
    spaces, batch = block(Box(-1, 1, (2,)))
    with pytest.raises(ValueError, match=r"action: expected a float dtype for Box.*got torch.int64"):
        spaces.check(replace(batch, action=batch.action.long()))
    batch.action[0, 1, 1] = torch.nan
    with pytest.raises(ValueError, match=r"action\[0, 1, 1\].*got nan"):
        spaces.check(batch)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32])
def test_narrow_integers_are_actions_too(dtype: torch.dtype) -> None:
    spaces, batch = block(Discrete(3, start=5))
    spaces.check(replace(batch, action=batch.action.to(dtype)))
    narrow = batch.action.to(dtype)
    assert torch.equal(spaces.encode_action(narrow[0]), spaces.encode_action(batch.action[0]))


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        (Box(-1, 11, (3,)), True),
        (Box(0, 10, (3,), np.uint8), True),
        (Box(np.array([-1, -1], np.float32), np.array([1, 8], np.float32)), False),
        (Box(np.array([-1, -8], np.float32), np.array([1, 1], np.float32)), False),
        (Box(-np.inf, np.inf, (3,)), False),
        (Box(0, np.inf, (3,)), False),
        (Box(np.finfo(np.float32).min, np.finfo(np.float32).max, (3,)), False),  # how some say that there is none
    ],
)
def test_numbers_of_one_finite_range_have_one_unit(box: Box, expected: bool) -> None:
    assert Spaces(box, Discrete(2)).one_unit is expected
