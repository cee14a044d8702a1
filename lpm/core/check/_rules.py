"""Rules of `check_intrinsic` about rewards, state, blocks and randomness: functions that fail with numbers."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box

from lpm.core.bonus import IntrinsicReward
from lpm.core.check._case import ENVS, STEPS, Case, IntrinsicCheckError, random_block, snapshot, with_rows
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions


def _shape_and_finiteness(case: Case) -> None:
    bonus = case.build()
    for cycle in range(3):
        reward = bonus.step(random_block(case.spaces, seed=cycle, filler=True))
        if tuple(reward.shape) != (STEPS, ENVS):  # the base class sees to it, unless `step` is overridden
            case.fail(f"step: expected shape {(STEPS, ENVS)}, got {tuple(reward.shape)}")
        if reward.dtype != torch.float32 or reward.requires_grad or reward.device != bonus.device:
            case.fail(
                f"step: expected float32 without gradient on {bonus.device}, got {reward.dtype}, gradient "
                f"{reward.requires_grad}, on {reward.device}; override _step, not step: it sees to all three"
            )
        if not bool(torch.isfinite(reward).all()):
            case.fail(f"step: expected finite rewards in cycle {cycle}, got {_first_odd(reward)}")
        for name, value in bonus.update().items():
            if not bool(torch.isfinite(value)):
                case.fail(f"update: expected metric {name!r} to be finite in cycle {cycle}, got {value.item()}")


def _first_odd(reward: torch.Tensor) -> str:
    """The first reward that is not finite, and how many are not."""
    odd = reward[~torch.isfinite(reward)]
    return f"{odd[0].item()} in {len(odd)} of {reward.numel()}"


def _score_is_pure(case: Case) -> None:
    bonus, block = case.trained(), random_block(case.spaces, seed=7, filler=True)
    before = snapshot(bonus)
    first, second = bonus.score(block), bonus.score(block)
    case.same("second score", first, second, fix="draw nothing in _score")
    case.same("state after score", before, snapshot(bonus), fix="change buffers in _observe, not in _score")
    if first.requires_grad:
        case.fail("score: expected no gradient")


def _step_is_score_then_observe(case: Case) -> None:
    together, apart = case.trained(), case.trained()
    for cycle in range(2):
        block = random_block(case.spaces, seed=10 + cycle, filler=True)
        separate = apart.score(block)
        apart.observe(block)
        fix = "_step must return the reward of _score and remember what _observe remembers"
        case.same("reward", separate, together.step(block), 1e-6, fix=fix)
        case.same("state", snapshot(apart), snapshot(together), 1e-6, fix=fix)
        together.update()
        apart.update()


def _only_update_learns(case: Case) -> None:
    bonus = case.trained()
    before = {name: parameter.detach().clone() for name, parameter in bonus.named_parameters()}
    for cycle in range(2):
        bonus.step(random_block(case.spaces, seed=15 + cycle, filler=True))
    case.same(
        "parameters after step",
        before,
        {n: p.detach() for n, p in bonus.named_parameters()},
        fix="keep the transitions in _observe and learn from them in _update",
    )


def _invalid_rows_do_nothing(case: Case) -> None:
    block = random_block(case.spaces, seed=5, filler=True)
    garbage = _replace_invalid(block, random_block(case.spaces, seed=6))
    padded = _pad_invalid(block, case.spaces)
    plain, other, longer = case.trained(), case.trained(), case.trained()
    reward = plain.step(block)
    if bool((reward[~block.valid] != 0).any()):
        case.fail(
            f"expected reward 0 for invalid transitions, got {reward[~block.valid].tolist()}; leave _masked as it is"
        )
    fix = "look at batch.rows(), or at fields[batch.valid], only"
    case.same("reward with other contents in invalid rows", reward, other.step(garbage), 1e-6, fix=fix)
    case.same("state with other contents in invalid rows", snapshot(plain), snapshot(other), 1e-6, fix=fix)
    case.same("reward with an invalid step put in front", reward, longer.step(padded)[1:], 1e-6, fix=fix)
    case.same("state with an invalid step put in front", snapshot(plain), snapshot(longer), 1e-6, fix=fix)
    plain.update()
    other.update()
    case.same("state after update", snapshot(plain), snapshot(other), 1e-4, fix=fix)


def _replace_invalid(block: Transitions, other: Transitions) -> Transitions:
    return replace(with_rows(block, ~block.valid, other, CONTENT), terminated=block.terminated | ~block.valid)


CONTENT = ("obs", "action", "next_obs", "reward", "policy")


def _pad_invalid(block: Transitions, spaces: Spaces) -> Transitions:
    front = random_block(spaces, steps=1, seed=99)
    front = replace(front, valid=torch.zeros_like(front.valid))
    names = ("obs", "action", "next_obs", "terminated", "truncated", "valid", "reward", "policy")
    return Transitions(**{n: torch.cat([getattr(front, n), getattr(block, n)]) for n in names})


def _splitting_changes_nothing(case: Case) -> None:
    block = random_block(case.spaces, seed=20, filler=True)
    whole, split = case.trained(), case.trained()
    expected = whole.step(block)
    parts = [split.step(block[a:b]) for a, b in ((0, 1), (1, 5), (5, STEPS))]
    fix = "take no statistics of a block: accumulate in _observe, and make them active in _update"
    case.same("reward", expected, torch.cat(parts), 1e-4, fix=fix)
    case.same("state", snapshot(whole), snapshot(split), 1e-4, fix=fix)


def _environments_are_alike(case: Case) -> None:
    order = torch.tensor([2, 0, 1])
    plain, permuted = case.trained(), case.trained()
    for cycle in range(2):
        block = random_block(case.spaces, seed=30 + cycle, filler=True)
        case.same(
            "reward",
            plain.step(block)[:, order],
            permuted.step(block.envs(order)),
            1e-4,
            fix="treat environments alike, whatever their place in the block",
        )


def _resumes_exactly(case: Case) -> None:
    bonus, block = case.trained(), random_block(case.spaces, seed=40, filler=True)
    bonus.step(block[:3])
    loaded = _through_file(case, bonus)
    fix = "register_buffer whatever is remembered, add_optimizer, and draw from the generator that is given"
    case.same("state after load", snapshot(bonus), snapshot(loaded), fix=fix)
    case.same("reward after load", bonus.step(block[3:]), loaded.step(block[3:]), fix=fix)
    for cycle in range(3):
        case.same(f"metrics of update {cycle + 1}", bonus.update(), loaded.update(), fix=fix)
        case.same(f"state after update {cycle + 1}", snapshot(bonus), snapshot(loaded), fix=fix)
        block = random_block(case.spaces, seed=60 + cycle, filler=True)
        case.same(f"reward after update {cycle + 1}", bonus.step(block), loaded.step(block), fix=fix)


def _through_file(case: Case, bonus: IntrinsicReward) -> IntrinsicReward:
    stream = io.BytesIO()
    torch.save(bonus.state_dict(), stream)
    stream.seek(0)
    fresh = case.build(seed=123)
    fresh.load_state_dict(torch.load(stream, weights_only=True))
    return fresh


def _no_global_randomness(case: Case) -> None:
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002  the legacy state is what is being watched
        random.seed(seed)
        before = _global_random_state()
        bonus = case.train()
        results.append((bonus.step(random_block(case.spaces, seed=70)), snapshot(bonus)))
        fix = "build networks inside `with seeded(self.generator)` and draw from the generator that is given"
        case.same("global random state", before, _global_random_state(), fix=fix)
    case.same("result under another global seed", results[0], results[1], fix=fix)


def _global_random_state() -> dict[str, Any]:
    name, keys, position, *_ = np.random.get_state(legacy=True)  # noqa: NPY002
    return {
        "torch": torch.get_rng_state(),
        "numpy": (str(name), torch.as_tensor(np.asarray(keys, dtype=np.int64)), int(position)),
        "python": hash(random.getstate()),
    }


def _odd_batches(case: Case) -> None:
    block = random_block(case.spaces, seed=80)
    first = block[:1].envs(torch.tensor([0]))
    constant = first.envs(torch.zeros(ENVS, dtype=torch.int64))
    constant = Transitions(**{k: v.expand(STEPS, *v.shape[1:]) for k, v in vars(constant).items()})
    constant = replace(constant, next_obs=constant.obs)
    empty = replace(block, valid=torch.zeros_like(block.valid))
    for name, odd, envs in (("constant", constant, ENVS), ("single-sample", first, 1), ("all-invalid", empty, ENVS)):
        bonus = case.build(num_envs=envs)
        for cycle in range(4):
            reward, metrics = bonus.step(odd), bonus.update()
            if not bool(torch.isfinite(reward).all()):
                case.fail(f"{name} batch, cycle {cycle}: expected finite rewards, got {_first_odd(reward)}")
            for key, value in metrics.items():
                if not bool(torch.isfinite(value)):
                    case.fail(f"{name} batch, cycle {cycle}: expected a finite {key}, got {value.item()}")
    trained = case.trained()
    before = snapshot(trained)
    trained.step(empty)
    case.same(
        "state after an all-invalid batch", before, snapshot(trained), fix="a block without valid rows is nothing"
    )


def _uint8_is_not_wrapped(case: Case) -> None:
    spaces = case.spaces
    if spaces.obs_dtype != torch.uint8:
        return
    box: Any = spaces.observation
    low, high = box.low.astype(np.float32), box.high.astype(np.float32)
    # float matrices are vectors, uint8 ones are images: as floats they need their channel axis written out
    matrix = low.ndim == 2
    shape = (1, *low.shape) if matrix else low.shape
    failures = []
    # a bonus may divide whatever it gets by its range, or only uint8: one of the two twins then sees the same numbers
    for unit in (1.0, 255.0):
        bounds = (low / unit).reshape(shape), (high / unit).reshape(shape)
        twin = Spaces(Box(*bounds), spaces.action, "first" if matrix else spaces.channels)
        stored, floating = case.build(), case.build(spaces=twin)
        try:
            for cycle in range(4):
                block = random_block(spaces, seed=90 + cycle)
                obs, next_obs = (x.float().reshape(*block.shape, *shape) / unit for x in (block.obs, block.next_obs))
                expected = floating.step(replace(block, obs=obs, next_obs=next_obs))
                case.same(
                    f"reward in cycle {cycle}, floats against uint8",
                    expected,
                    stored.step(block),
                    1e-3,
                    fix="make floats of uint8 before any arithmetic",
                )
                stored.update()
                floating.update()
            return
        except IntrinsicCheckError as error:
            failures.append(error)
    raise failures[0]


RULES: dict[str, Callable[[Case], None]] = {
    "shape and finiteness": _shape_and_finiteness,
    # early: the rules below compare two bonuses, which global randomness would also drive apart
    "no global randomness": _no_global_randomness,
    "score is pure": _score_is_pure,
    "step is score then observe": _step_is_score_then_observe,
    "only update learns": _only_update_learns,
    "invalid transitions are scored 0 and leave no trace": _invalid_rows_do_nothing,
    "splitting a block in time changes nothing": _splitting_changes_nothing,
    "permuting environments permutes rewards": _environments_are_alike,
    "saved in mid-cycle, resumes exactly": _resumes_exactly,
    "constant, single-sample and all-invalid batches": _odd_batches,
    "uint8 images are not wrapped": _uint8_is_not_wrapped,
}
