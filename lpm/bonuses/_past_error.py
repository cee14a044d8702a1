"""What the error of LPM's dynamics model was before its last update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from lpm.bonuses.lpm_config import LPMConfig
from lpm.core.spaces import Spaces
from lpm.nn.anchored import AnchoredErrorModel
from lpm.nn.buffers import minibatches
from lpm.nn.dynamics import DynamicsModel, ErrorModel
from lpm.nn.fitting import fit
from lpm.nn.inputs import ObservationInput, in_chunks
from lpm.nn.random_target import RandomTargetErrorModel
from lpm.nn.replay import TransitionBuffer


class PastError(Protocol):
    """Anything that says how large the error of a transition was."""

    queued: bool
    """Whether it learns from the queue D."""

    def predict(self, obs: Tensor, action: Tensor, next_obs: Tensor) -> Tensor:
        """Raw rows (B, ...) to predicted errors, (B, K)."""

    def begin(self, untrained: Callable[[], Tensor]) -> None:
        """Called once, before the first update of f; `untrained` computes the errors that f makes as it is."""

    def fit(self, slots: Tensor, generator: torch.Generator) -> Tensor | None:
        """Learn from the entries of the queue D, given as slots of the buffer; the loss, if there is one."""


class QueueRegression:
    """g of the paper: a network of (o, a), regressed on the errors in D as they were stored at collection."""

    queued = True

    def __init__(
        self,
        model: ErrorModel | RandomTargetErrorModel,
        buffer: TransitionBuffer,
        observations: ObservationInput,
        spaces: Spaces,
        config: LPMConfig,
        *,
        descend: Callable[[Tensor], None],
        apply_gradients: Callable[[], None],
    ) -> None:
        self.model = model
        self.buffer = buffer
        self.input = observations
        self.spaces = spaces
        self.config = config
        self._descend = descend
        self._apply_gradients = apply_gradients

    def predict(self, obs: Tensor, action: Tensor, next_obs: Tensor) -> Tensor:
        """Raw rows (B, ...) to g's outputs, (B, K)."""
        return self.model(*self._inputs(obs, action, next_obs))  # type: ignore[no-any-return]

    def begin(self, untrained: Callable[[], Tensor]) -> None:
        """A network forgets what it began with."""

    def fit(self, slots: Tensor, generator: torch.Generator) -> Tensor:
        """Calibrate g if it is affine, then gradient steps on the stored errors, never recomputed ones."""
        c = self.config
        if isinstance(self.model, ErrorModel) and self.model.affine:
            self.model.calibrate(self.buffer["error"][slots], self.predicted(slots))
        return fit(
            self.model,
            [slots[i.to(slots.device)] for i in minibatches(len(slots), c.error_batch_size, c.error_steps, generator)],
            lambda chosen: (*self._inputs(*self.buffer.rows(chosen)), self.buffer["error"][chosen]),
            row_numbers=self.spaces.row_numbers,
            descend=self._descend,
            apply_gradients=self._apply_gradients,
        )

    @torch.no_grad()
    def predicted(self, slots: Tensor) -> Tensor:
        """The mean of g's outputs on entries of the buffer."""
        return in_chunks(lambda *rows: self.predict(*rows).mean(1), *self.buffer.rows(slots))

    def _inputs(self, obs: Tensor, action: Tensor, next_obs: Tensor) -> tuple[Tensor, Tensor]:
        # (o, a), except in the release's Montezuma code, which shows g the next observation
        return self.input(next_obs if self.config.form == "rnd" else obs), self.spaces.encode_action(action)


class AnchoredRegression:
    """g as Bayesian regression: where there is no data, it is what f's error was before f had learnt anything."""

    queued = True

    def __init__(
        self,
        model: AnchoredErrorModel,
        encoder: nn.Module | None,
        buffer: TransitionBuffer,
        observations: ObservationInput,
        spaces: Spaces,
    ) -> None:
        self.model = model
        self.encoder = encoder
        self.buffer = buffer
        self.input = observations
        self.spaces = spaces

    def predict(self, obs: Tensor, action: Tensor, next_obs: Tensor) -> Tensor:
        """Raw rows (B, ...) to g, (B, 1)."""
        return self.model(self._inputs(obs, action))  # type: ignore[no-any-return]

    def begin(self, untrained: Callable[[], Tensor]) -> None:
        """m₀ is the mean error of the untrained f."""
        self.model.anchor.copy_(untrained().mean())

    @torch.no_grad()
    def fit(self, slots: Tensor, generator: torch.Generator) -> Tensor | None:
        """One exact update on the stored errors that it has not seen; nothing is drawn."""
        unseen = self.buffer.total - int(self.model.rows)
        self.model.rows.fill_(self.buffer.total)
        slots = slots[max(len(slots) - unseen, 0) :]
        if not len(slots):
            return None
        x = in_chunks(lambda obs, action, _: self._inputs(obs, action), *self.buffer.rows(slots))
        return self.model.fit(x, self.buffer["error"][slots])

    @torch.no_grad()
    def _inputs(self, obs: Tensor, action: Tensor) -> Tensor:
        x = self.input(obs)
        x = x.flatten(1) if self.encoder is None else self.encoder(x)
        return torch.cat([x, self.spaces.encode_action(action)], dim=1)


class SlowCopy:
    """No regression: a copy of f that starts as the untrained f and follows f slowly makes the error that f made.

    Both errors are measured on the same transition, so what cannot be learnt cancels.
    """

    queued = False

    def __init__(
        self,
        model: DynamicsModel,
        dynamics: DynamicsModel,
        decay: float,
        errors: Callable[[DynamicsModel, Tensor, Tensor, Tensor], Tensor],
    ) -> None:
        """`errors`: what a model's error on raw rows is, in the form that g is compared in."""
        self.model = model
        self.dynamics = dynamics
        self.decay = decay
        self._errors = errors

    def predict(self, obs: Tensor, action: Tensor, next_obs: Tensor) -> Tensor:
        """Raw rows (B, ...) to the copy's errors, (B, 1)."""
        return self._errors(self.model, obs, action, next_obs).unsqueeze(1)

    def begin(self, untrained: Callable[[], Tensor]) -> None:
        """The copy was made before f learnt anything."""

    @torch.no_grad()
    def fit(self, slots: Tensor, generator: torch.Generator) -> None:
        """Follow f."""
        for slow, fast in zip(self.model.parameters(), self.dynamics.parameters(), strict=True):
            slow.lerp_(fast, 1 - self.decay)
