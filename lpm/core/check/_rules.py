"""Rules of `check_intrinsic`, each a function that fails with numbers; they are tested in this order."""

import copy
import io
import pickle
import random
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor

from lpm.core.bonus import IntrinsicReward
from lpm.core.check._case import ENVS, STEPS, Case, IntrinsicCheckError, ending, random_block, snapshot, with_rows
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions

LARGE = 1e12  # its square is still a float32
MORE_BLOCKS, MORE_BYTES = 12, 1024

Rule = Callable[[Case], None]
RULES: dict[str, Rule] = {}


def rule(name: str) -> Callable[[Rule], Rule]:
    """Put a function among the `RULES`."""
    return lambda test: RULES.setdefault(name, test)


# ---- rewards, state and randomness ----------------------------------------------------------------------------
@rule("shape and finiteness")
def _shape_and_finiteness(case: Case) -> None:
    bonus = case.build()
    for cycle in range(3):
        reward = _finite_cycle(case, bonus, random_block(case.spaces, seed=cycle, filler=True), f"cycle {cycle}")
        if tuple(reward.shape) != (STEPS, ENVS):  # the base class sees to it, unless `step` is overridden
            case.fail(f"step: expected shape {(STEPS, ENVS)}, got {tuple(reward.shape)}")
        if reward.dtype != torch.float32 or reward.requires_grad or reward.device != bonus.device:
            case.fail(
                f"step: expected float32 without gradient on {bonus.device}, got {reward.dtype}, gradient "
                f"{reward.requires_grad}, on {reward.device}; override _step, not step: it sees to all three"
            )


def _finite_cycle(case: Case, bonus: IntrinsicReward, block: Transitions, where: str) -> Tensor:
    """The rewards of a block, from which the bonus then learns."""
    reward = bonus.step(block)
    for name, value in {"rewards": reward, **bonus.update()}.items():
        odd = value[~torch.isfinite(value)]
        if len(odd):
            case.fail(f"{where}: expected finite {name}, got {odd[0].item()} in {len(odd)} of {value.numel()}")
    return reward


# early: the rules below compare two bonuses, which global randomness would also drive apart
@rule("no global randomness")
def _no_global_randomness(case: Case) -> None:
    results = []
    fix = "draw from self.generator, or from the generator that is given"
    for seed in (1, 2):
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002  the legacy state is what is being watched
        random.seed(seed)
        before = _global_random_state()
        bonus = case.train()
        results.append((bonus.step(random_block(case.spaces, seed=70)), snapshot(bonus)))
        case.same("global random state", before, _global_random_state(), fix=fix)
    case.same("result under another global seed", results[0], results[1], fix=fix)


def _global_random_state() -> dict[str, Any]:
    name, keys, position, *_ = np.random.get_state(legacy=True)  # noqa: NPY002
    return {
        "torch": torch.get_rng_state(),
        "numpy": (str(name), torch.as_tensor(np.asarray(keys, dtype=np.int64)), int(position)),
        "python": hash(random.getstate()),
    }


@rule("score is pure")
def _score_is_pure(case: Case) -> None:
    bonus, block = case.trained(), random_block(case.spaces, seed=7, filler=True)
    before = snapshot(bonus)
    first, second = bonus.score(block), bonus.score(block)
    case.same("second score", first, second, fix="draw nothing in _score")
    case.same("state after score", before, snapshot(bonus), fix="change buffers in _observe, not in _score")
    if first.requires_grad:
        case.fail("score: expected no gradient")


@rule("step is score then observe")
def _step_is_score_then_observe(case: Case) -> None:
    together, apart = case.trained(), case.trained()
    fix = "_step must return the reward of _score and remember what _observe remembers"
    for cycle in range(2):
        block = random_block(case.spaces, seed=10 + cycle, filler=True)
        separate = apart.score(block)
        apart.observe(block)
        case.same("reward", separate, together.step(block), 1e-6, fix=fix)
        case.same("state", snapshot(apart), snapshot(together), 1e-6, fix=fix)
        together.update()
        apart.update()


@rule("only update learns")
def _only_update_learns(case: Case) -> None:
    bonus = case.trained()
    before = {name: parameter.detach().clone() for name, parameter in bonus.named_parameters()}
    for cycle in range(2):
        bonus.step(random_block(case.spaces, seed=15 + cycle, filler=True))
    after = {name: parameter.detach() for name, parameter in bonus.named_parameters()}
    case.same("parameters after step", before, after, fix="keep transitions in _observe and learn from them in _update")


