"""Learnability-gated novelty: novelty decides where to go, learnability decides whether it counts.

    x̂' = p + K(a) · (φ(o') − p),   p = x̂ + u(a)                     the state behind noisy readings
    d(x, M) = min over s in M of |S^(−½) (x − s)|                    slow features count more
    novelty(x, M) = 1 − exp(−(d(x, M) − LEAST) / REACH)              bounded by 1; d in typical steps
    w_d(x̂, a) = 1 − g_d(x̂, a) / V_d                                  share of feature d that can be predicted
    gate = Σ_d w_d V_d / Σ_d V_d
    r = gate(x̂, a) · √(novelty(x̂', episode) · novelty(x̂', run))

φ are frozen features. Noise is what the next step takes back: the gain K comes from the lag-1 product of surprises
(`lpm.nn.sensor`) and is 1 where a sensor has no noise. f predicts x̂' from (x̂, a) by ridge regression; g predicts, for
each feature, the squared error that f made *before* it learnt from a transition (LPM's timing). V is the variance of
x̂', S the second moment of its change in a step. A TV, whose frames cannot be predicted, closes the gate; noise on a
reading is filtered out. All of it is closed form: no gradient.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from lpm.core.bonus import IntrinsicReward
from lpm.core.registry import register
from lpm.core.settings import expect_at_least, expect_choice, reject_unused
from lpm.core.transitions import Transitions
from lpm.nn.closed_form import FadingCovariance, RidgeByAction, influence, inverse_root, noise_floor, typical_square
from lpm.nn.frozen import KNEE, Design, FrozenFeatures
from lpm.nn.inputs import HashedSample
from lpm.nn.memory import RingBuffer, WindowMemory, episode_starts, nearest_weighted
from lpm.nn.sensor import Readings, SensorNoise, action_code, code_width

REACH = 4.0
"""Steps at which novelty is 63 % of its bound: one new step is then worth a fifth of the farthest jump."""
LEAST = 0.01
"""Steps below which nothing is new: what estimates of the noise leave over, in a world where all else is known."""
RIDGE = 5.0
"""Transitions that f's and g's priors count as."""
UNIT_RIDGE = 0.1
"""Share of the mean variance of a step that is added to all: no direction counts for more than √(1 + 1/0.1) steps."""
WINDOW = 2048.0
"""Transitions after which a state has faded to 1/e in the variance V."""
MOST_ERROR = 4.0
"""Multiples of V beyond which a squared error counts no more: glitches are rare."""
FAR = 1e4
"""Units of the scale beyond which it does not fit: it was measured while nothing happened."""
ACTIONS = 64
"""Of the transitions since the last update, the first, among which the one with the least noise is looked for."""


# ---- the formulas, as pure functions --------------------------------------------------------------------------
def beyond_noise(distance: Tensor, floor: Tensor) -> Tensor:
    """√(d² − floor): what is left of a distance beyond that of noise alone."""
    return (distance.square() - floor).clamp_min(0).sqrt()


def bounded_novelty(distance: Tensor, step: Tensor) -> Tensor:
    """1 − exp(−(distance/step − LEAST) / REACH): proportional to the distance when near, 1 when far, 0 when too near.

    >>> bounded_novelty(torch.tensor([0.0, 4.01, 1e9]), torch.tensor(1.0)).tolist()
    [0.0, 0.6321205496788025, 1.0]
    """
    return -torch.expm1(-(distance / step.clamp_min(1e-12) - LEAST).clamp_min(0) / REACH)


def predictable_share(error: Tensor, variance: Tensor) -> Tensor:
    """1 − error/variance, within [0, 1]: the share of the variance of what comes that (o, a) predicts.

    >>> predictable_share(torch.tensor([-0.1, 0.5, 3.0]), torch.tensor(2.0)).tolist()
    [1.0, 0.75, 0.0]
    """
    return (1 - error / variance).clamp(0, 1)


@dataclass(frozen=True)
class LGNConfig:
    """Settings of learnability-gated novelty: one default for vectors and images, with noise and without."""

    memory: Literal["episodic", "lifelong", "both"] = "both"
    """What a state is compared with: those of its episode, a sample of the whole run (for replay-based learners), or
    the geometric mean of the two novelties."""
    memory_size: int = 1024
    """States that are remembered: the latest of each environment's episode, and a sample of the run."""
    gate: bool = True
    """Whether novelty counts only as far as the next observation can be predicted."""
    filter: bool = True
    """Whether small noise on observations is filtered out. Needs episodes: "lifelong" alone has no filter."""
    units: bool = True
    """Whether distances are measured in steps (slow features then count more than fast ones), or in features."""
    features: int = 64
    """Most features of a state; wider vectors are projected to so many."""
    fourier: int = 64
    """Random Fourier features that the two models see beside the features. For vectors only."""
    horizon: float = 10_000.0
    """Transitions after which old data count 1/e: in the models, the size of a step and the measured noise."""
    warmup: int = 256
    """Transitions to observe before scales are fixed and anything is rewarded."""

    def __post_init__(self) -> None:
        expect_choice(self, "memory", "episodic", "lifelong", "both")
        expect_at_least(self, 1, "memory_size", "features", "warmup", "horizon")
        expect_at_least(self, 0, "fourier")
        if self.memory == "lifelong":
            reject_unused(self, "with memory='lifelong'", "filter")


