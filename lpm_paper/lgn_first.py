"""The first form of LGN, with which the runs called `lgn-first` were made: for comparison, not a bonus to use.

φ are frozen features. f predicts φ(o') from (o, a) by ridge regression; g predicts, for each feature, the squared error
that f made *before* it learnt from a transition (LPM's timing). With V the variance of φ(o'), the predictable share of
feature d after (o, a) is w_d = 1 − g_d/V_d: 1 where f knows what comes, 0 where nothing can be known. The reward is

    gate(o, a) · √(novelty among the episode's states · novelty among the run's states)
    novelty = min over remembered s of √Σ_d w_d⁸ (φ_d(o') − φ_d(s))²,    gate = Σ_d w_d V_d / Σ_d V_d

so a TV (unpredictable as a whole) pays nothing, and noise that is always on in some features is not looked at. In
images noise is no single feature: there unpredictable directions of φ are shrunk instead, all w_d in the novelty are 1,
and gate = 1 − Σ_d g_d / Σ_d V_d. All of it is closed form: one pass of a random encoder and a small linear solve per
update, no gradient.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from lpm.bonuses._learner import MemoryBonus
from lpm.bonuses.lgn import RIDGE, UNIT_RIDGE, predictable_share
from lpm.core.settings import Count, Limit, Settings, Size
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.closed_form import FadingCovariance, RidgeByAction, inverse_root, typical_square
from lpm.nn.frozen import Design, FrozenFeatures, random_encoder
from lpm.nn.inputs import HashedSample, ObservationInput
from lpm.nn.memory import RingBuffer, WindowMemory, nearest_weighted
from lpm.nn.networks import SMALLEST_IMAGE

LEAST = 0.05  # what the least predictable direction still counts
SHARPNESS = 4  # power of a feature's share in distances: the nearest is so near that a tenth of a noise would drown it
WINDOW = 2048.0  # transitions after which a state has faded to 1/e in the variance V
LITTLE = 0.01  # share of unexplained variance at which a transition counts half in the size of a step


# ---- the formulas, as pure functions --------------------------------------------------------------------------
def bounded_influence(rows: Tensor) -> Tensor:
    """Weights (B,) with which no row adds much more to a sum of squares than a typical one: m / (m + size²).

    m is the median squared size of the rows that move at all: an agent that mostly stands still takes steps too. What
    follows a frame of a TV is a jump back, however well it was predicted.

    >>> bounded_influence(torch.tensor([[0.0], [0.0], [0.0], [1.0], [1.0], [10.0]])).tolist()
    [1.0, 1.0, 1.0, 0.5, 0.5, 0.009900989942252636]
    """
    middle = typical_square(rows)
    return middle / (middle + rows.square().sum(1))


def predictable_part(errors: Tensor, states: Tensor) -> Tensor:
    """I − E·V⁻¹ with its eigenvalues kept within [LEAST, 1]: from a state to the part of it that could be foreseen.

    `errors` and `states` are covariances (D, D) of f's errors and of what came. This is Wiener's filter: the best
    linear estimate of the predictable part, and the identity where f makes no error.
    """
    root = inverse_root(states, 1e-6)
    values, vectors = torch.linalg.eigh(root @ errors @ root)
    share = (1 - values).clamp(LEAST, 1)
    part: Tensor = torch.linalg.inv(root) @ (vectors * share) @ vectors.T @ root
    return part


@dataclass(frozen=True)
class LGNFirstConfig(Settings):
    """Settings of learnability-gated novelty: one default for vectors and images, with noise and without."""

    memory: Literal["episodic", "lifelong", "both"] = "both"
    """What a state is compared with: those of its episode, a sample of the whole run (for replay-based learners), or
    the geometric mean of the two distances."""
    memory_size: Count = 1024
    """States that are remembered: the latest of each environment's episode, or a sample of the run."""
    gate: bool = True
    """Whether novelty counts only as far as what comes after (o, a) can be predicted."""
    features: Count = 64
    """Width of φ: of the random encoder of images; wider vectors are projected to it."""
    fourier: Size = 256
    """Random Fourier features of a vector that f and g see besides it. Images: none, linear models do."""
    horizon: Limit = 10_000.0
    """Transitions after which an error has faded to 1/e in g and in the size of a step."""
    warmup: Count = 256
    """Transitions to observe before scales are fixed and anything is paid."""