@rule("invalid transitions are scored 0 and leave no trace")
def _invalid_rows_do_nothing(case: Case) -> None:
    block, other = random_block(case.spaces, seed=5, filler=True), random_block(case.spaces, seed=6)
    content = ("obs", "action", "next_obs", "reward", "policy")
    garbage = with_rows(block, ~block.valid, other, content)
    garbage = replace(garbage, terminated=block.terminated | ~block.valid)
    front = random_block(case.spaces, steps=1, seed=99)
    front = replace(front, valid=torch.zeros_like(front.valid))
    padded = Transitions(**{f.name: torch.cat([getattr(x, f.name) for x in (front, block)]) for f in fields(block)})
    plain, odd, longer = case.trained(), case.trained(), case.trained()
    reward = plain.step(block)
    if bool((reward[~block.valid] != 0).any()):
        case.fail(
            f"expected reward 0 for invalid transitions, got {reward[~block.valid].tolist()}; leave _masked as it is"
        )
    fix = "look at batch.rows(), or at fields[batch.valid], only"
    case.same("reward with other contents in invalid rows", reward, odd.step(garbage), 1e-6, fix=fix)
    case.same("state with other contents in invalid rows", snapshot(plain), snapshot(odd), 1e-6, fix=fix)
    case.same("reward with an invalid step put in front", reward, longer.step(padded)[1:], 1e-6, fix=fix)
    case.same("state with an invalid step put in front", snapshot(plain), snapshot(longer), 1e-6, fix=fix)
    plain.update()
    odd.update()
    case.same("state after update", snapshot(plain), snapshot(odd), 1e-4, fix=fix)


@rule("splitting a block in time changes nothing")
def _splitting_changes_nothing(case: Case) -> None:
    block = random_block(case.spaces, seed=20, filler=True)
    whole, split = case.trained(), case.trained()
    expected = whole.step(block)
    parts = [split.step(block[a:b]) for a, b in ((0, 1), (1, 5), (5, STEPS))]
    fix = "take no statistics of a block: accumulate in _observe, and make them active in _update"
    case.same("reward", expected, torch.cat(parts), 1e-4, fix=fix)
    case.same("state", snapshot(whole), snapshot(split), 1e-4, fix=fix)


@rule("permuting environments permutes rewards")
def _environments_are_alike(case: Case) -> None:
    order, fix = torch.tensor([2, 0, 1]), "treat environments alike, whatever their place in the block"
    plain, permuted = case.trained(), case.trained()
    for cycle in range(2):
        block = random_block(case.spaces, seed=30 + cycle, filler=True)
        case.same("reward", plain.step(block)[:, order], permuted.step(block.envs(order)), 1e-4, fix=fix)


@rule("saved in mid-cycle, resumes exactly")
def _resumes_exactly(case: Case) -> None:
    bonus, block = case.trained(), random_block(case.spaces, seed=40, filler=True)
    bonus.step(block[:3])
    stream, loaded = io.BytesIO(), case.build(seed=123)
    torch.save(bonus.state_dict(), stream)
    stream.seek(0)
    loaded.load_state_dict(torch.load(stream, weights_only=True))
    fix = "register_buffer whatever is remembered, add_optimizer, and draw from the generator that is given"
    case.same("state after load", snapshot(bonus), snapshot(loaded), fix=fix)
    case.same("reward after load", bonus.step(block[3:]), loaded.step(block[3:]), fix=fix)
    for cycle in range(3):
        case.same(f"metrics of update {cycle + 1}", bonus.update(), loaded.update(), fix=fix)
        case.same(f"state after update {cycle + 1}", snapshot(bonus), snapshot(loaded), fix=fix)
        block = random_block(case.spaces, seed=60 + cycle, filler=True)
        case.same(f"reward after update {cycle + 1}", bonus.step(block), loaded.step(block), fix=fix)


@rule("constant, single-sample and all-invalid batches")
def _odd_batches(case: Case) -> None:
    block = random_block(case.spaces, seed=80)
    first = block[:1].envs(torch.tensor([0]))
    constant = first.envs(torch.zeros(ENVS, dtype=torch.int64)).map(lambda x: x.expand(STEPS, *x.shape[1:]))
    constant = replace(constant, next_obs=constant.obs)
    empty = replace(block, valid=torch.zeros_like(block.valid))
    for name, odd, envs in (("constant", constant, ENVS), ("single-sample", first, 1), ("all-invalid", empty, ENVS)):
        bonus = case.build(num_envs=envs)
        for cycle in range(4):
            _finite_cycle(case, bonus, odd, f"{name} batch, cycle {cycle}")
    trained = case.trained()
    before, fix = snapshot(trained), "a block without valid rows is nothing"
    trained.step(empty)
    case.same("state after an all-invalid batch", before, snapshot(trained), fix=fix)


@rule("uint8 images are not wrapped")
def _uint8_is_not_wrapped(case: Case) -> None:
    spaces = case.spaces
    if spaces.obs_dtype != torch.uint8:
        return
    box: Any = spaces.observation
    low, high = box.low.astype(np.float32), box.high.astype(np.float32)
    # float matrices are vectors, uint8 ones are images: as floats they need their channel axis written out
    shape = (1, *low.shape) if low.ndim == 2 else low.shape
    failures = []
    # a bonus may divide whatever it gets by its range, or only uint8: one of the two twins then sees the same numbers
    for unit in (1.0, 255.0):
        bounds = (low / unit).reshape(shape), (high / unit).reshape(shape)
        twin = Spaces(Box(*bounds), spaces.action, "first" if low.ndim == 2 else spaces.channels)
        stored, floating, fix = case.build(), case.build(spaces=twin), "make floats of uint8 before any arithmetic"
        try:
            for cycle in range(4):
                block = random_block(spaces, seed=90 + cycle)
                obs, next_obs = (x.float().reshape(*block.shape, *shape) / unit for x in (block.obs, block.next_obs))
                expected = floating.step(replace(block, obs=obs, next_obs=next_obs))
                what = f"reward in cycle {cycle}, floats against uint8"
                case.same(what, expected, stored.step(block), 1e-3, fix=fix)
                stored.update()
                floating.update()
            return
        except IntrinsicCheckError as error:
            failures.append(error)
    raise failures[0]


