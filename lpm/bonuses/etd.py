"""Episodic novelty through temporal distance (Jiang et al. 2025); the LPM paper calls it EDT.

A quasimetric d(x → y) is trained so that c(y) − d(x → y) tells the future states of x from other states. The reward is
the smallest distance from any state of the present episode to the new one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn

from lpm.bonuses._learner import FitConfig, Learner, MemoryBonus
from lpm.core.registry import register
from lpm.core.settings import Bound, Count, Fraction, NonNegative
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.experience import Experience, Prepared
from lpm.nn.inputs import in_chunks
from lpm.nn.memory import PAIRS_IN_CACHE, Columns, WindowMemory
from lpm.nn.networks import Encoder, mlp

TINY = torch.finfo(torch.float32).tiny


def mrn_distances(x: Tensor, y: Tensor, epsilon: float = 1e-8) -> Tensor:
    """d(x_i → y_j) of all pairs of rows (..., B, D) and (..., C, D), (..., B, C), with gradients to both.

    d(x → y) is the maximum of relu(x − y) over the first half of D, plus the Euclidean distance of the rest: not
    symmetric, with the triangle inequality. `epsilon` keeps the square root differentiable at 0, so that d(x → x) is
    √epsilon.

    >>> import torch
    >>> x, y = torch.tensor([[1.0, 0, 0, 0]]), torch.tensor([[0.0, 0, 3, 4]])
    >>> mrn_distances(x, y).item(), mrn_distances(y, x).item()
    (6.0, 5.0)
    """
    if x.ndim == 2:
        return mrn_distances(x.unsqueeze(0), y.unsqueeze(0), epsilon).squeeze(0)
    distances: Tensor = _AllPairs.apply(x, y, epsilon)  # type: ignore[no-untyped-call]
    return distances


class _AllPairs(torch.autograd.Function):
    """Dimension by dimension, without (B, C, D) tensors: what is passed over again and again stays in the cache."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, epsilon: float) -> Tensor:
        half = x.shape[2] // 2
        a, b = x[..., :half].mT.contiguous(), y[..., :half].mT.contiguous()
        largest = x.new_full((*x.shape[:2], y.shape[1]), -torch.inf)
        difference = torch.empty_like(largest)
        for d in range(half):
            torch.sub(a[:, d, :, None], b[:, d, None, :], out=difference)
            torch.maximum(largest, difference, out=largest)
        # a product in float64 keeps the digits of small distances
        p, q = x[..., half:].double(), y[..., half:].double()
        squares = p.square().sum(2).unsqueeze(2) + q.square().sum(2).unsqueeze(1)
        root = squares.baddbmm_(p, q.mT, alpha=-2).to(x.dtype).clamp_min_(0).add_(epsilon).sqrt_()
        ctx.save_for_backward(x, y, largest, root)
        return largest.clamp_min(0).add_(root)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        x, y, largest, root = ctx.saved_tensors
        gradient, half = gradients[0], x.shape[2] // 2
        for_x, for_y = torch.empty_like(x), torch.empty_like(y)
        a, b = x[..., :half].mT.contiguous(), y[..., :half].mT.contiguous()
        left = gradient * (largest >= 0)  # what no dimension has taken yet: the first that is largest takes it
        difference, taken = torch.empty_like(largest), torch.empty_like(largest)
        for d in range(half):
            torch.sub(a[:, d, :, None], b[:, d, None, :], out=difference)
            # 0 where the dimension is the largest, else below: faster than a comparison
            torch.ops.aten.threshold_backward.grad_input(left, difference.sub_(largest), -TINY, grad_input=taken)
            left.sub_(taken)
            for_x[..., d] = taken.sum(2)
            for_y[..., d] = taken.sum(1).neg_()
        # where states (nearly) coincide the terms are large and cancel
        share, p, q = (gradient / root).double(), x[..., half:].double(), y[..., half:].double()
        for_x[..., half:] = share.sum(2, keepdim=True) * p - share @ q
        for_y[..., half:] = share.sum(1).unsqueeze(2) * q - share.mT @ p
        return for_x, for_y, None


