"""ETD: the distance, the loss, the positives, and what the memory remembers."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from hypothesis import given, settings
from hypothesis import strategies as st

from lpm.bonuses.etd import (
    ETD,
    ETDConfig,
    contrastive_loss,
    last_of_segment,
    mrn_distances,
    truncated_geometric,
)
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions

SPACES = Spaces(Box(-np.inf, np.inf, (3,)), Discrete(2))
IMAGES = Spaces(Box(0, 255, (4, 84, 84), np.uint8), Discrete(2))


def build(num_envs: int = 1, rollout_steps: int = 8, **fields: object) -> ETD:
    return ETD(SPACES, ETDConfig(normalise="none", **fields), num_envs=num_envs, rollout_steps=rollout_steps)  # type: ignore[arg-type]


def walk(states: torch.Tensor, done: torch.Tensor | None = None) -> Transitions:
    """States (T + 1, N, D) of a continuing walk."""
    steps, envs = states.shape[0] - 1, states.shape[1]
    action = torch.zeros(steps, envs, dtype=torch.int64)
    return Transitions.build(states[:-1], action, states[1:], terminated=done)


def mrn_distance(x: torch.Tensor, y: torch.Tensor, epsilon: float = 1e-8) -> torch.Tensor:
    """The plain d(x → y) of embeddings (..., D), with autograd's gradient."""
    half = x.shape[-1] // 2
    one_way = (x[..., :half] - y[..., :half]).amax(-1).clamp_min(0)
    both_ways = (x[..., half:] - y[..., half:]).square().sum(-1)
    return one_way + torch.sqrt(both_ways + epsilon)


# ---- distance -----------------------------------------------------------------------------------------------
def test_distance_by_hand_is_not_symmetric() -> None:
    x, y = torch.tensor([[1.0, 0, 0, 0]]), torch.tensor([[0.0, 0, 3, 4]])
    for distance in (mrn_distance, mrn_distances):
        assert distance(x, y).item() == pytest.approx(6.0)
        assert distance(y, x).item() == pytest.approx(5.0)


