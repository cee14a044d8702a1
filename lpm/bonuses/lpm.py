"""Learning Progress Monitoring, Algorithm 1 of "Beyond Noisy-TVs" (Hou, An & Du, 2026).

The dynamics model f predicts the next observation; its error is ε = log(MSE + floor). The error model g(o, a) is
fitted on a queue D of the errors that f made before its last update. The reward is g(o, a) − ε.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from lpm.bonuses._learner import MemoryBonus
from lpm.bonuses._progress import LearningProgress, ProgressConfig, log_error
from lpm.core.registry import register
from lpm.core.settings import Count, NonNegative, expect
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.dynamics import ErrorModel
from lpm.nn.experience import Minibatches, Prepared, regression
from lpm.nn.frozen import RandomTargetErrorModel
from lpm.nn.memory import TransitionBuffer, minibatches
from lpm.nn.networks import Encoder


@dataclass(frozen=True)
class QueueConfig(ProgressConfig):
    """Settings of f and B, and of the queue D."""

    queue_size: Count | None = None
    """d, capacity of the error queue D in transitions (Sec. 3). None: one rollout, so that D holds the errors of one
    model version. Paper: 100 (MNIST, MiniWorld), 128 (Atari)."""
    queue: Literal["fifo", "reservoir"] = "fifo"
    """Which errors D keeps: the last d (Sec. 3), or a uniform sample of d from those since the last update."""
    gate_fitted: bool = True
    """Reward 0 until g has been fitted once; otherwise the first rewards show g's initial value. Not in the paper."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.buffer_size is not None and self.queue_size is not None:
            expect(self, "buffer_size", self.buffer_size >= self.queue_size,
                   f"at least queue_size = {self.queue_size} (the queue is a window of the buffer)")  # fmt: skip


@dataclass(frozen=True)
class LPMConfig(QueueConfig):
    """Settings of LPM: those of f, B and D, and of the network g."""

    affine: bool = True
    """Before each fit, remove g's average residual on D, so that it starts at the mean error. Not in the paper."""
    error_hidden: tuple[int, ...] | None = None
    """Hidden layers of g. None: (128, 64) for vectors, (256, 128) for images (App. C.2, C.3; MNIST 256-128-64)."""
    shared_encoder: bool = False
    """Let g read f's image encoder (without training it) instead of its own. Not in the paper."""
    error_lr: NonNegative = 1e-3
    """Adam learning rate of g (App. C.1; release MiniWorld 1e-2, Atari 1e-4)."""
    error_steps: Count = 16
    """Gradient steps of g per update. Paper: as f; release: 1 (MNIST, MiniWorld) or 24 (Atari)."""
    error_batch_size: Count = 256
    """Minibatch of g (App. C.1: 32)."""


# Algorithm 1 and nothing else: one gate, g's raw output, no standardisation.
LITERAL: Mapping[str, Any] = {"gate_fitted": False, "affine": False, "normalise": "none"}
MNIST_F: Mapping[str, Any] = {
    "normalise": "none",
    "dynamics_hidden": (784, 784, 784),
    "dynamics_skip": True,
    "error_floor": 1e-6,
    "batch_size": 32,
    "dynamics_steps": 1,
}
MNIST: Mapping[str, Any] = {
    **MNIST_F,
    "error_hidden": (256, 128, 64),
    "queue_size": 100,
    "error_batch_size": 32,
    "error_steps": 1,
}
MINIWORLD_F: Mapping[str, Any] = {
    "normalise": "none",
    "activation": "relu",
    "features": None,
    "dynamics_hidden": (512,),
    "batch_size": 64,
    "dynamics_steps": 1,
}
MINIWORLD: Mapping[str, Any] = {
    **MINIWORLD_F,
    "error_hidden": (256, 128),
    "queue_size": 100,
    "error_batch_size": 32,
    "error_steps": 1,
}
ATARI: Mapping[str, Any] = {
    "activation": "leaky_relu",
    "features": 512,
    "dynamics_hidden": (512,),
    "error_hidden": (256, 128),
}


def reward(g: Tensor, mse: Tensor, floor: float | Tensor) -> Tensor:
    """r = g(o, a) − ε (Eq. 3), from g's outputs (..., K), averaged over them, and the current MSE (...)."""
    return g.mean(-1) - log_error(mse, floor)


