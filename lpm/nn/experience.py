"""What every bonus that learns needs: preprocessing, and the transitions observed since the last update."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor, nn

from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.buffers import minibatches
from lpm.nn.fitting import NUMBERS_AT_ONCE, Regressor
from lpm.nn.fused import Layer, least_squares
from lpm.nn.inputs import Normalise, ObservationInput, in_chunks
from lpm.nn.replay import TransitionBuffer

CHUNK = 1024
"""Rows that are preprocessed at a time, unless they have very many numbers: bounds the memory that images take."""


class Rows:
    """Some transitions as networks see them; what a bonus does not look at is never computed."""

    def __init__(self, owner: Experience, index: Tensor, obs: Tensor, action: Tensor, next_obs: Tensor) -> None:
        self._owner, self._obs, self._next_obs = owner, obs, next_obs
        self.index = index
        """Where these rows stand in the block they were taken from."""
        self.action = action
        """Raw actions."""

    @cached_property
    def x(self) -> Tensor:
        """Preprocessed observations, (B, *input_shape)."""
        return self._owner.input(self._obs)  # type: ignore[no-any-return]

    @cached_property
    def x_next(self) -> Tensor:
        """Preprocessed next observations, (B, *input_shape)."""
        return self._owner.input(self._next_obs)  # type: ignore[no-any-return]

    @cached_property
    def code(self) -> Tensor:
        """Encoded actions, (B, action width)."""
        return self._owner.spaces.encode_action(self.action)


class Experience(nn.Module):
    """The latest transitions in raw form, and how networks see them.

    Statistics of observations, if any, are accumulated by `observe` and take effect in `begin_update`. They are then
    kept (`frozen`) or refined at every update. `ready` is False until they exist: before that, errors would be in
    another scale than after, so bonuses pay 0.

    `normalise="auto"` standardises vectors only; "standard" clips at ±10 unless `clip` says otherwise. `warmup`
    transitions must be seen before statistics take effect. `next_only` takes them from next observations, for bonuses
    that look at nothing else.
    """

    def __init__(
        self,
        spaces: Spaces,
        capacity: int,
        normalise: Normalise | Literal["auto"] = "none",
        *,
        clip: float | None = None,
        warmup: int = 1,
        frozen: bool = True,
        next_only: bool = False,
    ) -> None:
        super().__init__()
        if normalise == "auto":
            normalise = "standard" if spaces.kind == "vector" else "none"
        self.spaces = spaces
        self.chunk = max(1, min(CHUNK, NUMBERS_AT_ONCE // max(1, math.prod(spaces.input_shape))))
        self.warmup = warmup
        self.frozen = frozen
        self.next_only = next_only
        if normalise == "standard" and clip is None:
            clip = 10.0
        self.input = ObservationInput(spaces, normalise, clip)
        self.buffer = TransitionBuffer(spaces, capacity)

    # ---- collection ---------------------------------------------------------------------------------------
    @property
    def ready(self) -> bool:
        """Whether observations can be put in their final scale."""
        return self.input.moments is None or bool(self.input.moments.commits > 0)

    def observe(self, batch: Transitions) -> None:
        """Remember the valid transitions of a block."""
        if self._accumulating:
            rows = batch.rows()
            for field in (rows.next_obs,) if self.next_only else (rows.obs, rows.next_obs):
                for part in torch.split(field, self.chunk):
                    self.input.observe(part)
        self.buffer.observe(batch)

    @torch.no_grad()
    def each(self, function: Callable[[Rows], Tensor], batch: Transitions) -> Tensor:
        """`function`, which returns one number per row, over a block: (T, N). All 0 until `ready`."""
        if not self.ready:
            return torch.zeros(batch.shape, device=batch.device)

        def chunk(index: Tensor, obs: Tensor, action: Tensor, next_obs: Tensor) -> Tensor:
            return function(Rows(self, index, obs, action, next_obs))

        flat = [field.flatten(0, 1) for field in (batch.obs, batch.action, batch.next_obs)]
        index = torch.arange(flat[0].shape[0], device=batch.device)
        return in_chunks(chunk, index, *flat, chunk=self.chunk).view(batch.shape)

    # ---- learning -----------------------------------------------------------------------------------------
    def begin_update(self) -> bool:
        """Make new statistics active; False if there is nothing to learn from yet."""
        if self._accumulating and self.buffer.total >= self.warmup:
            self.input.commit()
        return self.buffer.fresh > 0 and self.ready

    def fit(
        self,
        loss: Callable[[Rows], Tensor],
        descend: Callable[[Tensor], None],
        *,
        batch_size: int,
        epochs: int,
        generator: torch.Generator,
    ) -> Tensor:
        """Descend on `loss` of random minibatches, `epochs` passes over what came since the last update.

        `loss` returns the loss of each row, (B,), or a mean of it; the mean over everything is returned.
        """
        slots = self.buffer.last(self.buffer.fresh)
        losses = []
        for index in _passes(slots, batch_size, epochs, generator):
            value = loss(self._fresh(slots, index)).mean()
            descend(value)
            losses.append(value.detach())
        return torch.stack(losses).mean()

    def fit_layers(
        self,
        layers: Sequence[Layer],
        problem: Callable[[Rows], tuple[Tensor, Tensor]],
        apply_gradients: Callable[[], None],
        *,
        batch_size: int,
        epochs: int,
        generator: torch.Generator,
    ) -> Tensor:
        """`fit` of an MLP by least squares, without autograd. `problem` gives its inputs and targets.

        They are computed once and for all rows, unless these have very many numbers.
        """
        slots = self.buffer.last(self.buffer.fresh)

        def batches() -> Iterator[tuple[Tensor, Tensor]]:
            whole = None
            if len(slots) * self.spaces.row_numbers <= 4 * NUMBERS_AT_ONCE:
                whole = problem(self._fresh(slots, torch.arange(len(slots), device=slots.device)))
            for index in _passes(slots, batch_size, epochs, generator):
                if whole is None:
                    yield problem(self._fresh(slots, index))
                else:
                    yield whole[0][index], whole[1][index]

        return torch.stack(least_squares(layers, batches(), apply_gradients)).mean()

    def fit_model(
        self,
        model: Regressor,
        target: Callable[[Rows], Tensor],
        descend: Callable[[Tensor], None],
        apply_gradients: Callable[[], None],
        *,
        batch_size: int,
        epochs: int,
        generator: torch.Generator,
    ) -> Tensor:
        """`fit` of a model of (o, a) to a target, without autograd where the model allows it."""
        how = {"batch_size": batch_size, "epochs": epochs}
        layers = model.layers()
        if layers is None:
            return self.fit(
                lambda rows: model.loss(rows.x, rows.code, target(rows)), descend, **how, generator=generator
            )
        return self.fit_layers(
            layers,
            lambda rows: model.problem(rows.x, rows.code, target(rows)),
            apply_gradients,
            **how,
            generator=generator,
        )

    @torch.no_grad()
    def each_fresh(self, function: Callable[[Rows], Tensor]) -> Tensor:
        """`function`, which returns one result per row, over what came since the last update, oldest first."""
        slots = self.buffer.last(self.buffer.fresh)
        parts = torch.split(torch.arange(len(slots), device=slots.device), self.chunk)
        return torch.cat([function(self._fresh(slots, part)) for part in parts])

    def end_update(self) -> None:
        """Everything so far has been learnt from."""
        self.buffer.mark()

    def _fresh(self, slots: Tensor, index: Tensor) -> Rows:
        return Rows(self, index, *self.buffer.rows(slots[index]))

    @property
    def _accumulating(self) -> bool:
        return self.input.moments is not None and not (self.frozen and self.ready)


def _passes(slots: Tensor, batch_size: int, epochs: int, generator: torch.Generator) -> Iterator[Tensor]:
    steps = epochs * max(1, len(slots) // batch_size)
    return (index.to(slots.device) for index in minibatches(len(slots), batch_size, steps, generator))