# ---- what is learnt from, what sets the scale, how much is kept -----------------------------------------------
@rule("the number of environments sets no scale")
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


@rule("every transition is learnt from")
def _everything_is_learnt_from(case: Case) -> None:
    """Take other transitions in one place at a time; rewards afterwards must show it in all places or in none."""
    block, other = ending(random_block(case.spaces, seed=110)), random_block(case.spaces, seed=111)
    block.terminated[2] = True
    block.truncated[4] = True
    place, env = torch.meshgrid(torch.arange(STEPS), torch.arange(ENVS), indexing="ij")

    def reward_after(observed: Transitions) -> Tensor:
        bonus = case.trained()
        bonus.step(observed)
        bonus.update()
        return bonus.score(block)

    usual = reward_after(block)

    def matters(rows: Tensor, names: Iterable[str]) -> bool:
        return not torch.equal(usual, reward_after(with_rows(block, rows, other, names)))

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


@rule("an end of an episode is an end for either reason")
def _ends_of_episodes(case: Case) -> None:
    block = random_block(case.spaces, seed=120)
    running, over = case.trained(), case.trained()
    fix = "whether the episode ends here matters to what comes after, not to this transition's reward"
    case.same("reward of an episode's last step", running.step(block), over.step(ending(block)), 1e-6, fix=fix)
    ends = torch.as_tensor(np.random.default_rng(0).random((STEPS, ENVS)) < 0.3)
    never = torch.zeros_like(ends)
    block = random_block(case.spaces, seed=121)
    terminated = case.trained().step(replace(block, terminated=ends, truncated=never))
    truncated = case.trained().step(replace(block, terminated=never, truncated=ends))
    fix = "an episode's memory ends with batch.done, for either reason"
    case.same("reward with truncated episodes instead of terminated ones", terminated, truncated, 1e-6, fix=fix)


@rule("seed and generator are used")
def _seed_and_generator(case: Case) -> None:
    first, second = case.build(seed=0), case.build(seed=1)
    fix = "pass the seed on to IntrinsicReward.__init__ and build networks in _build"
    if torch.equal(first.generator.get_state(), second.generator.get_state()):
        case.fail(f"the generators of seeds 0 and 1 are the same; {fix}")
    pairs = [(name, p, q) for (name, p), q in zip(first.named_parameters(), second.parameters(), strict=True)]
    drawn = [(name, torch.equal(p, q)) for name, p, q in pairs if bool((p != p.flatten()[:1]).any())]
    if drawn and all(same for _, same in drawn):
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


@rule("update learns")
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


@rule("large numbers stay finite")
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
        numbers = {"reward": bonus.step(block), **bonus.update(), **dict(bonus.named_parameters())}
        for name, value in numbers.items():
            if not bool(torch.isfinite(value).all()):
                case.fail(
                    f"observations of {LARGE:g} in a space without bounds make {name} infinite or NaN"
                    f"{' for good' if cycle == 2 else ''}; standardise and clip them (lpm.nn.inputs.ObservationInput)"
                )


@rule("more transitions than a rollout")
def _more_than_fits(case: Case) -> None:
    """More between two updates than a rollout: rings overflow, and must do so however the blocks are cut."""
    block = random_block(case.spaces, steps=3 * STEPS + 1, seed=160)
    whole, split = case.trained(), case.trained()
    fix = "a ring that overflows keeps the newest rows, in order (lpm.nn.memory.RingBuffer)"
    parts = [split.step(block[a : a + 5]) for a in range(0, 3 * STEPS + 1, 5)]
    case.same("reward of three rollouts in one block", torch.cat(parts), whole.step(block), 1e-4, fix=fix)
    metrics = split.update()
    case.same("metrics after three rollouts in one block", metrics, whole.update(), 1e-3, fix=fix)
    probe = random_block(case.spaces, seed=161)
    case.same("reward after three rollouts in one block", split.score(probe), whole.score(probe), 1e-3, fix=fix)


@rule("memory is bounded")
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
            "must have a bound (lpm.nn.memory)"
        )


def _bytes(bonus: IntrinsicReward) -> int:
    """Size of the whole bonus, or of its state if something in it cannot be pickled."""
    try:
        return len(pickle.dumps(bonus))
    except Exception:  # a lambda, an open file: whatever pickle says
        return len(pickle.dumps(bonus.state_dict()))