class ErrorQueue(nn.Module):
    """D: which rows of B hold the errors that g is fitted to. A window of B, so that an image is stored once for both.

    The errors themselves are the buffer's column "error", written when the transition was collected and never again.
    """

    start: Tensor  # first pushed row whose error is in the present scale

    def __init__(self, buffer: TransitionBuffer, size: int, kind: Literal["fifo", "reservoir"] = "fifo") -> None:
        super().__init__()
        self._buffer = [buffer]
        self.size, self.kind = size, kind
        self.register_buffer("start", torch.zeros((), dtype=torch.int64))

    @property
    def buffer(self) -> TransitionBuffer:
        """B: not a submodule, because it is saved with its owner."""
        return self._buffer[0]

    @property
    def slots(self) -> Tensor:
        """Rows of B that are in D, oldest first."""
        buffer = self.buffer
        queued = buffer.total - int(self.start)
        if self.kind == "fifo":
            return buffer.last(min(self.size, queued))
        cycle = buffer.last(min(buffer.fresh, queued))
        if len(cycle) <= self.size:
            return cycle
        return cycle[buffer["priority"][cycle].topk(self.size).indices.sort().values]

    def __len__(self) -> int:
        buffer = self.buffer
        waiting = buffer.total - int(self.start) if self.kind == "fifo" else len(self.slots)
        return min(self.size, waiting, len(buffer))

    @property
    def errors(self) -> Tensor:
        """ε as it was at collection, oldest first."""
        return self.buffer["error"][self.slots]

    @property
    def versions(self) -> list[int]:
        """The model versions τ whose errors D holds."""
        return sorted(set(self.buffer["version"][self.slots].tolist()))

    def full_after(self, valid: Tensor) -> Tensor:
        """Where |D| = d once each of the valid transitions (T, N) of a block is pushed, in order (line 6)."""
        rank = valid.flatten().cumsum(0).view_as(valid)
        return valid & (self.buffer.total - int(self.start) + rank >= self.size)

    def clear(self) -> None:
        """Errors so far are in another scale: they leave."""
        self.start.fill_(self.buffer.total)


