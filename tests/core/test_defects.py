"""Defects that an attacker found in the core, each with the attack. The list is in docs/trust.md."""

import copy
import multiprocessing
import threading
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces as gym
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from gymnasium.spaces.utils import flatten_space

import lpm
from lpm import IntrinsicReward, Spaces, Transitions
from lpm.core.check import DEFAULT_SPACES, Case, random_block, snapshot

VECTOR = DEFAULT_SPACES["vector/continuous"]
DISCRETE = DEFAULT_SPACES["vector/discrete"]
LEARNERS = [name for name in lpm.names() if name != "none"]


def made(name: str, spaces: Spaces = DISCRETE, **settings: Any) -> IntrinsicReward:
    return lpm.make(name, spaces, **{"num_envs": 3, "rollout_steps": 8, **settings})


def cycles(bonus: IntrinsicReward, count: int = 2, **options: Any) -> torch.Tensor:
    """Step and update a few times; the last rewards."""
    for seed in range(count):
        bonus.step(random_block(bonus.spaces, seed=seed, **options))
        bonus.update()
    return bonus.step(random_block(bonus.spaces, seed=count, **options))


# ---- 5: threads and the global random stream ----------------------------------------------------------------------
def weights(bonus: IntrinsicReward) -> list[torch.Tensor]:
    return [*bonus.parameters(), *bonus.buffers()]


def test_make_is_thread_safe_and_never_touches_the_global_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {seed: weights(made("rnd", seed=seed)) for seed in range(8)}
    monkeypatch.setattr(torch, "manual_seed", lambda *_: pytest.fail("the global generator was reseeded"))
    monkeypatch.setattr(torch, "set_rng_state", lambda *_: pytest.fail("the global generator was set"))
    state, got = torch.get_rng_state(), {}

    def build(seed: int) -> None:
        for _ in range(5):
            got[seed] = weights(made("rnd", seed=seed))

    threads = [threading.Thread(target=build, args=(seed,)) for seed in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, tensors in expected.items():
        assert all(torch.equal(a, b) for a, b in zip(tensors, got[seed], strict=True)), seed
    assert torch.equal(state, torch.get_rng_state())


def test_the_caller_may_draw_while_another_thread_builds() -> None:
    torch.manual_seed(7)
    expected = torch.rand(200)
    torch.manual_seed(7)
    stop = threading.Event()

    def build() -> None:
        while not stop.is_set():
            made("forward_error")

    thread = threading.Thread(target=build)
    thread.start()
    try:
        drawn = torch.cat([torch.rand(1) for _ in range(200)])
    finally:
        stop.set()
        thread.join()
    assert torch.equal(expected, drawn)


# ---- 6 and 10: defaults of the caller ---------------------------------------------------------------------------
@pytest.mark.parametrize("name", lpm.names())
def test_defaults_and_modes_of_the_caller_change_nothing(name: str) -> None:
    """Default dtype float64, default device meta, inference mode, and .double()."""
    blocks = [random_block(DISCRETE, seed=seed) for seed in range(3)]

    def run(bonus: IntrinsicReward) -> list[torch.Tensor]:
        rewards = []
        for block in blocks:
            rewards.append(bonus.step(block).clone())
            bonus.update()
        return rewards

    expected = run(made(name))
    wide = made(name).double()
    assert all(torch.equal(a, b) for a, b in zip(expected, run(wide), strict=True)), ".double()"
    torch.set_default_dtype(torch.float64)
    try:
        got = run(made(name))
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(a, b) for a, b in zip(expected, got, strict=True)), "default dtype"
    with torch.device("meta"):
        got = run(made(name))
    assert all(torch.equal(a, b) for a, b in zip(expected, got, strict=True)), "default device"
    with torch.inference_mode():
        got = run(made(name))
    assert all(torch.equal(a, b) for a, b in zip(expected, got, strict=True)), "inference mode"


def test_a_bonus_moves_but_keeps_its_precision() -> None:
    bonus = made("lpm")
    before = {name: value.dtype for name, value in bonus.state_dict().items() if isinstance(value, torch.Tensor)}
    for change in (bonus.double, bonus.half, bonus.float, bonus.bfloat16):
        change()
    after = {name: value.dtype for name, value in bonus.state_dict().items() if isinstance(value, torch.Tensor)}
    assert after == before
    assert {p.device.type for p in bonus.to("meta").parameters()} == {"meta"}


