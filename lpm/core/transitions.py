"""The one type that flows from environments to bonuses, and how it is read from Gymnasium's vector environments.

True successors, whatever the autoreset mode:

- NEXT_STEP: the step after an episode's end only resets. It is no transition (`valid` is False).
- SAME_STEP: the successor of the last step is in `info["final_obs"]`; the returned observation begins an episode.
- DISABLED: the caller resets the rows that ended, between two steps.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from torch import Tensor


class Rows(NamedTuple):
    """The valid transitions of a block, flattened time-major then by environment."""

    obs: Tensor
    action: Tensor
    next_obs: Tensor
    reward: Tensor | None
    policy: Tensor | None


@dataclass(frozen=True, eq=False)
class Transitions:
    """A block of T time steps in N parallel environments, as tensors shaped (T, N, ...).

    >>> import torch
    >>> batch = Transitions.build(torch.zeros(3, 2, 4), torch.zeros(3, 2, dtype=torch.int64), torch.ones(3, 2, 4))
    >>> batch.shape, int(batch.valid.sum())
    ((3, 2), 6)
    """

    obs: Tensor
    """Observation before the action, (T, N, *observation shape). Images stay uint8."""
    action: Tensor
    """The executed action: (T, N) int64 for Discrete, (T, N, ...) otherwise."""
    next_obs: Tensor
    """The true successor, never the observation after a reset."""
    terminated: Tensor
    """(T, N) bool: the episode reached a terminal state."""
    truncated: Tensor
    """(T, N) bool: the episode was cut by a time limit."""
    valid: Tensor
    """(T, N) bool: False for autoreset filler, which is scored 0 and never learnt from."""
    reward: Tensor | None = None
    """(T, N) extrinsic reward, for the methods that need it (EME)."""
    policy: Tensor | None = None
    """(T, N, P) policy parameters at `obs`: logits (concatenated over factors), or means then log-stds."""

    def __post_init__(self) -> None:
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        given = {name: value for name, value in given.items() if name not in ("reward", "policy") or value is not None}
        for name, value in given.items():
            _expect_tensor(name, value)
        if self.terminated.ndim != 2:
            raise ValueError(
                f"Transitions.terminated: expected shape (T, N), got {tuple(self.terminated.shape)}; "
                "add a leading time axis for a single step"
            )
        lead = tuple(self.terminated.shape)
        for name, value in given.items():
            if tuple(value.shape[:2]) != lead:
                timeless = value.ndim == 1 and len(value) == lead[0]
                hint = "; if this is a single step, add the time axis to every field: .unsqueeze(0)" if timeless else ""
                raise ValueError(
                    f"Transitions.{name}: expected leading shape (T, N) = {lead}, got {tuple(value.shape)}{hint}"
                )
            if value.device != self.terminated.device:
                raise ValueError(
                    f"Transitions.{name}: expected device {self.terminated.device} like the other fields, "
                    f"got {value.device}"
                )
        for name in ("terminated", "truncated", "valid"):
            flag = given[name]
            if flag.ndim != 2:
                raise ValueError(f"Transitions.{name}: expected shape (T, N) = {lead}, got {tuple(flag.shape)}")
            if flag.dtype != torch.bool:
                raise ValueError(f"Transitions.{name}: expected dtype torch.bool, got {flag.dtype}")

    @classmethod
    def build(
        cls,
        obs: Tensor,
        action: Tensor,
        next_obs: Tensor,
        *,
        terminated: Tensor | None = None,
        truncated: Tensor | None = None,
        valid: Tensor | None = None,
        reward: Tensor | None = None,
        policy: Tensor | None = None,
    ) -> Self:
        """Fill in the flags that are left out: nothing ends, everything is valid."""
        _expect_tensor("obs", obs)
        if obs.ndim < 2:
            raise ValueError(f"Transitions.obs: expected shape (T, N, ...), got {tuple(obs.shape)}")
        never = torch.zeros(obs.shape[:2], dtype=torch.bool, device=obs.device)
        terminated, truncated = (never if flag is None else flag for flag in (terminated, truncated))
        return cls(obs, action, next_obs, terminated, truncated, ~never if valid is None else valid, reward, policy)

    @property
    def shape(self) -> tuple[int, int]:
        return self.valid.shape[0], self.valid.shape[1]

    @property
    def done(self) -> Tensor:
        """(T, N) bool: the episode ended at this step, for either reason."""
        return self.terminated | self.truncated

    @property
    def device(self) -> torch.device:
        return self.valid.device

    def __getitem__(self, time: slice) -> Self:
        """The steps of a time slice."""
        return self.map(lambda value: value[time])

    def envs(self, index: Tensor) -> Self:
        """The same block with the environments selected or permuted by `index`."""
        return self.map(lambda value: value[:, index])

    def to(self, device: torch.device | str) -> Self:
        return self.map(lambda value: value.to(device))

    def rows(self) -> Rows:
        """The valid transitions, flattened time-major then by environment: the order of the error queue."""
        keep = None if bool(self.valid.all()) else self.valid.flatten()

        def flat(value: Tensor | None) -> Tensor | None:
            if value is None:
                return None
            value = value.flatten(0, 1)
            return value if keep is None else value[keep]

        return Rows(*(flat(v) for v in (self.obs, self.action, self.next_obs, self.reward, self.policy)))  # type: ignore[arg-type]

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """The same block with a function of every field."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{k: function(v) for k, v in values.items() if v is not None})


