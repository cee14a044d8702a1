"""Small runs that every test of this folder shares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from lpm.agents import A2CConfig, NetworkConfig, PPOConfig
from lpm.core.registry import configure
from lpm.runs import RunConfig, load_checkpoint

MOUNTAIN_CAR: dict[str, Any] = {"noise": True, "max_episode_steps": 23}
MAZE: dict[str, Any] = {"noise": "state", "width": 40, "height": 36, "max_steps": 9, "threads": 1}
SMALL_BONUS: dict[str, dict[str, Any]] = {
    "lpm": {"dynamics_steps": 2, "error_steps": 2, "buffer_size": 256},
}


def config_of(algo: str = "ppo", bonus: str = "lpm", env: str = "car", cycles: int = 8, **more: Any) -> RunConfig:
    envs, steps = (3, 16) if env == "car" else (2, 8)
    shared: dict[str, Any] = {"network": NetworkConfig(features=16), "value_heads": 2, "episodic_bonus": False}
    agent: Any = (
        PPOConfig(num_envs=envs, rollout_steps=steps, epochs=2, minibatches=2, **shared)
        if algo == "ppo"
        else A2CConfig(num_envs=envs, rollout_steps=steps, **shared)
    )
    given: dict[str, Any] = {
        "env_id": "lpm/MountainCar-v0" if env == "car" else "lpm/NMaze-v0",
        "env": MOUNTAIN_CAR if env == "car" else MAZE,
        "algo": algo,
        "bonus": bonus,
        "agent": agent,
        "bonus_settings": configure(bonus, **SMALL_BONUS.get(bonus, {})),
        "steps": cycles * envs * steps,
        "device": "cpu",
        **more,
    }
    return RunConfig(**given)


def final_state(out: Path) -> dict[str, Any]:
    """The last checkpoint without its clocks."""
    loaded = load_checkpoint(out / "checkpoints")
    assert loaded is not None
    state = loaded.state
    del state["seconds"], state["agent"]["seconds"]
    return state


def assert_same(a: Any, b: Any, path: str = "state") -> None:
    assert type(a) is type(b), path
    if isinstance(a, dict):
        assert list(a) == list(b), path
        for key in a:
            assert_same(a[key], b[key], f"{path}.{key}")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), path
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{path}[{i}]")
    elif isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype, path
        assert torch.equal(a, b), path
    elif isinstance(a, np.ndarray):
        np.testing.assert_array_equal(a, b, err_msg=path)
    else:
        assert a == b, path


def assert_equal_runs(a: Path, b: Path) -> None:
    assert (a / "metrics.jsonl").read_bytes() == (b / "metrics.jsonl").read_bytes()
    assert_same(final_state(a), final_state(b))


def silent(line: str) -> None:
    """Say nothing."""
