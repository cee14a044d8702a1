"""The reward of Never Give Up (Badia et al. 2020): episodic novelty, scaled by lifelong novelty."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lpm.bonuses._learner import FitConfig, Learner, MemoryBonus
from lpm.core.registry import register
from lpm.core.settings import Count, Limit, NonNegative, Positive
from lpm.core.transitions import Transitions
from lpm.nn.dynamics import InverseFeatures
from lpm.nn.experience import Experience
from lpm.nn.frozen import RandomTargetModel
from lpm.nn.inputs import RunningMoments
from lpm.nn.memory import PAIRS_IN_CACHE, EpisodeTimeline, WindowMemory, nearest_squares


@dataclass(frozen=True)
class NGUConfig(FitConfig):
    """Settings of NGU's reward; values are the paper's unless said otherwise."""

    features: Count = 32
    """Width of the controllable state f (32)."""
    neighbours: Count = 10
    """k, nearest neighbours in the episode (10)."""
    kernel_epsilon: Positive = 1e-4
    """ε of the kernel (1e-4; Disco Maze 0.01)."""
    cluster_distance: NonNegative = 0.008
    """ξ, normalised distances up to this count as 0 (0.008)."""
    kernel_constant: Positive = 1e-3
    """c, added to the square root of the summed kernels (1e-3)."""
    max_similarity: Positive = 8.0
    """s_m, similarities above have reward 0 (8). With k = 10 it never binds: s is at most √10 + c."""
    max_lifelong: Limit = 5.0
    """L, upper bound of the lifelong factor (5). 1 switches the lifelong part off."""
    memory_size: Count = 5000
    """Steps of an episode that each environment remembers; the oldest are forgotten first (30,000; Disco Maze
    5,000)."""
    rnd_features: Count = 128
    """Width of the random features of the lifelong part (128)."""
    hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of f and of the random networks for vectors. Images have the convolutions of the other methods."""
    inverse_hidden: tuple[int, ...] = (128,)
    """Hidden layer of the inverse model (128)."""
    clip: Positive = 5.0
    """Observations are standardised by running statistics and clipped to ±clip (5, for the lifelong part)."""
    lr: NonNegative = 5e-4
    """Adam learning rate of f (5e-4)."""
    rnd_lr: NonNegative = 5e-4
    """Adam learning rate of the random-network predictor (5e-4)."""
    epochs: Count = 3
    """Passes over the transitions of a rollout per update. Paper: replayed sequences, their last five steps."""


def episodic_novelty(squares: Tensor, mean: Tensor, config: NGUConfig) -> Tensor:
    """r_ep (...) from squared distances to the nearest neighbours (..., k), infinite where there is none (Algorithm 1).

    `mean` is the running mean of such distances; while it is 0, everything was seen before.
    """
    scaled = torch.where(squares.isinf() | (mean <= 0), squares, squares / mean)
    kernel = config.kernel_epsilon / ((scaled - config.cluster_distance).clamp_min(0) + config.kernel_epsilon)
    similarity = kernel.sum(-1).sqrt() + config.kernel_constant
    return torch.where(similarity > config.max_similarity, 0.0, 1 / similarity)


def lifelong_factor(errors: Tensor, mean: Tensor, std: Tensor, limit: float) -> Tensor:
    """clip(1 + (error − mean)/std, 1, L)."""
    return (1 + (errors - mean) / std).clamp(1, limit)


@register("ngu")
class NGU(MemoryBonus, Learner):
    """Never Give Up: inverse similarity to the episode so far, times a clipped RND factor (the reward only)."""

    label = "NGU"
    family = "episodic"
    use = "Novelty within an episode times lifelong novelty."
    Config = NGUConfig
    config: NGUConfig
    reference = "Badia et al. 2020, Never Give Up: Learning Directed Exploration Strategies"
    episodic = True

    distances: Tensor  # sum and number of all nearest squared distances so far

    def _build(self) -> None:
        spaces, config = self.spaces, self.config
        self.experience = Experience(spaces, self.rollout, "standard", clip=config.clip, frozen=False, next_only=True)
        self.model = InverseFeatures(
            spaces, config.features, hidden=config.hidden, inverse_hidden=config.inverse_hidden
        )
        self.lifelong = RandomTargetModel(spaces, features=config.rnd_features, hidden=config.hidden)
        self.add_optimizer("model", self.model.parameters(), config.lr)
        self.add_optimizer("lifelong", self.lifelong.predictor.parameters(), config.rnd_lr)
        self.memory = WindowMemory(self.num_envs, config.memory_size, (config.features,))
        self.errors = RunningMoments((), min_std=1e-8)
        self.register_buffer("distances", torch.zeros(2, dtype=torch.float64))

    # ---- collection ---------------------------------------------------------------------------------------
    def _walk(self, batch: Transitions, keep: bool) -> Tensor:
        reward = torch.zeros(batch.shape, device=batch.device)
        if self.experience.ready:
            errors = self.experience.each(self.lifelong.distances, batch)
            line = self.memory.timeline(batch, *self.memory.embedded(batch, self.experience.seen_by(self.model)))
            episodic, distances = self._episodic(batch, line)
            reward = episodic
            if self.errors.ready:
                reward = episodic * lifelong_factor(errors, self.errors.mean, self.errors.std, self.config.max_lifelong)
            if keep:
                self.memory.keep(batch, line)
                self.distances.copy_(distances[-1])
                self.errors.observe(errors[batch.valid])
        if keep:
            self.experience.observe(batch)
        return reward

    def _episodic(self, batch: Transitions, line: EpisodeTimeline) -> tuple[Tensor, Tensor]:
        """r_ep of a block, (T, N), and what `distances` is after each step, (T, 2)."""

        def nearest(query: Tensor, rows: Tensor, seen: Tensor, steps: slice) -> Tensor:
            return nearest_squares(query, rows, seen, self.config.neighbours)

        squares = line.compare(line.rows, nearest, PAIRS_IN_CACHE)
        known = batch.valid.unsqueeze(2) & squares.isfinite()
        found = torch.stack([squares.double().masked_fill(~known, 0).sum((1, 2)), known.double().sum((1, 2))], 1)
        distances = self.distances + found.cumsum(0)
        mean = (distances[:, 0] / distances[:, 1].clamp_min(1)).to(squares.dtype)
        return episodic_novelty(squares, mean.view(-1, 1, 1), self.config), distances

    # ---- learning -----------------------------------------------------------------------------------------
    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        self.errors.commit()
        return {
            "inverse_loss": self.fit("model", self.model.loss, generator),
            "predictor_loss": self.fit("lifelong", self.lifelong.distillation(self.experience), generator),
        }
