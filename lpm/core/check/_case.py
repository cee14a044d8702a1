"""What the rules of `check_intrinsic` share: the bonus under test, random blocks, comparisons."""

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lpm.core.bonus import IntrinsicReward
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions

STEPS, ENVS = 8, 3


Maker = Callable[..., IntrinsicReward]
"""Builds the bonus under test, from spaces and `num_envs`, `rollout_steps` and `seed` by name."""


class IntrinsicCheckError(AssertionError):
    """A rule of the contract is broken; the message names it and shows the numbers."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(f"rule '{rule}': {message}")
        self.rule = rule


@dataclass(frozen=True)
class Case:
    """One bonus on one pair of spaces."""

    make: Maker
    spaces: Spaces
    rule: str
    cache: list[IntrinsicReward]

    def build(self, *, spaces: Spaces | None = None, **sizes: int) -> IntrinsicReward:
        """A fresh bonus."""
        return self.make(spaces or self.spaces, **{"num_envs": ENVS, "rollout_steps": STEPS, "seed": 0, **sizes})

    def train(self, bonus: IntrinsicReward | None = None) -> IntrinsicReward:
        """A bonus after three cycles of full, valid blocks whose episodes all end: memories are empty again."""
        bonus = self.build() if bonus is None else bonus
        for cycle in range(3):
            bonus.step(ending(random_block(self.spaces, seed=cycle)))
            bonus.update()
        return bonus

    def trained(self) -> IntrinsicReward:
        """A copy of one such bonus, trained once for all rules."""
        if not self.cache:
            self.cache.append(self.train())
        return copy.deepcopy(self.cache[0])

    def fail(self, message: str) -> None:
        raise IntrinsicCheckError(self.rule, message)

    def same(self, what: str, expected: Any, got: Any, tolerance: float = 0.0, *, fix: str = "") -> None:
        """Compare two values, tensors or nested states; `fix` says what to do if they differ."""
        fix = f"; {fix}" if fix else ""
        for path, a, b in _pairs(what, expected, got):
            if isinstance(a, Tensor) and isinstance(b, Tensor) and a.shape == b.shape:
                if not torch.equal(a, b):  # first without a copy of a large buffer in float64
                    self._same_tensor(path, a, b, tolerance, fix)
            elif type(a) is not type(b) or isinstance(a, Tensor) or a != b:
                self.fail(f"{path}: expected {_show(a)}, got {_show(b)}{fix}")

    def _same_tensor(self, path: str, a: Tensor, b: Tensor, tolerance: float, fix: str) -> None:
        x, y = a.double(), b.double()
        # an infinite x would make the allowance infinite, or NaN at tolerance 0: it equals itself only
        close = (x - y).abs() <= tolerance * (1 + torch.where(x.isfinite(), x.abs(), 0.0))
        apart = ~(close | (x == y) | (x.isnan() & y.isnan()))
        if bool(apart.any()):
            where = tuple(int(i) for i in apart.nonzero()[0])
            self.fail(
                f"{path}{list(where)}: expected {x[where].item():.9g}, got {y[where].item():.9g} "
                f"({int(apart.sum())} of {apart.numel()} differ, by up to {(x - y).abs().max().item():.3g}; "
                f"tolerance {tolerance:g}){fix}"
            )


def random_block(
    spaces: Spaces, *, steps: int = STEPS, envs: int = ENVS, seed: int = 0, filler: bool = False
) -> Transitions:
    """Random transitions of continuing episodes; with `filler`, some episodes end and are followed by filler."""
    rng = np.random.default_rng(seed)
    shape = (steps + 1, envs, *spaces.obs_shape)
    if spaces.obs_dtype == torch.uint8:
        box: Any = spaces.observation
        stream = torch.as_tensor(rng.integers(int(box.low.min()), int(box.high.max()) + 1, shape, dtype=np.uint8))
    else:
        stream = torch.as_tensor(rng.uniform(-1, 1, shape), dtype=torch.float32)
    done = torch.as_tensor(rng.random((steps, envs)) < 0.2) if filler else torch.zeros(steps, envs, dtype=torch.bool)
    valid = torch.ones(steps, envs, dtype=torch.bool)
    for t in range(1, steps):
        valid[t] = ~(done[t - 1] & valid[t - 1])
        done[t] &= valid[t]
    space = copy.deepcopy(spaces.action)
    space.seed(int(rng.integers(2**31)))
    action = torch.as_tensor(np.stack([np.asarray(space.sample()) for _ in range(steps * envs)]))
    return Transitions(
        obs=stream[:-1].clone(),
        action=action.to(spaces.action_dtype).reshape(steps, envs, *spaces.action_shape),
        next_obs=stream[1:].clone(),
        terminated=done & torch.as_tensor(rng.random((steps, envs)) < 0.5),
        truncated=done.clone(),
        valid=valid,
        reward=torch.as_tensor(rng.normal(size=(steps, envs)), dtype=torch.float32),
        policy=torch.as_tensor(rng.normal(size=(steps, envs, spaces.policy_width)), dtype=torch.float32),
    )


def ending(block: Transitions) -> Transitions:
    """The same block with every episode cut at its last step."""
    truncated = block.truncated.clone()
    truncated[-1] = True
    return replace(block, truncated=truncated)


def with_rows(block: Transitions, rows: Tensor, other: Transitions, names: Iterable[str]) -> Transitions:
    """The block with the named fields of the transitions in `rows` (T, N) taken from another one."""

    def mixed(a: Tensor, b: Tensor) -> Tensor:
        return torch.where(rows.reshape(*rows.shape, *(1,) * (a.ndim - 2)), b, a)

    return replace(block, **{name: mixed(getattr(block, name), getattr(other, name)) for name in names})


def snapshot(bonus: IntrinsicReward) -> dict[str, Any]:
    """A deep copy of everything a bonus remembers."""
    return copy.deepcopy(dict(bonus.state_dict()))


def _pairs(path: str, a: Any, b: Any) -> Iterable[tuple[str, Any, Any]]:
    if isinstance(a, dict) and isinstance(b, dict) and set(a) == set(b):
        for key in a:
            yield from _pairs(f"{path}.{key}", a[key], b[key])
    elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from _pairs(f"{path}[{i}]", x, y)
    else:
        yield path, a, b


def _show(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)}"
    return f"keys {sorted(map(str, value))}" if isinstance(value, dict) else repr(value)
