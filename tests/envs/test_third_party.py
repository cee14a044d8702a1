"""Observations of other people's environments as one array."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Graph, MultiDiscrete, Text, Tuple

from lpm.envs.third_party import make_readable, reading_note, wrappers_for

PICTURE = Box(0, 255, (7, 7, 3), np.uint8)
GRID = Dict({"image": PICTURE, "direction": Discrete(4), "mission": Text(10)})


class Fixed(gymnasium.Env[Any, Any]):
    """Shows samples of a space."""

    action_space = Discrete(2)

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        self.observation_space = space

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}


@pytest.mark.parametrize(
    ("space", "wrap", "shape"),
    [
        (Discrete(5), "auto", (5,)),
        (MultiDiscrete([2, 3]), "auto", (5,)),
        (Tuple((Discrete(3), Box(0, 1, (2,)))), "auto", (5,)),
        (Dict({"a": Discrete(3), "b": Box(0, 1, (2,))}), "auto", (5,)),
        (GRID, "auto", (7, 7, 3)),
        (GRID, "image", (7, 7, 3)),
        (GRID, "flatten", (151,)),
        (PICTURE, "auto", (7, 7, 3)),
        (PICTURE, "image", (7, 7, 3)),
        (PICTURE, "flatten", (147,)),
    ],
)
def test_spaces(space: gymnasium.Space[Any], wrap: Any, shape: tuple[int, ...]) -> None:
    env: gymnasium.Env[Any, Any] = Fixed(space)
    for wrapper in wrappers_for(space, wrap):
        env = wrapper(env)
    assert isinstance(env.observation_space, Box)
    assert env.observation_space.shape == shape
    assert np.asarray(env.reset(seed=0)[0]).shape == shape


def test_discrete_values_are_one_hot() -> None:
    envs = make_readable("FrozenLake-v1", 2)
    obs, _ = envs.reset(seed=0)
    assert obs.shape == (2, 16)
    assert obs.sum(axis=1).tolist() == [1, 1]


def test_an_array_is_left_as_it_is_and_keeps_its_own_vector_environment() -> None:
    plain, same = gymnasium.make_vec("CartPole-v1", num_envs=2), make_readable("CartPole-v1", 2)
    assert type(same) is type(plain)


def test_what_cannot_be_read_is_said() -> None:
    assert wrappers_for(Discrete(3), "none") == ()
    with pytest.raises(ValueError, match="--wrap image: expected one picture"):
        wrappers_for(Discrete(3), "image")
    with pytest.raises(ValueError, match="no fixed size"):
        wrappers_for(Graph(Discrete(2), Discrete(2)), "auto")
    with pytest.raises(ValueError, match="wrap: expected one of auto, flatten, image, none, got 'x'"):
        wrappers_for(Discrete(3), "x")  # type: ignore[arg-type]


def test_ale_games_are_preprocessed_unless_told_otherwise() -> None:
    pytest.importorskip("ale_py")
    envs = make_readable("ALE/Pong-v5", 2)
    assert envs.single_observation_space.shape == (4, 84, 84)
    assert envs.single_action_space == Discrete(6)
    assert envs.reset(seed=0)[0].shape == (2, 4, 84, 84)
    envs.close()
    assert "sticky actions 0.25. --wrap none" in reading_note("ALE/Pong-v5", "auto")
    raw = make_readable("ALE/Pong-v5", 1, "none")
    assert raw.single_observation_space.shape == (210, 160, 3)
    raw.close()
    with pytest.raises(ValueError, match=r"ALE/Pong-v5: .*frameskip.*--wrap none"):
        make_readable("ALE/Pong-v5", 1, frameskip=2)
