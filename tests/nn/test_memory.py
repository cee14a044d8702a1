"""Episodic memories: rings per environment, episodes, invalid rows, nearest rows."""

from dataclasses import replace

import pytest
import torch
from gymnasium.spaces import Box, Discrete
from hypothesis import given, settings
from hypothesis import strategies as st

from lpm.core.check import random_block
from lpm.core.spaces import Spaces
from lpm.nn.memory import EpisodicMemory, embed_episodes, episode_starts, nearest_squares

SPACES = Spaces(Box(-1.0, 1.0, (2,)), Discrete(2))


def contents(memory: EpisodicMemory) -> list[list[list[float]]]:
    """What each environment holds, in slot order."""
    return [memory.stored[i][memory.live[i]].tolist() for i in range(len(memory.count))]


def test_rings_fill_wrap_and_clear_on_their_own() -> None:
    memory = EpisodicMemory(2, 2)
    both, first = torch.tensor([True, True]), torch.tensor([True, False])
    memory.push(torch.tensor([1.0, 10.0]), both)
    memory.push(torch.tensor([2.0, 20.0]), first)
    memory.push(torch.tensor([3.0, 30.0]), first)
    assert contents(memory) == [[3.0, 2.0], [10.0]]
    memory.end_episodes(first)
    assert memory.sizes.tolist() == [0, 1]
    memory.push(torch.tensor([4.0, 40.0]), first)
    assert contents(memory) == [[4.0], [10.0]]


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_a_visit_holds_exactly_the_present_episode(seed: int) -> None:
    """Against plain lists: the episode's first observation, then every successor; cleared after the last one."""
    batch = random_block(SPACES, steps=12, envs=2, seed=seed, filler=True)
    garbage = torch.where(batch.valid, batch.terminated, True)  # done flags of invalid rows mean nothing
    batch = replace(batch, terminated=garbage)
    memory, lists = EpisodicMemory(2, 64, (2,)), [[], []]  # type: ignore[var-annotated]

    def query(t: int) -> torch.Tensor:
        for env in range(2):
            if bool(batch.valid[t, env]):
                lists[env] = lists[env] or [batch.obs[t, env].tolist()]
            assert contents(memory)[env] == lists[env]
            if bool(batch.valid[t, env]):
                lists[env].append(batch.next_obs[t, env].tolist())
                if bool(batch.done[t, env]):
                    lists[env] = []
        return torch.zeros(2)

    assert memory.visit(batch, batch.obs, batch.next_obs, query).shape == (12, 2)
    assert contents(memory) == lists


def test_starts_and_embeddings_cover_what_a_visit_reads() -> None:
    batch = random_block(SPACES, steps=12, envs=3, seed=1, filler=True)
    starts = episode_starts(batch, torch.tensor([True, False, False]))
    assert starts[0].tolist() == [False, True, True]
    calls = []

    def embed(rows: torch.Tensor) -> torch.Tensor:
        calls.append(len(rows))
        return 2 * rows

    first, following = embed_episodes(batch, starts, embed)
    assert calls == [int(starts.sum() + batch.valid.sum())]
    assert torch.equal(first[starts], 2 * batch.obs[starts])
    assert torch.equal(following[batch.valid], 2 * batch.next_obs[batch.valid])
    assert not following[~batch.valid].any()


@given(st.integers(0, 1000), st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_nearest_squares_equal_a_full_sort(seed: int, k: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    query, rows = torch.randn(3, 2, 4, generator=rng), torch.randn(3, 5, 4, generator=rng)
    live = torch.rand(3, 2, 5, generator=rng) < 0.7
    squares = (rows.unsqueeze(1) - query.unsqueeze(2)).square().sum(3)
    full = squares.masked_fill(~live, torch.inf).sort(2).values[..., :k]
    assert torch.allclose(nearest_squares(query, rows, live, k), full)


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"EpisodicMemory\.capacity: expected at least 1, got 0"):
        EpisodicMemory(1, 0)