def contrastive_loss(energy: Tensor, logsumexp_weight: float = 0.0) -> Tensor:
    """Symmetric InfoNCE of energies (B, B) whose diagonal holds the true pairs; 0-d."""
    rows, columns = energy.logsumexp(1), energy.logsumexp(0)
    loss = ((rows + columns) / 2 - energy.diagonal()).mean()
    if logsumexp_weight:
        loss = loss + logsumexp_weight * rows.square().mean()
    return loss


def truncated_geometric(remaining: Tensor, discount: float, uniform: Tensor) -> Tensor:
    """Steps ahead j in 1..remaining with P(j) ∝ discount^j, by inversion of `uniform` numbers in [0, 1)."""
    log_discount = math.log(discount)
    mass = -torch.expm1(remaining.double() * log_discount)
    steps = torch.ceil(torch.log1p(-mass * uniform.double()) / log_discount).long()
    return steps.clamp_min(1).minimum(remaining)


def last_of_segment(ends: Tensor) -> Tensor:
    """For each row (B,), the index of the first row at or after it that ends its segment; the last row always does."""
    rows = torch.arange(len(ends), device=ends.device)
    own = torch.where(ends, rows, len(ends) - 1)
    return own.flip(0).cummin(0).values.flip(0)


class QuasimetricModel(nn.Module):
    """Encoder with two heads: the embedding that distances are taken of, and the potential c(y)."""

    def __init__(self, spaces: Spaces, config: ETDConfig) -> None:
        super().__init__()
        width, hidden = config.features, config.hidden
        self.encoder = nn.Sequential(Encoder(spaces.input_shape, width, hidden=hidden))
        if config.layer_norm:
            self.encoder.append(nn.LayerNorm(width))
        self.head = mlp(width, hidden, config.embedding)
        self.potential = mlp(width, hidden, 1)

    def embed(self, x: Tensor) -> Tensor:
        """Preprocessed observations (B, *input_shape) to embeddings (B, D)."""
        return self.head(self.encoder(x))  # type: ignore[no-any-return]

    def energies(self, x: Tensor, y: Tensor) -> Tensor:
        """e(x_i, y_j) = c(y_j) − d(x_i → y_j) of all pairs of a batch, (B, B)."""
        features = self.encoder(torch.cat([x, y]))
        start, end = self.head(features).chunk(2)
        return self.potential(features[len(x) :]).T - mrn_distances(start, end)  # type: ignore[no-any-return]


MEMORY_BYTES = 128 * 2**20
MEMORY_STEPS = 1024


@dataclass(frozen=True)
class ETDConfig(FitConfig):
    """Settings of ETD. "Code" is the authors' published code."""

    features: Count = 256
    """Width of the encoder's output (code: 64 for MiniGrid, 256 for pixels)."""
    embedding: Annotated[int, Bound("even and at least 2", lambda width: width >= 2 and width % 2 == 0)] = 64
    """Width of the embedding that distances are taken of; half of it for each part of the MRN (code: 64)."""
    hidden: tuple[int, ...] = (256,)
    """Hidden layers of the vector encoder, the embedding head and the potential (code: 256)."""
    layer_norm: bool = True
    """Normalise the encoder's output (code: class default no, scripts yes)."""
    normalise: Literal["auto", "none", "standard"] = "auto"
    """Standardise observations by running statistics, clipped at ±5. "auto": vectors yes, images no. Code: no."""
    discount: Fraction = 0.99
    """γ of the geometric law of the steps between a state and its positive (code: 0.99)."""
    logsumexp_weight: NonNegative = 0.0
    """Weight of the squared log-sum-exp of the energies in the loss (code: class default 0.1, scripts 0)."""
    lr: NonNegative = 3e-4
    """Adam learning rate (code: 3e-4 or 1e-4)."""
    batch_size: Count = 512
    """Pairs in a minibatch; the other members are the negatives (code: 512)."""
    epochs: Count = 4
    """Passes over the rollout per update (code: 4)."""
    memory: Literal["observations", "embeddings"] = "observations"
    """What the memory keeps between updates. Observations are embedded again after each update, which is exact;
    embeddings take less space and go stale. Code: features of the encoder, which go stale in part."""
    memory_size: Count | None = None
    """Steps of an episode that each environment remembers; the oldest are forgotten first. None: 1,024, or as many
    observations as 128 MiB hold (16 environments of 4×84×84 uint8: 297). Code: the whole episode."""


