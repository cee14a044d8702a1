"""What a bonus knows about the environment: its observation and action spaces, and nothing else."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from torch import Tensor

from lpm.core.transitions import Transitions

ActionKind = Literal["discrete", "multi_discrete", "continuous"]

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)

LARGEST_ACTION = 1e3
"""What larger actions of dimensions without bounds count as: numbers near the end of float32 overflow in networks."""


@dataclass(frozen=True)
class Spaces:
    """Observation and action space of one environment, with the encodings that every bonus shares.

    Observations of one dimension (or two, if not uint8) are vectors; others are images. Images smaller than 36
    pixels on a side are grids. The channel axis is the smaller of the first and last axis.

    >>> from gymnasium.spaces import Box, Discrete
    >>> spaces = Spaces(Box(0, 255, (84, 84, 3), "uint8"), Discrete(4))
    >>> spaces.input_shape, spaces.kind, spaces.action_width
    ((3, 84, 84), 'image', 4)
    """

    observation: gymnasium.Space[Any]
    """A Box: vectors, images (uint8 or float) or small grids."""
    action: gymnasium.Space[Any]
    """Discrete, MultiDiscrete, MultiBinary or Box."""
    channels: Literal["auto", "first", "last"] = "auto"
    """Where an image keeps its channels."""

    def __post_init__(self) -> None:
        if not isinstance(self.observation, Box):
            advice = _make_it_a_box(self.observation)
            raise ValueError(f"Spaces.observation: expected a gymnasium Box, got {self.observation}; {advice}")
        if not isinstance(self.action, (Discrete, MultiDiscrete, MultiBinary, Box)):
            raise ValueError(f"Spaces.action: expected Discrete, MultiDiscrete, MultiBinary or Box, got {self.action}")
        if len(self.obs_shape) > 3:
            raise ValueError(
                f"Spaces.observation: expected at most 3 dimensions, got shape {self.obs_shape}; "
                "stack frames along the channel axis"
            )
        for name, shape in (("observation", self.obs_shape), ("action", self.action_shape)):
            if 0 in shape:
                raise ValueError(f"Spaces.{name}: expected at least one number, got shape {shape}")
        if self.channels not in ("auto", "first", "last"):
            raise ValueError(f"Spaces.channels: expected 'auto', 'first' or 'last', got {self.channels!r}")
        _ = self.input_shape

    @classmethod
    def of(cls, env: Any) -> Self:
        """The spaces of a single environment or of one member of a vector environment."""
        if hasattr(env, "single_observation_space"):
            return cls(env.single_observation_space, env.single_action_space)
        if not hasattr(env, "observation_space"):
            raise ValueError(f"Spaces.of: expected a Gymnasium environment, got {env!r}")
        return cls(env.observation_space, env.action_space)

    # ---- observations -------------------------------------------------------------------------------------
    @property
    def obs_shape(self) -> tuple[int, ...]:
        """Shape of one raw observation."""
        shape = self.observation.shape
        assert shape is not None
        return tuple(shape)

    @property
    def obs_dtype(self) -> torch.dtype:
        """How observations are stored: uint8 stays uint8, everything else becomes float32."""
        return torch.uint8 if self.observation.dtype == np.uint8 else torch.float32

    @cached_property
    def kind(self) -> Literal["vector", "image", "grid"]:
        """Which family of networks suits the observation."""
        ndim = len(self.obs_shape)
        if ndim <= 1 or (ndim == 2 and self.obs_dtype != torch.uint8):
            return "vector"
        return "image" if min(self.input_shape[1:]) >= 36 else "grid"

    @cached_property
    def bounded_image(self) -> bool:
        """Whether the observation is an image or grid with finite bounds, so that networks see it scaled to [0, 1]."""
        box: Any = self.observation
        return self.kind != "vector" and bool(np.isfinite(box.low).all() and np.isfinite(box.high).all())

    @cached_property
    def bits(self) -> bool:
        """Whether observations are whole numbers from 0 to 1."""
        box: Any = self.observation
        return bool(np.issubdtype(box.dtype, np.integer) and (box.low >= 0).all() and (box.high <= 1).all())

    @cached_property
    def one_unit(self) -> bool:
        """Whether all numbers of an observation share one range, and so one unit; ends beyond 1e30 stand for none."""
        box: Any = self.observation
        return all((end == end.flat[0]).all() and -1e30 < end.flat[0] < 1e30 for end in (box.low, box.high))

    @cached_property
    def channels_last(self) -> bool:
        """Whether the raw image is H×W×C."""
        if len(self.obs_shape) != 3:
            return False
        if self.channels != "auto":
            return self.channels == "last"
        first, last = self.obs_shape[0], self.obs_shape[-1]
        if first == last:
            raise ValueError(
                f"Spaces.observation: cannot tell the channel axis of shape {self.obs_shape}; "
                "pass channels='first' or channels='last'"
            )
        return last < first

    @cached_property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of what networks see: (D,) for vectors, (C, H, W) for images and grids."""
        shape = self.obs_shape
        if len(shape) == 3:
            return (shape[2], shape[0], shape[1]) if self.channels_last else shape
        if len(shape) == 2 and self.obs_dtype == torch.uint8:
            return (1, *shape)
        return (math.prod(shape),)

    # ---- actions ------------------------------------------------------------------------------------------
    @cached_property
    def action_kind(self) -> ActionKind:
        """The family of the action space."""
        if isinstance(self.action, Discrete):
            return "discrete"
        return "continuous" if isinstance(self.action, Box) else "multi_discrete"

    @cached_property
    def action_shape(self) -> tuple[int, ...]:
        """Shape of one raw action: () for Discrete."""
        shape = self.action.shape
        assert shape is not None
        return tuple(shape)

    @property
    def action_dtype(self) -> torch.dtype:
        """How actions are stored."""
        return torch.float32 if self.action_kind == "continuous" else torch.int64

    @cached_property
    def factors(self) -> tuple[int, ...]:
        """Number of choices of each discrete factor; empty for continuous actions."""
        if isinstance(self.action, Discrete):
            return (int(self.action.n),)
        if isinstance(self.action, MultiDiscrete):
            return tuple(int(n) for n in np.asarray(self.action.nvec).ravel())
        if isinstance(self.action, MultiBinary):
            return (2,) * math.prod(self.action_shape)
        return ()

    @cached_property
    def action_width(self) -> int:
        """Width of an encoded action. A single possible action carries no information: width 0."""
        if self.action_kind == "continuous":
            return math.prod(self.action_shape)
        return 0 if self.factors == (1,) else sum(self.factors)

    @property
    def row_numbers(self) -> int:
        """Numbers in a transition: two observations and an action, as networks see them."""
        return 2 * math.prod(self.input_shape) + self.action_width

    @cached_property
    def policy_width(self) -> int:
        """Width of `Transitions.policy`: logits of all factors, or means then log-stds."""
        return 2 * math.prod(self.action_shape) if self.action_kind == "continuous" else sum(self.factors)

    @cached_property
    def _action_offset(self) -> Tensor:
        start = getattr(self.action, "start", 0)
        return torch.as_tensor(np.asarray(start).ravel(), dtype=torch.int64)

    def action_index(self, action: Tensor) -> Tensor:
        """Discrete actions as (B, factors) indices counted from 0."""
        flat = action.reshape(action.shape[0], math.prod(self.action_shape)).long()
        return flat - self._action_offset.to(flat.device)

    def encode_action(self, action: Tensor) -> Tensor:
        """(B, ...) raw actions to (B, action_width): one-hot per factor, or scaled to [-1, 1] where bounded."""
        count = action.shape[0]
        if self.action_width == 0:
            return torch.zeros(count, 0, device=action.device)
        if self.action_kind == "continuous":
            low, high, bounded = (bound.to(action.device) for bound in self._action_bounds)
            flat = action.reshape(count, self.action_width).float()
            return torch.where(
                bounded, 2 * (flat - low) / (high - low) - 1, flat.clamp(-LARGEST_ACTION, LARGEST_ACTION)
            )
        index = self.action_index(action)
        columns = [torch.nn.functional.one_hot(index[:, i], n) for i, n in enumerate(self.factors)]
        return torch.cat(columns, dim=1).float()

    @cached_property
    def _action_bounds(self) -> tuple[Tensor, Tensor, Tensor]:
        """Low and high, -1 and 1 where there are none, and where there are some; a number of the action each."""
        box: Any = self.action
        span = box.high.astype(np.float64) - box.low
        bounded = torch.as_tensor((np.isfinite(span) & (span > 0) & (span < 1e30)).ravel())
        low, high = (torch.as_tensor(bound.ravel(), dtype=torch.float32) for bound in (box.low, box.high))
        return torch.where(bounded, low, -1), torch.where(bounded, high, 1), bounded

    # ---- checks -------------------------------------------------------------------------------------------
    def check(self, batch: Transitions) -> None:
        """Refuse a block that does not fit these spaces, saying what was expected and what came.

        What rows that are not valid contain does not matter, as long as it has the shape and dtype of the rest.
        """
        stored = (torch.uint8,) if self.obs_dtype == torch.uint8 else _FLOATS
        for name, value in (("obs", batch.obs), ("next_obs", batch.next_obs)):
            _expect_shape(name, value, self.obs_shape)
            if value.dtype not in stored:
                raise ValueError(
                    f"Transitions.{name}: expected dtype {self.obs_dtype} for {self.observation}, got {value.dtype}; "
                    "convert it first"
                )
            _expect_finite(name, value, batch.valid)
        self._check_action(batch.action, batch.valid)
        for name, extra, shape in (("reward", batch.reward, ()), ("policy", batch.policy, (self.policy_width,))):
            if extra is not None:
                _expect_shape(name, extra, shape)
                _expect_finite(name, extra, batch.valid)

    def filled(self, batch: Transitions) -> Transitions:
        """A checked block, with zeros and the first action where rows that are not valid hold no such thing."""
        if bool(batch.valid.all()):
            return batch

        def harmless(value: Tensor) -> Tensor:
            return value if _all_finite(value) else torch.where(_like_rows(batch.valid, value), value, 0)

        filled = batch.map(harmless)
        if self.action_kind != "continuous" and bool(self._outside(batch.action).any()):
            first = self._action_offset.to(batch.device).expand(len(self.factors)).view(self.action_shape)
            # as int64: the first action may be negative, where the block's own dtype is not
            action = torch.where(_like_rows(batch.valid, batch.action), batch.action.long(), first)
            filled = replace(filled, action=action)
        return filled

    def _check_action(self, action: Tensor, valid: Tensor) -> None:
        _expect_shape("action", action, self.action_shape)
        if self.action_kind == "continuous":
            if action.dtype not in _FLOATS:
                raise ValueError(f"Transitions.action: expected a float dtype for {self.action}, got {action.dtype}")
            _expect_finite("action", action, valid)
        elif action.dtype not in _INTEGERS:
            raise ValueError(f"Transitions.action: expected an integer dtype for {self.action}, got {action.dtype}")
        outside = self._outside(action) & valid.unsqueeze(-1)
        if bool(outside.any()):
            where = tuple(int(i) for i in outside.nonzero()[0])
            came = action[where[0], where[1]].tolist()
            hint = "; pass the executed (clipped) action" if self.action_kind == "continuous" else ""
            raise ValueError(
                f"Transitions.action{list(where[:2])} (time, environment): expected an action in {self.action}, "
                f"got {came}{hint}"
            )

    def _outside(self, action: Tensor) -> Tensor:
        """Which numbers of actions (T, N, ...) are outside their space, (T, N, numbers)."""
        if self.action_kind == "continuous":
            low, high, bounded = (bound.to(action.device) for bound in self._action_bounds)
            flat = action.flatten(2) if action.ndim > 2 else action.unsqueeze(-1)
            margin = 1e-4 * (high - low)
            return bounded & ((flat < low - margin) | (flat > high + margin))
        index = self.action_index(action.flatten(0, 1)).view(*action.shape[:2], len(self.factors))
        return (index < 0) | (index >= torch.as_tensor(self.factors, device=action.device))


