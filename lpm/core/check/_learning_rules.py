"""Rules of `check_intrinsic` about what a bonus learns from, what sets its scale, and how much it keeps."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lpm.core.bonus import IntrinsicReward
from lpm.core.check._case import ENVS, STEPS, Case, ending, random_block, with_rows
from lpm.core.transitions import Transitions

LARGE = 1e12  # its square is still a float32
MORE_BLOCKS, MORE_BYTES = 12, 1024


def _no_number_of_environments(case: Case) -> None:
    """Only for bonuses without a memory per environment: those may compare environments with one another."""
    plain = case.trained()
    if plain.episodic:
        return
    block = random_block(case.spaces, seed=100)
    reward = plain.score(block)
    fix = "an environment's reward depends on what it did, whatever the others do and however many there are"
    single = plain.score(block.envs(torch.tensor([0])))
    case.same("reward of environment 0 by itself", reward[:, :1], single, 1e-4, fix=fix)
    other = case.train(case.build(num_envs=1, rollout_steps=STEPS * ENVS))
    case.same("reward of a bonus made for another number of environments", reward, other.score(block), 1e-4, fix=fix)


def _everything_is_learnt_from(case: Case) -> None:
    """Take other transitions in one place at a time; rewards afterwards must show it in all places or in none."""
    block = ending(random_block(case.spaces, seed=110))
    block.terminated[2] = True
    block.truncated[4] = True
    place, env = torch.meshgrid(torch.arange(STEPS), torch.arange(ENVS), indexing="ij")
    usual = _reward_after(case, block, block)

    def matters(rows: Tensor, names: Iterable[str]) -> bool:
        changed = with_rows(block, rows, random_block(case.spaces, seed=111), names)
        return not torch.equal(usual, _reward_after(case, changed, block))

    whole = ("obs", "action", "next_obs")
    matter = [matters(env == index, whole) for index in range(ENVS)]
    if any(matter) != all(matter):
        case.fail(
            f"expected every environment's transitions to be learnt from, or none's, got {matter}; _observe and "
            "_update must take all of batch.rows()"
        )
    if all(matter) and not matters(place == 2, whole):
        case.fail("terminal transitions are not learnt from: an episode's last step is a transition like any other")
    if matters(place == 3, ("next_obs",)) and not matters(place == 4, ("next_obs",)):
        case.fail("next_obs is not learnt from where an episode is truncated: it is the true successor, never a reset")


def _reward_after(case: Case, observed: Transitions, scored: Transitions) -> Tensor:
    bonus = case.trained()
    bonus.step(observed)
    bonus.update()
    return bonus.score(scored)


def _ends_of_episodes(case: Case) -> None:
    block = random_block(case.spaces, seed=120)
    running, over = case.trained(), case.trained()
    fix = "whether the episode ends here matters to what comes after, not to this transition's reward"
    case.same("reward of an episode's last step", running.step(block), over.step(ending(block)), 1e-6, fix=fix)
    ends = torch.as_tensor(np.random.default_rng(0).random((STEPS, ENVS)) < 0.3)
    never = torch.zeros_like(ends)
    block = random_block(case.spaces, seed=121)
    terminated, truncated = case.trained(), case.trained()
    case.same(
        "reward with truncated episodes instead of terminated ones",
        terminated.step(replace(block, terminated=ends, truncated=never)),
        truncated.step(replace(block, terminated=never, truncated=ends)),
        1e-6,
        fix="an episode's memory ends with batch.done, for either reason",
    )


def _seed_and_generator(case: Case) -> None:
    first, second = case.build(seed=0), case.build(seed=1)
    fix = "pass the seed on to IntrinsicReward.__init__ and build networks inside `with seeded(self.generator)`"
    if torch.equal(first.generator.get_state(), second.generator.get_state()):
        case.fail(f"the generators of seeds 0 and 1 are the same; {fix}")
    drawn = [(n, p, q) for (n, p), q in zip(first.named_parameters(), second.parameters(), strict=True) if _varied(p)]
    if drawn and all(torch.equal(p, q) for _, p, q in drawn):
        case.fail(f"the parameters of seeds 0 and 1 are the same, {drawn[0][0]} for one; {fix}")
    own = case.trained()
    own.step(random_block(case.spaces, seed=130))
    given = copy.deepcopy(own)
    before, generator = own.generator.get_state(), torch.Generator().manual_seed(5)
    untouched = generator.get_state()
    own.update()
    given.update(generator)
    if torch.equal(before, own.generator.get_state()):
        return  # nothing is drawn
    if not torch.equal(before, given.generator.get_state()) or torch.equal(untouched, generator.get_state()):
        case.fail("update(generator) draws from another generator than the one it is given; use _update's argument")


def _varied(parameter: Tensor) -> bool:
    return parameter.numel() > 1 and bool((parameter != parameter.flatten()[0]).any())


def _update_learns(case: Case) -> None:
    bonus = case.trained()
    before = {name: p.detach().clone() for name, p in bonus.named_parameters() if p.requires_grad}
    for cycle in range(2):
        bonus.step(random_block(case.spaces, seed=140 + cycle))
        bonus.update()
    after = dict(bonus.named_parameters())
    if before and all(torch.equal(value, after[name]) for name, value in before.items()):
        case.fail(
            f"update changes none of the {len(before)} parameters; give them to add_optimizer and call descend, or say "
            "requires_grad_(False) of what is not trained"
        )


def _large_numbers(case: Case) -> None:
    spaces = case.spaces
    box: Any = spaces.observation
    free = ~np.isfinite(box.low) & ~np.isfinite(box.high)
    if spaces.obs_dtype == torch.uint8 or not free.any():
        return
    factor = torch.as_tensor(np.where(free, LARGE, 1.0), dtype=torch.float32)
    bonus = case.trained()
    for cycle in range(3):
        block = random_block(spaces, seed=150 + cycle)
        if cycle < 2:
            block = replace(block, obs=block.obs * factor, next_obs=block.next_obs * factor)
        reward = bonus.step(block)
        numbers = {"reward": reward, **bonus.update(), **dict(bonus.named_parameters())}
        for name, value in numbers.items():
            if not bool(torch.isfinite(value).all()):
                case.fail(
                    f"observations of {LARGE:g} in a space without bounds make {name} infinite or NaN"
                    f"{' for good' if cycle == 2 else ''}; standardise and clip them (lpm.nn.inputs.ObservationInput)"
                )


def _more_than_fits(case: Case) -> None:
    """More between two updates than a rollout: rings overflow, and must do so however the blocks are cut."""
    block = random_block(case.spaces, steps=3 * STEPS + 1, seed=160)
    whole, split = case.trained(), case.trained()
    fix = "a ring that overflows keeps the newest rows, in order (lpm.nn.buffers.RingBuffer)"
    parts = [split.step(block[a : a + 5]) for a in range(0, 3 * STEPS + 1, 5)]
    case.same("reward of three rollouts in one block", torch.cat(parts), whole.step(block), 1e-4, fix=fix)
    metrics = split.update()
    case.same("metrics after three rollouts in one block", metrics, whole.update(), 1e-3, fix=fix)
    probe = random_block(case.spaces, seed=161)
    case.same("reward after three rollouts in one block", split.score(probe), whole.score(probe), 1e-3, fix=fix)


def _bounded_memory(case: Case) -> None:
    bonus, block = case.trained(), random_block(case.spaces, seed=170)
    for _ in range(2):
        bonus.observe(block)
    before = _bytes(bonus)
    for _ in range(MORE_BLOCKS):
        bonus.observe(block)
    grown = _bytes(bonus) - before
    if grown > MORE_BYTES:
        case.fail(
            f"{MORE_BLOCKS} more blocks of {STEPS * ENVS} transitions add {grown:,} bytes to the bonus: what is kept "
            "must have a bound (lpm.nn.buffers.RingBuffer, lpm.nn.memory)"
        )


def _bytes(bonus: IntrinsicReward) -> int:
    """Size of the whole bonus, or of its state if something in it cannot be pickled."""
    try:
        return len(pickle.dumps(bonus))
    except Exception:  # a lambda, an open file: whatever pickle says
        return len(pickle.dumps(bonus.state_dict()))


RULES: dict[str, Callable[[Case], None]] = {
    "the number of environments sets no scale": _no_number_of_environments,
    "every transition is learnt from": _everything_is_learnt_from,
    "an end of an episode is an end for either reason": _ends_of_episodes,
    "seed and generator are used": _seed_and_generator,
    "update learns": _update_learns,
    "large numbers stay finite": _large_numbers,
    "more transitions than a rollout": _more_than_fits,
    "memory is bounded": _bounded_memory,
}
