"""Learning Progress Monitoring, Algorithm 1 of "Beyond Noisy-TVs" (Hou, An & Du, 2026).

The dynamics model f predicts the next observation; its error is ε = log(MSE + floor). The error model g(o, a) is
fitted on a queue of the errors that f made before its last update. The reward is g(o, a) − ε.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from lpm.bonuses.lpm_variants import VARIANTS
from lpm.core.bonus import IntrinsicReward
from lpm.core.registry import register
from lpm.core.spaces import Spaces
from lpm.core.transitions import Rows, Transitions
from lpm.nn.buffers import RingBuffer, minibatches
from lpm.nn.dynamics import DynamicsModel, ErrorModel
from lpm.nn.inputs import ObservationInput, in_chunks
from lpm.nn.networks import Activation
from lpm.nn.random_target import RandomTargetErrorModel, RandomTargetModel
from lpm.nn.seeding import seeded

Form = Literal["log", "linear", "exp", "rnd"]


@dataclass(frozen=True)
class LPMConfig:
    """Settings of LPM. Sections and appendices are the paper's; "release" is the authors' published code."""

    form: Form = "log"
    """Reward: "log" g − log(MSE + floor) (Eq. 3); "exp" exp(g) − MSE (release); "linear" g − MSE with g regressed
    on the MSE (neither); "rnd" MSE − rnd_weight · max(g, 0) (release, Montezuma)."""
    error_floor: float | None = None
    """Added to the MSE before the logarithm, in reward and target alike. None: 1e-6 for images, 1e-4 for vectors.
    Paper: none stated; release: 1e-6, in the target only."""
    queue_size: int | None = None
    """d, capacity of the error queue D in transitions (Sec. 3). None: one rollout, so that D holds the errors of one
    model version. Paper: 100 (MNIST, MiniWorld), 128 (Atari)."""
    queue: Literal["fifo", "reservoir"] = "fifo"
    """Which errors D keeps: the last d (Sec. 3), or a uniform sample of d from those since the last update."""
    gate_full: bool = True
    """Reward 0 until |D| = d (Algorithm 1, line 6). The release has no such gate."""
    gate_fitted: bool = True
    """Reward 0 until g has been fitted once; otherwise the first rewards show g's initial value. Not in the paper."""
    affine: bool = True
    """Scale g's output by mean and std of the first errors and start it at their mean. Not in the paper."""
    normalise: Literal["auto", "none", "standard", "scalar"] = "auto"
    """Standardise observations with statistics that are frozen at the first update. "auto": vectors yes, images no.
    "scalar" (release, Atari): mean per pixel, one common std. Paper: none stated."""
    warmup: int = 1
    """Transitions to observe before the statistics freeze; errors measured before are not queued. Release: 10,000."""
    buffer_size: int | None = None
    """Capacity of the replay buffer B in transitions. None: 65,536 vectors or 8,192 images, and never less than the
    queue or a rollout. Paper: unbounded; release: the current rollout only."""
    dynamics_hidden: tuple[int, ...] | None = None
    """Hidden layers of f. None: (256, 256) for vectors, (512,) after the encoder for images (App. C.2, C.3)."""
    dynamics_skip: bool = False
    """Let f's last layer see its input (App. C.1: MNIST). Vectors only."""
    predict: Literal["next", "delta"] = "next"
    """What f predicts: the next observation (Sec. 3) or its change. "delta" is for vectors only."""
    error_hidden: tuple[int, ...] = (256, 128)
    """Hidden layers of g (App. C.2, C.3; MNIST 256-128-64)."""
    error_outputs: int = 1
    """Outputs of g, each regressed on the same error (App. C: 1; release MNIST: 784)."""
    features: int | None = 512
    """Linear layer after the convolutions (App. C.3: 512). None: none, as in MiniWorld (App. C.2)."""
    activation: Activation = "leaky_relu"
    """Activation of the convolutional encoder: "leaky_relu" for Atari (App. C.3), "relu" for MiniWorld (App. C.2)."""
    shared_encoder: bool = False
    """Let g read f's image encoder (without training it) instead of its own. Not in the paper."""
    dynamics_lr: float = 1e-3
    """Adam learning rate of f (App. C.1, C.2; release Atari: 1e-4)."""
    error_lr: float = 1e-3
    """Adam learning rate of g (App. C.1; release MiniWorld 1e-2, Atari 1e-4)."""
    dynamics_steps: int = 32
    """Gradient steps of f per update. Paper: not stated beyond "update"; release: 1 to 24."""
    error_steps: int = 32
    """Gradient steps of g per update. Paper: as f; release: 1 (MNIST, MiniWorld) or 24 (Atari)."""
    error_every: int = 1
    """Fit g at every n-th update only (release MNIST and MiniWorld: 5)."""
    batch_size: int = 256
    """Minibatch of f (App. C.1: 32)."""
    error_batch_size: int = 256
    """Minibatch of g (App. C.1: 32)."""
    clamp: tuple[float, float] | None = None
    """Bounds on g's output (release: (-10, 10)). With the log form the lower one must not exceed log(floor)."""
    exp_weight: float = 1.0
    """η in η·exp(g) − MSE (release Atari: 0.4)."""
    rnd_weight: float = 0.1
    """Weight of g in the "rnd" form (release Montezuma: 0.1)."""
    reward_scale: float = 1.0
    """Factor on the reward (release MNIST: 0.2)."""
    reward_cap: float | None = None
    """Upper bound on the reward (release MiniWorld: 0.5)."""

    def __post_init__(self) -> None:
        def expect(condition: bool, name: str, wanted: str) -> None:
            if not condition:
                raise ValueError(f"LPMConfig.{name}: expected {wanted}, got {getattr(self, name)!r}")

        expect(self.form in ("log", "linear", "exp", "rnd"), "form", "'log', 'linear', 'exp' or 'rnd'")
        expect(self.queue in ("fifo", "reservoir"), "queue", "'fifo' or 'reservoir'")
        expect(self.predict in ("next", "delta"), "predict", "'next' or 'delta'")
        expect(self.normalise in ("auto", "none", "standard", "scalar"), "normalise",
               "'auto', 'none', 'standard' or 'scalar'")  # fmt: skip
        for name in ("queue_size", "buffer_size"):
            value = getattr(self, name)
            expect(value is None or value >= 1, name, "at least 1, or None")
        for name in ("warmup", "dynamics_steps", "error_steps", "error_every", "batch_size", "error_batch_size",
                     "error_outputs"):  # fmt: skip
            expect(getattr(self, name) >= 1, name, "at least 1")
        for name in ("dynamics_lr", "error_lr"):
            expect(getattr(self, name) >= 0, name, "at least 0")
        expect(self.error_floor is None or self.error_floor > 0, "error_floor", "more than 0, or None")
        if self.buffer_size is not None and self.queue_size is not None and self.buffer_size < self.queue_size:
            raise ValueError(
                f"LPMConfig.buffer_size: expected at least queue_size = {self.queue_size} "
                f"(the queue is a window of the buffer), got {self.buffer_size}"
            )
        if self.clamp is not None:
            expect(self.clamp[0] < self.clamp[1], "clamp", "(low, high) with low < high")


