"""What PPO and A2C share: parts, the training cycle, the way from a block to advantages, and state."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from lpm.agents.cell_counts import CellCounts
from lpm.agents.collect import Block, Collector, Envs
from lpm.agents.config import AgentConfig, Schedule
from lpm.agents.policy import ActorCritic
from lpm.core.bonus import IntrinsicReward
from lpm.core.group import SINGLE_PROCESS, ProcessGroup
from lpm.core.mixer import Floats, Mask, Mixed, MixerConfig, RewardMixer
from lpm.core.monitor import BonusMonitor, NonFiniteError, finite
from lpm.core.registry import resolve_device
from lpm.core.spaces import Spaces
from lpm.nn.inputs import in_chunks
from lpm.storage.state_tree import check_generator, check_like, check_optimizer

PolicyKind = Literal["learnt", "uniform", "cell_counts"]
POLICIES = get_args(PolicyKind)
"""A policy that learns; and the two references for coverage: uniformly random actions that nothing learns from, and a
policy that learns from counts of the environment's own cells instead of a bonus."""


@dataclass(frozen=True)
class LearnBatch:
    """The valid transitions of a block as rows, ready to learn from."""

    obs: Tensor
    raw_action: Tensor
    policy: Tensor
    advantage: Tensor
    """(B,) summed over the heads."""
    returns: Tensor
    """(B, heads)."""
    values: Tensor
    """(B, heads), as they were when the block was collected."""


