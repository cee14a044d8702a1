"""What learning bonuses share: raw transitions since the last update, and statistics that move only at updates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from lpm.core.check import random_block
from lpm.core.spaces import Spaces
from lpm.nn.experience import CHUNK, Experience, Prepared

SPACES = Spaces(Box(-np.inf, np.inf, (3,)), Discrete(2))


def experience(**options: object) -> Experience:
    return Experience(SPACES, 64, **options)


def test_only_valid_rows_are_kept_and_counted_in_the_statistics() -> None:
    block = random_block(SPACES, steps=8, envs=3, filler=True)
    keeper = experience(normalise="standard")
    keeper.observe(block)
    assert keeper.buffer.fresh == int(block.valid.sum()) < 24
    assert keeper.begin_update()
    both = torch.cat([block.obs[block.valid], block.next_obs[block.valid]])
    torch.testing.assert_close(keeper.input.moments.mean, both.mean(0))
    torch.testing.assert_close(keeper.input.moments.std, both.std(0, correction=0))


@pytest.mark.parametrize("frozen", [True, False])
def test_statistics_freeze_or_are_refined(frozen: bool) -> None:
    keeper = experience(normalise="standard", frozen=frozen, next_only=True)
    means = []
    for seed in range(2):
        keeper.observe(random_block(SPACES, steps=8, envs=3, seed=seed))
        keeper.begin_update()
        keeper.end_update()
        means.append(keeper.input.moments.mean.clone())
    assert torch.equal(means[0], means[1]) == frozen


def test_nothing_is_paid_or_learnt_until_the_warmup_is_over() -> None:
    keeper = experience(normalise="standard", warmup=30)
    block = random_block(SPACES, steps=8, envs=3)
    for ready in (False, True):  # after 24 transitions, then 48
        keeper.observe(block)
        assert keeper.each(lambda rows: rows.x[:, 0] + 1e3, block).any() == keeper.ready
        assert keeper.begin_update() == keeper.ready == ready


def test_auto_standardises_vectors_and_not_images() -> None:
    images = Spaces(Box(0, 255, (7, 7, 3), np.uint8), Discrete(2))
    assert experience(normalise="auto").input.moments is not None
    assert Experience(images, 8, "auto").input.moments is None


def test_a_long_block_is_seen_in_chunks_and_in_order() -> None:
    block = random_block(SPACES, steps=CHUNK // 4 + 5, envs=8)
    sizes = []

    def first(rows: Prepared) -> torch.Tensor:
        sizes.append(len(rows.x))
        return rows.x[:, 0] + rows.code[:, 1]

    torch.testing.assert_close(experience().each(first, block), block.obs[..., 0] + block.action)
    assert max(sizes) <= CHUNK < sum(sizes) == block.valid.numel()


def test_what_is_not_looked_at_is_not_computed() -> None:
    keeper, block = experience(), random_block(SPACES)
    seen: list[Prepared] = []
    keeper.each(lambda rows: (seen.append(rows), rows.x_next[:, 0])[1], block)
    assert "x_next" in vars(seen[0])
    assert "x" not in vars(seen[0])


def test_every_pass_visits_every_transition_and_indices_agree() -> None:
    keeper = experience()
    keeper.observe(random_block(SPACES, steps=8, envs=3, seed=1))
    keeper.end_update()
    keeper.observe(random_block(SPACES, steps=8, envs=4, seed=2))
    values = keeper.at_fresh(lambda rows: rows.x[:, 0])
    assert len(values) == 32
    seen: list[int] = []
    still = torch.nn.Parameter(torch.zeros(()))

    def loss(rows: Prepared) -> torch.Tensor:
        assert torch.equal(values[rows.index], rows.x[:, 0])
        seen.extend(rows.index.tolist())
        return rows.x[:, 0] + still

    optimizer = torch.optim.Adam([still], lr=0.0)
    mean = keeper.fit(loss, optimizer, keeper.passes(8, 2, torch.Generator().manual_seed(0)))
    assert sorted(seen) == sorted(list(range(32)) * 2)
    torch.testing.assert_close(mean, values.mean())


def test_an_empty_block_leaves_nothing_to_learn() -> None:
    keeper, block = experience(normalise="standard"), random_block(SPACES)
    keeper.observe(replace(block, valid=torch.zeros_like(block.valid)))
    assert not keeper.begin_update()
    assert not keeper.ready