class AlgorithmOne(MemoryBonus, LearningProgress):
    """Algorithm 1 of the paper, whatever g is: a method says what g predicts and how it is fitted."""

    config: QueueConfig
    fits: Tensor  # updates of g so far

    def _build(self) -> None:
        columns = {"error": ((), torch.float32), "version": ((), torch.int64)}
        if self.config.queue == "reservoir":
            columns["priority"] = ((), torch.float32)
            if self.queue_size > self.rollout:
                raise ValueError(
                    f"{type(self.config).__name__}.queue_size: a reservoir samples one rollout, so expected at most "
                    f"num_envs * rollout_steps = {self.rollout}, got {self.queue_size}"
                )
        self._build_progress(columns, least_capacity=self.queue_size)
        self.queue = ErrorQueue(self.buffer, self.queue_size, self.config.queue)
        self.register_buffer("fits", torch.zeros((), dtype=torch.int64))

    @property
    def queue_size(self) -> int:
        """d."""
        return self.rollout if self.config.queue_size is None else self.config.queue_size

    # ---- what a method implements -------------------------------------------------------------------------
    def _predict_error(self, rows: Prepared) -> Tensor:
        """g(o, a), (B, K)."""
        raise NotImplementedError

    def _fit_error_model(self, slots: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """g on D, given as slots of B; its metrics."""
        raise NotImplementedError

    def _target(self, mse: Tensor) -> Tensor:
        """What g is regressed on."""
        return log_error(mse, self.floor)

    def _progress(self, g: Tensor, mse: Tensor) -> Tensor:
        """The reward of rows, (B,), from g, (B, K), and the error now, (B,)."""
        return reward(g, mse, self.floor)

    # ---- collection: the error now, push, gate, reward ----------------------------------------------------
    def _walk(self, batch: Transitions, keep: bool) -> Tensor:
        mse = self.mse(batch)
        result = self._reward(batch, mse)
        if keep:
            self._push(batch, mse)
        return result

    def _reward(self, batch: Transitions, mse: Tensor) -> Tensor:
        open_gate = self._gate(batch.valid)
        if not bool(open_gate.any()):
            return torch.zeros_like(mse)
        errors = mse.flatten()
        value = self.experience.each(lambda rows: self._progress(self._predict_error(rows), errors[rows.index]), batch)
        return torch.where(open_gate, value, torch.zeros_like(value))

    def _gate(self, valid: Tensor) -> Tensor:
        """Which transitions of a block may be rewarded: the push precedes the test, so the d-th one is the first."""
        if not self._has_scale:
            return torch.zeros_like(valid)
        return self.queue.full_after(valid)

    @property
    def _has_scale(self) -> bool:
        return self.experience.ready and not (self.config.gate_fitted and bool(self.fits == 0))

    def _push(self, batch: Transitions, mse: Tensor) -> None:
        """The transition to B, its error to D."""
        errors = self._target(mse[batch.valid])
        columns = {"error": errors, "version": self.versions.expand_as(errors)}
        if self.config.queue == "reservoir":
            columns["priority"] = torch.rand(len(errors), generator=self.generator).to(errors.device)
        self.experience.observe(batch, **columns)

    # ---- learning: f on B, then g on D --------------------------------------------------------------------
    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        if self.experience.rescaled:
            self.queue.clear()
        if self.experience.rescaled or self.versions == 0:
            self._before_first_update()
        metrics = {"dynamics_loss": self._fit_dynamics(self._dynamics_batches(generator))}
        length = len(self.queue)
        if length:
            errors = self.queue.errors
            metrics |= self._fit_error_model(self.queue.slots, generator)
            metrics |= {"queue_error_mean": errors.mean(), "queue_error_std": errors.std(correction=0)}
        return metrics | {"queue_length": torch.tensor(float(length))}

    def _before_first_update(self) -> None:
        """Called with observations in their scale, and f untrained; again if that scale turned out too narrow."""

    def _dynamics_batches(self, generator: torch.Generator) -> Minibatches:
        return self.experience.replayed(self.config.batch_size, self.config.dynamics_steps, generator)


@register("lpm")
class LPM(AlgorithmOne):
    """Learning progress: the error of f before its last update, as predicted by g, minus the error now."""

    label = "LPM"
    family = "progress"
    use = "The paper's learning progress: what the error used to be minus what it is."
    Config = LPMConfig
    config: LPMConfig
    reference = "Hou, An & Du 2026, Beyond Noisy-TVs: Noise-Robust Exploration Via Learning Progress Monitoring"
    variants = {
        "paper": {**LITERAL, "queue_size": 100, "error_hidden": (256, 128)},
        "paper-mnist": {**LITERAL, **MNIST},
        "paper-miniworld": {**LITERAL, **MINIWORLD},
        "paper-atari": {**LITERAL, **ATARI, "queue_size": 128},
    }

    error_model: ErrorModel | RandomTargetErrorModel

    def _build_error_model(self) -> None:
        self._build_network()

    def _build_network(self, outputs: int = 1) -> None:
        c = self.config
        self.error_model = ErrorModel(
            self.spaces,
            hidden=c.error_hidden,
            features=c.features,
            act=c.activation,
            outputs=outputs,
            affine=c.affine,
            encoder=shared_encoder(self.spaces, self.dynamics) if c.shared_encoder else None,
        )

    def _build(self) -> None:
        super()._build()
        self.add_optimizer("error_model", self.error_model.parameters(), self.config.error_lr)

    def _predict_error(self, rows: Prepared) -> Tensor:
        return self.error_model(*self._error_inputs(rows))  # type: ignore[no-any-return]

    def _error_inputs(self, rows: Prepared) -> tuple[Tensor, Tensor]:
        return rows.x, rows.code

    def _fit_error_model(self, slots: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """Calibrate g if it is affine, then gradient steps on the stored errors, never recomputed ones."""
        c, errors = self.config, self.buffer["error"][slots]
        if isinstance(self.error_model, ErrorModel) and self.error_model.affine:
            predicted = self.experience.at(slots, lambda rows: self._predict_error(rows).mean(1))
            self.error_model.calibrate(errors, predicted)
        batches = Minibatches(slots, minibatches(len(slots), c.error_batch_size, c.error_steps, generator))
        loss = regression(self.error_model, lambda rows: (*self._error_inputs(rows), errors[rows.index]))
        self.fits += 1
        return {"error_model_loss": self.experience.fit(loss, self.optimizer("error_model"), batches)}


def shared_encoder(spaces: Spaces, dynamics: nn.Module) -> Encoder:
    """f's own image encoder, for a g that reads it."""
    encoder = getattr(dynamics, "encoder", None)
    if not isinstance(encoder, Encoder):
        raise ValueError(f"shared_encoder: expected an image observation, got {spaces.observation}")
    return encoder