# ---- 7: a refused state -------------------------------------------------------------------------------------------
@cache
def other_states() -> dict[str, tuple[dict[str, Any], str]]:
    """What is wrong with a state, the state, and what the message says."""
    good = dict(made("lpm").state_dict())

    def changed(**entries: Any) -> dict[str, Any]:
        return {**copy.deepcopy(good), **entries}

    extra: dict[str, Any] = copy.deepcopy(good["_extra_state"])

    def optimiser(group: dict[str, Any] | None = None, **entries: Any) -> dict[str, Any]:
        changed_extra = copy.deepcopy(extra)
        changed_extra["optimizers"]["dynamics"]["param_groups"][0].update(group or {})
        changed_extra["optimizers"]["dynamics"].update(entries)
        return changed(_extra_state=changed_extra)

    another = "optimiser 'dynamics'"
    last = next(reversed([name for name in good if name != "_extra_state"]))
    missing = changed()
    missing.pop(last)
    return {
        "num_envs": (
            dict(made("lpm", num_envs=20, rollout_steps=20).state_dict()),
            r"'num_envs': 20, 'rollout_steps': 20}, and this bonus {'num_envs': 3, 'rollout_steps': 8}",
        ),
        "a key too few": (missing, f"a difference in {last}"),
        "a key too many": (changed(more=torch.zeros(1)), "a difference in more"),
        "a shape": (changed(**{last: torch.zeros(9, 9)}), r"of shape \(9, 9\)"),
        "no tensor": (changed(**{last: "x"}), "expected .* a tensor .*, got str"),
        "no extra state": (changed(_extra_state=None), "_extra_state: names, got None"),
        "an optimiser": (
            changed(_extra_state={**extra, "optimizers": {"body": {}}}),
            "the same names, .* body",
        ),
        "an optimiser without state": (
            changed(_extra_state={**extra, "optimizers": {n: {} for n in extra["optimizers"]}}),
            another,
        ),
        "no optimisers": (changed(_extra_state={**extra, "optimizers": None}), "optimisers: names, got None"),
        "names of several types": (
            changed(_extra_state={**extra, "optimizers": {1: {}, "a": {}}}),
            "names, .* 1, a",
        ),
        "parameter groups": (optimiser({"params": [0]}), another),
        "groups of another type": (optimiser(param_groups=[3]), another),
        "a learning rate": (optimiser({"lr": "x"}), rf"{another}.*\.lr: float, got str"),
        # as an optimiser of other layers has
        "moments": (optimiser(state={0: {"exp_avg": torch.zeros(2, 2)}}), rf"{another}.* of shape \(2, 2\)"),
        "moments of no parameter": (optimiser(state={99: {}}), f"{another}.*one of its parameters, got 99"),
        "moments of another type": (optimiser(state={0: 3}), f"{another}.*moments by name, got int"),
        "a moment of another type": (optimiser(state={0: {"exp_avg": "x"}}), f"{another}.*exp_avg: .*, got str"),
        "no generator": (changed(_extra_state={**extra, "generator": "x"}), "generator: expected"),
        "a generator": (changed(_extra_state={**extra, "generator": torch.zeros(3, dtype=torch.uint8)}), "generator"),
    }


@pytest.mark.parametrize("kind", list(other_states()))
def test_a_refused_state_leaves_everything_untouched(kind: str) -> None:
    state, message = other_states()[kind]
    bonus = made("lpm", seed=5)
    cycles(bonus)
    before = snapshot(bonus)
    with pytest.raises(ValueError, match=rf"LPM cannot take this state.*{message}"):
        bonus.load_state_dict(state)
    Case(lpm.make, DISCRETE, "refused", []).same("state", before, snapshot(bonus))  # type: ignore[arg-type]


# ---- 8: filler ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("space", DEFAULT_SPACES)
@pytest.mark.parametrize("name", LEARNERS)
def test_filler_may_hold_anything(name: str, space: str) -> None:
    spaces = DEFAULT_SPACES[space]
    if spaces.kind != "vector" and name not in ("lpm", "lgn", "rnd", "count", "etd"):
        return  # the same code looks at filler, on images at more expense
    clean, spoilt = made(name, spaces), made(name, spaces)
    for seed in range(2):
        block = random_block(spaces, seed=seed, filler=True)
        rubbish = copy.deepcopy(block)
        gone = ~block.valid
        assert bool(gone.any())
        if rubbish.obs.is_floating_point():
            rubbish.obs[gone], rubbish.next_obs[gone] = torch.nan, torch.inf
        assert rubbish.reward is not None
        rubbish.reward[gone] = torch.nan
        rubbish.action[gone] = -1 if not rubbish.action.is_floating_point() else torch.nan
        torch.testing.assert_close(clean.step(block), spoilt.step(rubbish), rtol=1e-5, atol=1e-6)
        clean.update()
        spoilt.update()
    Case(lpm.make, spaces, "filler", []).same("state", snapshot(clean), snapshot(spoilt), 1e-4)  # type: ignore[arg-type]


