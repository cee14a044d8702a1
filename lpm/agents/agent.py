"""What PPO and A2C share: their parts, the way from a block to advantages, and their state."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from lpm.agents.collect import Block, Collector, Envs
from lpm.agents.errors import NonFiniteError
from lpm.agents.gae import Floats, gae
from lpm.agents.mixer import MixerConfig, RewardMixer, Streams
from lpm.agents.policy import ActorCritic, NetworkConfig
from lpm.core.bonus import IntrinsicReward
from lpm.core.registry import resolve_device
from lpm.core.spaces import Spaces
from lpm.nn.inputs import in_chunks


class AgentConfig(Protocol):
    """What every agent's config has."""

    @property
    def num_envs(self) -> int:
        """Parallel environments."""

    @property
    def rollout_steps(self) -> int:
        """Steps per environment between two updates."""

    @property
    def gamma(self) -> float:
        """Discount of the task's reward."""

    @property
    def gae_lambda(self) -> float:
        """λ of generalised advantage estimation."""

    @property
    def network(self) -> NetworkConfig:
        """The networks."""


@dataclass(frozen=True)
class Batch:
    """The valid transitions of a block as rows, ready to learn from."""

    obs: Tensor
    choice: Tensor
    policy: Tensor
    advantage: Tensor
    """(B,) summed over the streams."""
    returns: Tensor
    """(B, heads)."""
    values: Tensor
    """(B, heads), as they were when the block was collected."""


