"""RLlib at its full size: remote runners, and two learners that train one bonus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

ray = pytest.importorskip("ray")
pytest.importorskip("ray.rllib")
from ray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig  # noqa: E402

from lpm.adapters.rllib import add_intrinsic  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(autouse=True, scope="module")
def _ray() -> Iterator[None]:
    ray.init(address="local", num_cpus=6, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


def config() -> Any:
    return (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=2, num_envs_per_env_runner=2)
        .learners(num_learners=2)
        .training(train_batch_size_per_learner=200, minibatch_size=100, num_epochs=2, lr=0.003)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[16]))
        .debugging(seed=0)
    )


def looking() -> Any:
    """What a learner's bonus and mixer know; made inside a function, so that it travels as code."""

    def look(learner: Any) -> dict[str, Any]:
        connector = learner.intrinsic
        bonus = connector.bonus
        return {
            "parameters": [parameter.detach().numpy().copy() for parameter in bonus.parameters()],
            "scales": [connector.mixer.task_scale.value, connector.mixer.bonus_scale.value],
            "steps": connector.steps,
            "pushed": int(bonus.experience.buffer.pushed),
        }

    return look


@pytest.mark.parametrize("bonus", ["lpm", "rnd", "icm"])
def test_remote_runners_and_two_learners_train_one_bonus_to_an_end(bonus: str) -> None:
    algorithm = add_intrinsic(config(), bonus, 0.1, seed=1).build_algo()
    results = [algorithm.train() for _ in range(4)]
    first, second = (result.get() for result in algorithm.learner_group.foreach_learner(looking()))
    for a, b in zip(first["parameters"], second["parameters"], strict=True):
        assert np.array_equal(a, b)
    assert first["scales"] == second["scales"]
    assert 1.0 not in first["scales"]
    assert first["steps"] == second["steps"] == first["pushed"] >= 4 * 400
    learner = results[-1]["learners"]["default_policy"]
    assert np.isfinite(learner["intrinsic_raw_mean"])
    loss = {"lpm": "dynamics", "rnd": "predictor", "icm": "forward"}[bonus]
    assert np.isfinite(learner[f"intrinsic_{loss}_loss"])
    algorithm.stop()


def test_a_memory_per_episode_needs_one_learner() -> None:
    with pytest.raises(Exception, match="RLlib deals the pieces of an episode to any learner"):
        add_intrinsic(config(), "lgn").build_algo()