class LGNFirst(MemoryBonus):
    """Learnability-gated novelty: distance to what was seen, as far as what comes next can be predicted at all."""

    label = "LGN, first form"
    Config = LGNFirstConfig
    config: LGNFirstConfig
    reference = "This project; novelty as in Jiang et al. 2025 (ETD), errors timed as in Hou, An & Du 2026 (LPM)"

    unit: Tensor  # (D, D) features to units of one step, in which errors and variances are compared
    measure: Tensor  # (D, D) features to what distances are measured in: those units, without what is only noise
    variance: Tensor  # (D,) V, in these units
    updates: Tensor  # so far
    learnt: Tensor  # rows of the buffer that have been learnt from

    def _build(self) -> None:
        spaces, config = self.spaces, self.config
        self.episodic = config.memory != "lifelong"
        self.by_feature = spaces.kind == "vector"
        self.state = FirstFeatures(spaces, config.features)
        self.design = Design(spaces, self.state.width, config.fourier if self.by_feature else 0)
        width = self.state.width
        sizes = (self.design.actions, self.design.columns, width)
        self.dynamics = RidgeByAction(*sizes, ridge=RIDGE, persistence=width, one=self.design.one)
        self.error_model = RidgeByAction(*sizes, ridge=RIDGE)
        self.steps = CountedCovariance(width, config.horizon)
        self.errors = CountedCovariance(width, config.horizon)
        self.places = CountedCovariance(width, config.horizon)
        self.states = CountedCovariance(width, WINDOW)
        self.register_buffer("unit", torch.eye(width))
        self.register_buffer("measure", torch.eye(width))
        self.register_buffer("variance", torch.ones(width))
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))
        self.register_buffer("learnt", torch.zeros((), dtype=torch.int64))
        row, action = ((self.state.raw_width,), torch.float32), (spaces.action_shape, spaces.action_dtype)
        columns = {"obs": row, "action": action, "next_obs": row}
        self.buffer = RingBuffer(max(self.rollout, config.warmup), columns)
        self.episode = WindowMemory(self.num_envs if self.episodic else 1, config.memory_size, (self.state.raw_width,))
        self.run = HashedSample(config.memory_size if config.memory != "episodic" else 1, (self.state.raw_width,))

    # ---- collection ---------------------------------------------------------------------------------------
    def _walk(self, batch: Transitions, keep: bool) -> Tensor:
        obs, next_obs = self.state.of_block(batch, scaled=False)
        line = self.episode.timeline(batch, obs, next_obs) if self.episodic else None
        reward = torch.zeros(batch.shape, device=batch.device)
        if self.updates > 0:
            gate, weight = self._gates(self.state.scaled(obs.flatten(0, 1)), batch.action.flatten(0, 1))
            weight = weight.view(*batch.shape, -1)
            parts = [] if line is None else [line.nearest(self._measured(line.rows), weight)]
            if self.config.memory != "episodic":
                parts.append(self._from_run(next_obs, weight))
            novelty = parts[0] if len(parts) == 1 else (parts[0] * parts[1]).sqrt()
            reward = gate.view(batch.shape) * novelty
        if keep:
            if line is not None:
                self.episode.keep(batch, line)
            rows = {"obs": obs[batch.valid], "next_obs": next_obs[batch.valid]}
            if self.updates == 0:
                self.state.observe(torch.stack([*rows.values()], 1).flatten(0, 1))
            self.buffer.push(**rows, action=batch.action[batch.valid].to(self.spaces.action_dtype))
        return reward

    def _gates(self, phi: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Gate of the whole (B,), and what each feature's squared difference counts (B, D)."""
        errors, total = self.error_model(*self.design(phi, action)), self.variance.sum()
        if self.by_feature:
            # each by itself: noise that is larger here than elsewhere closes its own feature, not the place
            share = predictable_share(errors, self.variance)
            whole, weight = share @ self.variance / total, share.pow(2 * SHARPNESS)
        else:
            whole, weight = predictable_share(errors.sum(1), total), torch.ones_like(phi)
        return whole if self.config.gate else phi.new_ones(len(phi)), weight

    def _measured(self, rows: Tensor) -> Tensor:
        """Encoded rows in the units of distances."""
        return self.state.scaled(rows) @ self.measure.T

    def _from_run(self, next_obs: Tensor, weight: Tensor) -> Tensor:
        """Distance of each successor (T, N) to the nearest of the run's sample."""
        query = self._measured(next_obs).flatten(0, 1).unsqueeze(0)
        rows = self._measured(self.run.rows).unsqueeze(0)
        return nearest_weighted(query, rows, weight.flatten(0, 1).unsqueeze(0), None).view(next_obs.shape[:2])

    # ---- learning -----------------------------------------------------------------------------------------
    @torch.no_grad()
    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        fresh = self.buffer.total - int(self.learnt)
        if fresh == 0 or (self.updates == 0 and self.buffer.total < self.config.warmup):
            return {}
        slots = self.buffer.last(fresh)
        raw, action, raw_next = (self.buffer[name][slots] for name in ("obs", "action", "next_obs"))
        if self.updates == 0:
            self.state.fix()
            self.design.fix(self.state.scaled(raw_next))
        phi, target = self.state.scaled(raw), self.state.scaled(raw_next)
        x, number = self.design(phi, action)
        error = target - self.dynamics(x, number)  # of f as it was when the transitions were collected
        ordinary, ones = self._ordinary(x, number), x.new_ones(len(x))
        influence = bounded_influence((target - phi) @ self.unit.T)
        self.steps.add(target - phi, ordinary * influence, centred=False)
        self.errors.add(error, ordinary, centred=False)
        self.places.add(target, ordinary)
        self.states.add(target, ones)
        unit, measure = self._units()
        self.unit.copy_(unit)
        self.measure.copy_(measure)
        self.variance.copy_((unit @ self.states.matrix() @ unit.T).diagonal().clamp_min(1e-12))
        squares = (error @ self.unit.T).square()
        self.error_model.add(x, number, squares, math.exp(-fresh / self.config.horizon))
        self.dynamics.add(x, number, target)
        self.error_model.solve()
        self.dynamics.solve()
        self.run.observe(raw_next)
        self.learnt.fill_(self.buffer.total)
        self.updates += 1
        gate, _ = self._gates(phi, action)
        return {
            "gate_mean": gate.mean(),
            "gate_std": gate.std(correction=0),
            "unexplained": squares.sum(1).mean() / self.variance.sum(),
        }

    def _units(self) -> tuple[Tensor, Tensor]:
        """What `unit` and `measure` are now, in float64."""
        steps, errors, places = self.steps.matrix(), self.errors.matrix(), self.places.matrix()
        unit = inverse_root(steps, UNIT_RIDGE)
        if self.by_feature:
            return unit, unit
        # the gate must see what this leaves out: a TV is all of it
        return unit, predictable_part(unit @ errors @ unit.T, unit @ places @ unit.T) @ unit

    def _ordinary(self, x: Tensor, number: Tensor) -> Tensor:
        """How much each transition says about the size of a step, (B,): next to nothing if it cannot be predicted."""
        if self.updates == 0:
            return x.new_ones(len(x))
        unexplained = self.error_model(x, number).sum(1).clamp_min(0) / self.variance.sum()
        weight: Tensor = (1 - unexplained).clamp_min(0) * LITTLE / (unexplained + LITTLE)
        return weight


# ---- what f and g see -----------------------------------------------------------------------------------------
class FirstFeatures(FrozenFeatures):
    """As in the second form, but of images and grids a random convolutional encoder, layer-normed; large ones halved.

    `scaled` projects wide vectors too.
    """

    def __init__(self, spaces: Spaces, features: int) -> None:
        vector = spaces.kind == "vector"
        nn.Module.__init__(self)
        self.input = ObservationInput(spaces, "robust" if vector else "none")
        shape = spaces.input_shape
        self.halved = not vector and min(shape[1:]) >= 2 * SMALLEST_IMAGE
        if self.halved:
            shape = (shape[0], shape[1] // 2, shape[2] // 2)
        self.encoder: nn.Module | None = None if vector else random_encoder(shape, features)
        self.numbers = math.prod(spaces.input_shape)
        self._sized(self.numbers if vector else features, features, vector)

    def encoded(self, obs: Tensor) -> Tensor:
        """Raw observations (B, ...) to (B, W)."""
        x = halved(self.input, obs) if self.halved else self.input.raw(obs)
        if self.encoder is None:
            return x.flatten(1)
        features = self.encoder(x)
        return nn.functional.layer_norm(features, features.shape[1:])

    def scaled(self, rows: Tensor) -> Tensor:
        """Encoded rows (..., W) to φ (..., D)."""
        return self.projected(super().scaled(rows))


def halved(layout: ObservationInput, obs: Tensor) -> Tensor:
    """`raw` images at half the size, each pixel the mean of four: bytes are added up before they are floats."""
    image = layout.laid_out(obs)
    image = image.short() if image.dtype == torch.uint8 else image.float()
    height, width = (size // 2 * 2 for size in image.shape[-2:])
    rows = image[..., :height:2, :width] + image[..., 1:height:2, :width]
    sums = (rows[..., ::2] + rows[..., 1::2]).float()
    return sums.sub_(4 * layout.low).div_(4 * layout.span)


class CountedCovariance(FadingCovariance):
    """Age is counted in rows, whatever their weight."""

    def age(self, weight: Tensor) -> float:
        """Of the rows (B,)."""
        return len(weight)
