"""NovelD: the difference by hand, first visits only, and what is learnt."""

import pytest
import torch
from gymnasium.spaces import Box, Discrete

from lpm.bonuses.noveld import NovelD, NovelDConfig, novelty_difference
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions

SPACES = Spaces(Box(-1.0, 1.0, (2,)), Discrete(2))
A, B, C = [-0.91, -0.91], [0.01, 0.01], [0.91, 0.91]


def walk(states: list[list[float]], done: list[bool] | None = None) -> Transitions:
    obs = torch.tensor(states)[:, None]
    action = torch.zeros(len(states) - 1, 1, dtype=torch.int64)
    end = None if done is None else torch.tensor(done)[:, None]
    return Transitions.build(obs[:-1], action, obs[1:], terminated=end)


def trained(**fields: object) -> NovelD:
    """One update has made the statistics; the episode has ended."""
    bonus = NovelD(SPACES, NovelDConfig(**fields), rollout_steps=16)  # type: ignore[arg-type]
    bonus.step(walk([A, B, C], [False, True]))
    bonus.update()
    return bonus


def test_difference_by_hand() -> None:
    new, old = torch.tensor([1.0, 1.0, 0.4]), torch.ones(3)
    visits = torch.tensor([1, 2, 1])
    assert novelty_difference(new, old, visits, 0.5).tolist() == pytest.approx([0.5, 0.0, 0.0])


def test_only_first_visits_of_an_episode_are_paid() -> None:
    bonus = trained(lr=0.0, alpha=0.0)
    rewards = bonus.step(walk([A, B, C, B, A, C], [False] * 5))[:, 0]
    assert (rewards > 0).tolist() == [True, True, False, False, False]  # A was the start of the episode


def test_a_new_episode_pays_again() -> None:
    bonus = trained(lr=0.0)
    first = bonus.step(walk([A, B], [True])).item()
    assert bonus.step(walk([A, B], [True])).item() == pytest.approx(first)
    bonus.step(walk([A, B]))
    assert bonus.step(walk([B, B])).item() == 0


def test_the_reward_is_the_difference_of_the_norms() -> None:
    bonus = trained(lr=0.0)
    with torch.no_grad():
        old, new = bonus.novelty(bonus.experience.input(torch.tensor([B, A])))
    reward = bonus.step(walk([B, A])).item()
    assert reward == pytest.approx(max(new.item() - 0.5 * old.item(), 0.0), rel=1e-4)
    assert reward > 0


def test_no_reward_before_the_statistics_exist() -> None:
    bonus = NovelD(SPACES, NovelDConfig())
    assert bonus.step(walk([A, B, C])).abs().max().item() == 0


def test_repeated_states_become_known() -> None:
    bonus = trained(lr=3e-3)
    first = bonus.step(walk([A, B, C], [False, True])).sum().item()
    for _ in range(60):
        last = bonus.step(walk([A, B, C], [False, True])).sum().item()
        bonus.update()
    assert last < 0.2 * first


@pytest.mark.parametrize(("field", "value"), [("alpha", -0.1), ("clip", 0.0), ("memory_size", 0), ("key", "x")])
def test_bad_settings_say_what_was_expected(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"NovelDConfig\.{field}: expected .*, got"):
        NovelDConfig(**{field: value})  # type: ignore[arg-type]
