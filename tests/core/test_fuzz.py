"""Whatever comes in: finite rewards or a ValueError, and after a refused call the bonus is as it was.

Spaces, bonuses, shapes, masks, dtypes and magnitudes are drawn by hypothesis. The short form always draws the same
cases; the long one (`-m slow`) takes minutes and new cases each time, as many as LPM_FUZZ says.
"""

import os
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_contract_registry import cheap
from torch import Tensor

import lpm
from lpm import IntrinsicReward, Spaces, Transitions
from lpm.core.check import Case, IntrinsicCheckError, snapshot

TRIED: Counter[str] = Counter()
"""What became of cases and of their calls."""
CALLS: Counter[str] = Counter()
"""Calls by bonus."""

FLOATS = [torch.float32, torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
WRONG = [torch.bool, torch.complex64, torch.int64, torch.float32, torch.uint8]
SCALES = [0.0, 1e-38, 1e-20, 1e-6, 1e-3, 1.0, 1.0, 1.0, 1e3, 1e6, 1e12, 1e25, 3e38]


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    """Observation spaces, vectors mostly."""
    kind = draw(st.sampled_from(["vector", "vector", "vector", "matrix", "grid", "image", "float image"]))
    if kind == "grid":
        return Box(0, 255, draw(st.sampled_from([(3, 7, 7), (7, 7, 1), (5, 6)])), np.uint8)
    if kind == "image":
        return Box(0, 255, (1, 36, 36), np.uint8)
    if kind == "float image":
        return Box(0.0, draw(st.sampled_from([1.0, 255.0, np.inf])), (2, 6, 6))
    shape = (draw(st.integers(1, 6)),) if kind == "vector" else (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    high = draw(st.sampled_from([1.0, np.inf, np.inf, 1e-6, 1e30, 0.0]))
    return Box(-high, high, shape, draw(st.sampled_from([np.float32, np.float32, np.float64])))


@st.composite
def actions(draw: st.DrawFn) -> Any:
    """Action spaces."""
    kind = draw(st.sampled_from(["discrete", "discrete", "multi", "binary", "box"]))
    if kind == "discrete":
        return Discrete(draw(st.integers(1, 5)), start=draw(st.sampled_from([0, 0, -1, 7])))
    if kind == "multi":
        return MultiDiscrete(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    if kind == "binary":
        return MultiBinary(draw(st.integers(1, 3)))
    high = draw(st.sampled_from([1.0, np.inf, 1e-3, 1e35]))
    return Box(-high, high, draw(st.sampled_from([(), (1,), (2,), (2, 2)])))


def numbers(draw: st.DrawFn, shape: tuple[int, ...], bound: float) -> Tensor:
    """Float64 values of a magnitude, a few of them not numbers."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    scale = draw(st.sampled_from(SCALES)) if not np.isfinite(bound) else bound
    values = rng.uniform(-1, 1, shape) * scale
    if values.size and draw(st.integers(0, 9)) == 0:
        spoilt = draw(st.sampled_from([np.nan, np.inf, -np.inf, 1e300, 1e25]))
        values.reshape(-1)[rng.integers(values.size)] = spoilt
    return torch.as_tensor(values)


def filled(draw: st.DrawFn, space: Any, lead: tuple[int, ...]) -> Tensor:
    """Values of a space, as tensors of a dtype that suits it, mostly."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    wrong = draw(st.integers(0, 24)) == 0
    shape = (*lead, *space.shape)
    if isinstance(space, Box) and space.dtype == np.uint8:
        values = torch.as_tensor(rng.integers(0, 256, shape, dtype=np.uint8))
        return values.to(draw(st.sampled_from(WRONG))) if wrong else values
    if isinstance(space, Box):
        values = numbers(draw, shape, float(np.max(np.abs(space.high), initial=0.0)))
        return values.to(draw(st.sampled_from(WRONG if wrong else FLOATS)))
    low = getattr(space, "start", 0)
    size = space.n if isinstance(space, Discrete) else 2 if isinstance(space, MultiBinary) else space.nvec
    values = torch.as_tensor(rng.integers(low, np.asarray(low) + size, shape))
    if values.numel() and draw(st.integers(0, 9)) == 0:
        values.view(-1)[int(rng.integers(values.numel()))] = draw(st.sampled_from([-1, 100]))
    return values.to(draw(st.sampled_from(WRONG if wrong else INTEGERS)))


@st.composite
def blocks(draw: st.DrawFn, spaces: Spaces, envs: int) -> dict[str, Any]:
    """The fields of a block, which may not fit the spaces or one another."""
    lead = (draw(st.integers(0, 5)), envs if draw(st.integers(0, 19)) else draw(st.integers(0, 4)))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    share = draw(st.sampled_from([0.0, 0.0, 0.3, 1.0]))

    def flags(chance: float) -> Tensor:
        return torch.as_tensor(rng.random(lead) < chance)

    fields: dict[str, Any] = {
        "obs": filled(draw, spaces.observation, lead),
        "action": filled(draw, spaces.action, lead),
        "next_obs": filled(draw, spaces.observation, lead),
        "terminated": flags(0.1),
        "truncated": flags(0.1),
        "valid": flags(1 - share),
        "reward": numbers(draw, lead, np.inf).to(draw(st.sampled_from(FLOATS))),
        "policy": numbers(draw, (*lead, spaces.policy_width), np.inf).float(),
    }
    if draw(st.integers(0, 24)) == 0:
        fields[draw(st.sampled_from(["reward", "policy"]))] = None
    if draw(st.integers(0, 9)) == 0:
        name = draw(st.sampled_from(sorted(fields)))
        fields[name] = None if fields[name] is None else odd(fields[name], draw(st.sampled_from(ODD)))
    return fields


ODD = ["narrow", "strided", "expanded", "with gradient", "read-only", "wrong dtype", "timeless"]


def odd(value: Tensor, how: str) -> Any:
    """A field as a careless caller might give it: some of these are right, some must be refused."""
    if how == "narrow":
        return value[..., :1]
    if how == "strided":  # the same numbers, every other place in memory
        return torch.stack((value, value), -1)[..., 0]
    if how == "expanded":  # one row for all of time
        return value[:1].expand(value.shape) if len(value) else value
    if how == "with gradient":
        return value.clone().requires_grad_() if value.is_floating_point() else value
    if how == "read-only":
        array = value.float().numpy() if value.dtype == torch.bfloat16 else value.numpy()
        array.flags.writeable = False
        return array  # no tensor
    if how == "wrong dtype":
        return value.to(torch.float32 if value.dtype != torch.float32 else torch.int64)
    return value[0] if len(value) else value


def unchanged(before: dict[str, Any], bonus: IntrinsicReward, what: str) -> None:
    """Nothing moved."""
    try:
        Case(lpm.make, bonus.spaces, what, []).same("state", before, snapshot(bonus))  # type: ignore[arg-type]
    except IntrinsicCheckError as error:
        raise AssertionError(f"{type(bonus).__name__}: a refused {what} changed it: {error}") from error


def attack(data: st.DataObject) -> None:
    """Build a bonus, call it a few times with whatever hypothesis thinks of."""
    name = data.draw(st.sampled_from(lpm.names()))
    TRIED["cases"] += 1
    observation, action, envs = data.draw(boxes()), data.draw(actions()), data.draw(st.integers(1, 3))
    try:
        spaces = Spaces(observation, action)
        sizes = {"num_envs": envs, "rollout_steps": data.draw(st.integers(1, 6)), "seed": data.draw(st.integers(0, 9))}
        small = {k: v for k, v in cheap(name).items() if not k.endswith("buffer_size")}
        bonus = lpm.make(name, spaces, **sizes, **small)
    except ValueError:
        TRIED["refused to be built"] += 1
        return
    for _ in range(data.draw(st.integers(2, 5))):
        verb = data.draw(st.sampled_from(["step", "step", "step", "observe", "score"]))
        fields, before = data.draw(blocks(spaces, envs)), snapshot(bonus)
        CALLS[name] += 1
        try:
            reward = getattr(bonus, verb)(Transitions(**fields))
        except ValueError:
            TRIED["refused"] += 1
            unchanged(before, bonus, verb)
            continue
        TRIED["accepted"] += 1
        if reward is not None:
            assert reward.dtype == torch.float32
            assert reward.shape == fields["valid"].shape
            assert bool(torch.isfinite(reward).all()), f"{name}: {reward}"
            assert not bool(reward[~fields["valid"]].any())
            assert not reward.requires_grad
        if verb != "score":
            for metric, value in bonus.update().items():
                assert bool(torch.isfinite(value)), f"{name}: {metric} is {value}"
            for parameter, value in bonus.named_parameters():
                assert bool(torch.isfinite(value).all()), f"{name}: {parameter} is not finite"


FUZZ = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))


@settings(FUZZ, max_examples=40, derandomize=True)
@given(st.data())
def test_a_few_cases(data: st.DataObject) -> None:
    attack(data)


@pytest.mark.slow
@settings(FUZZ, max_examples=int(os.environ.get("LPM_FUZZ", "1500")), print_blob=True)
@given(st.data())
def test_many_cases(data: st.DataObject) -> None:
    attack(data)


def test_blocks_of_both_kinds_were_drawn() -> None:
    """Runs after the others in this file: a fuzzer whose every block is refused, or none, tests nothing."""
    if not TRIED:
        test_a_few_cases()
    print(dict(TRIED))
    assert TRIED["refused"] > 10
    assert TRIED["accepted"] > 10