class Agent:
    """Collector, networks, bonus and mixer of a run; `cycle` tells the algorithm, a subclass how the policy learns."""

    name: ClassVar[str]
    Config: ClassVar[type[AgentConfig]]
    clips_parts: ClassVar[bool]
    """Whether the gradients of actor and critic are bounded each by itself."""
    config: AgentConfig

    def __init__(
        self,
        envs: Envs,
        bonus: IntrinsicReward | None = None,
        config: AgentConfig | None = None,
        mixer: MixerConfig | None = None,
        *,
        total_steps: int,
        seed: int = 0,
        device: str | torch.device = "cpu",
        policy: PolicyKind = "learnt",
        group: ProcessGroup = SINGLE_PROCESS,
    ) -> None:
        """In a `group` of several processes `envs` are this one's share; bonus and `config` are for all of them."""
        config = config or self.Config()
        if envs.num_envs * group.size != config.num_envs:
            expected = config.num_envs if group.is_single else f"{config.num_envs} / {group.size}"
            raise ValueError(f"envs: expected {expected} environments as in the config, got {envs.num_envs}")
        if total_steps < 1:
            raise ValueError(f"total_steps: expected at least 1, got {total_steps}")
        if policy not in POLICIES:
            raise ValueError(f"policy: expected {' or '.join(map(repr, POLICIES))}, got {policy!r}")
        self.config = config
        self.device = resolve_device(device)
        self.bonus = bonus
        self.group = group
        self.spaces = Spaces.of(envs)
        self.total_steps = total_steps
        self.uniform = policy == "uniform"
        agent_seed, env_seed = (int(s) for s in np.random.SeedSequence(seed).generate_state(2) // 2)
        self.generator = torch.Generator().manual_seed(agent_seed)
        self.policy = ActorCritic(self.spaces, config.network, config.value_heads, self.generator).to(self.device)
        on_cpu, images = self.device.type == "cpu", self.policy.encoder is not None
        self.channels_last = on_cpu and images and not self.spaces.channels_last
        if on_cpu and images:
            self.policy.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._parts = self.policy.parts() if self.clips_parts else [list(self.policy.parameters())]
        self._part_sizes = [sum(p.numel() for p in part) for part in self._parts]
        self.flat = self.policy.fuse() if on_cpu and self.fuses else None
        self.collector = Collector(
            envs, self.spaces, config.rollout_steps, seed=env_seed, device=self.device, group=group
        )
        self.cell_counts = CellCounts(config.num_envs, len(self.collector.visits)) if policy == "cell_counts" else None
        self.mixer = RewardMixer(mixer or MixerConfig(), config.num_envs)
        self.monitor = BonusMonitor()
        self.messages: list[str] = []
        """What the monitor has found since somebody last looked; whoever shows them clears the list."""
        self.seconds = {"bonus": 0.0, "learn": 0.0}
        self.optimizer = self.make_optimizer()

    def make_optimizer(self) -> torch.optim.Optimizer:
        """What moves `trained`."""
        raise NotImplementedError

    def cycle(self) -> dict[str, float]:
        """Collect a block, score it, mix the rewards, learn from them, let the bonus learn; what there is to log."""
        c, progress = self.config, self.progress
        block = self.collector.collect(self.policy, self.generator, uniform=self.uniform)
        with self.timed("bonus"):
            raw = self.raw_bonus(block)
        mixed = self.mixer.mix(block.reward, raw, block.valid)
        metrics = self.report(block, raw, mixed)
        if not self.uniform and block.valid.any():
            with self.timed("learn"):
                batch = self.batch(block, mixed)
                rate = scheduled(c.learning_rate_schedule, c.learning_rate, c.final_learning_rate, progress)
                for group in self.optimizer.param_groups:
                    group["lr"] = rate
                metrics |= self.learn(batch, scheduled(c.entropy_schedule, c.entropy, c.final_entropy, progress))
                metrics |= {"learn/learning_rate": rate, "learn/explained_variance": explained_variance(batch)}
                clipped = self.policy.input.clipped_share(batch.obs)
                if clipped is not None:
                    metrics["learn/clipped_observations"] = clipped
                if self.policy.input.moments is not None:  # for the next block
                    self.policy.input.observe(batch.obs)
                    self.policy.input.commit()
        with self.timed("bonus"):
            metrics |= self.learn_bonus()
        if self.bonus is not None and self.bonus.family != "floor":
            learnt = {name.removeprefix("bonus/"): value for name, value in metrics.items()}
            clipped = metrics.get("learn/clipped_observations")
            self.messages += self.monitor.observe(self.mixer, learnt, metrics.get("return"), clipped)
        return metrics

    def learn(self, batch: LearnBatch, entropy: float) -> dict[str, float]:
        """Move the policy; `entropy` is the weight of the entropy bonus now."""
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
    def fuses(self) -> bool:
        """Whether small networks on a CPU learn by the fused passes."""
        return True

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
        """(T, N): the bonus of the block before mixing, with its models as they were during collection."""
        if self.cell_counts is not None:
            return self.cell_counts.reward(block.cells, block.valid, block.terminated | block.truncated)
        if self.bonus is None:
            return np.zeros_like(block.reward)
        raw = self.bonus.step(block.transitions).cpu().numpy()
        return finite(raw, f"bonus {type(self.bonus).__name__}.step", self.steps)

    @torch.no_grad()
    def batch(self, block: Block, mixed: Mixed) -> LearnBatch:
        """Advantages and returns of every head, then the valid rows of everything."""
        values = self._values(block)
        last = self.policy.values(block.last_obs).cpu().numpy()
        final = np.zeros_like(values)
        if block.truncated.any():
            cut = torch.from_numpy(block.truncated).to(self.device)
            final[block.truncated] = self.policy.values(block.transitions.next_obs[cut]).cpu().numpy()
        # (rewards, discount, whether the end of an episode ends the return) of each value head
        c = self.config
        heads = [(mixed.total, c.gamma, c.episodic_bonus)]
        if c.value_heads == 2:
            heads = [(mixed.task, c.gamma, True), (mixed.bonus, self.mixer.config.gamma, c.episodic_bonus)]
        flags = block.terminated, block.truncated, block.valid
        advantages = []
        for head, (rewards, gamma, episodic) in enumerate(heads):
            known = values[..., head], final[..., head], last[:, head]
            advantages.append(gae(rewards, *known, *flags, gamma=gamma, lam=c.gae_lambda, episodic=episodic))
        stacked = np.stack(advantages, axis=-1)
        valid = slice(None) if block.valid.all() else torch.from_numpy(block.valid.ravel()).to(self.device)

        def rows(x: Tensor) -> Tensor:
            return x.flatten(0, 1).to(self.device)[valid]

        obs = rows(block.transitions.obs)
        if self.channels_last and obs.ndim == 4:
            # once here, as bytes, instead of in every convolution of every pass, as floats
            obs = obs.to(memory_format=torch.channels_last)
        return LearnBatch(
            obs=obs,
            raw_action=rows(block.raw_action),
            policy=rows(block.policy),
            advantage=rows(torch.from_numpy(stacked.sum(-1))),
            returns=rows(torch.from_numpy(stacked + values)),
            values=rows(torch.from_numpy(values)),
        )

    def _values(self, block: Block) -> Floats:
        values = block.values
        if values is None:
            flat = block.transitions.obs.flatten(0, 1)
            values = in_chunks(self.policy.values, flat, chunk=8192).view(*block.valid.shape, -1)
        return finite(values.cpu().numpy(), "policy (critic)", self.steps)

    # ---- learning -----------------------------------------------------------------------------------------
    def descend(self, parts: Sequence[Tensor], entropy: float, rows: float) -> Tensor:
        """One gradient step, refused before anything moves if a loss is not finite; `parts` and the gradient's norm.

        The first three `parts` are the policy's loss, the values' and the mean entropy, which counts `entropy`; others
        only describe the step. Where several processes train together, gradients and `parts` are averaged first, each
        process counting by its `rows`.
        """
        policy_loss, value_loss, mean_entropy = parts[:3]
        loss = policy_loss + self.config.value_coef * value_loss - entropy * mean_entropy
        numbers = torch.stack(list(parts)).detach()
        self.policy.backward(loss)
        loss = loss.detach()
        gradients = [parameter.grad for parameter in self.trained if parameter.grad is not None]
        self.group.average_([*gradients, numbers, loss], rows)
        if not math.isfinite(loss.item()):
            named = zip(("policy loss", "value loss", "entropy", "loss"), (*parts[:3], loss), strict=True)
            name, value = next((name, x.item()) for name, x in named if not math.isfinite(x.item()))
            raise NonFiniteError(f"policy ({name})", self.steps, value)
        bound, clip = self.config.max_grad_norm, torch.nn.utils.clip_grad_norm_
        if self.flat is not None:
            norm = self.flat.clip(bound, self._part_sizes)
        else:
            norm = torch.linalg.vector_norm(torch.stack([clip(part, bound, foreach=True) for part in self._parts]))
        if not math.isfinite(norm.item()):
            raise NonFiniteError("policy (gradient)", self.steps, norm.item())
        self.optimizer.step()
        return torch.cat([numbers, norm.view(1)])

    def learn_bonus(self) -> dict[str, float]:
        """The bonus learns from what it observed; its metrics, named after it."""
        if self.bonus is None:
            return {}
        metrics = {f"bonus/{name}": float(value) for name, value in self.bonus.update().items()}
        for name, value in metrics.items():
            if not math.isfinite(value):
                raise NonFiniteError(f"bonus {type(self.bonus).__name__}.update ({name})", self.steps, value)
        return metrics

    def report(self, block: Block, raw: Floats, mixed: Mixed) -> dict[str, float]:
        """What there is to log of a cycle about the environment and the bonus."""
        collector, valid = self.collector, block.valid if block.valid.any() else ~block.valid  # of filler alone: zeros
        metrics = {"episodes": float(collector.sums.ended), "reward/task": float(block.reward[valid].mean(dtype=float))}
        if collector.sums.recent:
            returns, lengths = zip(*collector.sums.recent, strict=True)
            metrics |= {"return": float(np.mean(returns)), "length": float(np.mean(lengths))}
            metrics["success"] = float(np.mean(np.asarray(returns) > 0))
        if len(collector.visits):
            visited = int(np.count_nonzero(collector.visits))
            metrics |= {"cells": float(visited), "coverage": visited / len(collector.visits)}
        if block.noise_share is not None:
            metrics["noise_share"] = block.noise_share
        if self.bonus is not None:
            scored, weighted = raw[valid], mixed.bonus[valid]
            metrics |= {
                "bonus/raw_mean": float(scored.mean()),
                "bonus/raw_std": float(scored.std()),
                "bonus/raw_min": float(scored.min()),
                "bonus/raw_max": float(scored.max()),
                "bonus/mixed_mean": float(weighted.mean()),
                "bonus/mixed_std": float(weighted.std()),
            }
            metrics |= {f"mixer/{name}": value for name, value in self.mixer.metrics().items()}
            first = block.first_visits
            if 0 < first.sum() < valid.sum():
                metrics["bonus/first_visits"] = rank_biserial(raw[first], raw[valid & ~first])
        return metrics

    # ---- state --------------------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """Everything: networks, optimiser, bonus, mixer, collector, environments, random numbers, clocks."""
        return {
            "algorithm": self.name,
            **{name: None if part is None else part.state_dict() for name, part in self._stateful.items()},
            "generator": self.generator.get_state(),
            "seconds": {**self.collector.seconds, **self.seconds},
        }

    @property
    def _stateful(self) -> dict[str, Any]:
        """What has a state of its own, None where this agent has none; the environments may refuse theirs: first."""
        parts = {"collector": self.collector, "policy": self.policy, "optimizer": self.optimizer}
        return {**parts, "bonus": self.bonus, "mixer": self.mixer, "cell_counts": self.cell_counts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` saved, in a group of any size; what does not fit is refused and changes nothing."""
        if state.get("algorithm") != self.name:
            raise ValueError(f"expected the state of {self.name}, got that of {state.get('algorithm')}")
        own = self.state_dict()
        collector = {**own["collector"], "recent": []}
        check_like({**own, "optimizer": {}, "bonus": own["bonus"] and {}, "collector": collector}, state, "agent")
        if self.bonus is not None:
            self.bonus.check_state(state["bonus"])
        check_optimizer(self.optimizer, state["optimizer"])
        check_generator(state["generator"])
        for name, part in self._stateful.items():
            if part is not None:
                part.load_state_dict(state[name])
        self.generator.set_state(state["generator"].cpu())
        for part, seconds in state["seconds"].items():
            (self.seconds if part in self.seconds else self.collector.seconds)[part] = seconds


def gae(
    rewards: Floats,
    values: Floats,
    final_values: Floats,
    last_values: Floats,
    terminated: Mask,
    truncated: Mask,
    valid: Mask,
    *,
    gamma: float,
    lam: float,
    episodic: bool = True,
) -> Floats:
    """Generalised advantage estimates (Schulman et al. 2016), (T, N); 0 where `valid` is False.

    `values` are those of the observations acted on; `final_values` those of the true successors, read only where an
    episode was truncated; `last_values` (N,) those of the observations that follow the block. An episodic stream is
    cut at the end of an episode: a terminal state is worth 0, a truncated one its value. A stream that is not
    episodic runs on into the next episode. Filler steps (`valid` False) are passed over.

    >>> one = np.ones((3, 1), dtype=np.float32)
    >>> no = np.zeros((3, 1), dtype=bool)
    >>> gae(one, 0 * one, 0 * one, 0 * one[0], no, no, ~no, gamma=0.5, lam=1.0).ravel().tolist()
    [1.75, 1.5, 1.0]
    """
    following: Any = np.empty_like(values)  # the value of the next observation acted on, skipping filler
    following[:-1], following[-1] = values[1:], last_values
    for t in np.flatnonzero(~valid.all(axis=1))[::-1]:
        if t > 0:
            following[t - 1] = np.where(valid[t], values[t], following[t])
    decay = np.full(rewards.shape, gamma * lam, dtype=np.float32)
    if episodic:
        following = np.where(truncated, final_values, following)
        following[terminated] = 0.0
        decay[terminated | truncated] = 0.0
    delta: Floats = rewards + np.float32(gamma) * following - values
    delta[~valid] = 0.0
    decay[~valid] = 1.0
    advantages = np.empty_like(delta)
    carry = np.zeros_like(last_values)
    for t in range(len(delta) - 1, -1, -1):
        np.multiply(carry, decay[t], out=carry)
        np.add(carry, delta[t], out=carry)
        advantages[t] = carry
    advantages[~valid] = 0.0
    return advantages


def rank_biserial(some: Floats, others: Floats) -> float:
    """How often one of `some` is above one of the others, less how often it is below: from -1 to 1.

    >>> rank_biserial(np.array([1.0, 2.0]), np.array([0.0, 1.0]))
    0.75
    """
    ordered = np.sort(others)
    below, up_to = (np.searchsorted(ordered, some, side).mean() / len(ordered) for side in ("left", "right"))
    return float(below - (1 - up_to))


def explained_variance(batch: LearnBatch) -> float:
    """How much of the returns' variance the values explained, averaged over heads; 0 if the returns are constant."""
    variance = batch.returns.var(0, correction=0)
    residual = (batch.returns - batch.values).var(0, correction=0)
    share = torch.where(variance > 1e-12, 1 - residual / variance.clamp_min(1e-12), torch.zeros_like(variance))
    return float(share.mean())


def scheduled(schedule: Schedule, start: float, end: float, progress: float) -> float:
    """A value on its way from `start` to `end`, at a `progress` between 0 and 1.

    >>> [scheduled("linear", 1.0, 0.0, p) for p in (0.0, 0.25, 1.0)]
    [1.0, 0.75, 0.0]
    """
    progress = min(max(progress, 0.0), 1.0)
    if schedule == "constant":
        return start
    if schedule == "exponential":
        return start * math.pow(end / start, progress)
    if schedule == "cosine":
        progress = 0.5 - 0.5 * math.cos(math.pi * progress)
    return start + (end - start) * progress