def test_what_is_valid_is_still_checked() -> None:
    block = random_block(DISCRETE, seed=0, filler=True)
    block.obs[0, 0, 0] = torch.nan
    with pytest.raises(ValueError, match=r"Transitions.obs\[0, 0, 0\].*expected finite"):
        made("lpm").step(block)
    block = random_block(DISCRETE, seed=0, filler=True)
    block.action[0, 1] = -1
    with pytest.raises(ValueError, match=r"Transitions.action\[0, 1\].*expected an action in"):
        made("lpm").step(block)


# ---- 9: other processes -------------------------------------------------------------------------------------------
def _child(bonus: IntrinsicReward, queue: Any) -> None:
    queue.put(cycles(bonus).tolist())


def test_a_bonus_is_an_argument_of_a_spawned_process() -> None:
    bonus = made("lpm")
    cycles(bonus)
    before = snapshot(bonus)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_child, args=(bonus, queue))
    process.start()
    got = queue.get(timeout=120)
    process.join()
    Case(lpm.make, DISCRETE, "spawned", []).same("state", before, snapshot(bonus))  # type: ignore[arg-type]
    assert got == cycles(bonus).tolist()


def test_copies_go_on_alike_and_apart() -> None:
    bonus = made("lpm")
    cycles(bonus)
    twin = copy.deepcopy(bonus)
    assert torch.equal(cycles(bonus), cycles(twin))
    assert next(bonus.parameters()) is not next(twin.parameters())
    assert twin.optimizer("dynamics").param_groups[0]["params"][0] is next(twin.parameters())


# ---- 11: advice ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("space", "advice"),
    [
        (gym.Graph(Box(0, 1, (2,)), None), "ObservationWrapper"),
        (gym.Sequence(Box(0, 1, (2,))), "ObservationWrapper"),
        (gym.Dict(a=Box(0, 1, (2,))), "FilterObservation"),
        (gym.Discrete(3), "FlattenObservation"),
        (gym.Tuple((Box(0, 1, (2,)), Discrete(2))), "FlattenObservation"),
    ],
)
def test_advice_for_observations_that_are_no_box_helps(space: Any, advice: str) -> None:
    with pytest.raises(ValueError, match=f"expected a gymnasium Box.*{advice}") as caught:
        Spaces(space, Discrete(2))
    if "FlattenObservation" in str(caught.value):
        assert isinstance(flatten_space(space), Box)
    else:
        assert not isinstance(flatten_space(space), Box)


# ---- 12: extremes -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", LEARNERS)
def test_one_huge_value_spoils_nothing_for_good(name: str) -> None:
    bonuses = [made(name, VECTOR)]
    if name == "lpm":
        bonuses.append(made(name, VECTOR, variant="paper", queue_size=24))
    for bonus in bonuses:
        cycles(bonus)
        block = random_block(VECTOR, seed=9)
        block.next_obs[3, 1, 2] = 1e25
        assert torch.isfinite(bonus.step(block)).all()
        bonus.update()
        assert torch.isfinite(cycles(bonus)).all()
        assert all(torch.isfinite(parameter).all() for parameter in bonus.parameters())


@pytest.mark.parametrize("name", LEARNERS)
def test_actions_near_the_end_of_float32(name: str) -> None:
    spaces = Spaces(Box(-1, 1, (3,)), Box(-np.inf, np.inf, (2,)))
    bonus = made(name, spaces)
    for seed in range(3):
        block = random_block(spaces, seed=seed)
        block.action.fill_(3e38 * (-1) ** seed)
        assert torch.isfinite(bonus.step(block)).all()
        bonus.update()
    assert torch.isfinite(cycles(bonus)).all()


@pytest.mark.parametrize(("observation", "action"), [((0,), (2,)), ((2, 0), (2,)), ((2,), (0,))])
def test_spaces_without_numbers_are_refused(observation: tuple[int, ...], action: tuple[int, ...]) -> None:
    name = "observation" if 0 in observation else "action"
    with pytest.raises(ValueError, match=rf"Spaces.{name}: expected at least one number, got shape"):
        Spaces(Box(-1, 1, observation), Box(-1, 1, action))


