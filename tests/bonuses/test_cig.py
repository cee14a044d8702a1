"""CIG: the kernel, the gain by hand and as a Cholesky factor of the whole rollout, and what repetition pays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from bonus_cases import VECTOR, arm, train

import lpm
from lpm.bonuses.cig import CIG, conditional_gain, deviations
from lpm.bonuses.ensemble import disagreement
from lpm.core.check import random_block
from lpm.core.transitions import Transitions

SMALL: dict[str, Any] = {"features": 8, "hidden": (16,), "encoder_hidden": (16,)}
SIZE = {"num_envs": 4, "rollout_steps": 32}


def build(**fields: Any) -> CIG:
    bonus = lpm.make("cig", VECTOR, **{**SIZE, **SMALL, **fields})
    assert isinstance(bonus, CIG)
    return bonus


# ---- formulas -----------------------------------------------------------------------------------------------
def test_the_diagonal_of_the_kernel_is_the_disagreement() -> None:
    predictions = torch.randn(5, 7, 3, generator=torch.Generator().manual_seed(0))
    rows = deviations(predictions)
    torch.testing.assert_close(rows.square().sum(1), 3 * disagreement(predictions))


def test_the_kernel_by_hand() -> None:
    # two members, two transitions, one feature: they deviate by ±1 and by ±2
    rows = deviations(torch.tensor([[[1.0], [5.0]], [[3.0], [1.0]]]))
    torch.testing.assert_close(rows @ rows.T, torch.tensor([[1.0, -2.0], [-2.0, 4.0]]))


def test_gain_is_the_diagonal_of_the_cholesky_factor() -> None:
    """r_t = 2 log L_tt of K + n I, above its floor log n, for a whole rollout at once."""
    rows = torch.randn(6, 4, generator=torch.Generator().manual_seed(1)).double()
    noise = 0.3
    factor = np.linalg.cholesky((rows @ rows.T).numpy() + noise * np.eye(6))
    expected = 2 * np.log(np.diag(factor)) - math.log(noise)
    found = [conditional_gain(rows[t : t + 1], rows[None, :t], torch.tensor(noise)).item() for t in range(6)]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_same_disagreement_again_pays_less_each_time() -> None:
    """K = c for all pairs: the k-th time pays log((k c + n) / ((k − 1) c + n))."""
    c, noise = 0.7, 0.05
    row = torch.tensor([[math.sqrt(c)]])
    for k in range(1, 9):
        found = conditional_gain(row, row.expand(1, k - 1, 1), torch.tensor(noise)).item()
        assert found == pytest.approx(math.log((k * c + noise) / ((k - 1) * c + noise)), rel=1e-5)


def test_rows_of_nothing_count_for_nothing() -> None:
    row, other = torch.tensor([[1.0, 2.0]]), torch.tensor([[[0.5, 0.1]]])
    padded = torch.cat([other, torch.zeros(1, 3, 2)], 1)
    noise = torch.tensor(0.2)
    torch.testing.assert_close(conditional_gain(row, padded, noise), conditional_gain(row, other, noise))


# ---- the bonus ----------------------------------------------------------------------------------------------
@torch.no_grad()
def test_rewards_are_those_of_each_environments_own_episode() -> None:
    bonus = build(num_envs=3, rollout_steps=8, prefix=3)
    bonus.step(random_block(VECTOR, seed=0))
    bonus.update()
    block = random_block(VECTOR, steps=20, seed=1, filler=True)
    assert int(block.done.sum()) > 2
    expected = torch.zeros(block.shape)
    for env in range(3):
        prefix: list[torch.Tensor] = []
        for t in range(20):
            if block.valid[t, env]:
                row = bonus._deviations(block.obs[t, env][None], block.action[t, env][None])
                before = torch.stack(prefix[-3:], 1) if prefix else torch.zeros(1, 0, row.shape[1])
                expected[t, env] = conditional_gain(row, before, bonus.noise)
                prefix = [] if block.done[t, env] else [*prefix, row]
    torch.testing.assert_close(bonus.score(block), expected, rtol=1e-3, atol=1e-5)


def test_noise_is_the_error_of_the_mean_of_the_ensemble() -> None:
    bonus = build(lr=0.0)
    assert bonus.step(arm(0.5, 0)).abs().max() == 0
    metrics = bonus.update()
    block = arm(0.5, 0)
    with torch.no_grad():
        phi, phi_next = (bonus.encoder(bonus.experience.input(x.flatten(0, 1))) for x in (block.obs, block.next_obs))
        code = bonus.spaces.encode_action(block.action.flatten())
        error = (bonus.ensemble(phi, code).mean(0) - phi_next).square().mean()
    torch.testing.assert_close(metrics["noise_variance"], error)
    torch.testing.assert_close(bonus.noise, 8 * error)


def test_repeating_a_step_within_the_prefix_pays_less() -> None:
    bonus = build()
    train(bonus, 0.5, 2)
    reward = bonus.score(arm(0.5, 9))
    assert bool((reward[1:15] < reward[:14]).all())
    assert reward.min() > 0
    single = Transitions.build(*(getattr(arm(0.5, 9), n) for n in ("obs", "action", "next_obs")),
                               terminated=torch.ones(32, 4, dtype=torch.bool))  # fmt: skip
    alone = bonus.score(single)
    torch.testing.assert_close(alone, reward[:1].expand(32, 4))


def test_noise_pays_less_and_less() -> None:
    means = train(build(lr=2e-3), 0.5, 40)
    assert means[0] == 0
    assert means[-1] < 0.1 * max(means)


@pytest.mark.parametrize(("field", "value"), [("members", 1), ("prefix", 0), ("clip", 0.0), ("features", 0)])
def test_bad_settings_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"CIGConfig\.{field}: expected .*, got "):
        CIG.Config(**{field: value})