@register("lgn")
@register("lgn_lifelong", label="LGN, lifelong", use="LGN without episodes, for SAC, DQN, TD3.", memory="lifelong")
class LGN(IntrinsicReward):
    """Learnability-gated novelty: distance to what was seen, as far as what comes next can be predicted at all."""

    label = "LGN"
    family = "recommended"
    use = "Novelty of what can be learnt: the bonus to use where observations may be noisy."
    Config = LGNConfig
    config: LGNConfig
    reference = "This project; novelty as in Jiang et al. 2025 (ETD), errors timed as in Hou, An & Du 2026 (LPM)"

    unit: Tensor  # (D, D) features to units of one step
    step_size: Tensor  # length of a typical step, in these units
    variance: Tensor  # (D,) V, in these units
    floor: Tensor  # squared distance in these units that is noise alone
    updates: Tensor  # so far
    learnt: Tensor  # rows of the buffer that have been learnt from

    def _build(self) -> None:
        spaces, config = self.spaces, self.config
        self.episodic = config.memory != "lifelong"
        self.state = FrozenFeatures(spaces, config.features)
        self.design = Design(spaces, self.state.width, config.fourier)
        width, raw = self.state.width, self.state.raw_width
        self.f, self.g = slice(width), slice(width, None)  # outputs: both regressions have one Gram matrix
        sizes = (self.design.actions, self.design.columns, 2 * width)
        self.models = RidgeByAction(*sizes, ridge=RIDGE, persistence=width, one=self.design.one)
        self.steps = FadingCovariance(width, config.horizon)
        self.states = FadingCovariance(width, WINDOW)
        self.register_buffer("unit", torch.eye(width))
        self.register_buffer("step_size", torch.ones(()))
        self.register_buffer("variance", torch.ones(width))
        self.register_buffer("floor", torch.zeros(()))
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))
        self.register_buffer("learnt", torch.zeros((), dtype=torch.int64))
        size, action = max(self.rollout, config.warmup), (spaces.action_shape, spaces.action_dtype)
        first, row = ((raw,), torch.float32), ((width,), torch.float32)
        self.first = RingBuffer(size, {"obs": first, "action": action, "next_obs": first})
        self.buffer = RingBuffer(size, {"x": row, "action": action, "new": row, "seen": row})
        self.episode = WindowMemory(self.num_envs if self.episodic else 1, config.memory_size, (width,))
        self.run = HashedSample(config.memory_size if config.memory != "episodic" else 1, (width,))
        self.filters = config.filter and self.episodic
        shape = (code_width(spaces), raw) if self.filters else (1, 1)
        self.noise = SensorNoise(*shape, discrete=bool(spaces.factors))
        self.readings = Readings(self.num_envs if self.filters else 1, *shape)

    # ---- collection ---------------------------------------------------------------------------------------
    def _score(self, batch: Transitions) -> Tensor:
        return self._run(batch, keep=False)

    def _observe(self, batch: Transitions) -> None:
        self._run(batch, keep=True, score=False)

    def _step(self, batch: Transitions) -> Tensor:
        return self._run(batch, keep=True)

    def _run(self, batch: Transitions, *, keep: bool, score: bool = True) -> Tensor:
        seen, following = self.state.of_block(batch, scaled=bool(self.updates > 0))
        reward = torch.zeros(batch.shape, device=batch.device)
        if self.updates == 0:  # scales are not known
            if keep:
                self._keep_first(batch, seen, following)
            return reward
        starts = episode_starts(batch, self.episode.count > 0) if self.episodic else batch.valid
        before, after = seen, following
        if self.filters:
            code = action_code(self.spaces, batch.action)
            states = self.readings.filtered(starts, batch.valid, seen, following, code, self.noise)
            before, after = map(self.noise.shrunk, states)
        x, new = self.state.projected(before), self.state.projected(after)
        line = self.episode.timeline(batch, x, new) if self.episodic else None
        if score:
            parts = []
            if line is not None:
                parts.append(line.nearest(line.rows @ self.unit.T))
            if self.config.memory != "episodic":
                parts.append(self._from_run(new))
            if bool(self.floor > 0):
                parts = [beyond_noise(part, self.floor) for part in parts]
            parts = [bounded_novelty(part, self.step_size) for part in parts]
            novelty = parts[0] if len(parts) == 1 else (parts[0] * parts[1]).sqrt()
            reward = self._gate(x.flatten(0, 1), batch.action.flatten(0, 1)).view(batch.shape) * novelty
        if keep:
            if self.filters:
                found = self.readings.observe(batch, starts, seen, following, states, code, self.noise)
                self.noise.add(found, batch.valid)
            if line is not None:
                self.episode.keep(batch, line)
            reading = self.state.projected(self.noise.shrunk(following)) if self._filtering else new
            self._push(self.buffer, batch, x=x, new=new, seen=reading)
        return reward

    @property
    def _filtering(self) -> bool:
        return self.filters and bool(self.noise.noisy.any())

    def _keep_first(self, batch: Transitions, obs: Tensor, next_obs: Tensor) -> None:
        """Keep encoded rows to measure scales on."""
        self._push(self.first, batch, obs=obs, next_obs=next_obs)
        self.state.observe(torch.stack([obs[batch.valid], next_obs[batch.valid]], 1).flatten(0, 1))

    def _push(self, buffer: RingBuffer, batch: Transitions, **columns: Tensor) -> None:
        """Keep the valid rows of (T, N, ...) to learn from."""
        rows = {name: column[batch.valid] for name, column in columns.items()}
        buffer.push(**rows, action=batch.action[batch.valid].to(self.spaces.action_dtype))

    def _gate(self, x: Tensor, action: Tensor) -> Tensor:
        """The predictable share of what comes after (x̂, a), (B,)."""
        if not self.config.gate:
            return x.new_ones(len(x))
        # each by itself: noise that is larger here than elsewhere closes its own feature, not the place
        share = predictable_share(self.models(*self.design(x, action), self.g), self.variance)
        return share @ self.variance / self.variance.sum()

    def _from_run(self, new: Tensor) -> Tensor:
        """Distance of each state (T, N, D) to the nearest of the run's sample."""
        query, rows = (new @ self.unit.T).flatten(0, 1), self.run.rows @ self.unit.T
        return nearest_weighted(query.unsqueeze(0), rows.unsqueeze(0), None, None).view(new.shape[:2])

    # ---- learning -----------------------------------------------------------------------------------------
    @torch.no_grad()
    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        first = bool(self.updates == 0)
        buffer, names = (self.first, ("obs", "next_obs")) if first else (self.buffer, ("x", "new", "seen"))
        fresh = buffer.total - int(self.learnt)
        if fresh == 0 or (first and fresh < self.config.warmup):
            return {}
        slots = buffer.last(fresh)
        if not first and self._outgrown(buffer["new"][slots]):
            self._restart()
            return {}
        action, rows = buffer["action"][slots], [buffer[name][slots] for name in names]
        if first:
            self.state.fix()
            rows = [self.state.projected(self.state.scaled(part)) for part in rows]
            self.design.fix(rows[1])
        x, new, target = rows[0], rows[1], rows[-1]
        design = self.design(x, action)
        error = target - self.models(*design, self.f)  # of f as it was when the transitions were collected
        keep = math.exp(-fresh / self.config.horizon)
        self._measure(new - x, target, x.new_ones(len(x)) if first else self._gate(x, action))
        squares = (error @ self.unit.T).square()
        bound = MOST_ERROR * self.variance.sum() / squares.sum(1, keepdim=True).clamp_min(1e-12)
        rows_of_g = squares * bound.clamp_max(1)
        self.models.add(design[0], design[1], torch.cat([target, rows_of_g], 1), keep)
        self.models.solve()
        if self.filters:
            code = action_code(self.spaces, action)[:ACTIONS]
            self.noise.solve(keep, code)
            self.floor.zero_()
            if self._filtering:
                noise = self.state.projected(self.noise.left(code).sqrt().diag()) @ self.unit.T
                self.floor.copy_(noise_floor(noise.T @ noise))
        self.run.observe(new)
        self.learnt.fill_(self.buffer.total)  # of the rows before scales were known nothing is left to learn
        self.updates += 1
        gate = self._gate(x, action)
        return {
            "gate_mean": gate.mean(),
            "gate_std": gate.std(correction=0),
            "unexplained": squares.sum(1).mean() / self.variance.sum(),
        }

    def _outgrown(self, new: Tensor) -> bool:
        """Whether most numbers of most states are far outside the range that was measured: it was one at rest."""
        if self.spaces.kind == "image":
            return False
        return bool((new.abs() > KNEE * math.asinh(FAR / KNEE)).double().mean() > 0.5)

    def _restart(self) -> None:
        """Begin anew: all that was learnt is in units that do not fit."""
        sizes = {"num_envs": self.num_envs, "rollout_steps": self.rollout_steps}
        anew = type(self)(self.spaces, self.config, **sizes, seed=self.generator.initial_seed())
        for mine, fresh in zip(self.buffers(), anew.buffers(), strict=True):
            mine.copy_(fresh)

    def _measure(self, change: Tensor, state: Tensor, ordinary: Tensor) -> None:
        """Renew S and V. A step counts as far as it could be foreseen, and none much more than a typical one."""
        size = typical_square(change @ self.unit.T)
        moves = change.square().sum(1) > 0
        self.steps.add(change, ordinary * influence(change @ self.unit.T, size) * moves, centred=False)
        mean = self.states.mean if self.states.total > 0 else state.double().mean(0)
        away = (state - mean.to(state.dtype)) @ self.unit.T
        self.states.add(state, influence(away, typical_square(away)))
        steps = self.steps.matrix()
        if self.config.units:
            self.unit.copy_(inverse_root(steps, UNIT_RIDGE))
        unit = self.unit.to(steps.dtype)
        self.step_size.copy_((unit @ steps @ unit.T).diagonal().sum().sqrt().clamp_min(1e-6))
        self.variance.copy_((unit @ self.states.matrix() @ unit.T).diagonal().clamp_min(1e-12))