@given(st.integers(0, 10_000), st.sampled_from([1e-6, 1e-3, 1.0, 1e2]))
@settings(max_examples=40, deadline=None)
def test_distance_is_a_quasimetric(seed: int, scale: float) -> None:
    x, y, z = scale * torch.randn(3, 40, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    assert bool((mrn_distances(x, y) > 0).all())
    assert mrn_distances(x, x).diagonal().max().item() <= 1e-4 + 1e-6
    slack = mrn_distances(x, y).unsqueeze(2) + mrn_distances(y, z) - mrn_distances(x, z).unsqueeze(1)
    assert slack.min().item() > 0


def test_triangle_inequality_of_a_quarter_of_a_million_triples() -> None:
    x, y, z = torch.randn(3, 64, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    slack = mrn_distances(x, y).unsqueeze(2) + mrn_distances(y, z) - mrn_distances(x, z).unsqueeze(1)
    assert slack.min().item() > 0


def test_all_pairs_equal_the_plain_distance_with_its_gradient() -> None:
    rng = torch.Generator().manual_seed(0)
    x, y = torch.randn(70, 8, generator=rng), torch.randn(50, 8, generator=rng)
    weight = torch.randn(70, 50, generator=rng)
    results = []
    for distances in (mrn_distances, lambda a, b: mrn_distance(a.unsqueeze(1), b.unsqueeze(0))):
        a, b = x.clone().requires_grad_(), y.clone().requires_grad_()
        d = distances(a, b)
        (d * weight).sum().backward()  # type: ignore[no-untyped-call]
        results.append((d.detach(), a.grad, b.grad))
    for fast, plain in zip(*results, strict=True):
        assert torch.allclose(fast, plain, atol=1e-4)


def test_the_gradient_is_finite_where_states_coincide() -> None:
    x = torch.randn(6, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
    distances = mrn_distances(x, x)
    assert torch.allclose(distances.diagonal(), torch.full((6,), 1e-4))
    distances.sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert bool(torch.isfinite(x.grad).all())


# ---- loss and positives -------------------------------------------------------------------------------------
def test_loss_of_equal_energies_is_log_b() -> None:
    assert contrastive_loss(torch.full((16, 16), 2.5)).item() == pytest.approx(math.log(16), rel=1e-6)
    assert contrastive_loss(torch.zeros(4, 4), 0.5).item() == pytest.approx(math.log(4) + 0.5 * math.log(4) ** 2)


def test_loss_falls_when_the_diagonal_stands_out() -> None:
    assert contrastive_loss(20 * torch.eye(8)).item() < 1e-6


def test_positives_follow_the_truncated_geometric_law() -> None:
    gamma, remaining, draws = 0.9, 5, 200_000
    uniform = torch.rand(draws, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    steps = truncated_geometric(torch.full((draws,), remaining), gamma, uniform)
    weight = gamma ** torch.arange(1, remaining + 1, dtype=torch.float64)
    observed = torch.bincount(steps, minlength=remaining + 1)[1:] / draws
    assert int(steps.min()) >= 1
    assert torch.allclose(observed.double(), weight / weight.sum(), atol=4e-3)


@pytest.mark.parametrize("remaining", [1, 2, 7, 128])
def test_inversion_is_exact_for_the_default_discount(remaining: int) -> None:
    """Evenly spread numbers instead of random ones: the law is met to the resolution of the grid."""
    draws = 400_000
    uniform = (torch.arange(draws, dtype=torch.float64) + 0.5) / draws
    steps = truncated_geometric(torch.full((draws,), remaining), 0.99, uniform)
    weight = 0.99 ** torch.arange(1, remaining + 1, dtype=torch.float64)
    observed = torch.bincount(steps, minlength=remaining + 1).double() / draws
    assert observed[0] == 0
    torch.testing.assert_close(observed[1:], weight / weight.sum(), rtol=0, atol=2 / draws)


def test_positives_at_the_ends_of_the_unit_interval() -> None:
    uniform = torch.tensor([0.0, 1.0 - 1e-16, 0.5], dtype=torch.float64)
    assert truncated_geometric(torch.tensor([3, 3, 1]), 0.99, uniform).tolist() == [1, 3, 1]


def test_last_row_of_each_segment() -> None:
    ends = torch.tensor([False, True, False, False, True, False])
    assert last_of_segment(ends).tolist() == [1, 1, 4, 4, 4, 5]


def test_positives_stay_inside_their_episode_whatever_the_blocks() -> None:
    bonus = build(num_envs=2, rollout_steps=6)
    states = torch.arange(7 * 2 * 3, dtype=torch.float32).reshape(7, 2, 3)
    done = torch.zeros(6, 2, dtype=torch.bool)
    done[2, 0] = True
    block = walk(states, done)
    block = replace(
        block,
        valid=torch.ones(6, 2, dtype=torch.bool).index_put_((torch.tensor(3), torch.tensor(0)), torch.tensor(False)),
    )
    bonus.step(block[:2])
    bonus.step(block[2:])
    slots, last = bonus._episodes()
    # environment 0: rows 0-2 end at the done step, the filler is gone, rows 4-5 form the next episode
    assert bonus.experience.buffer["env"][slots].tolist() == [0] * 5 + [1] * 6
    assert last.tolist() == [2, 2, 2, 4, 4] + [10] * 6
    assert torch.equal(bonus.experience.buffer["next_obs"][slots[2]], states[3, 0])


def test_a_constant_encoder_has_loss_log_b() -> None:
    bonus = build(num_envs=4, rollout_steps=2, layer_norm=False)
    for parameter in bonus.model.parameters():
        torch.nn.init.zeros_(parameter)
    bonus.step(walk(torch.randn(3, 4, 3, generator=torch.Generator().manual_seed(0))))
    assert bonus.update()["contrastive_loss"].item() == pytest.approx(math.log(8), rel=1e-5)


# ---- memory -------------------------------------------------------------------------------------------------
def test_a_revisit_pays_almost_nothing_and_a_reset_forgets() -> None:
    bonus = build()
    a, b = torch.zeros(1, 3), torch.ones(1, 3)
    rewards = bonus.step(walk(torch.stack([a, b, a, b])))[:, 0]
    assert rewards[0].item() > 0.01
    assert rewards[1].item() == pytest.approx(1e-4, rel=0.05)  # back at the first observation: √1e-8
    assert rewards[2].item() == pytest.approx(1e-4, rel=0.05)
    end = walk(torch.stack([b, b]), torch.ones(1, 1, dtype=torch.bool))
    bonus.step(end)
    assert bonus.memory.count.tolist() == [0]
    again = bonus.step(walk(torch.stack([a, b])))
    assert again[0, 0].item() == pytest.approx(rewards[0].item(), rel=1e-5)
    assert bonus.memory.count.tolist() == [2]


def test_the_terminal_transition_is_scored_with_the_old_memory() -> None:
    bonus = build(num_envs=2)
    a, b = torch.zeros(2, 3), torch.ones(2, 3)
    done = torch.tensor([[False, False], [True, False]])
    rewards = bonus.step(walk(torch.stack([a, b, a]), done))
    assert torch.allclose(rewards[1], torch.full((2,), 1e-4), rtol=0.05)
    assert bonus.memory.count.tolist() == [0, 3]


def test_distance_runs_from_memory_to_the_new_state() -> None:
    bonus = build()
    a, b = torch.zeros(1, 3), torch.ones(1, 3)
    with torch.no_grad():
        ea, eb = bonus.model.embed(a), bonus.model.embed(b)
    reward = bonus.score(walk(torch.stack([a, b])))
    assert reward.item() == pytest.approx(mrn_distance(ea, eb).item(), rel=1e-5)
    assert mrn_distance(ea, eb).item() != pytest.approx(mrn_distance(eb, ea).item(), rel=1e-3)


def test_the_oldest_step_is_forgotten_when_the_memory_is_full() -> None:
    bonus = build(memory_size=2)
    states = torch.eye(3)[:, None, :] * 3
    rewards = bonus.step(walk(torch.cat([states, states[:1]])))
    assert rewards[2, 0].item() > 0.01  # the first state has been overwritten
    assert bonus.memory.count.tolist() == [2]


def test_remembered_observations_are_embedded_again_after_an_update() -> None:
    fresh, stale = build(rollout_steps=4, lr=0.05), build(rollout_steps=4, lr=0.05, memory="embeddings")
    block = walk(torch.randn(5, 1, 3, generator=torch.Generator().manual_seed(1)))
    for bonus in (fresh, stale):
        bonus.step(block)
        bonus.update()
    back = Transitions.build(block.next_obs[-1:], block.action[-1:], block.obs[:1])
    assert fresh.score(back).item() == pytest.approx(1e-4, rel=0.05)
    assert stale.score(back).item() > 0.01
    assert stale.kept is None


def test_image_memory_is_modest_by_default() -> None:
    bonus = ETD(IMAGES, ETDConfig(), num_envs=16, rollout_steps=1)
    assert bonus.kept is not None
    assert bonus.memory.capacity == 297
    assert bonus.kept.rows.nbytes <= 128 * 2**20


# ---- learning -----------------------------------------------------------------------------------------------
def test_distances_grow_along_a_one_way_chain() -> None:
    """A walk that only goes forward on 12 one-hot cells: d(cell 0 → cell k) orders the cells as time does."""
    cells, envs = 12, 16
    spaces = Spaces(Box(0.0, 1.0, (cells,)), Discrete(1))
    bonus = ETD(
        spaces, ETDConfig(normalise="none", batch_size=96, discount=0.8, lr=1e-3), num_envs=envs, rollout_steps=22
    )
    rng = torch.Generator().manual_seed(0)
    for _ in range(12):
        stay = torch.rand(22, envs, generator=rng) < 0.5
        position = torch.cat([torch.zeros(1, envs), (~stay).float().cumsum(0)]).clamp_max(cells - 1).long()
        end = torch.zeros(22, envs, dtype=torch.bool)
        end[-1] = True
        bonus.step(walk(torch.eye(cells)[position], end))
        bonus.update()
    with torch.no_grad():
        embedded = bonus.model.embed(torch.eye(cells))
        distance = mrn_distance(embedded[:1], embedded)
    rank = distance.argsort().argsort().float()
    correlation = torch.corrcoef(torch.stack([rank, torch.arange(cells).float()]))[0, 1].item()
    assert correlation > 0.9, distance


@pytest.mark.parametrize(
    ("field", "value"),
    [("embedding", 7), ("discount", 1.0), ("memory", "nothing"), ("memory_size", 0), ("lr", -1.0), ("epochs", 0)],
)
def test_bad_settings_say_what_was_expected(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"ETDConfig\.{field}: expected .*, got"):
        ETDConfig(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("double", [("obs",), ("next_obs",), ("obs", "next_obs")])
def test_observations_in_double_precision_are_those_in_single(double: tuple[str, ...]) -> None:
    single = walk(torch.randn(9, 2, 3))
    given = replace(single, **{name: getattr(single, name).double() for name in double})
    expected, found = (build(2).step(block) for block in (single, given))
    torch.testing.assert_close(found, expected)
