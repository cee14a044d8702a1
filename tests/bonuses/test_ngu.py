"""NGU: Algorithm 1 by the numbers, the lifelong factor, and the memory."""

import math

import pytest
import torch
from gymnasium.spaces import Box, Discrete

from lpm.bonuses.ngu import NGU, NGUConfig, episodic_novelty, lifelong_factor
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.memory import nearest_squares

SPACES = Spaces(Box(-10.0, 10.0, (3,)), Discrete(2))
CONFIG = NGUConfig()
ONE = torch.ones((), dtype=torch.float64)


def novelty(*squares: float, mean: float = 1.0) -> float:
    return episodic_novelty(torch.tensor([squares], dtype=torch.float64), mean * ONE, CONFIG).item()


def walk(states: torch.Tensor, done: torch.Tensor | None = None) -> Transitions:
    action = torch.zeros(states.shape[0] - 1, states.shape[1], dtype=torch.int64)
    return Transitions.build(states[:-1], action, states[1:], terminated=done)


# ---- Algorithm 1 ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("revisits", "expected"),
    [(1, 0.999001), (2, 0.706607), (3, 0.577017), (4, 0.499750), (9, 0.333222), (10, 0.316128)],
)
def test_exact_revisits_follow_one_over_root_n(revisits: int, expected: float) -> None:
    assert novelty(*[0.0] * revisits) == pytest.approx(expected, abs=1e-6)


def test_neighbours_at_the_mean_distance() -> None:
    assert novelty(*[2.5] * 10, mean=2.5) == pytest.approx(30.535814, abs=1e-6)
    assert novelty(0.7, mean=0.7) == pytest.approx(90.581880, abs=1e-6)


def test_a_distance_inside_the_cluster_counts_as_a_revisit() -> None:
    assert novelty(0.008) == pytest.approx(0.999001, abs=1e-6)
    assert novelty(0.0079) == pytest.approx(0.999001, abs=1e-6)


def test_missing_neighbours_count_for_nothing() -> None:
    assert novelty(1.0, math.inf, math.inf) == pytest.approx(novelty(1.0))
    assert novelty(math.inf) == pytest.approx(1000.0)


def test_a_world_without_distances_is_all_revisits() -> None:
    assert novelty(0.0, 0.0, mean=0.0) == pytest.approx(0.706607, abs=1e-6)


def test_the_similarity_cap_cannot_bind_with_ten_neighbours() -> None:
    assert novelty(*[0.0] * 10) > 0
    many = NGUConfig(neighbours=100)
    assert episodic_novelty(torch.zeros(1, 100), torch.ones(()), many).item() == 0  # √100 + c > 8


def test_lifelong_factor_is_clipped() -> None:
    mu, sigma = torch.tensor(3.0), torch.tensor(0.5)
    errors = torch.stack([mu, mu - 3 * sigma, mu + 10 * sigma, mu + 2 * sigma])
    assert lifelong_factor(errors, mu, sigma, 5.0).tolist() == pytest.approx([1, 1, 5, 3])


# ---- neighbours -----------------------------------------------------------------------------------------------
def test_nearest_squares_are_exact_for_tiny_distances_far_from_the_origin() -> None:
    rows = 100 + torch.tensor([[[0.0], [1e-3], [2e-3], [5.0]]])
    live = torch.tensor([[True, True, False, True]])
    squares = nearest_squares(rows[:, :1], rows, live[:, None], 3)
    assert squares[0, 0].tolist() == pytest.approx([0.0, 1e-6, 25.0], rel=0.02)


def test_nearest_squares_with_too_few_rows() -> None:
    rows = torch.zeros(2, 3, 4)
    live = torch.tensor([[[True, False, False]], [[False, False, False]]])
    query = torch.ones(2, 1, 4)
    assert nearest_squares(query, rows, live, 10).tolist() == [[[4.0] + [math.inf] * 2], [[math.inf] * 3]]
    assert nearest_squares(query, rows[:, :0], live[..., :0], 10).shape == (2, 1, 0)


# ---- the bonus ------------------------------------------------------------------------------------------------
def trained(num_envs: int = 1) -> NGU:
    """One update has made the statistics; all episodes have ended."""
    bonus = NGU(SPACES, NGUConfig(lr=0.0, rnd_lr=0.0), num_envs=num_envs, rollout_steps=16)
    states = torch.randn(17, num_envs, 3, generator=torch.Generator().manual_seed(3))
    done = torch.zeros(16, num_envs, dtype=torch.bool)
    done[-1] = True
    bonus.step(walk(states, done))
    bonus.update()
    return bonus


def test_a_constant_episode_is_all_revisits() -> None:
    rewards = trained().step(walk(torch.ones(12, 1, 3)))[:, 0]
    law = [1 / (math.sqrt(min(n, 10)) + 1e-3) for n in range(1, 12)]
    assert rewards.tolist() == pytest.approx(law, rel=1e-4)


def test_the_running_mean_moves_before_it_normalises() -> None:
    """Two new points: the first is at the mean by definition; the second by hand."""
    bonus = trained()
    states = torch.tensor([[0.0, 0, 0], [1, 0, 0], [5, 0, 0]])[:, None]
    rewards = bonus.step(walk(states))[:, 0]
    with torch.no_grad():
        f = bonus.model(bonus.experience.input(states[:, 0]))
    d = (f[:, None] - f[None]).square().sum(2)
    first, second = d[1, 0], torch.stack([d[2, 0], d[2, 1]])
    assert rewards[0].item() == pytest.approx(90.58, rel=1e-3)
    mean = (first + second.sum()) / 3
    assert rewards[1].item() == pytest.approx(episodic_novelty(second[None], mean, CONFIG).item(), rel=1e-3)
    assert bonus.distances[1].item() == 3


def test_a_reset_forgets_one_environment_only() -> None:
    bonus = trained(2)
    done = torch.tensor([[False, False], [True, False]])
    bonus.step(walk(torch.randn(3, 2, 3, generator=torch.Generator().manual_seed(0)), done))
    assert bonus.memory.count.tolist() == [0, 3]


def test_the_lifelong_factor_reaches_the_reward() -> None:
    bonus = trained()
    block = walk(torch.tensor([[0.0, 0, 0], [1, 0, 0]])[:, None])
    plain = bonus.score(block).item()
    bonus.errors.observe(torch.tensor([0.0, 1e-6]))  # every error is now far above the mean
    bonus.errors.commit()
    assert bonus.score(block).item() == pytest.approx(5 * plain, rel=1e-5)


@pytest.mark.parametrize(
    ("field", "value"), [("neighbours", 0), ("kernel_epsilon", 0.0), ("max_lifelong", 0.5), ("clip", -1.0)]
)
def test_bad_settings_say_what_was_expected(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"NGUConfig\.{field}: expected .*, got"):
        NGUConfig(**{field: value})  # type: ignore[arg-type]
