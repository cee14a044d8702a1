"""From a config to environments, bonus and agent."""

import inspect
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from gymnasium.envs.registration import EnvSpec, load_env_creator

from lpm.agents import A2C, PPO, Agent, PPOConfig
from lpm.agents.collect import Envs
from lpm.core.group import SINGLE_PROCESS, ProcessGroup
from lpm.core.registry import make, resolve_device
from lpm.core.spaces import Spaces
from lpm.envs.third_party import find_spec, make_readable
from lpm.runs.config import RunConfig
from lpm.utils.suggest import suggest


def make_envs(config: RunConfig, num_envs: int | None = None, **more: Any) -> Envs:
    """The vector environment of a run; unknown names and arguments are answered with the nearest known ones."""
    spec = find_spec(config.env_id)
    count = config.learner.num_envs if num_envs is None else num_envs
    try:
        return make_readable(config.env_id, count, config.wrap, **config.env, **more)
    except TypeError as error:
        known = _arguments(spec)
        wrong = [name for name in config.env if known and name not in known]
        if not wrong:
            raise
        raise ValueError(f"{config.env_id} has no argument {wrong[0]!r}{suggest(wrong[0], known)}") from error


def build(config: RunConfig, group: ProcessGroup = SINGLE_PROCESS) -> Agent:
    """Environments, bonus and agent; of several processes each has its share of the environments."""
    learner = config.learner
    envs = make_envs(config, shard(learner.num_envs, group.size))
    device = str(resolve_device(config.device))
    if device == "cuda" and not group.is_single:
        device = f"cuda:{torch.cuda.current_device()}"
    bonus_seed = int(np.random.SeedSequence([config.seed, 1]).generate_state(1)[0])
    settings = config.bonus_settings
    given = {field.name: getattr(settings, field.name) for field in fields(settings)}
    sizes: dict[str, Any] = {"num_envs": learner.num_envs, "rollout_steps": learner.rollout_steps}
    bonus = make(config.bonus, Spaces.of(envs), **sizes, seed=bonus_seed, device=device, **given)
    algorithm: Any = PPO if isinstance(learner, PPOConfig) else A2C
    common = {"total_steps": config.steps, "seed": config.seed, "device": device, "policy": config.policy}
    agent: Agent = algorithm(envs, bonus, learner, config.mixer, **common, group=group)
    return agent


def shard(num_envs: int, processes: int) -> int:
    """How many of the environments each process has; what cannot be shared out evenly is refused."""
    if num_envs < processes or num_envs % processes:
        near = max(num_envs - num_envs % processes, processes)
        raise ValueError(
            f"num_envs: expected a multiple of the {processes} processes, which each have as many environments, got "
            f"{num_envs}; {near} or {near + processes} would do"
        )
    return num_envs // processes


def _arguments(spec: EnvSpec) -> list[str]:
    entry = spec.vector_entry_point or spec.entry_point
    creator = load_env_creator(entry) if isinstance(entry, str) else entry
    return [] if creator is None else [name for name in inspect.signature(creator).parameters if name != "num_envs"]
