"""Learning Progress Monitoring, Algorithm 1 of "Beyond Noisy-TVs" (Hou, An & Du, 2026).

The dynamics model f predicts the next observation; its error is ε = log(MSE + floor). The error model g(o, a) is
fitted on a queue of the errors that f made before its last update. The reward is g(o, a) − ε.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from lpm.bonuses._lpm_models import build_dynamics, build_encoder, build_error_model, shared_encoder
from lpm.bonuses._past_error import AnchoredRegression, PastError, QueueRegression, SlowCopy
from lpm.bonuses.lpm_config import VARIANTS, Form, LPMConfig
from lpm.core.bonus import IntrinsicReward
from lpm.core.registry import register
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.anchored import AnchoredErrorModel
from lpm.nn.buffers import fixed_sample, minibatches
from lpm.nn.dynamics import DynamicsModel
from lpm.nn.fitting import fit
from lpm.nn.inputs import ObservationInput, in_chunks
from lpm.nn.replay import TransitionBuffer
from lpm.nn.seeding import seeded

RELATIVE_FLOOR = 0.1  # of the error models that start from f's prior, unless the config says otherwise
SPREAD = 512  # rows at most that the relative floor is measured on


# ---- the reward, as pure functions --------------------------------------------------------------------------
def log_error(mse: Tensor, floor: float | Tensor) -> Tensor:
    """ε = log(MSE + floor) (Eq. 1)."""
    return torch.log(mse + floor)


def target(form: Form, mse: Tensor, floor: float | Tensor) -> Tensor:
    """What g is regressed on: ε for the log and exp forms, the MSE itself for the others."""
    return log_error(mse, floor) if form in ("log", "exp") else mse


def reward(form: Form, g: Tensor, mse: Tensor, floor: float | Tensor, *, weight: float = 1.0) -> Tensor:
    """The reward from g's outputs (..., K), averaged over them, and the current MSE (...)."""
    if form == "log":
        return g.mean(-1) - log_error(mse, floor)
    if form == "exp":
        return weight * g.exp().mean(-1) - (mse + floor)
    if form == "linear":
        return g.mean(-1) - mse
    return mse - weight * g.mean(-1).clamp_min(0)


