"""LPM with a slow copy of f in place of an error model: what it pays, where its floor lies, and the contract."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

import lpm
from lpm.bonuses.lpm_slow import LPMSlow
from lpm.core.check import check_intrinsic
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions

LINE = Spaces(Box(-10, 10, (1,)), Discrete(2))


def block(obs: torch.Tensor, following: torch.Tensor) -> Transitions:
    """(T, 1, 1) observations in one environment."""
    return Transitions.build(obs, torch.zeros(obs.shape[:2], dtype=torch.int64), following)


def learnable(generator: torch.Generator, steps: int = 128) -> Transitions:
    obs = torch.randn(steps, 1, 1, generator=generator)
    return block(obs, -obs)


def noise(generator: torch.Generator, steps: int = 128) -> Transitions:
    obs = 5 + torch.randn(steps, 1, 1, generator=generator)
    return block(obs, 5 + torch.randn(steps, 1, 1, generator=generator))


def build(**fields: Any) -> LPMSlow:
    bonus = lpm.make("lpm_slow", LINE, num_envs=1, rollout_steps=128, seed=0, **fields)
    assert isinstance(bonus, LPMSlow)
    return bonus


@pytest.mark.parametrize("fields", [{}, {"form": "linear"}, {"replay": "all"}], ids=str)
def test_contract(fields: dict[str, Any]) -> None:
    check_intrinsic(partial(lpm.make, "lpm_slow", dynamics_steps=1, buffer_size=64, **fields))


def test_the_reward_is_the_copys_error_over_that_of_f_each_above_the_floor() -> None:
    generator = torch.Generator().manual_seed(1)
    bonus = build()
    for _ in range(3):
        bonus.step(learnable(generator))
        bonus.update()
    batch = learnable(generator)
    x, x_next = (bonus.experience.input(field.flatten(0, 1)) for field in (batch.obs, batch.next_obs))
    code = LINE.encode_action(batch.action.flatten())
    with torch.no_grad():
        slow, fast = ((m(x, code) - x_next).square().mean(1) for m in (bonus.slow, bonus.dynamics))
    expected = torch.log((slow + bonus.floor) / (fast + bonus.floor))
    assert expected.abs().max() > 0.01
    torch.testing.assert_close(bonus.score(batch).flatten(), expected)


def test_the_copy_starts_untrained_and_follows_f() -> None:
    generator = torch.Generator().manual_seed(1)
    bonus = build(copy_decay=0.75)
    expected = [p.detach().clone() for p in bonus.dynamics.parameters()]
    for _ in range(3):
        bonus.step(learnable(generator))
        bonus.update()
        expected = [0.75 * e + 0.25 * p.detach() for e, p in zip(expected, bonus.dynamics.parameters(), strict=True)]
    for slow, want in zip(bonus.slow.parameters(), expected, strict=True):
        assert not slow.requires_grad
        torch.testing.assert_close(slow.detach(), want)


def test_the_floor_waits_for_the_warm_up_without_statistics_too() -> None:
    bonus = build(normalise="none", warmup=100)
    generator = torch.Generator().manual_seed(0)
    bonus.step(learnable(generator, 99))
    assert bonus.update() == {}
    assert float(bonus.floor) == pytest.approx(1e-4)
    bonus.step(learnable(generator, 1))
    assert bonus.update()
    assert float(bonus.floor) > 0.01


@pytest.mark.parametrize("name", ["lpm_slow", "lpm_anchored"])
def test_one_observation_beyond_measure_spoils_nothing(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    spaces = Spaces(Box(-np.inf, np.inf, (2,)), Discrete(2))
    bonus = lpm.make(name, spaces, num_envs=1, rollout_steps=64, seed=0)
    for number in range(4):
        obs = torch.randn(65, 1, 2, generator=generator)
        obs[..., 1] = 1.0
        if number == 2:
            obs[30] = 1e35
        bonus.step(block(obs[:-1], obs[1:]))
        bonus.update()
    assert torch.isfinite(bonus.step(block(obs[:-1], obs[1:]))).all()


def test_the_floor_is_a_share_of_the_error_of_predicting_the_mean() -> None:
    bonus = build(relative_floor=0.5, error_floor=0.01, normalise="none")
    values = torch.tensor([0.0, 2.0, 4.0, 6.0, 13.0]).view(5, 1, 1)  # mean 5; squared distances 25, 9, 1, 1, 64
    bonus.step(block(torch.zeros(5, 1, 1), values))
    assert float(bonus.floor) == pytest.approx(0.01)
    bonus.update()
    assert float(bonus.floor) == pytest.approx(0.01 + 0.5 * 9)
    bonus.step(block(torch.zeros(5, 1, 1), 10 * values))
    bonus.update()
    assert float(bonus.floor) == pytest.approx(0.01 + 0.5 * 9)  # measured once
    other = build(normalise="none")
    other.load_state_dict(bonus.state_dict())
    assert torch.equal(other.floor, bonus.floor)


def test_the_linear_form_has_no_floor() -> None:
    bonus = build(form="linear")
    bonus.step(learnable(torch.Generator().manual_seed(0)))
    bonus.update()
    assert float(bonus.floor) == pytest.approx(1e-4)


def test_what_is_being_learnt_pays_and_noise_does_not() -> None:
    generator = torch.Generator().manual_seed(0)
    bonus = build()
    paid: dict[str, list[float]] = {"learnable": [], "noise": []}
    for _ in range(40):
        batches = {"learnable": learnable(generator, 64), "noise": noise(generator, 64)}
        for name, batch in batches.items():
            paid[name].append(float(bonus.step(batch).mean()))
        bonus.update()
    early = {name: np.mean(values[1:6]) for name, values in paid.items()}
    late = {name: np.mean(values[-10:]) for name, values in paid.items()}
    assert early["learnable"] > 0.1
    assert early["learnable"] > 5 * abs(early["noise"])
    assert abs(late["learnable"]) < 0.1 * early["learnable"]
    assert abs(late["noise"]) < 0.1 * early["learnable"]


def test_nothing_is_paid_before_the_first_update_and_the_first_block_after_it_is() -> None:
    generator = torch.Generator().manual_seed(0)
    bonus = build()
    assert (bonus.step(learnable(generator)) == 0).all()
    bonus.update()
    assert (bonus.step(learnable(generator)) != 0).all()


@pytest.mark.parametrize(("replay", "fresh"), [("mixed", 32), ("all", None), ("latest", 64)])
def test_what_f_is_trained_on(replay: str, fresh: int | None) -> None:
    generator = torch.Generator().manual_seed(0)
    bonus = build(replay=replay, batch_size=64, dynamics_steps=3)
    for _ in range(4):
        bonus.step(learnable(generator))
        bonus.buffer.mark()
    bonus.step(learnable(generator, 96))
    new = set(bonus.buffer.last(96).tolist())
    batches = bonus._batches(torch.Generator().manual_seed(0))
    parts = list(batches.parts)
    assert [len(part) for part in parts] == [64] * 3
    for part in parts:
        found = sum(slot in new for slot in batches.slots[part].tolist())
        assert found < 32 if fresh is None else found >= fresh


@pytest.mark.parametrize("replay", ["all", "latest", "mixed"])
def test_more_rows_since_the_last_update_than_the_buffer_holds(replay: str) -> None:
    generator = torch.Generator().manual_seed(0)
    bonus = build(replay=replay, buffer_size=64)
    bonus.step(learnable(generator, 128))
    assert "dynamics_loss" in bonus.update()


def test_half_of_an_odd_batch_is_rounded_up() -> None:
    bonus = build(batch_size=1, dynamics_steps=20)
    generator = torch.Generator().manual_seed(0)
    bonus.step(learnable(generator, 128))
    bonus.buffer.mark()
    bonus.step(learnable(generator, 4))
    new = set(bonus.buffer.last(4).tolist())
    batches = bonus._batches(generator)
    assert {int(slot) for part in batches.parts for slot in batches.slots[part]} <= new


@pytest.mark.parametrize("environments", [5, 8])
def test_rewards_do_not_depend_on_how_a_rollout_is_split(environments: int) -> None:
    obs = torch.randn(513, environments, 1, generator=torch.Generator().manual_seed(0))
    obs += torch.arange(environments).view(1, -1, 1)
    action = torch.zeros(512, environments, dtype=torch.int64)
    parts = [lpm.make("lpm_slow", LINE, num_envs=environments, rollout_steps=512, seed=0) for _ in range(2)]
    paid = []
    for bonus, size in zip(parts, (512, 64), strict=True):
        for _ in range(2):
            rewards = [
                bonus.step(Transitions.build(obs[t : t + size], action[t : t + size], obs[t + 1 : t + size + 1]))
                for t in range(0, 512, size)
            ]
            bonus.update()
        paid.append(torch.cat(rewards))
    assert paid[0].abs().max() > 0.01
    torch.testing.assert_close(paid[0], paid[1], atol=1e-5, rtol=1e-4)


def test_the_floor_is_measured_on_all_environments() -> None:
    obs = torch.randn(512, 8, 1, generator=torch.Generator().manual_seed(0))
    obs[:, 1:] *= 10
    settings = {"normalise": "none", "relative_floor": 1.0}
    bonus = lpm.make("lpm_slow", LINE, num_envs=8, rollout_steps=512, seed=0, **settings)
    bonus.step(Transitions.build(obs, torch.zeros(512, 8, dtype=torch.int64), obs))
    bonus.update()
    expected = (obs - obs.mean()).square().flatten().median()
    assert isinstance(bonus, LPMSlow)
    assert float(bonus.floor) == pytest.approx(float(expected), rel=0.3)


def first_contact(name: str) -> float:
    """The mean reward of a place far from all that was seen, after familiar ones are learnt."""
    generator = torch.Generator().manual_seed(0)
    bonus = lpm.make(name, LINE, num_envs=1, rollout_steps=128, seed=0)
    for _ in range(60):
        bonus.step(learnable(generator))
        bonus.update()
    new = 6 + 0.5 * torch.randn(128, 1, 1, generator=generator)
    return float(bonus.score(block(new, new)).mean())


def test_a_new_place_is_not_punished() -> None:
    assert first_contact("lpm") < -1
    assert first_contact("lpm_slow") > -0.1


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"copy_decay": 1.0}, "copy_decay"), ({"copy_decay": 0.0}, "copy_decay"), ({"replay": "new"}, "replay"),
     ({"relative_floor": 0.5, "form": "linear"}, "relative_floor"), ({"relative_floor": -1.0}, "relative_floor"),
     ({"relative_floor": float("inf")}, "relative_floor"), ({"form": "exp"}, "form")],
)  # fmt: skip
def test_bad_settings_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"LPMSlowConfig.{message}"):
        build(**fields)
