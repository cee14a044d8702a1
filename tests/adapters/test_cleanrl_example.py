"""The CleanRL-style example: true successors, and the bonus counts exactly as the environment's own reward would."""

from __future__ import annotations

import copy
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from adapter_envs import LENGTHS, Paying, Tracing, assert_true_successors
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import lpm
from lpm.core.spaces import Spaces

PATH = Path(__file__).parents[2] / "examples" / "cleanrl_ppo.py"
SPACES = Spaces(Box(-1, 1e6, (3,), np.float32), Discrete(2))
ROWS = len(LENGTHS)


def _load() -> Any:
    spec = importlib.util.spec_from_file_location("example_cleanrl_ppo", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


example = _load()
ARGS = example.Args(steps=3 * 11 * ROWS, num_envs=ROWS, num_steps=11, weight=1.0)


class Cloning(Paying):
    """The example reuses its storage."""

    def _observe(self, batch: lpm.Transitions) -> None:
        self.seen.append(copy.deepcopy(batch))


def envs(mode: AutoresetMode = AutoresetMode.SAME_STEP, **settings: Any) -> Any:
    return SyncVectorEnv([lambda r=r: Tracing(r, **settings) for r in range(ROWS)], autoreset_mode=mode)


def parameters(args: Any, bonus: lpm.IntrinsicReward | None, mixer: Any = None, **settings: Any) -> torch.Tensor:
    made = envs(**settings)
    if bonus is not None:
        made = lpm.Intrinsic(made, bonus, None if mixer else args.weight, mixer=mixer)
    agent = example.train(args, made)
    return torch.cat([parameter.detach().flatten() for parameter in agent.parameters()])


def rnd() -> lpm.IntrinsicReward:
    return lpm.make("rnd", SPACES, num_envs=ROWS, rollout_steps=11)


def test_the_successor_at_an_end_is_the_terminal_observation() -> None:
    bonus = Cloning(SPACES, num_envs=ROWS)
    example.train(ARGS, lpm.Intrinsic(envs(), bonus))
    assert len(bonus.seen) == bonus.updates == 3
    assert all(bool(block.valid.all()) for block in bonus.seen)
    assert sum(assert_true_successors(block) for block in bonus.seen) == sum(33 // length for length in LENGTHS)


def test_weight_0_is_no_bonus_and_weight_1_is_not() -> None:
    bare = parameters(ARGS, None)
    assert torch.equal(bare, parameters(ARGS, None))
    assert torch.equal(bare, parameters(example.Args(**{**vars(ARGS), "weight": 0.0}), rnd()))
    assert not torch.equal(bare, parameters(ARGS, rnd()))


def test_a_known_bonus_is_an_environment_that_pays_it() -> None:
    plain = lpm.MixerConfig(weight=1.0, scale="none")
    by_env, by_us = parameters(ARGS, None, pays=True), parameters(ARGS, Paying(SPACES, num_envs=ROWS), plain)
    assert torch.equal(by_env, by_us)
    assert not torch.equal(by_env, parameters(ARGS, None))


def test_a_bonus_changes_at_most_five_lines() -> None:
    assert sum(line.rstrip().endswith("# lpm") for line in PATH.read_text().splitlines()) <= 5
    assert example.Args().weight is None


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
def test_another_autoreset_mode_is_refused(mode: AutoresetMode) -> None:
    with pytest.raises(ValueError, match=r"autoreset_mode=AutoresetMode\.SAME_STEP"):
        example.train(ARGS, envs(mode))


def test_continuous_actions_are_refused() -> None:
    with pytest.raises(ValueError, match="expected vector observations and discrete actions"):
        example.train(ARGS, envs(continuous=True))


def test_the_command_runs() -> None:
    flags = ["--env-id", "CartPole-v1", "--steps", "64", "--num-envs", "2", "--num-steps", "16"]
    done = subprocess.run(
        [sys.executable, "-W", "error", str(PATH), *flags], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "reached after 64 steps with bonus lgn: " in done.stdout
