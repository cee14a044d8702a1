"""The forms of LGN that exist for its ablations: networks for f and g, trained features."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from lpm import Spaces, Transitions, check_intrinsic
from lpm_paper.lgn_forms import (
    LGNOnTrainedFeatures,
    LGNWithNetworks,
    NetworkByAction,
    NetworksConfig,
    TrainedConfig,
)

VECTOR = Spaces(Box(-np.inf, np.inf, (3,)), Discrete(3))
IMAGE = Spaces(Box(0, 255, (1, 40, 40), np.uint8), Discrete(3))


def block(spaces: Spaces, seed: int, steps: int = 32, envs: int = 2) -> Transitions:
    draw = torch.Generator().manual_seed(seed)
    shape = (steps + 1, envs, *spaces.obs_shape)
    if spaces.kind == "vector":
        obs = torch.randn(shape, generator=draw)
    else:
        obs = torch.randint(0, 256, shape, generator=draw, dtype=torch.uint8)
    action = torch.randint(0, 3, (steps, envs), generator=draw)
    return Transitions.build(obs[:-1], action, obs[1:])


def test_a_network_learns_what_each_action_does() -> None:
    torch.manual_seed(0)
    model = NetworkByAction(2, 3, 2, persistence=True)
    x, action = torch.randn(256, 3), torch.arange(256) % 2
    y = x[:, :2] + torch.where(action == 0, 1.0, -1.0).unsqueeze(1)
    assert torch.equal(model(x, action), x[:, :2])  # before the first fit nothing is expected to change
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(20):
        model.add(x, action, y)
        model.fit(optimizer, steps=8, batch_size=64, generator=torch.Generator().manual_seed(0))
    assert (model(x, action) - y).square().mean() < 0.01


def test_more_steps_explain_more() -> None:
    unexplained = {}
    for steps in (1, 64):
        bonus = LGNWithNetworks(VECTOR, NetworksConfig(steps=steps, warmup=32), num_envs=2, rollout_steps=32)
        metrics = {}
        for seed in range(8):
            batch = block(VECTOR, seed)
            batch = Transitions.build(batch.obs, batch.action, 0.9 * batch.obs + 1)
            bonus.step(batch)
            metrics = bonus.update()
        unexplained[steps] = float(metrics["unexplained"])
    assert unexplained[64] < 0.5 * unexplained[1]


@pytest.mark.parametrize("teacher", ["none", "forward_error", "idf", "etd"])
def test_features_are_frozen_after_the_lesson(teacher: str) -> None:
    config = TrainedConfig(teacher=teacher, lesson=100, warmup=32, features=16)
    bonus = LGNOnTrainedFeatures(IMAGE, config, num_envs=2, rollout_steps=32)
    looked_at = block(IMAGE, 99).obs.flatten(0, 1)
    start = bonus.state.encoded(looked_at)
    rewards, features = [], []
    for seed in range(5):
        rewards.append(bonus.step(block(IMAGE, seed)))
        bonus.update()
        features.append(bonus.state.encoded(looked_at))
    assert torch.equal(features[0], start)  # 64 of 100 transitions: the lesson goes on
    assert torch.equal(features[1], start) == (teacher == "none")
    assert torch.equal(features[1], features[4])
    assert all(reward.any() for reward in rewards[1:])  # the stand-in pays until it is no longer needed
    alone = [bonus.stand_in.score(block(IMAGE, seed)) for seed in range(5)]
    assert not torch.equal(rewards[4], alone[4])


def test_passes_of_no_teacher_are_refused() -> None:
    with pytest.raises(ValueError, match=r"passes: expected its default 16 with teacher='none'"):
        TrainedConfig(teacher="none", passes=1)


@pytest.mark.parametrize(
    ("kind", "config", "spaces"),
    [
        (LGNWithNetworks, NetworksConfig(warmup=16), VECTOR),
        (LGNOnTrainedFeatures, TrainedConfig(lesson=20, passes=1, warmup=16), IMAGE),
    ],
)
def test_both_keep_the_contract(kind: type, config: object, spaces: Spaces) -> None:
    check_intrinsic(lambda given, **options: kind(given, config, **options), spaces)


def test_what_begins_to_move_late_is_learnt_too() -> None:
    torch.manual_seed(0)
    model, draw = NetworkByAction(1, 2, 2), torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    x, action = torch.randn(256, 2, generator=draw), torch.zeros(256, dtype=torch.int64)
    for moves in [0.0] * 3 + [1.0] * 40:
        y = x * torch.tensor([1.0, moves])
        model.add(x, action, y)
        model.fit(optimizer, steps=8, batch_size=64, generator=draw)
    assert (model(x, action) - y).square().mean() < 0.01


@pytest.mark.parametrize("teacher", ["forward_error", "idf", "etd"])
def test_a_pickled_one_takes_its_lesson(teacher: str) -> None:
    config = TrainedConfig(teacher=teacher, lesson=100, passes=1, warmup=32, features=16)
    first = LGNOnTrainedFeatures(IMAGE, config, num_envs=2, rollout_steps=32)
    first.step(block(IMAGE, 0))
    first.update()
    second = pickle.loads(pickle.dumps(first))
    for bonus in (first, second):
        bonus.step(block(IMAGE, 1))
        bonus.update()
    looked_at = block(IMAGE, 99).obs.flatten(0, 1)
    assert torch.equal(first.state.encoded(looked_at), second.state.encoded(looked_at))


@pytest.mark.parametrize("after", [1, 3])
def test_a_lesson_is_resumed_exactly(after: int) -> None:
    config = TrainedConfig(lesson=100, passes=1, warmup=32, features=16)
    first = LGNOnTrainedFeatures(IMAGE, config, num_envs=2, rollout_steps=32)
    for seed in range(after):
        first.step(block(IMAGE, seed))
        first.update()
    second = LGNOnTrainedFeatures(IMAGE, config, num_envs=2, rollout_steps=32, seed=5)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for seed in range(after, 6):
        batch = block(IMAGE, seed)
        assert torch.equal(first.step(batch), second.step(batch))
        first.update()
        second.update()


def test_vectors_have_no_encoder_to_train() -> None:
    with pytest.raises(ValueError, match="expected an image observation"):
        LGNOnTrainedFeatures(VECTOR, TrainedConfig())
