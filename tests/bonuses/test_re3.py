"""RE3: distances by hand, and neighbours that do not depend on blocks or the order of environments."""

import math

import pytest
import torch
from gymnasium.spaces import Box, Discrete

from lpm.bonuses.re3 import RE3, RE3Config
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions

LINE = Spaces(Box(-100.0, 100.0, (1,)), Discrete(2))


def build(num_envs: int = 1, rollout_steps: int = 8, **fields: object) -> RE3:
    """RE3 whose random encoder is replaced by the identity, so that distances can be computed by hand."""
    bonus = RE3(
        LINE,
        RE3Config(features=1, hidden=(), normalise="none", **fields),  # type: ignore[arg-type]
        num_envs=num_envs,
        rollout_steps=rollout_steps,
    )
    for layer in bonus.encoder.modules():
        if isinstance(layer, torch.nn.Linear):
            torch.nn.init.ones_(layer.weight)
    return bonus


def block(next_obs: list[list[float]]) -> Transitions:
    following = torch.tensor(next_obs)[..., None]
    return Transitions.build(
        torch.zeros_like(following), torch.zeros(following.shape[:2], dtype=torch.int64), following
    )


def test_three_points_on_a_line() -> None:
    rewards = build(num_envs=3, neighbours=1).step(block([[0.0, 1.0, 5.0]]))
    assert rewards[0].tolist() == pytest.approx([math.log(2), math.log(2), math.log(5)])


def test_the_kth_neighbour_is_paid() -> None:
    rewards = build(num_envs=4, neighbours=2).step(block([[0.0, 1.0, 5.0, 7.0]]))
    assert rewards[0].tolist() == pytest.approx([math.log(1 + d) for d in (5, 4, 4, 6)])


def test_with_too_few_points_the_farthest_counts_and_a_single_one_pays_nothing() -> None:
    bonus = build(neighbours=3)
    rewards = bonus.step(block([[0.0], [2.0], [3.0]]))[:, 0]
    assert rewards.tolist() == pytest.approx([0.0, math.log(3), math.log(4)])


def test_identical_points_pay_nothing() -> None:
    rewards = build(num_envs=5).step(block([[3.3] * 5, [3.3] * 5]))
    assert torch.equal(rewards, torch.zeros(2, 5))


def test_old_states_leave_the_memory() -> None:
    bonus = build(neighbours=1, memory_size=2)
    rewards = bonus.step(block([[0.0], [10.0], [20.0], [0.0]]))[:, 0]
    # the memory holds 20 and the new 0 itself: the first 0 is gone
    assert rewards[3].item() == pytest.approx(math.log(21))


def test_nothing_is_trained() -> None:
    bonus = RE3(LINE, RE3Config(), num_envs=2)
    bonus.step(block([[0.0, 1.0]]))
    before = [p.clone() for p in bonus.parameters()]
    assert bonus.update() == {}
    assert not any(p.requires_grad for p in bonus.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, bonus.parameters(), strict=True))


def test_vectors_wait_for_their_statistics() -> None:
    bonus = RE3(LINE, RE3Config(), num_envs=2)
    assert bonus.step(block([[0.0, 9.0]])).abs().max().item() == 0
    bonus.update()
    assert bonus.step(block([[0.0, 9.0]])).min().item() > 0
    frozen = bonus.input.moments.mean.clone()  # type: ignore[union-attr]
    bonus.update()
    assert torch.equal(frozen, bonus.input.moments.mean)  # type: ignore[union-attr]


def test_noise_is_paid_for_ever() -> None:
    """The known failure: the neighbours of a random state never come closer."""
    spaces = Spaces(Box(-10.0, 10.0, (16,)), Discrete(2))
    bonus = RE3(spaces, RE3Config(normalise="none"), num_envs=4, rollout_steps=32)
    noise = torch.randn(320, 4, 16, generator=torch.Generator().manual_seed(0))
    rewards = bonus.step(Transitions.build(noise, torch.zeros(320, 4, dtype=torch.int64), noise))
    assert rewards[-32:].mean().item() > 0.9 * rewards[32:64].mean().item()


def test_another_number_of_environments_is_refused() -> None:
    with pytest.raises(ValueError, match="expected blocks of 2 environments, got 3"):
        build(num_envs=2).step(block([[0.0, 1.0, 2.0]]))


@pytest.mark.parametrize(("field", "value"), [("neighbours", 0), ("memory_size", 0), ("normalise", "x")])
def test_bad_settings_say_what_was_expected(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"RE3Config\.{field}: expected .*, got"):
        RE3Config(**{field: value})  # type: ignore[arg-type]
