"""The one type that flows from environments to bonuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import torch
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
        for field in fields(self):
            _expect_tensor(field.name, getattr(self, field.name), optional=field.default is None)
        if self.terminated.ndim != 2:
            raise ValueError(
                f"Transitions.terminated: expected shape (T, N), got {tuple(self.terminated.shape)}; "
                "add a leading time axis for a single step"
            )
        lead = tuple(self.terminated.shape)
        for field in fields(self):
            value: Tensor | None = getattr(self, field.name)
            if value is None:
                continue
            if tuple(value.shape[:2]) != lead:
                timeless = value.ndim == 1 and len(value) == lead[0]
                hint = "; if this is a single step, add the time axis to every field: .unsqueeze(0)" if timeless else ""
                raise ValueError(
                    f"Transitions.{field.name}: expected leading shape (T, N) = {lead}, got {tuple(value.shape)}{hint}"
                )
            if value.device != self.terminated.device:
                raise ValueError(
                    f"Transitions.{field.name}: expected device {self.terminated.device} like the other fields, "
                    f"got {value.device}"
                )
        for name in ("terminated", "truncated", "valid"):
            flag: Tensor = getattr(self, name)
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
    ) -> Transitions:
        """Fill in the flags that are left out: nothing ends, everything is valid."""
        _expect_tensor("obs", obs)
        if obs.ndim < 2:
            raise ValueError(f"Transitions.obs: expected shape (T, N, ...), got {tuple(obs.shape)}")
        never = torch.zeros(obs.shape[:2], dtype=torch.bool, device=obs.device)
        return cls(
            obs=obs,
            action=action,
            next_obs=next_obs,
            terminated=never if terminated is None else terminated,
            truncated=never if truncated is None else truncated,
            valid=~never if valid is None else valid,
            reward=reward,
            policy=policy,
        )

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

    def __getitem__(self, time: slice) -> Transitions:
        """The steps of a time slice."""
        return self.map(lambda value: value[time])

    def envs(self, index: Tensor) -> Transitions:
        """The same block with the environments selected or permuted by `index`."""
        return self.map(lambda value: value[:, index])

    def to(self, device: torch.device | str) -> Transitions:
        """The same block on another device."""
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

    def map(self, function: Callable[[Tensor], Tensor]) -> Transitions:
        """The same block with a function of every field."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{k: function(v) for k, v in values.items() if v is not None})


def _expect_tensor(name: str, value: object, *, optional: bool = False) -> None:
    if not isinstance(value, Tensor) and not (optional and value is None):
        raise ValueError(f"Transitions.{name}: expected a torch tensor, got {type(value).__name__}")