@register("etd")
class ETD(MemoryBonus, Learner):
    """Episodic temporal distance: how far the new state is from every state of the present episode."""

    label = "ETD"
    family = "episodic"
    use = "Novelty within an episode, by temporal distance."
    Config = ETDConfig
    config: ETDConfig
    reference = "Jiang et al. 2025, Episodic Novelty Through Temporal Distance"
    episodic = True

    def _build(self) -> None:
        spaces, config = self.spaces, self.config
        columns: Columns = {"env": ((), torch.int64), "done": ((), torch.bool)}
        self.experience = Experience(
            spaces, self.rollout, config.normalise, clip=5.0, frozen=False, next_only=True, columns=columns
        )
        self.model = QuasimetricModel(spaces, config)
        self.add_optimizer("model", self.model.parameters(), config.lr)
        step = self.num_envs * math.prod(spaces.obs_shape) * spaces.obs_dtype.itemsize
        size = config.memory_size or max(1, min(MEMORY_STEPS, MEMORY_BYTES // step))
        self.memory = WindowMemory(self.num_envs, size, (config.embedding,))
        self.kept: WindowMemory | None = None
        if config.memory == "observations":
            self.kept = WindowMemory(self.num_envs, size, spaces.obs_shape, spaces.obs_dtype)

    # ---- collection ---------------------------------------------------------------------------------------
    def _walk(self, batch: Transitions, keep: bool) -> Tensor:
        line = self.memory.timeline(batch, *self.memory.embedded(batch, self._embed))

        def nearest(query: Tensor, rows: Tensor, seen: Tensor, steps: slice) -> Tensor:
            distance = mrn_distances(rows, query).transpose(1, 2).masked_fill(~seen, torch.inf).amin(2)
            return distance.masked_fill(~seen.any(2), 0)

        reward = line.compare(line.rows, nearest, PAIRS_IN_CACHE)
        if not keep:
            return reward
        self.memory.keep(batch, line)
        if self.kept is not None:
            self.kept.keep(batch, self.kept.timeline(batch, batch.obs, batch.next_obs))
        env = torch.arange(self.num_envs, device=batch.device).expand(batch.shape)
        self.experience.observe(batch, env=env[batch.valid], done=batch.done[batch.valid])
        return reward

    def _embed(self, obs: Tensor) -> Tensor:
        return self.model.embed(self.experience.input(obs))

    # ---- learning -----------------------------------------------------------------------------------------
    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        c, hits = self.config, []
        slots, last = self._episodes()

        def loss(rows: Prepared) -> Tensor:
            uniform = torch.rand(len(rows.index), generator=generator, dtype=torch.float64).to(slots.device)
            ahead = truncated_geometric(last[rows.index] - rows.index + 1, c.discount, uniform)
            future = self.experience.buffer["next_obs"][slots[rows.index + ahead - 1]]
            energy = self.model.energies(rows.x, self.experience.input(future))
            own = torch.arange(len(energy), device=energy.device)
            hits.append((energy.detach().argmax(1) == own).float().mean())
            return contrastive_loss(energy, c.logsumexp_weight)

        batches = replace(self.experience.passes(c.batch_size, c.epochs, generator), slots=slots)
        value = self.experience.fit(loss, self.optimizer("model"), batches)
        if self.kept is not None and bool(self.kept.count.any()):  # the memory, as the updated model embeds it
            env, slot = self.kept.live.nonzero(as_tuple=True)
            observations = self.kept.rows
            with torch.no_grad():
                self.memory.rows[env, slot] = in_chunks(lambda e, s: self._embed(observations[e, s]), env, slot)
        return {"contrastive_loss": value, "contrastive_accuracy": torch.stack(hits).mean()}

    def _episodes(self) -> tuple[Tensor, Tensor]:
        """Slots of what came since the last update, by environment and then time, and each row's last row.

        The last row is that of the same episode, so that positives never come from the next one. Every row has a
        future: at least its own successor.
        """
        slots, buffer = self.experience.fresh, self.experience.buffer
        slots = slots[torch.argsort(buffer["env"][slots], stable=True)]
        env = buffer["env"][slots]
        ends = buffer["done"][slots].clone()
        ends[:-1] |= env[1:] != env[:-1]
        return slots, last_of_segment(ends)