# ---- what the fuzzer found ----------------------------------------------------------------------------------------
def test_filler_of_several_discrete_factors_may_hold_any_action() -> None:
    spaces = Spaces(Box(-1, 1, (3,)), MultiDiscrete([3, 2]))
    block = random_block(spaces, seed=0, filler=True)
    block.action[~block.valid] = -1
    assert torch.isfinite(made("lpm", spaces).step(block)).all()


def test_filler_in_a_dtype_that_lacks_the_first_action() -> None:
    spaces = Spaces(Box(-1, 1, (3,)), Discrete(3, start=-1))
    block = random_block(spaces, seed=0, filler=True)
    block = replace(block, action=block.action.clamp_min(0).to(torch.uint8))
    block.action[~block.valid] = 100
    assert torch.isfinite(made("lpm", spaces).step(block)).all()


def test_float_images_beyond_their_bounds() -> None:
    spaces = Spaces(Box(0, 1, (2, 6, 6)), Discrete(2))
    few = {"dynamics_steps": 2, "error_steps": 2}
    for name, settings in {"forward_error": {}, "lpm": few, "rnd": {}}.items():
        bonus = made(name, spaces, **settings)
        cycles(bonus)
        block = random_block(spaces, seed=9)
        block.next_obs[3, 1, 0, 2] = 1e25
        assert torch.isfinite(bonus.step(block)).all()
        bonus.update()
        assert torch.isfinite(cycles(bonus)).all()


def test_a_block_of_filler_before_anything_is_remembered() -> None:
    for name in LEARNERS:
        bonus = made(name)
        bonus.observe(random_block(DISCRETE, seed=0))
        bonus.update()
        block = random_block(DISCRETE, seed=1)
        block.valid.fill_(False)
        assert not bonus.step(block).any(), name
        assert torch.isfinite(cycles(bonus)).all(), name


def test_rewards_and_policies_near_the_end_of_float32() -> None:
    bonus = made("eme", VECTOR)
    block = random_block(VECTOR, seed=0)
    assert block.reward is not None
    assert block.policy is not None
    block.reward.fill_(3e38)
    block.policy[:, ::2] = -3e38
    for _ in range(2):
        bonus.step(block)
        assert all(torch.isfinite(value) for value in bonus.update().values())
    assert torch.isfinite(cycles(bonus)).all()


# ---- 14: first contact --------------------------------------------------------------------------------------------
def test_a_block_without_a_time_axis_is_told_what_to_do() -> None:
    step = {"obs": torch.zeros(8, 4), "action": torch.zeros(8, dtype=torch.int64), "next_obs": torch.zeros(8, 4)}
    with pytest.raises(ValueError, match=r"add the time axis to every field: .unsqueeze\(0\)"):
        Transitions.build(**step)
    spaces = Spaces(Box(-1, 1, (4,)), Box(-1, 1, (4,)))
    block = Transitions.build(torch.zeros(8, 4), torch.zeros(8, 4), torch.zeros(8, 4))
    with pytest.raises(ValueError, match=r"a single step needs its time axis too: .unsqueeze\(0\)"):
        spaces.check(block)
    one = Transitions.build(**{name: value.unsqueeze(0) for name, value in step.items()})
    assert one.shape == (1, 8)


def test_a_count_is_a_count_whatever_its_name() -> None:
    """LPM's anchored g counts rows in a buffer of that name, which was taken for what a memory holds."""
    bonus = lpm.make("lpm_anchored", DEFAULT_SPACES["vector/discrete"], num_envs=2, rollout_steps=4)
    state = copy.deepcopy(bonus.state_dict())
    state["error_model.rows"].fill_(-1)
    with pytest.raises(ValueError, match=r"error_model.rows: counts, got numbers from -1 to -1"):
        bonus.load_state_dict(state)


def test_a_state_with_a_count_below_nothing_is_refused() -> None:
    """A stranger's count of −1 went into slices of the memory."""
    bonus = lpm.make("ngu", DEFAULT_SPACES["vector/discrete"], num_envs=2, rollout_steps=4)
    state = copy.deepcopy(bonus.state_dict())
    for wrong in (-1, 2**60):
        state["memory.count"].fill_(wrong)
        with pytest.raises(ValueError, match=r"memory\.count: counts, got numbers from"):
            bonus.load_state_dict(state)
    state["memory.count"] = torch.zeros(2)
    with pytest.raises(ValueError, match=r"memory\.count: a tensor int64 .* got a tensor float32"):
        bonus.load_state_dict(state)