@register("lpm")
class LPM(IntrinsicReward):
    """Learning progress: the error of f before its last update, as predicted by g, minus the error now."""

    Config = LPMConfig
    reference = "Hou, An & Du 2026, Beyond Noisy-TVs: Noise-Robust Exploration Via Learning Progress Monitoring"
    variants = VARIANTS

    def __init__(
        self,
        spaces: Spaces,
        config: LPMConfig,
        *,
        num_envs: int = 1,
        rollout_steps: int = 128,
        seed: int = 0,
    ) -> None:
        super().__init__(spaces, num_envs=num_envs, rollout_steps=rollout_steps, seed=seed)
        self.config = config
        vector = spaces.kind == "vector"
        rollout = num_envs * rollout_steps
        self.queue_size = rollout if config.queue_size is None else config.queue_size
        floor = (1e-4 if vector else 1e-6) if config.error_floor is None else config.error_floor
        self.register_buffer("floor", torch.tensor(floor))
        self.relative_floor = config.relative_floor
        if self.relative_floor is None:
            self.relative_floor = 0.0 if config.error_model == "network" or config.form == "linear" else RELATIVE_FLOOR
        _refuse_clamp_trap(config, floor)
        _refuse_large_reservoir(config, self.queue_size, rollout)
        normalise = config.normalise
        if normalise == "auto":
            normalise = "none" if not vector else "standard" if config.error_model == "network" else "robust"
        self.input = ObservationInput(spaces, normalise, clip=10.0 if normalise == "standard" else None)
        with seeded(self.generator):
            self._build_models()
        columns: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
            "error": ((), torch.float32),
            "version": ((), torch.int64),
        }
        if config.queue == "reservoir":
            columns["priority"] = ((), torch.float32)
        capacity = _default_capacity(spaces, rollout) if config.buffer_size is None else config.buffer_size
        self.buffer = TransitionBuffer(spaces, max(capacity, self.queue_size), columns)
        self.past_error = self._past_error()
        for counter in ("versions", "fits", "queue_start"):
            self.register_buffer(counter, torch.zeros((), dtype=torch.int64))

    floor: Tensor  # added to the MSE before the logarithm
    versions: Tensor  # τ: updates of f so far
    fits: Tensor  # updates of g so far
    queue_start: Tensor  # first pushed row whose error is in the present scale

    def _build_models(self) -> None:
        c = self.config
        self.dynamics = build_dynamics(c, self.spaces, self._targets_in_unit_range)
        self.encoder = build_encoder(c, self.spaces)
        self.error_model = build_error_model(c, self.spaces, self.dynamics, self.encoder)
        self.add_optimizer("dynamics", [p for p in self.dynamics.parameters() if p.requires_grad], c.dynamics_lr)
        if c.error_model == "network":
            self.add_optimizer("error_model", self.error_model.parameters(), c.error_lr)

    def _past_error(self) -> PastError:
        if isinstance(self.error_model, AnchoredErrorModel):
            encoder = shared_encoder(self.config, self.dynamics) or self.encoder
            return AnchoredRegression(self.error_model, encoder, self.buffer, self.input, self.spaces)
        if isinstance(self.error_model, DynamicsModel):
            assert isinstance(self.dynamics, DynamicsModel)
            return SlowCopy(self.error_model, self.dynamics, self.config.copy_decay, self._targets)
        return QueueRegression(
            self.error_model,
            self.buffer,
            self.input,
            self.spaces,
            self.config,
            descend=partial(self.descend, "error_model"),
            apply_gradients=partial(self.apply_gradients, "error_model"),
        )

    @property
    def _targets_in_unit_range(self) -> bool:
        return self.input.moments is None and self.spaces.bounded_image

    # ---- collection ---------------------------------------------------------------------------------------
    def _score(self, batch: Transitions) -> Tensor:
        return self._reward(batch, self._mse(batch))

    def _observe(self, batch: Transitions) -> None:
        self._push(batch, self._mse(batch))

    def _step(self, batch: Transitions) -> Tensor:
        mse = self._mse(batch)
        result = self._reward(batch, mse)
        self._push(batch, mse)
        return result

    def _mse(self, batch: Transitions) -> Tensor:
        """Error of the present f on every transition, (T, N)."""
        flat = (x.flatten(0, 1) for x in (batch.obs, batch.action, batch.next_obs))
        return in_chunks(self._errors, *flat).view(batch.shape)

    def _errors(self, obs: Tensor, action: Tensor, next_obs: Tensor) -> Tensor:
        return self.dynamics.errors(*self._view(obs, action, next_obs))

    def _targets(self, model: DynamicsModel, obs: Tensor, action: Tensor, next_obs: Tensor) -> Tensor:
        return target(self.config.form, model.errors(*self._view(obs, action, next_obs)), self.floor)

    def _view(self, obs: Tensor, action: Tensor, next_obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Raw rows as f sees them."""
        return self.input(obs), self.spaces.encode_action(action), self.input(next_obs)

    def _reward(self, batch: Transitions, mse: Tensor) -> Tensor:
        c = self.config
        open_gate = self._gate(batch.valid)
        if not bool(open_gate.any()):
            return torch.zeros_like(mse)
        weight = c.rnd_weight if c.form == "rnd" else c.exp_weight

        def rewards(obs: Tensor, action: Tensor, next_obs: Tensor, errors: Tensor) -> Tensor:
            g = self.past_error.predict(obs, action, next_obs)
            g = g if c.clamp is None else g.clamp(*c.clamp)
            return c.reward_scale * reward(c.form, g, errors, self.floor, weight=weight)

        flat = (x.flatten(0, 1) for x in (batch.obs, batch.action, batch.next_obs, mse))
        value = in_chunks(rewards, *flat).view_as(mse)
        if c.reward_cap is not None:
            value = value.clamp_max(c.reward_cap)
        return torch.where(open_gate, value, torch.zeros_like(value))

    def _gate(self, valid: Tensor) -> Tensor:
        """Which transitions of a block may be paid: the push precedes the test, so the d-th one is the first."""
        if not self._statistics_frozen or (self.config.gate_fitted and self.fits == 0):
            return torch.zeros_like(valid)
        if not (self.config.gate_full and self.past_error.queued):
            return valid
        rank = valid.flatten().cumsum(0).view_as(valid)
        queued = self.buffer.total - int(self.queue_start) + rank
        return valid & (queued >= self.queue_size)

    def _push(self, batch: Transitions, mse: Tensor) -> None:
        errors = target(self.config.form, mse[batch.valid], self.floor)
        columns = {"error": errors, "version": self.versions.expand_as(errors)}
        if self.config.queue == "reservoir":
            columns["priority"] = torch.rand(len(errors), generator=self.generator).to(errors.device)
        if not self._statistics_frozen:
            self.input.observe_pairs(batch.obs[batch.valid], batch.next_obs[batch.valid])
        self.buffer.observe(batch, **columns)

    # ---- learning -----------------------------------------------------------------------------------------
    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        if self.buffer.fresh == 0 or not self._freeze_statistics():
            return {}
        if self.versions == 0:
            self._raise_floor()
            self.past_error.begin(self._untrained_errors)
        metrics = {"dynamics_loss": self._fit_dynamics(generator)}
        slots = self.queue_slots()
        if not self.past_error.queued or (len(slots) and int(self.versions) % self.config.error_every == 0):
            loss = self.past_error.fit(slots, generator)
            if loss is not None:
                metrics["error_model_loss"] = loss
            self.fits += 1
        errors = self.buffer["error"][slots]
        if len(slots):
            metrics["queue_error_mean"] = errors.mean()
            metrics["queue_error_std"] = errors.std(correction=0)
        metrics["queue_length"] = torch.tensor(float(len(slots)))
        self.buffer.mark()
        return metrics

    @torch.no_grad()
    def _raise_floor(self) -> None:
        """Add the relative floor; errors with the old one leave the queue."""
        if not self.relative_floor:
            return
        slots = self.buffer.last(len(self.buffer))
        _, _, next_obs = self.buffer.rows(slots[fixed_sample(len(slots), SPREAD).to(slots.device)])
        seen = self.input(next_obs).flatten(1)
        self.floor += self.relative_floor * (seen - seen.mean(0)).square().mean(1).median()
        self.queue_start.fill_(self.buffer.total)

    @torch.no_grad()
    def _untrained_errors(self) -> Tensor:
        """Errors of f before its first update, on what came so far, in the scale that is now fixed."""
        rows = self.buffer.rows(self.buffer.last(len(self.buffer)))
        return target(self.config.form, in_chunks(self._errors, *rows), self.floor)

    def _fit_dynamics(self, generator: torch.Generator) -> Tensor:
        """f on B by MSE."""
        loss = fit(
            self.dynamics,
            self._dynamics_batches(generator),
            lambda chosen: self._view(*self.buffer.rows(chosen)),
            row_numbers=self.spaces.row_numbers,
            descend=partial(self.descend, "dynamics"),
            apply_gradients=partial(self.apply_gradients, "dynamics"),
        )
        self.versions += 1
        return loss

    def _dynamics_batches(self, generator: torch.Generator) -> list[Tensor]:
        """Slots of the buffer for each gradient step of f."""
        c = self.config
        replay = c.replay
        if replay == "auto":
            replay = "mixed" if c.error_model == "slow_copy" else "all"
        new = {"all": 0, "latest": c.batch_size, "mixed": (c.batch_size + 1) // 2}[replay]
        parts = []
        for rows, size in ((len(self.buffer), c.batch_size - new), (self.buffer.fresh, new)):
            if size:
                slots = self.buffer.last(rows)
                drawn = minibatches(len(slots), size, c.dynamics_steps, generator)
                parts.append([slots[i.to(slots.device)] for i in drawn])
        return [torch.cat(batch) for batch in zip(*parts, strict=True)]

    # ---- the queue ----------------------------------------------------------------------------------------
    def queue_slots(self) -> Tensor:
        """Buffer slots of the entries of D, oldest first."""
        queued = self.buffer.total - int(self.queue_start)
        if self.config.queue == "fifo":
            return self.buffer.last(min(self.queue_size, queued))
        cycle = self.buffer.last(min(self.buffer.fresh, queued))
        if len(cycle) <= self.queue_size:
            return cycle
        kept = self.buffer["priority"][cycle].topk(self.queue_size).indices.sort().values
        return cycle[kept]

    def queue_versions(self) -> list[int]:
        """The model versions τ whose errors D holds."""
        return sorted(set(self.buffer["version"][self.queue_slots()].tolist()))

    @property
    def _statistics_frozen(self) -> bool:
        return self.input.moments is None or bool(self.input.moments.commits > 0)

    def _freeze_statistics(self) -> bool:
        """Freeze the observation statistics once enough was seen; errors in the old scale leave the queue.

        False: the first update must wait, because it would measure statistics or the floor on too little.
        """
        if self.versions > 0:
            return True
        measures = self.input.moments is not None or bool(self.relative_floor)
        if measures and self.buffer.total < self.config.warmup:
            return False
        if not self._statistics_frozen:
            self.input.commit()
            self.queue_start.fill_(self.buffer.total)
        return True


def _default_capacity(spaces: Spaces, rollout: int) -> int:
    row = 2 * math.prod(spaces.obs_shape) * spaces.obs_dtype.itemsize + 64
    return max(rollout, min(64 * rollout, 65_536, 512 * 2**20 // row))


def _refuse_clamp_trap(config: LPMConfig, floor: float) -> None:
    if config.clamp is None or config.form != "log":
        return
    gap = config.clamp[0] - math.log(floor)
    if gap > 1e-6:
        raise ValueError(
            f"LPMConfig.clamp: expected a lower bound of at most log(error_floor) = {math.log(floor):.4f}, "
            f"got {config.clamp[0]}: perfectly learnt transitions would pay {gap:+.3f} for ever"
        )


def _refuse_large_reservoir(config: LPMConfig, queue_size: int, rollout: int) -> None:
    if config.queue == "reservoir" and queue_size > rollout:
        raise ValueError(
            f"LPMConfig.queue_size: a reservoir samples one rollout, so expected at most "
            f"num_envs * rollout_steps = {rollout}, got {queue_size}"
        )