class Agent:
    """Collector, networks, bonus and mixer of one run. A subclass writes `cycle`, which tells the algorithm."""

    name: ClassVar[str]
    clips_parts: ClassVar[bool]
    """Whether the gradients of actor and critic are bounded each by itself."""
    optimizer: torch.optim.Optimizer

    def __init__(
        self,
        envs: Envs,
        bonus: IntrinsicReward | None,
        config: AgentConfig,
        mixer: MixerConfig,
        *,
        total_steps: int,
        seed: int,
        device: str | torch.device,
        fuse: bool = True,
    ) -> None:
        if envs.num_envs != config.num_envs:
            raise ValueError(f"envs: expected {config.num_envs} environments as in the config, got {envs.num_envs}")
        if total_steps < 1:
            raise ValueError(f"total_steps: expected at least 1, got {total_steps}")
        self.device = resolve_device(device)
        self.bonus = bonus
        self.spaces = Spaces.of(envs)
        self.total_steps = total_steps
        agent_seed, env_seed = (int(s) for s in np.random.SeedSequence(seed).generate_state(2) // 2)
        self.generator = torch.Generator().manual_seed(agent_seed)
        self.policy = ActorCritic(self.spaces, config.network, mixer.heads, self.generator).to(self.device)
        self.channels_last = self.device.type == "cpu" and self.policy.shares_trunk and not self.spaces.channels_last
        if self.device.type == "cpu" and self.policy.shares_trunk:
            self.policy.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._parts = self.policy.parts() if self.clips_parts else [list(self.policy.parameters())]
        self._part_sizes = [sum(p.numel() for p in part) for part in self._parts]
        self.flat = self.policy.fuse() if self.device.type == "cpu" and fuse else None
        self.collector = Collector(envs, self.spaces, config.rollout_steps, seed=env_seed, device=self.device)
        self.mixer = RewardMixer(mixer, envs.num_envs)
        self.uniform = bool(getattr(bonus, "uniform_policy", False))
        self.seconds = {"bonus": 0.0, "learn": 0.0}
        self._discounts = (config.gamma, mixer.gamma)
        self._lambda = config.gae_lambda

    def cycle(self) -> dict[str, float]:
        """Collect one block and learn from it; the metrics of this cycle."""
        raise NotImplementedError

    @property
    def steps(self) -> int:
        """Environment steps so far, autoreset filler included."""
        return self.collector.total_steps

    @property
    def progress(self) -> float:
        """Share of the run that is done."""
        return min(self.steps / self.total_steps, 1.0)

    @property
    def trained(self) -> list[torch.nn.Parameter]:
        """What the optimiser moves."""
        return list(self.policy.parameters()) if self.flat is None else [self.flat.vector]

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Count the time spent inside."""
        start = perf_counter()
        yield
        self.seconds[part] += perf_counter() - start

    # ---- from a block to a batch --------------------------------------------------------------------------
    def raw_bonus(self, block: Block) -> Floats:
        """(T, N): what the bonus says of the block, with its models as they were during collection."""
        if self.bonus is None:
            return np.zeros_like(block.reward)
        raw = self.bonus.step(block.transitions).cpu().numpy()
        if not np.isfinite(raw).all():
            value = float(raw[~np.isfinite(raw)][0])
            raise NonFiniteError(f"bonus {type(self.bonus).__name__}.step", self.steps, value)
        return raw

    @torch.no_grad()
    def batch(self, block: Block, streams: Streams) -> Batch:
        """Advantages and returns of every stream, then the valid rows of everything."""
        values = self._values(block)
        last = self.policy.values(block.last_obs).cpu().numpy()
        final = np.zeros_like(values)
        if block.truncated.any():
            cut = torch.from_numpy(block.truncated).to(self.device)
            final[block.truncated] = self.policy.values(block.transitions.next_obs[cut]).cpu().numpy()
        config, advantages = self.mixer.config, []
        for head, rewards in enumerate(streams.rewards):
            advantages.append(
                gae(
                    rewards,
                    values[..., head],
                    final[..., head],
                    last[:, head],
                    block.terminated,
                    block.truncated,
                    block.valid,
                    gamma=self._discounts[head],
                    lam=self._lambda,
                    episodic=config.episodic or (config.heads == 2 and head == 0),
                )
            )
        stacked = np.stack(advantages, axis=-1)
        keep = None if block.valid.all() else torch.from_numpy(block.valid.ravel())

        def rows(x: Tensor) -> Tensor:
            flat = x.flatten(0, 1)
            return flat if keep is None else flat[keep.to(flat.device)]

        obs = rows(block.transitions.obs)
        if self.channels_last and obs.ndim == 4:
            # once here, as bytes, instead of in every convolution of every pass, as floats
            obs = obs.to(memory_format=torch.channels_last)
        return Batch(
            obs=obs,
            choice=rows(block.choice),
            policy=rows(block.policy),
            advantage=rows(torch.from_numpy(stacked.sum(-1)).to(self.device)),
            returns=rows(torch.from_numpy(stacked + values).to(self.device)),
            values=rows(torch.from_numpy(values).to(self.device)),
        )

    def _values(self, block: Block) -> Floats:
        values = block.values
        if values is None:
            flat = block.transitions.obs.flatten(0, 1)
            values = in_chunks(self.policy.values, flat, chunk=8192).view(*block.valid.shape, -1)
        array: Floats = values.cpu().numpy()
        if not np.isfinite(array).all():
            raise NonFiniteError("policy (critic)", self.steps, float(array[~np.isfinite(array)][0]))
        return array

    def renew_statistics(self, obs: Tensor) -> None:
        """Take the observations of a block into the policy's statistics, for the next block."""
        if self.policy.input.moments is not None:
            self.policy.input.observe(obs)
            self.policy.input.commit()

    # ---- learning -----------------------------------------------------------------------------------------
    def descend(self, loss: Tensor, parts: Mapping[str, Tensor], max_grad_norm: float) -> Tensor:
        """One gradient step, refused before anything changes if a part of the loss is not finite."""
        if not math.isfinite(loss.item()):
            for name, part in parts.items():
                if not bool(torch.isfinite(part)):
                    raise NonFiniteError(f"policy ({name})", self.steps, part.item())
            raise NonFiniteError("policy (loss)", self.steps, loss.item())
        self.policy.backward(loss)
        if self.flat is not None:
            norm = self.flat.clip(max_grad_norm, self._part_sizes)
        else:
            clip = torch.nn.utils.clip_grad_norm_
            norm = torch.linalg.vector_norm(
                torch.stack([clip(part, max_grad_norm, foreach=True) for part in self._parts])
            )
        if not math.isfinite(norm.item()):
            raise NonFiniteError("policy (gradient)", self.steps, norm.item())
        self.optimizer.step()
        return norm

    def learn_bonus(self) -> dict[str, float]:
        """The bonus learns from what it observed; its metrics, named after it."""
        if self.bonus is None:
            return {}
        metrics = {f"bonus/{name}": float(value) for name, value in self.bonus.update().items()}
        for name, value in metrics.items():
            if not math.isfinite(value):
                raise NonFiniteError(f"bonus {type(self.bonus).__name__}.update ({name})", self.steps, value)
        return metrics

    def report(self, block: Block, raw: Floats, streams: Streams) -> dict[str, float]:
        """What a cycle says about the environment and the bonus."""
        collector, valid = self.collector, block.valid
        metrics = {"episodes": float(collector.episodes), "reward/task": float(block.reward[valid].mean())}
        if collector.recent:
            returns, lengths = zip(*collector.recent, strict=True)
            metrics |= {"return": float(np.mean(returns)), "length": float(np.mean(lengths))}
            metrics["success"] = float(np.mean(np.asarray(returns) > 0))
        if len(collector.visits):
            visited = int(np.count_nonzero(collector.visits))
            metrics |= {"cells": float(visited), "coverage": visited / len(collector.visits)}
        if block.noise_share is not None:
            metrics["noise_share"] = block.noise_share
        if self.bonus is not None:
            scored, mixed = raw[valid], streams.bonus[valid]
            metrics |= {
                "bonus/raw_mean": float(scored.mean()),
                "bonus/raw_std": float(scored.std()),
                "bonus/raw_min": float(scored.min()),
                "bonus/raw_max": float(scored.max()),
                "bonus/mixed_mean": float(mixed.mean()),
                "bonus/mixed_std": float(mixed.std()),
                "bonus/weight": streams.weight,
            }
        return metrics

    # ---- state --------------------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """Everything: networks, optimiser, bonus, mixer, collector, environments, random numbers, clocks."""
        return {
            "algorithm": self.name,
            "policy": self.policy.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "bonus": None if self.bonus is None else self.bonus.state_dict(),
            "mixer": self.mixer.state_dict(),
            "collector": self.collector.state_dict(),
            "generator": self.generator.get_state(),
            "seconds": {**self.collector.seconds, **self.seconds},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what `state_dict` gave."""
        if state["algorithm"] != self.name:
            raise ValueError(f"expected the state of {self.name}, got that of {state['algorithm']}")
        if (state["bonus"] is None) != (self.bonus is None):
            raise ValueError("expected a state with the bonus of this agent, got one that does not match")
        self.policy.load_state_dict(state["policy"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.bonus is not None:
            self.bonus.load_state_dict(state["bonus"])
        self.mixer.load_state_dict(state["mixer"])
        self.collector.load_state_dict(state["collector"])
        self.generator.set_state(state["generator"].cpu())
        for part, seconds in state["seconds"].items():
            (self.seconds if part in self.seconds else self.collector.seconds)[part] = seconds


def explained_variance(batch: Batch) -> float:
    """How much of the returns' variance the values explained, averaged over heads; 0 if the returns are constant."""
    variance = batch.returns.var(0, correction=0)
    residual = (batch.returns - batch.values).var(0, correction=0)
    share = torch.where(variance > 1e-12, 1 - residual / variance.clamp_min(1e-12), torch.zeros_like(variance))
    return float(share.mean())
