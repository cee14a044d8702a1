"""From TorchRL's specs to the spaces of a bonus, and from its encodings of actions to plain ones."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from tensordict.utils import NestedKey
from torch import Tensor
from torchrl.data.tensor_specs import Binary, Bounded, Categorical, MultiCategorical, MultiOneHot, OneHot, Unbounded
from torchrl.envs import EnvBase

from lpm.core.spaces import Spaces


def spaces_of(env: EnvBase, observation_key: NestedKey = "observation", action_key: NestedKey = "action") -> Spaces:
    """The spaces of one environment of a TorchRL environment, its transforms included."""
    if not isinstance(env, EnvBase):
        raise ValueError(f"spaces_of: expected a TorchRL environment, got {type(env).__name__}; wrap it in GymWrapper")
    lead = len(env.batch_size)
    found: list[gymnasium.Space[Any]] = []
    for name, specs, key in (
        ("observation", env.full_observation_spec, observation_key),
        ("action", env.full_action_spec, action_key),
    ):
        known = list(specs.keys(True, True))
        if key not in known:
            raise ValueError(f"{name}_key: expected one of {known}, got {key!r}")
        found.append(_space(name, specs[key], lead))
    return Spaces(found[0], found[1])


def plain_action(action: Tensor, spaces: Spaces, lead: int) -> Tensor:
    """Actions behind `lead` leading dimensions as the spaces have them: one-hot ones become numbers."""
    if spaces.action_kind == "continuous":
        return action
    factors, shape = spaces.factors, action.shape[lead:]
    if tuple(shape) != spaces.action_shape and math.prod(shape) == sum(factors):
        parts = torch.split(action.flatten(lead).long(), list(factors), dim=-1)
        action = torch.stack([part.argmax(-1) for part in parts], dim=-1)
    return action


def _space(name: str, spec: Any, lead: int) -> gymnasium.Space[Any]:
    shape = tuple(spec.shape[lead:])
    if isinstance(spec, MultiOneHot):
        return MultiDiscrete([box.n for box in spec.space])
    if isinstance(spec, OneHot):
        return Discrete(int(spec.space.n))
    if isinstance(spec, Binary):
        return MultiBinary(shape[0] if len(shape) == 1 else shape)
    if isinstance(spec, MultiCategorical):
        nvec = spec.nvec
        return MultiDiscrete(np.asarray(nvec[(0,) * lead].tolist() if nvec.ndim > lead else nvec.tolist()))
    if isinstance(spec, Categorical) and shape in ((), (1,)):
        return Discrete(int(spec.space.n))
    if isinstance(spec, (Bounded, Unbounded)):
        dtype = np.dtype(str(spec.dtype).removeprefix("torch."))
        if isinstance(spec, Bounded):
            low, high = (bound[(0,) * lead].cpu().numpy().astype(dtype) for bound in (spec.space.low, spec.space.high))
            return Box(low, high, shape, dtype.type)
        if dtype.kind == "f":
            return Box(-np.inf, np.inf, shape, dtype.type)
        info = np.iinfo(dtype)
        return Box(info.min, info.max, shape, dtype.type)
    raise ValueError(
        f"{name}: expected a Bounded or Unbounded tensor, or for actions also OneHot, Categorical, their Multi forms "
        f"or Binary, got {type(spec).__name__}; choose another key"
    )
