"""RIDE: impact over the root of episodic visits."""

import math

import pytest
import torch
from gymnasium.spaces import Box, Discrete

from lpm.bonuses.ride import RIDE, RIDEConfig
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.experience import Prepared

SPACES = Spaces(Box(-1.0, 1.0, (2,)), Discrete(2))


def build(num_envs: int = 1, **fields: object) -> RIDE:
    return RIDE(SPACES, RIDEConfig(normalise="none", **fields), num_envs=num_envs, rollout_steps=16)  # type: ignore[arg-type]


def walk(states: list[list[float]], done: list[bool] | None = None) -> Transitions:
    obs = torch.tensor(states)[:, None]
    action = torch.zeros(len(states) - 1, 1, dtype=torch.int64)
    end = None if done is None else torch.tensor(done)[:, None]
    return Transitions.build(obs[:-1], action, obs[1:], terminated=end)


A, B = [0.01, 0.01], [0.91, 0.91]


def test_standing_still_pays_nothing() -> None:
    assert build().step(walk([A, A, A])).abs().max().item() == 0


def test_impact_is_divided_by_the_root_of_visits() -> None:
    bonus = build()
    with torch.no_grad():
        impact = (bonus.features(torch.tensor([A])) - bonus.features(torch.tensor([B]))).norm().item()
    rewards = bonus.step(walk([A, B, A, B]))[:, 0]
    # B for the first time; A and B for the second, the start of the episode included
    assert rewards.tolist() == pytest.approx([impact, impact / math.sqrt(2), impact / math.sqrt(2)], rel=1e-4)


def test_a_new_episode_counts_anew() -> None:
    bonus = build()
    rewards = bonus.step(walk([A, B, A, B], [False, True, False]))[:, 0]
    assert rewards[2].item() == pytest.approx(rewards[0].item(), rel=1e-4)


def test_both_losses_train_the_features() -> None:
    bonus = build(forward_weight=1.0, inverse_weight=0.0)
    before = [p.clone() for p in bonus.features.encoder.parameters()]
    bonus.step(walk([A, B, A, B]))
    metrics = bonus.update()
    assert set(metrics) == {"forward_loss", "inverse_loss"}
    changed = [not torch.equal(a, b) for a, b in zip(before, bonus.features.encoder.parameters(), strict=True)]
    assert any(changed)  # no stop-gradient: the forward loss alone moves φ


def test_the_losses_fall() -> None:
    bonus = build(num_envs=4, lr=3e-3, forward_weight=1.0, inverse_weight=1.0)
    rng = torch.Generator().manual_seed(0)
    history = []
    for _ in range(12):
        obs = torch.rand(16, 4, 2, generator=rng) - 0.5
        action = torch.randint(0, 2, (16, 4), generator=rng)
        following = obs.clone()
        following[..., 0] += action - 0.5
        bonus.step(Transitions.build(obs, action, following.clamp(-1, 1)))
        history.append(bonus.update())
    assert history[-1]["inverse_loss"] < 0.7 * history[0]["inverse_loss"]


def test_pair_equals_two_passes() -> None:
    bonus = build()
    batch = walk([A, B])
    rows = Prepared(
        bonus.experience, torch.zeros(1, dtype=torch.int64), batch.obs[0], batch.action[0], batch.next_obs[0]
    )
    phi, phi_next = bonus.features.pair(rows)
    assert torch.allclose(phi, bonus.features(batch.obs[0]), atol=1e-6)
    assert torch.allclose(phi_next, bonus.features(batch.next_obs[0]), atol=1e-6)


@pytest.mark.parametrize(("field", "value"), [("features", 0), ("forward_weight", -1.0), ("bins", 0)])
def test_bad_settings_say_what_was_expected(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"RIDEConfig\.{field}: expected .*, got"):
        RIDEConfig(**{field: value})  # type: ignore[arg-type]
