"""DEIR: formula, loss, false successors, and rewards against a plain transcription of the authors' algorithm."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from bonus_cases import VECTOR, train
from torch import Tensor

import lpm
from lpm.bonuses.deir import DEIR, DEIRConfig, discriminator_loss, novelty
from lpm.core.check import random_block
from lpm.core.transitions import Transitions

SMALL: dict[str, Any] = {"features": 8, "hidden": (16,), "encoder_hidden": (16,), "batch_size": 32}


def build(num_envs: int = 3, rollout_steps: int = 8, **fields: Any) -> DEIR:
    settings = {"normalise": "none", **SMALL, **fields}
    bonus = lpm.make("deir", VECTOR, num_envs=num_envs, rollout_steps=rollout_steps, **settings)
    assert isinstance(bonus, DEIR)
    return bonus


# ---- formulas -----------------------------------------------------------------------------------------------
def test_novelty_by_hand() -> None:
    observations = torch.tensor([[3.0, 4.0], [1.0, 0.0], [0.0, 0.0]])
    trajectories = torch.tensor([[0.0, 5.0], [0.0, 0.0], [1.0, 1.0]])
    expected = torch.tensor([25 / 5.5, 1 / 0.5, 0.0])
    torch.testing.assert_close(novelty(observations, trajectories, 0.5), expected)


def test_loss_by_hand() -> None:
    true, false = torch.tensor([0.0, math.log(3)]), torch.tensor([0.0, 100.0])
    # −log ½ and −log ¾; of the false ones only the first counts, −log ½
    expected = 0.5 * ((math.log(2) + math.log(4 / 3)) / 2 + math.log(2))
    assert discriminator_loss(true, false, torch.tensor([True, False])).item() == pytest.approx(expected)
    nothing = discriminator_loss(true, false, torch.tensor([False, False]))
    assert nothing.item() == pytest.approx(0.5 * (math.log(2) + math.log(4 / 3)) / 2)


def plain(bonus: DEIR, block: Transitions) -> Tensor:
    """Algorithm A1 of the paper, one environment and one step at a time, with lists."""
    rewards = torch.zeros(block.shape)
    for env in range(block.shape[1]):
        observations: list[Tensor] = []
        for t in range(block.shape[0]):
            if not block.valid[t, env]:
                continue
            if not observations:
                observations = [bonus.model.encoder(block.obs[t, env][None])[0]]
                tau = torch.zeros(1, 8)
                trajectories = [tau[0]]
            tau = bonus.model.cell(observations[-1][None], tau)
            new = bonus.model.encoder(block.next_obs[t, env][None])[0]
            ratios = [
                (e - new).norm() ** 2 / ((h - tau[0]).norm() + 1e-6)
                for e, h in zip(observations, trajectories, strict=True)
            ]
            rewards[t, env] = min(ratios)
            observations.append(new)
            trajectories.append(tau[0])
            if block.done[t, env]:
                observations = []
    return rewards


@torch.no_grad()
def test_rewards_are_those_of_the_plain_algorithm() -> None:
    bonus = build()
    block = random_block(VECTOR, steps=24, envs=3, seed=4, filler=True)
    expected = plain(bonus, block)
    assert int(block.done.sum()) > 2
    assert expected.max() > 0
    torch.testing.assert_close(bonus.score(block), expected, rtol=1e-3, atol=1e-5)
    parts = [bonus.step(block[a:b]) for a, b in ((0, 5), (5, 6), (6, 24))]
    torch.testing.assert_close(torch.cat(parts), expected, rtol=1e-3, atol=1e-5)


@torch.no_grad()
def test_a_revisit_pays_nothing_and_an_end_forgets() -> None:
    bonus = build(num_envs=1)
    a, b = torch.zeros(1, 4), torch.ones(1, 4)
    states = torch.stack([a, b, a, b])
    still = torch.zeros(3, 1, dtype=torch.int64)
    done = torch.tensor([[False], [False], [True]])
    rewards = bonus.step(Transitions.build(states[:-1], still, states[1:], terminated=done))[:, 0]
    assert rewards[0] > 1e-3
    assert rewards[1:].max() < 1e-9
    assert bonus.trajectory.memory.sizes.tolist() == [0]
    assert bonus.trajectory.state.abs().max() == 0
    again = bonus.step(Transitions.build(states[:1], still[:1], states[1:2]))
    assert again.item() == pytest.approx(rewards[0].item())


@torch.no_grad()
def test_of_two_ways_to_the_same_place_the_longer_divides_by_more() -> None:
    """The same novelty pays less where the trajectory has moved on: what the denominator is for."""
    gap = torch.tensor([1.0, 0.0])
    assert novelty(gap, torch.tensor([2.0, 0.0])) < novelty(gap, torch.tensor([0.1, 0.0]))


# ---- training -----------------------------------------------------------------------------------------------
def test_the_first_rollout_fills_the_queue_and_later_ones_what_paid_the_mean() -> None:
    bonus = build()
    block = random_block(VECTOR, steps=8, envs=3, seed=1, filler=True)
    bonus.step(block)
    assert bonus.queue.total == int(block.valid.sum())
    bonus.update()
    mean, before = bonus.rewards.mean.item(), bonus.queue.total
    second = random_block(VECTOR, steps=8, envs=3, seed=2)
    reward = bonus.step(second)
    entered = int((reward >= mean).sum())
    assert 0 < entered < 24
    assert bonus.queue.total - before == entered
    newest = bonus.queue["obs"][bonus.queue.last(entered)]
    assert torch.equal(newest, second.next_obs[reward >= mean])


def test_a_false_successor_is_the_second_draw_where_the_first_is_the_true_one() -> None:
    bonus = build(queue_size=2)
    bonus.queue.push(obs=torch.tensor([[0.0] * 4, [1.0] * 4]))
    true = torch.zeros(200, 4)
    false, differ = bonus._false(true, torch.Generator().manual_seed(0))
    drawn = torch.randint(2, (2, 200), generator=torch.Generator().manual_seed(0))
    assert torch.equal(false[:, 0], torch.where(drawn[0] == 0, drawn[1], drawn[0]).float())
    assert torch.equal(differ, false[:, 0] == 1)
    assert 0.6 < differ.float().mean() < 0.9  # ¾ of two draws


def test_the_discriminator_learns_what_an_action_does() -> None:
    bonus = build(num_envs=4, rollout_steps=32, lr=3e-3)
    rng = torch.Generator().manual_seed(0)
    for _ in range(25):
        action = torch.randint(2, (32, 4), generator=rng)
        start = torch.randn(32, 4, 4, generator=rng)
        shift = torch.where(action == 1, 1.0, -1.0).unsqueeze(2)
        done = torch.ones(32, 4, dtype=torch.bool)
        bonus.step(Transitions.build(start, action, start + shift, terminated=done))
        metrics = bonus.update()
    assert metrics["discriminator_accuracy"] > 0.85


def test_noise_pays_for_ever() -> None:
    means = train(build(num_envs=4, rollout_steps=32, memory_size=64), 0.5, 15)
    assert min(means[-5:]) > 0.1 * max(means[1:6])


@pytest.mark.parametrize(
    ("field", "value"),
    [("features", 0), ("memory_size", 0), ("queue_size", 0), ("normalise", "scalar"), ("lr", -1.0), ("epochs", 0)],
)
def test_bad_settings_say_what_was_expected(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"DEIRConfig\.{field}: expected .*, got"):
        DEIRConfig(**{field: value})  # type: ignore[arg-type]
