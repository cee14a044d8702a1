"""The first form of LGN, with which the stored ablations were made: for comparison, not a bonus to use.

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

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from lpm.core.bonus import IntrinsicReward
from lpm.core.group import SINGLE_PROCESS, ProcessGroup, RowIndex
from lpm.core.settings import expect, expect_at_least, expect_choice, reject_unused
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.bayes import median_distance
from lpm.nn.buffers import RingBuffer
from lpm.nn.inputs import ObservationInput, in_chunks, same_rows
from lpm.nn.memory import WindowMemory, nearest_weighted
from lpm.nn.networks import SMALLEST_IMAGE
from lpm.nn.random_target import random_encoder
from lpm.nn.ridge import RidgeByAction
from lpm.nn.seeding import seeded
from lpm.nn.statistics import HashedSample

KNEE = 10.0  # vectors: robust units up to which the scale is as good as linear; logarithmic beyond
MOST_ACTIONS = 32  # with a regression of their own; more share one
LEAST = 0.05  # what the least predictable direction still counts
SHARPNESS = 4  # power of a feature's share in distances: the nearest is so near that a tenth of a noise would drown it
CHUNK = 1 << 21  # numbers that are encoded at a time: what a cache holds
STILL = 1e-6  # of the mean squared step: less than this is standing still
LITTLE = 0.01  # share of unexplained variance at which a transition counts half in the size of a step


# ---- the formulas, as pure functions --------------------------------------------------------------------------
def predictable_share(error: Tensor, variance: Tensor) -> Tensor:
    """1 − error/variance, within [0, 1]: the share of the variance of what comes that (o, a) predicts.

    >>> predictable_share(torch.tensor([-0.1, 0.5, 3.0]), torch.tensor(2.0)).tolist()
    [1.0, 0.75, 0.0]
    """
    return (1 - error / variance).clamp(0, 1)


def saturated(distance: Tensor, reach: Tensor) -> Tensor:
    """1 − exp(−½ (distance/reach)²): quadratic when near, 1 when far; 0 where nothing is in reach.

    >>> saturated(torch.tensor([0.0, 1.0, 100.0]), torch.tensor(1.0)).tolist()
    [0.0, 0.39346933364868164, 1.0]
    """
    return -torch.expm1(-0.5 * (distance / reach.clamp_min(1e-12)).square())


def bounded_influence(rows: Tensor, group: ProcessGroup = SINGLE_PROCESS) -> Tensor:
    """Weights (B,) with which no row adds much more to a sum of squares than a typical one: m / (m + size²).

    m is the median squared size of the rows that move at all: an agent that mostly stands still takes steps too. What
    follows a frame of a TV is a jump back, however well it was predicted.

    >>> bounded_influence(torch.tensor([[0.0], [0.0], [0.0], [1.0], [1.0], [10.0]])).tolist()
    [1.0, 1.0, 1.0, 0.5, 0.5, 0.009900989942252636]
    """
    squares = rows.square().sum(1)
    everywhere = group.all_gather_rows(squares)
    moving = everywhere[everywhere > STILL * everywhere.mean()]
    middle = moving.median().clamp_min(1e-12) if len(moving) else squares.new_ones(())
    return middle / (middle + squares)


def inverse_root(matrix: Tensor, ridge: float) -> Tensor:
    """(M + ridge · mean diagonal)^(−½), symmetric: features in units of `matrix`, mixed as little as possible."""
    size = ridge * matrix.diagonal().mean().clamp_min(1e-12)
    values, vectors = torch.linalg.eigh(
        matrix + size * torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    )
    root: Tensor = (vectors * values.clamp_min(size).rsqrt()) @ vectors.T
    return root


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
class LGNFirstConfig:
    """Settings of learnability-gated novelty: one default for vectors and images, with noise and without."""

    memory: Literal["episodic", "lifelong", "both"] = "both"
    """What a state is compared with: those of its episode, a sample of the whole run (for replay-based learners), or
    the geometric mean of the two distances."""
    memory_size: int = 1024
    """States that are remembered: the latest of each environment's episode, or a sample of the run."""
    gate: bool = True
    """Whether novelty counts only as far as what comes after (o, a) can be predicted."""
    power: float = 1.0
    """Exponent of the gate."""
    units: Literal["step", "variance", "none"] = "step"
    """What distances are measured in: the covariance of one step's change (so that slow features count more than
    fast ones), that of the features, or the features as they are."""
    unit_ridge: float = 0.1
    """Added to that covariance, as a share of its mean variance."""
    denoise: Literal["auto", "feature", "direction", "none"] = "auto"
    """What distances leave out besides: each feature by its own predictable share after (o, a), which suits numbers
    that mean something each; or directions of feature space in which f errs as much as they vary, which suits random
    features, all of which see a little of every pixel. "auto": "feature" for vectors, "direction" for images."""
    reach: float | None = None
    """None: novelty is the distance. Otherwise it is 1 − exp(−½ (distance/reach)²), reach in typical steps: bounded,
    but it fades where the steps of a TV set the unit."""
    features: int = 64
    """Width of φ: of the random encoder of images; wider vectors are projected to it."""
    fourier: int = 256
    """Random Fourier features of a vector that f and g see besides it. Images: none, linear models do."""
    length_scale: float = 1.0
    """Of the Fourier features, in median distances between the first states."""
    regression: Literal["action", "joint"] = "action"
    """A regression for each discrete action (up to 32), or one that sees the action's code."""
    prior: Literal["persistence", "zero"] = "persistence"
    """What f expects without data: that each feature stays or returns to its mean as it has so far, or 0."""
    ridge: float = 5.0
    """Weight of that expectation, in transitions."""
    horizon: float = 10_000.0
    """Transitions after which an error has faded to 1/e in g and in the size of a step."""
    window: float = 2048.0
    """Transitions after which a state has faded to 1/e in the variance V."""
    warmup: int = 256
    """Transitions to observe before scales are fixed and anything is paid."""

    def __post_init__(self) -> None:
        expect_choice(self, "memory", "episodic", "lifelong", "both")
        expect_choice(self, "denoise", "auto", "feature", "direction", "none")
        expect_choice(self, "units", "step", "variance", "none")
        expect_choice(self, "regression", "action", "joint")
        expect_choice(self, "prior", "persistence", "zero")
        expect_at_least(self, 1, "memory_size", "features", "warmup", "horizon", "window")
        expect_at_least(self, 0, "fourier", "unit_ridge")
        expect(self, "reach", self.reach is None or 0 < self.reach < math.inf, "more than 0 and finite, or None")
        expect(self, "power", 0 < self.power < math.inf, "more than 0 and finite")
        if not self.gate:
            reject_unused(self, "with gate=False", "power")
        if self.units == "none":
            reject_unused(self, "with units='none'", "unit_ridge")
        if self.fourier == 0:
            reject_unused(self, "with fourier=0", "length_scale")
        for name in ("ridge", "length_scale"):
            expect(self, name, 0 < getattr(self, name) < math.inf, "more than 0 and finite")


