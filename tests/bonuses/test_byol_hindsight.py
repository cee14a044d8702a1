"""BYOL-Hindsight: both parts of the loss by hand, who is trained by which, and what noise pays with and without z."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from bonus_cases import VECTOR, arm, train
from torch import Tensor

import lpm
from lpm.bonuses.byol_hindsight import BYOLHindsight, BYOLHindsightConfig, invariance, opposed, reconstruction
from lpm.core.check import random_block
from lpm.core.transitions import Transitions
from lpm.nn.experience import Prepared

SMALL: dict[str, Any] = {"features": 8, "hidden": (16,), "encoder_hidden": (16,), "hindsight": 4, "noise": 4}
SIZE = {"num_envs": 4, "rollout_steps": 32}


def build(**fields: Any) -> BYOLHindsight:
    bonus = lpm.make("byol_hindsight", VECTOR, **SIZE, **{"normalise": "none", **SMALL, **fields})
    assert isinstance(bonus, BYOLHindsight)
    return bonus


# ---- formulas -----------------------------------------------------------------------------------------------
def test_reconstruction_by_hand() -> None:
    prediction = torch.tensor([[3.0, 4.0], [1.0, 0.0], [-2.0, 0.0]])
    target = torch.tensor([[6.0, 8.0], [0.0, 5.0], [1.0, 0.0]])
    torch.testing.assert_close(reconstruction(prediction, target), torch.tensor([0.0, 2.0, 4.0]))


def test_invariance_by_hand() -> None:
    own, others = torch.tensor([math.log(3.0), 0.0]), torch.tensor([[0.0, 0.0, 0.0], [math.log(2.0)] * 3])
    expected = torch.tensor([math.log(3 / (6 / 4)), math.log(1 / (7 / 4))])
    torch.testing.assert_close(invariance(own, others), expected)
    assert invariance(torch.tensor([50.0]), torch.zeros(1, 7)).item() == pytest.approx(math.log(8))


def test_scores_are_those_of_the_critic_on_every_pair() -> None:
    bonus = build()
    rng = torch.Generator().manual_seed(0)
    known, z = torch.randn(5, 10, generator=rng), torch.randn(3, 4, generator=rng)
    expected = torch.stack([bonus.critic(torch.cat([known, row.expand(5, -1)], 1)).squeeze(1) for row in z], 1)
    torch.testing.assert_close(bonus.scores(known, z), expected)
    which = torch.tensor([[0, 2], [1, 1], [2, 0], [0, 0], [1, 2]])
    torch.testing.assert_close(bonus.scores(known, z, which), expected.gather(1, which))


def plain(bonus: BYOLHindsight, o: Any, a: Any, o2: Any) -> Any:
    """The reward of one transition in NumPy, layer by layer."""
    net = {name: p.detach().double().numpy() for name, p in bonus.named_parameters()}

    def linear(x: Any, name: str) -> Any:
        return net[f"{name}.weight"] @ x + net[f"{name}.bias"]

    def network(x: Any, name: str) -> Any:
        return linear(np.maximum(linear(x, f"{name}.0"), 0), f"{name}.2")

    def embed(x: Any, name: str) -> Any:
        return linear(np.maximum(linear(x, f"{name}.body.0"), 0), f"{name}.head.1")

    known = np.concatenate([embed(o, "encoder"), a])
    w = embed(o2, "target")
    w = w / np.sqrt((w**2).sum())
    z = np.tanh(network(np.concatenate([known, w, np.zeros(4)]), "writer"))
    guess = network(np.concatenate([known, z]), "reconstructor")
    error = ((guess / np.sqrt((guess**2).sum()) - w) ** 2).sum()
    bank = [row.double().numpy() for row in bonus.bank[: int(bonus.banked)]]
    scores = np.array([network(np.concatenate([known, other]), "critic")[0] for other in [z, *bank]])
    return error + np.log(np.exp(scores[0]) / np.exp(scores).mean())


def test_the_reward_is_what_a_plain_transcription_gives() -> None:
    bonus = build(contrasts=6)
    train(bonus, 0.5, 2)
    assert int(bonus.banked) == 6
    block = random_block(VECTOR, seed=3)
    expected = [
        plain(bonus, o, np.eye(2)[int(a)], o2)
        for o, a, o2 in zip(
            *(x.flatten(0, 1).double().numpy() for x in (block.obs, block.action, block.next_obs)), strict=True
        )
    ]
    np.testing.assert_allclose(bonus.score(block).flatten().numpy(), expected, rtol=1e-3, atol=1e-5)


# ---- who learns what ----------------------------------------------------------------------------------------
def rows_of(bonus: BYOLHindsight) -> Prepared:
    block = arm(0.5, 0)
    flat = [field.flatten(0, 1) for field in (block.obs, block.action, block.next_obs)]
    return Prepared(bonus.experience, torch.arange(128), *flat)


def test_what_the_critic_sees_trains_the_writer_and_not_the_encoder() -> None:
    bonus = build()
    rows = rows_of(bonus)
    known = bonus.known(rows)
    bonus._contrasted(known.detach(), bonus.write(known.detach(), bonus.outcome(rows))).mean().backward()  # type: ignore[no-untyped-call]
    assert any(p.grad is not None and p.grad.abs().max() > 0 for p in bonus.writer.parameters())
    assert all(p.grad is None for p in bonus.encoder.parameters())
    assert all(p.grad is None for p in bonus.target.parameters())


def test_the_target_follows_the_encoder_by_the_decay() -> None:
    bonus = build(decay=0.75, lr=0.0, epochs=1, batch_size=128)  # one gradient step an update, and it moves nothing
    before = [p.clone() for p in bonus.target.parameters()]
    with torch.no_grad():
        for p in bonus.encoder.parameters():
            p.add_(1.0)
    bonus.step(arm(1.0, 0))
    bonus.update()
    for old, new in zip(before, bonus.target.parameters(), strict=True):
        torch.testing.assert_close(new, old + 0.25)


def test_opposed_is_equal_with_the_gradient_turned_round() -> None:
    z = torch.tensor([0.3, -0.7], requires_grad=True)
    value = opposed(z, 0.5)
    torch.testing.assert_close(value, z)
    (value * torch.tensor([1.0, 2.0])).sum().backward()
    assert z.grad is not None
    assert z.grad.tolist() == [-0.5, -1.0]


# ---- noise --------------------------------------------------------------------------------------------------
def two_arms(seed: int) -> Transitions:
    """Action 0 leads to one place, action 1 to noise."""
    rng = torch.Generator().manual_seed(seed)
    action = torch.randint(2, (32, 4), generator=rng)
    noise = torch.randn(32, 4, 4, generator=rng)
    return Transitions.build(torch.ones(32, 4, 4), action, torch.where(action.unsqueeze(2) == 0, 0.5, noise))


@cache
def learnt(weight: float, blind: bool = False) -> tuple[BYOLHindsight, dict[str, Tensor]]:
    sizes = {"features": 32, "hidden": (64,), "encoder_hidden": (64,), "hindsight": 8, "batch_size": 64}
    bonus = build(lr=2e-3, invariance_weight=weight, reward="reconstruction", **sizes)
    if blind:
        bonus.write = lambda known, outcome, noise=None: known.new_zeros(len(known), 8)
    for seed in range(40):
        bonus.step(two_arms(seed))
        metrics = bonus.update()
    return bonus, metrics


def test_hindsight_removes_most_of_what_noise_pays() -> None:
    """With z the outcome is explained; a z without room for it leaves the error."""
    block = two_arms(99)
    paid = [float(learnt(1.0, blind)[0].score(block)[block.action == 1].mean()) for blind in (False, True)]
    assert paid[0] < 0.4 * paid[1]


def test_the_critic_keeps_what_was_known_out_of_hindsight() -> None:
    """Left alone, z says which action it was, up to log 2 nats; opposed by the critic it says next to nothing."""
    assert 0.4 < learnt(0.0)[1]["invariance"].item() < math.log(2) + 0.01
    assert learnt(1.0)[1]["invariance"].item() < 0.1


@pytest.mark.parametrize(
    ("field", "value"),
    [("reward", "error"), ("decay", 1.0), ("contrasts", 0), ("hindsight", 0), ("invariance_weight", -1.0)],
)
def test_bad_settings_say_what_was_expected(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"BYOLHindsightConfig\.{field}: expected .*, got"):
        BYOLHindsightConfig(**{field: value})  # type: ignore[arg-type]
