"""ICM and IDF: the same class; where the forward loss's gradient goes is the only difference."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from bonus_cases import VECTOR, train
from gymnasium.spaces import Box, Discrete

import lpm
from lpm.core.check import random_block
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.experience import Prepared

SMALL = {"features": 32, "hidden": (64,), "encoder_hidden": (64,), "inverse_hidden": (64,)}
CELLS = 8
RING = Spaces(Box(-np.inf, np.inf, (CELLS + 4,)), Discrete(2))


def ring(seed: int, *, noise: float = 0.0, steps: int = 32, envs: int = 8) -> Transitions:
    """Walks on a ring of cells (one-hot), left or right; four more dimensions are noise that no action causes."""
    rng = np.random.default_rng(seed)
    cells, actions = rng.integers(CELLS, size=(steps, envs)), rng.integers(2, size=(steps, envs))
    after = (cells + 2 * actions - 1) % CELLS

    def observation(cell: np.ndarray) -> torch.Tensor:
        distraction = noise * rng.normal(size=(steps, envs, 4))
        return torch.as_tensor(np.concatenate([np.eye(CELLS)[cell], distraction], -1), dtype=torch.float32)

    return Transitions.build(observation(cells), torch.as_tensor(actions), observation(after))


def rows_of(bonus: lpm.IntrinsicReward, block: Transitions) -> Prepared:
    flat = block.rows()
    return Prepared(bonus.experience, torch.arange(len(flat.obs)), flat.obs, flat.action, flat.next_obs)


@pytest.mark.parametrize(("method", "reaches"), [("icm", True), ("idf", False)])
def test_the_forward_loss_trains_features_in_icm_only(method: str, reaches: bool) -> None:
    bonus = lpm.make(method, VECTOR, normalise="none", **SMALL)
    _, forward = bonus.losses(rows_of(bonus, random_block(VECTOR)))
    forward.mean().backward()
    gradients = [p.grad for p in bonus.encoder.parameters()]
    assert any(g is not None and bool(g.abs().max() > 0) for g in gradients) == reaches
    assert all(p.grad is not None for p in bonus.forward_model.parameters())


def test_icm_gradient_flows_through_both_observations() -> None:
    bonus = lpm.make("icm", VECTOR, normalise="none", **SMALL)
    rows = rows_of(bonus, random_block(VECTOR))
    rows.x.requires_grad_(True)
    rows.x_next.requires_grad_(True)
    bonus.losses(rows)[1].sum().backward()
    assert rows.x.grad.abs().max() > 0
    assert rows.x_next.grad.abs().max() > 0


def test_reward_is_the_mean_and_the_loss_half_the_sum_of_the_same_squares() -> None:
    bonus = lpm.make("icm", VECTOR, normalise="none", **SMALL)
    block = random_block(VECTOR)
    _, forward = bonus.losses(rows_of(bonus, block))
    torch.testing.assert_close(bonus.score(block).flatten() * 32 / 2, forward.detach())


@pytest.mark.parametrize("method", ["icm", "idf"])
def test_actions_are_recovered_in_a_grid_world(method: str) -> None:
    bonus = lpm.make(method, RING, num_envs=8, rollout_steps=32, normalise="none", **SMALL)
    for seed in range(30):
        bonus.step(ring(seed))
        bonus.update()
    rows = rows_of(bonus, ring(99))
    guess = bonus.inverse(*bonus.features(rows)).argmax(1)
    assert (guess == rows.action).float().mean() > 0.99


def test_noise_that_no_action_causes_leaves_icm_features() -> None:
    bonus = lpm.make("icm", RING, num_envs=8, rollout_steps=32, normalise="none", **SMALL)
    noisy, quiet = ring(999, noise=3.0), ring(999)
    before, difference = bonus.score(noisy).mean(), (bonus.score(noisy) - bonus.score(quiet)).mean().abs()
    assert difference > 0.5 * before
    for seed in range(150):
        bonus.step(ring(seed, noise=3.0))
        bonus.update()
    assert bonus.score(noisy).mean() < 0.1 * before
    # what the distraction adds is gone, measured by the reward that it had; what is left of that is small itself
    assert (bonus.score(noisy) - bonus.score(quiet)).mean().abs() < 0.1 * difference


@pytest.mark.parametrize("method", ["icm", "idf"])
def test_a_constant_environment_pays_nothing_in_the_end(method: str) -> None:
    bonus = lpm.make(method, VECTOR, num_envs=4, rollout_steps=32, normalise="none", **SMALL)
    means = train(bonus, 0.0, 40)
    assert means[0] > 0
    assert means[-1] < 0.05 * means[0]


@pytest.mark.parametrize(("field", "value"), [("beta", 1.0), ("features", 0), ("blocks", -1), ("normalise", "x")])
def test_bad_settings_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"ICMConfig\.{field}: expected .*, got "):
        lpm.make("icm", VECTOR, **{field: value})


def test_residual_blocks_need_a_width() -> None:
    with pytest.raises(ValueError, match="hidden: expected a layer for the 2 residual blocks"):
        lpm.make("icm", VECTOR, hidden=(), blocks=2)