class LGNFirst(IntrinsicReward):
    """Learnability-gated novelty: distance to what was seen, as far as what comes next can be predicted at all."""

    label = "LGN, first form"
    Config = LGNFirstConfig
    config: LGNFirstConfig
    distributed = True
    reference = "This project; novelty as in Jiang et al. 2025 (ETD), errors timed as in Hou, An & Du 2026 (LPM)"

    unit: Tensor  # (D, D) features to units of one step, in which errors and variances are compared
    measure: Tensor  # (D, D) features to what distances are measured in: those units, without what is only noise
    variance: Tensor  # (D,) V, in these units
    step_squares: Tensor  # (D,) mean squared change of a step, as distances are measured
    updates: Tensor  # so far
    learnt: Tensor  # rows of the buffer that have been learnt from

    def _build(self) -> None:
        spaces, config = self.spaces, self.config
        self.episodic = config.memory != "lifelong"
        vector = spaces.kind == "vector"
        self.by_feature = config.denoise == "feature" or (config.denoise == "auto" and vector)
        self.by_direction = config.denoise == "direction" or (config.denoise == "auto" and not vector)
        with seeded(self.generator):
            self.state = FrozenFeatures(spaces, config.features)
            self.design = Design(spaces, config, self.state.width)
        width = self.state.width
        sizes = (self.design.actions, self.design.columns, width)
        lasting = width if config.prior == "persistence" else 0
        self.dynamics = RidgeByAction(*sizes, ridge=config.ridge, persistence=lasting, one=self.design.one)
        self.error_model = RidgeByAction(*sizes, ridge=config.ridge)
        self.steps = FadingCovariance(width, config.horizon)
        self.errors = FadingCovariance(width, config.horizon)
        self.places = FadingCovariance(width, config.horizon)
        self.states = FadingCovariance(width, config.window)
        self.register_buffer("unit", torch.eye(width))
        self.register_buffer("measure", torch.eye(width))
        self.register_buffer("variance", torch.ones(width))
        self.register_buffer("step_squares", torch.ones(width))
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))
        self.register_buffer("learnt", torch.zeros((), dtype=torch.int64))
        row, action = ((self.state.raw_width,), torch.float32), (spaces.action_shape, spaces.action_dtype)
        columns = {"obs": row, "action": action, "next_obs": row}
        self.buffer = RingBuffer(max(self.rollout, config.warmup), columns)
        self.episode = WindowMemory(self.num_envs if self.episodic else 1, config.memory_size, self.state.raw_width)
        self.run = HashedSample(config.memory_size if config.memory != "episodic" else 1, (self.state.raw_width,))

    # ---- collection ---------------------------------------------------------------------------------------
    def _score(self, batch: Transitions) -> Tensor:
        return self._run(batch, keep=False)

    def _observe(self, batch: Transitions) -> None:
        self._run(batch, keep=True, score=False)

    def _step(self, batch: Transitions) -> Tensor:
        return self._run(batch, keep=True)

    def _run(self, batch: Transitions, *, keep: bool, score: bool = True) -> Tensor:
        obs, next_obs = self._encoded(batch)
        line = self.episode.line(batch, obs, next_obs) if self.episodic else None
        reward = torch.zeros(batch.shape, device=batch.device)
        if score and self.updates > 0:
            gate, weight = self._gates(self.state.scaled(obs.flatten(0, 1)), batch.action.flatten(0, 1))
            weight = weight.view(*batch.shape, -1)
            distances = []
            if line is not None:
                distances.append(line.nearest(self._measured(line.rows), weight))
            if self.config.memory != "episodic":
                distances.append(self._from_run(next_obs, weight))
            parts = [self._novelty(distance, weight) for distance in distances]
            novelty = parts[0] if len(parts) == 1 else (parts[0] * parts[1]).sqrt()
            reward = gate.view(batch.shape) * novelty
        if keep:
            if line is not None:
                self.episode.keep(batch, line)
            rows = {"obs": obs[batch.valid], "next_obs": next_obs[batch.valid]}
            order = self.group.row_index(batch.valid)
            if self.updates == 0:
                self.state.observe(torch.stack([*rows.values()], 1).flatten(0, 1), order and order.repeated(2))
            self.buffer.push(order, **rows, action=batch.action[batch.valid].to(self.spaces.action_dtype))
        return reward

    def _encoded(self, batch: Transitions) -> tuple[Tensor, Tensor]:
        """Features before scaling of observations and successors, each (T, N, W); zero where not valid.

        An observation that is the successor of the step before is not encoded again.
        """
        known = torch.zeros_like(batch.valid)
        if batch.shape[0] > 1:
            same = same_rows(batch.obs[1:].flatten(0, 1), batch.next_obs[:-1].flatten(0, 1))
            known[1:] = batch.valid[:-1] & same.view_as(known[1:])
        new = batch.valid & ~known
        next_obs = self._encode(batch.next_obs, batch.valid)
        obs = self._encode(batch.obs, new)
        obs[1:] = torch.where(known[1:].unsqueeze(2), next_obs[:-1], obs[1:])
        return obs * batch.valid.unsqueeze(2), next_obs

    def _encode(self, frames: Tensor, which: Tensor) -> Tensor:
        """Features of the chosen frames of (T, N, ...), (T, N, W); zero for the others."""
        rows, index = frames.flatten(0, 1), which.flatten().nonzero().squeeze(1)
        features = torch.zeros(len(rows), self.state.raw_width, device=rows.device)
        if len(index):
            chunk = max(CHUNK // math.prod(self.spaces.input_shape), 1)
            features[index] = in_chunks(lambda part: self.state.encoded(rows.index_select(0, part)), index, chunk=chunk)
        return features.view(*which.shape, -1)

    def _gates(self, phi: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Gate of the whole (B,), and what each feature's squared difference counts (B, D)."""
        c = self.config
        errors, total = self.error_model(*self.design(phi, action)), self.variance.sum()
        if self.by_feature:
            # each by itself: noise that is larger here than elsewhere closes its own feature, not the place
            share = predictable_share(errors, self.variance)
            whole, weight = share @ self.variance / total, share.pow(2 * SHARPNESS)
        else:
            whole, weight = predictable_share(errors.sum(1), total), torch.ones_like(phi)
        return whole.pow(c.power) if c.gate else phi.new_ones(len(phi)), weight

    def _novelty(self, distance: Tensor, weight: Tensor) -> Tensor:
        """How new a state at this distance is, (T, N); `weight` (T, N, D) is what the distance was measured with."""
        if self.config.reach is None:
            return distance
        return saturated(distance, (weight @ self.step_squares).sqrt() * self.config.reach)

    def _measured(self, rows: Tensor) -> Tensor:
        """Encoded rows in the units of distances."""
        return self.state.scaled(rows) @ self.measure.T

    def _from_run(self, next_obs: Tensor, weight: Tensor) -> Tensor:
        """Distance of each successor (T, N) to the nearest of the run's sample."""
        query = self._measured(next_obs).flatten(0, 1).unsqueeze(0)
        rows = self._measured(self.run.rows).unsqueeze(0)
        live = torch.ones(1, query.shape[1], rows.shape[1], dtype=torch.bool, device=query.device)
        return nearest_weighted(query, rows, weight.flatten(0, 1).unsqueeze(0), live).view(next_obs.shape[:2])

    # ---- learning -----------------------------------------------------------------------------------------
    @torch.no_grad()
    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        fresh = self.buffer.total - int(self.learnt)
        if fresh == 0 or (self.updates == 0 and self.buffer.total < self.config.warmup):
            return {}
        slots = self.buffer.last(fresh)
        raw, action, raw_next = (self.buffer[name][slots] for name in ("obs", "action", "next_obs"))
        group = self.group
        held = min(fresh, len(self.buffer))
        order = None if group.is_single else RowIndex(group, self.buffer.places(slots, held), held)
        if self.updates == 0:
            self.state.fix()
            self.design.fix(self.state.scaled(raw_next if order is None else order.join(raw_next)))
        phi, target = self.state.scaled(raw), self.state.scaled(raw_next)
        x, number = self.design(phi, action)
        error = target - self.dynamics(x, number)  # of f as it was when the transitions were collected
        ordinary = self._ordinary(x, number)
        influence = bounded_influence((target - phi) @ self.unit.T, group)
        self.steps.add(target - phi, ordinary * influence, centred=False, group=group)
        self.errors.add(error, ordinary, centred=False, group=group)
        self.places.add(target, ordinary, group=group)
        self.states.add(target, group=group)
        unit, measure = self._units()
        self.unit.copy_(unit)
        self.measure.copy_(measure)
        self.variance.copy_((unit @ self.states.matrix() @ unit.T).diagonal().clamp_min(1e-12))
        self.step_squares.copy_((measure @ self.steps.matrix() @ measure.T).diagonal())
        squares = (error @ self.unit.T).square()
        self.error_model.add(x, number, squares, math.exp(-fresh / self.config.horizon), group)
        self.dynamics.add(x, number, target, group=group)
        self.error_model.solve()
        self.dynamics.solve()
        self.run.observe(raw_next, order)
        self.learnt.fill_(self.buffer.total)
        self.updates += 1
        gate, _ = self._gates(phi, action)
        return {
            "gate_mean": group.mean(gate),
            "gate_std": group.std(gate),
            "unexplained": group.mean(squares.sum(1)) / self.variance.sum(),
        }

    def _units(self) -> tuple[Tensor, Tensor]:
        """What `unit` and `measure` are now, in float64."""
        steps, errors, places = self.steps.matrix(), self.errors.matrix(), self.places.matrix()
        unit = torch.eye(len(steps), dtype=steps.dtype, device=steps.device)
        if self.config.units != "none":
            unit = inverse_root(steps if self.config.units == "step" else places, self.config.unit_ridge)
        if not self.by_direction:
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
class FrozenFeatures(nn.Module):
    """φ: raw observations to features in two steps, `encoded` (fixed from the start) and `scaled` (once known).

    Images: a random convolutional encoder, layer-normed; then one shift per feature and one common scale. Large ones
    are halved first, for a tenth of the cost. Vectors: as they come; then the robust scale, and a random projection of
    those that are wider than `features`.
    """

    shift: Tensor
    scale: Tensor
    projection: Tensor

    def __init__(self, spaces: Spaces, features: int) -> None:
        super().__init__()
        vector = spaces.kind == "vector"
        self.input = ObservationInput(spaces, "robust" if vector else "none")
        shape = spaces.input_shape
        self.halved = not vector and min(shape[1:]) >= 2 * SMALLEST_IMAGE
        if self.halved:
            shape = (shape[0], shape[1] // 2, shape[2] // 2)
        self.encoder: nn.Module | None = None if vector else random_encoder(shape, features)
        self.raw_width = math.prod(spaces.input_shape) if vector else features
        self.width = min(self.raw_width, features)
        wide = self.raw_width > self.width
        size = (self.raw_width, self.width) if wide else (0, 0)
        self.register_buffer("projection", torch.randn(size) / math.sqrt(self.width))
        self.sample = None if vector else HashedSample(2048, (features,))
        self.register_buffer("shift", torch.zeros(0 if vector else features))
        self.register_buffer("scale", torch.ones(()))

    def encoded(self, obs: Tensor) -> Tensor:
        """Raw observations (B, ...) to (B, W)."""
        x = self.input.halved(obs) if self.halved else self.input.raw(obs)
        if self.encoder is None:
            return x.flatten(1)
        features = self.encoder(x)
        return nn.functional.layer_norm(features, features.shape[1:])

    def observe(self, rows: Tensor, order: RowIndex | None = None) -> None:
        """Take encoded rows into the statistics that `fix` makes final."""
        statistics = self.input.moments if self.sample is None else self.sample
        assert isinstance(statistics, HashedSample)
        statistics.observe(rows, order)

    def fix(self) -> None:
        """Fix shift and scale."""
        if self.sample is None:
            self.input.commit()
            return
        rows = self.sample.rows
        self.shift.copy_(rows.mean(0))
        self.scale.copy_((rows - self.shift).square().mean().sqrt().clamp_min(1e-6))

    def scaled(self, rows: Tensor) -> Tensor:
        """Encoded rows (..., W) to φ (..., D)."""
        moments = self.input.moments
        if moments is None:
            return (rows - self.shift) / self.scale
        largest = 1e30  # what a division that overflows counts as
        x = KNEE * ((rows - moments.mean) / (KNEE * moments.std)).clamp(-largest, largest).asinh()
        return x @ self.projection if len(self.projection) else x


class Design(nn.Module):
    """What regressions see: columns (φ, action code, 1, Fourier features), and the number of the regression."""

    frequency: Tensor
    phase: Tensor
    length: Tensor

    def __init__(self, spaces: Spaces, config: LGNFirstConfig, width: int) -> None:
        super().__init__()
        self.spaces, self.length_scale = spaces, config.length_scale
        count = math.prod(spaces.factors) if spaces.factors else 1
        apart = config.regression == "action" and bool(spaces.factors) and count <= MOST_ACTIONS
        self.actions = count if apart else 1
        self.code_width = 0 if apart else spaces.action_width
        fourier = config.fourier if spaces.kind == "vector" else 0
        self.one = width + self.code_width
        self.columns = self.one + 1 + fourier
        self.register_buffer("frequency", torch.randn(fourier, self.one))
        self.register_buffer("phase", 2 * math.pi * torch.rand(fourier))
        self.register_buffer("length", torch.ones(()))

    def fix(self, phi: Tensor) -> None:
        """Measure the length scale of the Fourier features on the first states."""
        self.length.fill_(self.length_scale * median_distance(phi, 256))

    def forward(self, phi: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Rows of φ (B, D) and raw actions to columns (B, K) and numbers of regressions (B,)."""
        number = torch.zeros(len(phi), dtype=torch.int64, device=phi.device)
        if self.actions > 1:
            index = self.spaces.action_index(action)
            for factor, size in enumerate(self.spaces.factors):
                number = number * size + index[:, factor]
        code = self.spaces.encode_action(action) if self.code_width else phi[:, :0]
        seen = torch.cat([phi, code], 1)
        parts = [seen, phi.new_ones(len(phi), 1)]
        if len(self.phase):
            angle = torch.addmm(self.phase, seen, self.frequency.T / self.length)
            parts.append(angle.cos_().mul_(math.sqrt(2 / len(self.phase))))
        return torch.cat(parts, 1), number


class FadingCovariance(nn.Module):
    """Covariance of rows that fade with age, in float64."""

    total: Tensor
    sums: Tensor
    products: Tensor

    def __init__(self, width: int, horizon: float) -> None:
        super().__init__()
        self.horizon = horizon
        self.register_buffer("total", torch.zeros((), dtype=torch.float64))
        self.register_buffer("sums", torch.zeros(width, dtype=torch.float64))
        self.register_buffer("products", torch.zeros(width, width, dtype=torch.float64))

    def add(
        self, rows: Tensor, weight: Tensor | None = None, *, centred: bool = True, group: ProcessGroup = SINGLE_PROCESS
    ) -> None:
        """Take in rows (B, D), by weight if given. Not `centred`: the second moment about 0 is meant."""
        rows = rows.double()
        count = self.total.new_tensor(len(rows))
        weighted = rows if weight is None else rows * weight.double().unsqueeze(1)
        added = (
            count if weight is None else weight.double().sum(),
            weighted.sum(0) if centred else torch.zeros_like(self.sums),
            weighted.T @ rows,
        )
        count, *added_by_all = group.sum(count, *added)
        keep = math.exp(-float(count) / self.horizon)
        for total, new in zip((self.total, self.sums, self.products), added_by_all, strict=True):
            total.mul_(keep).add_(new)

    def matrix(self) -> Tensor:
        """(D, D)."""
        total = self.total.clamp_min(1e-9)
        mean = self.sums / total
        return self.products / total - torch.outer(mean, mean)