def _make_it_a_box(space: gymnasium.Space[Any]) -> str:
    """How an observation that is no Box becomes one."""
    if isinstance(space, gymnasium.spaces.Dict):
        return "choose keys with gymnasium.wrappers.FilterObservation, then make it one with FlattenObservation"
    if not space.is_np_flattenable:  # FlattenObservation leaves these as they are
        return (
            "its size differs from one observation to the next: write a gymnasium.ObservationWrapper that gives an "
            "array of one shape, for instance padded"
        )
    return "make it one with gymnasium.wrappers.FlattenObservation"


def _expect_shape(name: str, value: Tensor, tail: tuple[int, ...]) -> None:
    if tuple(value.shape[2:]) != tail:
        timeless = len(tail) > 0 and tuple(value.shape[1:]) == tail
        hint = "; a single step needs its time axis too: .unsqueeze(0)" if timeless else ""
        raise ValueError(f"Transitions.{name}: expected shape (T, N, *{tail}), got {tuple(value.shape)}{hint}")


def _all_finite(value: Tensor) -> bool:
    # as float32, which is what networks see: 1e300 is finite in float64 only
    return not value.is_floating_point() or bool(torch.isfinite(value.float()).all())


def _expect_finite(name: str, value: Tensor, valid: Tensor) -> None:
    if _all_finite(value):
        return
    bad = ~torch.isfinite(value.float()) & _like_rows(valid, value)
    if bool(bad.any()):
        where = [int(i) for i in bad.nonzero()[0]]
        raise ValueError(
            f"Transitions.{name}{where} (time, environment, ...): expected finite float32 numbers, "
            f"got {value[tuple(where)].item()}"
        )


def _like_rows(flag: Tensor, value: Tensor) -> Tensor:
    """(T, N) as something that broadcasts over (T, N, ...)."""
    return flag.reshape(*flag.shape, *(1,) * (value.ndim - 2))
