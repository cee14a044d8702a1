"""γ-Progress: the average of past weights as the paper's sum, the difference of losses, and nothing on noise."""

from __future__ import annotations

import pytest
import torch
from bonus_cases import VECTOR, arm, train

import lpm
from lpm.bonuses.gamma_progress import GammaProgress
from lpm.core.transitions import Transitions

RAW = {"normalise": "none", "hidden": (32,), "batch_size": 32}
SIZE = {"num_envs": 4, "rollout_steps": 32}


def build(**fields: object) -> GammaProgress:
    bonus = lpm.make("gamma_progress", VECTOR, **SIZE, **{**RAW, **fields})  # type: ignore[arg-type]
    assert isinstance(bonus, GammaProgress)
    return bonus


def weights(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().double().flatten() for p in model.parameters()])


def test_the_old_weights_are_the_papers_sum_over_every_gradient_step() -> None:
    """θ_old = (1 − γ) Σ_i γ^(k−i) θ_i, the first model standing for all before it."""
    gamma = 0.8
    bonus, steps = build(gamma=gamma), []
    steps.append(weights(bonus.dynamics))
    follow = bonus._follow

    def watched() -> None:
        steps.append(weights(bonus.dynamics))
        follow()

    bonus._follow = watched  # type: ignore[method-assign]
    train(bonus, 0.5, 2)
    k = len(steps) - 1
    assert k == 2 * 3 * 4  # updates, epochs, minibatches of 32 in 128 transitions
    expected = gamma**k * steps[0] + sum((1 - gamma) * gamma ** (k - i) * steps[i] for i in range(1, k + 1))
    torch.testing.assert_close(weights(bonus.old), expected, rtol=0, atol=1e-6)


def test_the_reward_is_the_difference_of_losses_by_hand() -> None:
    bonus = build(hidden=())
    with torch.no_grad():
        for model, bias in ((bonus.old, 1.0), (bonus.dynamics, 0.25)):
            model.body[0].weight.zero_()  # type: ignore[index]
            model.body[0].bias.fill_(bias)  # type: ignore[index]
    block = Transitions.build(
        torch.zeros(1, 1, 4), torch.zeros(1, 1, dtype=torch.int64), torch.tensor([[[0.0, 0, 0, 1]]])
    )
    # old: (1 + 1 + 1 + 0) / 4, new: (3 · 0.0625 + 0.5625) / 4
    assert bonus.score(block).item() == pytest.approx(0.75 - 0.1875)


def test_before_the_first_update_both_models_are_one() -> None:
    assert build().score(arm(1.0, 0)).abs().max() == 0


def test_a_frozen_model_pays_exactly_nothing_on_noise() -> None:
    bonus = build(lr=0.0)
    train(bonus, 2.0, 3)
    assert bonus.score(arm(2.0, 99)).abs().max() == 0


def test_a_learnable_transition_pays_while_it_is_learnt_and_then_no_more() -> None:
    means = train(build(gamma=0.9), 0.0, 60)
    assert means[0] == 0
    assert min(means[1:5]) > 1e-3
    assert abs(sum(means[-5:]) / 5) < 1e-3


def test_noise_pays_next_to_nothing_once_its_mean_is_known() -> None:
    means = train(build(gamma=0.9), 0.5, 60)
    assert abs(sum(means[-20:]) / 20) < 0.01 * 0.25  # of the variance


def test_old_transitions_are_replayed_when_nothing_of_the_kind_is_new() -> None:
    bonus = build(epochs=20)
    train(bonus, 0.0, 5)
    before = bonus.dynamics.errors(*_inputs(1.0)).item()
    train(bonus, 0.0, 10, start=-1.0)
    forgetting = build(epochs=20, buffer_size=1)
    train(forgetting, 0.0, 5)
    train(forgetting, 0.0, 10, start=-1.0)
    assert bonus.dynamics.errors(*_inputs(1.0)).item() < max(10 * before, 1e-3)
    assert len(forgetting.experience.buffer) == 128  # never less than a rollout


def _inputs(start: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.full((1, 4), start), torch.tensor([[1.0, 0.0]]), torch.full((1, 4), 0.5 * start)


@pytest.mark.parametrize(("field", "value"), [("gamma", 1.0), ("gamma", 0.0), ("buffer_size", 0), ("epochs", 0)])
def test_bad_settings_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"GammaProgressConfig\.{field}: expected .*, got "):
        build(**{field: value})