def _expect_tensor(name: str, value: object) -> None:
    if not isinstance(value, Tensor):
        raise ValueError(f"Transitions.{name}: expected a torch tensor, got {type(value).__name__}")


Array = NDArray[Any]
Mask = NDArray[np.bool_]


def autoreset_mode(envs: Any) -> AutoresetMode:
    """How these environments begin a new episode."""
    mode = envs.metadata.get("autoreset_mode")
    if mode is None:
        raise ValueError(
            f"{envs}: expected metadata['autoreset_mode'] (gymnasium.vector.AutoresetMode), which says how to read the "
            f"end of an episode; got metadata {envs.metadata}"
        )
    return AutoresetMode(mode)


def valid_steps(mode: AutoresetMode, ended: Mask) -> Mask:
    """Which rows of a step are transitions, given which episodes the step before had `ended`."""
    return ~ended if mode is AutoresetMode.NEXT_STEP else np.ones_like(ended)


def use_final_obs(mode: AutoresetMode, successors: Array, done: Mask, info: dict[str, Any], key: str | None) -> None:
    """Put the true successors of the rows that are `done` into a copy of the returned observations.

    `key` names the entry of Dict observations that `successors` holds.
    """
    if mode is not AutoresetMode.SAME_STEP or not done.any():
        return
    if "final_obs" not in info:
        raise ValueError(f"expected info['final_obs'] from environments in SAME_STEP mode, got info {sorted(info)}")
    final = info["final_obs"]
    for row in np.flatnonzero(done):
        # one observation a row, as Gymnasium itself has it, or a dict of arrays
        value = final[key][row] if isinstance(final, dict) else final[row]
        successors[row] = value[key] if key is not None and isinstance(value, dict) else value


RECENT = 100  # episodes behind a reported return


class EpisodeSums:
    """Sums of several numbers over the running episode of each environment, and over the last 100 that ended."""

    def __init__(self, numbers: int, num_envs: int) -> None:
        self.running = np.zeros((numbers, num_envs))
        self.recent: deque[tuple[float, ...]] = deque(maxlen=RECENT)
        self.ended = 0
        """Episodes so far."""

    def add(self, block: NDArray[Any], done: Mask, left: Mask | None = None) -> None:
        """A (numbers, T, N) block; `done` (T, N) says where an episode ended, `left` which of them counts for nothing:
        the environment was reset before its end.
        """
        start, counted = 0, done if left is None else done & ~left
        for t in np.flatnonzero(done.any(axis=1)):
            self.running += block[:, start : t + 1].sum(axis=1)
            self.recent.extend(map(tuple, self.running[:, counted[t]].T.tolist()))
            self.ended += int(counted[t].sum())
            self.running[:, done[t]] = 0.0
            start = int(t) + 1
        self.running += block[:, start:].sum(axis=1)