# ---- the reward, as pure functions --------------------------------------------------------------------------
def log_error(mse: Tensor, floor: float) -> Tensor:
    """ε = log(MSE + floor) (Eq. 1)."""
    return torch.log(mse + floor)


def target(form: Form, mse: Tensor, floor: float) -> Tensor:
    """What g is regressed on: ε for the log and exp forms, the MSE itself for the others."""
    return log_error(mse, floor) if form in ("log", "exp") else mse


def reward(form: Form, g: Tensor, mse: Tensor, floor: float, *, weight: float = 1.0) -> Tensor:
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
        self.floor = (1e-4 if vector else 1e-6) if config.error_floor is None else config.error_floor
        _refuse_clamp_trap(config, self.floor)
        _refuse_large_reservoir(config, self.queue_size, rollout)
        normalise = ("standard" if vector else "none") if config.normalise == "auto" else config.normalise
        self.input = ObservationInput(spaces, normalise)
        with seeded(self.generator):
            self._build_models()
        capacity = max(65_536 if vector else 8_192, rollout) if config.buffer_size is None else config.buffer_size
        fields = {
            "obs": (spaces.obs_shape, spaces.obs_dtype),
            "action": (spaces.action_shape, spaces.action_dtype),
            "next_obs": (spaces.obs_shape, spaces.obs_dtype),
            "error": ((), torch.float32),
            "version": ((), torch.int64),
        }
        if config.queue == "reservoir":
            fields["priority"] = ((), torch.float32)
        self.buffer = RingBuffer(max(capacity, self.queue_size), fields)
        self.register_buffer("versions", torch.zeros((), dtype=torch.int64))  # τ, updates of f so far
        self.register_buffer("fits", torch.zeros((), dtype=torch.int64))  # updates of g so far
        self.register_buffer("queue_start", torch.zeros((), dtype=torch.int64))  # first row with a usable error
        self.register_buffer("cycle_start", torch.zeros((), dtype=torch.int64))  # first row since the last update

    versions: Tensor
    fits: Tensor
    queue_start: Tensor
    cycle_start: Tensor

    def _build_models(self) -> None:
        c, spaces = self.config, self.spaces
        if c.form == "rnd":
            self.dynamics: DynamicsModel | RandomTargetModel = RandomTargetModel(spaces, act=c.activation)
            self.error_model: ErrorModel | RandomTargetErrorModel = RandomTargetErrorModel(
                self.dynamics, spaces, hidden=c.error_hidden
            )
        else:
            self.dynamics = DynamicsModel(
                spaces,
                hidden=c.dynamics_hidden,
                features=c.features,
                act=c.activation if spaces.kind != "vector" else "relu",
                skip=c.dynamics_skip,
                delta=c.predict == "delta",
            )
            if c.shared_encoder and self.dynamics.encoder is None:
                raise ValueError(f"shared_encoder: expected an image observation, got {spaces.observation}")
            self.error_model = ErrorModel(
                spaces,
                hidden=c.error_hidden,
                features=c.features,
                act=c.activation,
                outputs=c.error_outputs,
                affine=c.affine,
                encoder=self.dynamics.encoder if c.shared_encoder else None,
            )
        self.add_optimizer("dynamics", [p for p in self.dynamics.parameters() if p.requires_grad], c.dynamics_lr)
        self.add_optimizer("error_model", self.error_model.parameters(), c.error_lr)

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

        def errors(obs: Tensor, action: Tensor, next_obs: Tensor) -> Tensor:
            return self.dynamics.errors(
                self.input(obs), self.spaces.encode_action(action), self.input(next_obs)
            )

        return self._rowwise(errors, batch)

    def _rowwise(self, function: object, batch: Transitions) -> Tensor:
        steps, envs = batch.shape
        flat = (batch.obs.flatten(0, 1), batch.action.flatten(0, 1), batch.next_obs.flatten(0, 1))
        return in_chunks(function, steps * envs, 1024, *flat).view(steps, envs, *())

    def _reward(self, batch: Transitions, mse: Tensor) -> Tensor:
        c = self.config
        open_gate = self._gate(batch.valid)
        if not bool(open_gate.any()):
            return torch.zeros_like(mse)
        weight = c.rnd_weight if c.form == "rnd" else c.exp_weight

        def rewards(obs: Tensor, action: Tensor, next_obs: Tensor, errors: Tensor) -> Tensor:
            g = self._predicted(obs, action, next_obs)
            return reward(c.form, g, errors, self.floor, weight=weight)

        flat = (batch.obs, batch.action, batch.next_obs, mse)
        value = in_chunks(rewards, mse.numel(), 1024, *(x.flatten(0, 1) for x in flat)).view_as(mse)
        value = c.reward_scale * value
        if c.reward_cap is not None:
            value = value.clamp_max(c.reward_cap)
        return torch.where(open_gate, value, torch.zeros_like(value))

    def _gate(self, valid: Tensor) -> Tensor:
        """Which transitions of a block may be paid: the push precedes the test, so the d-th one is the first."""
        if self.config.gate_fitted and self.fits == 0:
            return torch.zeros_like(valid)
        if not self.config.gate_full:
            return valid
        rank = valid.flatten().cumsum(0).view_as(valid)
        queued = self.buffer.total - int(self.queue_start) + rank
        return valid & (queued >= self.queue_size) & self._statistics_frozen

    def _predicted(self, obs: Tensor, action: Tensor, next_obs: Tensor) -> Tensor:
        x = self.input(next_obs if self.config.form == "rnd" else obs)
        g: Tensor = self.error_model(x, self.spaces.encode_action(action))
        return g if self.config.clamp is None else g.clamp(*self.config.clamp)

    def _push(self, batch: Transitions, mse: Tensor) -> None:
        rows: Rows = batch.rows()
        count = rows.obs.shape[0]
        if not self._statistics_frozen:
            self.input.observe(rows.obs)
        errors = target(self.config.form, mse[batch.valid], self.floor)
        columns = {
            "obs": rows.obs,
            "action": rows.action,
            "next_obs": rows.next_obs,
            "error": errors,
            "version": self.versions.expand(count),
        }
        if self.config.queue == "reservoir":
            columns["priority"] = torch.rand(count, generator=self.generator).to(errors.device)
        self.buffer.push(**columns)

    # ---- learning -----------------------------------------------------------------------------------------
    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        if len(self.buffer) == 0 or not self._freeze_statistics():
            return {}
        metrics = {"dynamics_loss": self._fit_dynamics(generator)}
        slots = self.queue_slots()
        if len(slots) and int(self.versions) % self.config.error_every == 0:
            metrics["error_model_loss"] = self._fit_error_model(slots, generator)
        errors = self.buffer["error"][slots]
        if len(slots):
            metrics["queue_error_mean"] = errors.mean()
            metrics["queue_error_std"] = errors.std(correction=0)
        metrics["queue_length"] = torch.tensor(float(len(slots)))
        self.cycle_start.fill_(self.buffer.total)
        return metrics

    def _fit_dynamics(self, generator: torch.Generator) -> Tensor:
        """f on B by MSE."""
        c, losses = self.config, []
        for index in minibatches(len(self.buffer), c.batch_size, c.dynamics_steps, generator):
            obs, action, next_obs = self._gather(index)
            loss = self.dynamics.errors(self.input(obs), action, self.input(next_obs)).mean()
            self.descend("dynamics", loss)
            losses.append(loss.detach())
        self.versions += 1
        return torch.stack(losses).mean()

    def _fit_error_model(self, slots: Tensor, generator: torch.Generator) -> Tensor:
        """g on D: the errors are the numbers stored at collection, never recomputed."""
        c, losses = self.config, []
        if self.fits == 0:
            self.error_model.calibrate(self.buffer["error"][slots])
        for index in minibatches(len(slots), c.error_batch_size, c.error_steps, generator):
            chosen = slots[index.to(slots.device)]
            obs, action, next_obs = self._gather(chosen)
            x = self.input(next_obs if c.form == "rnd" else obs)
            loss = self.error_model.loss(x, action, self.buffer["error"][chosen])
            self.descend("error_model", loss)
            losses.append(loss.detach())
        self.fits += 1
        return torch.stack(losses).mean()

    def _gather(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        index = index.to(self.buffer.pushed.device)
        action = self.spaces.encode_action(self.buffer["action"][index])
        return self.buffer["obs"][index], action, self.buffer["next_obs"][index]

    # ---- the queue ----------------------------------------------------------------------------------------
    def queue_slots(self) -> Tensor:
        """Buffer slots of the entries of D, oldest first."""
        queued = self.buffer.total - int(self.queue_start)
        if self.config.queue == "fifo":
            return self.buffer.last(min(self.queue_size, queued))
        cycle = self.buffer.last(min(self.buffer.total - int(self.cycle_start), queued))
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
        """Freeze the observation statistics once enough was seen; errors in the old scale leave the queue."""
        if self._statistics_frozen:
            return True
        assert self.input.moments is not None
        if self.input.moments.total < self.config.warmup:
            return False
        self.input.commit()
        self.queue_start.fill_(self.buffer.total)
        return True


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
