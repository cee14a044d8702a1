"""What every bonus that learns needs: preprocessing, the transitions it has observed, and fitting models to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.fused import Layer, adam_step, least_squares
from lpm.nn.inputs import Normalise, ObservationInput, RangeWatch, in_chunks, same_rows
from lpm.nn.memory import Columns, TransitionBuffer, minibatches

CHUNK = 1024
"""Rows that are preprocessed at a time, unless they have very many numbers: bounds the memory that images take."""
NUMBERS_IN_CACHE = 2**22
"""Numbers that are scored at a time, where a row has very many: what they become stays in the processor's cache."""
NUMBERS_AT_ONCE = 2**23
"""Numbers that are preprocessed at a time: all minibatches of vectors, one of images."""


class Prepared:
    """Some transitions as networks see them; what a bonus does not look at is never computed."""

    def __init__(self, owner: Experience, index: Tensor, obs: Tensor, action: Tensor, next_obs: Tensor) -> None:
        self._owner, self._obs, self._next_obs = owner, obs, next_obs
        self.index = index
        """Where these rows stand in what they were taken from: the block, or the slots that are learnt from."""
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


class Regressor(Protocol):
    """A model that is fitted to rows of (x, action, target)."""

    def loss(self, x: Tensor, action: Tensor, target: Tensor) -> Tensor:
        """What is minimised."""

    def layers(self) -> list[Layer] | None:
        """The layers, if the model is an MLP whose `loss` is its mean squared error on a `problem`."""

    def problem(self, x: Tensor, action: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and targets of that MLP, (B, inputs) and (B, outputs)."""


@dataclass(frozen=True)
class LeastSquares:
    """A loss that needs no autograd: the mean squared error of an MLP."""

    layers: list[Layer]
    problem: Callable[[Prepared], tuple[Tensor, Tensor]]
    """Inputs and targets of the MLP, (B, inputs) and (B, outputs)."""


Loss = Callable[[Prepared], Tensor] | LeastSquares
"""What is minimised: a function that returns the loss of each row, (B,), or a mean of it; or that of an MLP."""


def regression(model: Regressor, view: Callable[[Prepared], tuple[Tensor, Tensor, Tensor]]) -> Loss:
    """The loss of a model on the (x, action, target) that `view` makes of rows, without autograd where it can be."""
    if layers := model.layers():
        return LeastSquares(layers, lambda rows: model.problem(*view(rows)))
    return lambda rows: model.loss(*view(rows))


def successor(rows: Prepared) -> tuple[Tensor, Tensor, Tensor]:
    """What a dynamics model is fitted to: (x, action, next x)."""
    return rows.x, rows.code, rows.x_next


@dataclass(frozen=True)
class Minibatches:
    """What gradient steps are made on."""

    slots: Tensor
    """The rows of the buffer that are learnt from."""
    parts: Iterable[Tensor]
    """Indices into `slots`, one tensor a gradient step, drawn when they are needed; all of one size."""


class Experience(nn.Module):
    """The latest transitions in raw form, and how networks see them.

    Statistics of observations, if any, are accumulated by `observe` and take effect in `begin_update`. They are then
    kept (`frozen`) or refined at every update. `ready` is False until they exist: before that, errors would be in
    another scale than after, so bonuses are 0. Those of vectors that were frozen too early are measured again
    (`RangeWatch`); `rescaled` says that the present update began with a new scale.

    `normalise="auto"` standardises vectors only; "standard" clips at ±10 unless `clip` says otherwise. `warmup`
    transitions must be seen before statistics take effect. `next_only` takes them from next observations, for bonuses
    that look at nothing else. `columns` are kept beside the transitions.
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
        columns: Columns | None = None,
    ) -> None:
        super().__init__()
        if normalise == "auto":
            normalise = "standard" if spaces.kind == "vector" else "none"
        self.spaces, self.warmup, self.frozen, self.next_only = spaces, warmup, frozen, next_only
        self.chunk = max(1, min(CHUNK, NUMBERS_IN_CACHE // max(1, math.prod(spaces.input_shape))))
        if normalise == "standard" and clip is None:
            clip = 10.0
        self.input = ObservationInput(spaces, normalise, clip)
        self.rescaled = False
        self.watch: RangeWatch | None = None
        # one common scale cuts nothing off, and the range of pixels is known
        if frozen and normalise in ("standard", "robust") and spaces.kind == "vector":
            assert self.input.moments is not None
            self.watch = RangeWatch(self.input.moments, 10.0 if clip is None else clip)
        self.buffer = TransitionBuffer(spaces, capacity, columns)

    # ---- collection ---------------------------------------------------------------------------------------
    @property
    def ready(self) -> bool:
        """Whether observations can be put in their final scale."""
        return self.input.ready

    def observe(self, batch: Transitions, **columns: Tensor) -> None:
        """Remember the valid transitions of a block, with extra columns given per valid row."""
        if self._accumulating or self.watch is not None:
            rows = batch.rows()
            fields = (rows.next_obs,) if self.next_only else (rows.obs, rows.next_obs)
            self.input.observe(*fields, into=self.watch and self.watch.observe)
        self.buffer.observe(batch, **columns)

    @torch.no_grad()
    def each(self, function: Callable[[Prepared], Tensor], batch: Transitions) -> Tensor:
        """`function`, which returns one number per row, over a block: (T, N). All 0 until `ready`."""
        if not self.ready:
            return torch.zeros(batch.shape, device=batch.device)

        flat = [field.flatten(0, 1) for field in (batch.obs, batch.action, batch.next_obs)]
        index = torch.arange(flat[0].shape[0], device=batch.device)
        return in_chunks(lambda *rows: function(Prepared(self, *rows)), index, *flat, chunk=self.chunk).view(
            batch.shape
        )

    def seen_by(self, encoder: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """What an encoder makes of raw observations, as a function."""
        return lambda obs: encoder(self.input(obs))

    @torch.no_grad()
    def encoded_block(self, encode: Callable[[Tensor], Tensor], batch: Transitions) -> tuple[Tensor, Tensor]:
        """`encode` of the observations and of the successors of a block, (T·N, F) each.

        Of images each is encoded once: the successor of a step is mostly the observation of the next.
        """

        def encoded(obs: Tensor) -> Tensor:
            return in_chunks(self.seen_by(encode), obs, chunk=self.chunk)

        first, following = encoded(batch.obs.flatten(0, 1)), batch.next_obs.flatten(0, 1)
        if self.spaces.kind == "vector":
            return first, encoded(following)
        envs = batch.shape[1]
        same = in_chunks(same_rows, following[:-envs], batch.obs[1:].flatten(0, 1), chunk=self.chunk)
        return first, _shifted(first, same, envs, lambda new: encoded(following[new]))

    @torch.no_grad()
    def at(self, slots: Tensor, function: Callable[[Prepared], Tensor]) -> Tensor:
        """`function`, which returns one result per row, over slots of the buffer."""
        index = torch.arange(len(slots), device=slots.device)
        return in_chunks(lambda part: function(self._prepared(slots, part)), index, chunk=self.chunk)

    def at_fresh(self, function: Callable[[Prepared], Tensor]) -> Tensor:
        """`function`, which returns one result per row, over what came since the last update, oldest first."""
        return self.at(self.fresh, function)

    def encoded_fresh(self, encode: Callable[[Tensor], Tensor], envs: int) -> tuple[Tensor, Tensor]:
        """`encode` of the observations and of the successors of what came since the last update, (B, F) each.

        Of images each is encoded once: the successor of a row is mostly the observation of the `envs`-th row after it.
        """
        slots = self.fresh
        first = self.at(slots, lambda rows: encode(rows.x))
        if self.spaces.kind == "vector" or len(slots) <= envs:
            return first, self.at(slots, lambda rows: encode(rows.x_next))
        obs, next_obs = self.buffer["obs"], self.buffer["next_obs"]

        def repeated(now: Tensor, later: Tensor) -> Tensor:
            return same_rows(next_obs.index_select(0, now), obs.index_select(0, later))

        same = in_chunks(repeated, slots[:-envs], slots[envs:], chunk=self.chunk)
        return first, _shifted(first, same, envs, lambda new: self.at(slots[new], lambda rows: encode(rows.x_next)))

    # ---- learning -----------------------------------------------------------------------------------------
    @property
    def fresh(self) -> Tensor:
        """Slots of what came since the last update, oldest first."""
        return self.buffer.last(self.buffer.fresh)

    def begin_update(self) -> bool:
        """Make new statistics active; False if there is nothing to learn from yet."""
        self.rescaled = False
        if self._accumulating:
            if self.buffer.total >= self.warmup:
                self.input.commit() if self.watch is None else self.watch.freeze()
                self.rescaled = self.frozen
        elif self.watch is not None:
            self.rescaled = self.watch.review()
        return self.buffer.fresh > 0 and self.ready

    def passes(self, batch_size: int, epochs: int, generator: torch.Generator) -> Minibatches:
        """Random minibatches, `epochs` passes over what came since the last update."""
        rows = min(self.buffer.fresh, len(self.buffer))
        steps = epochs * max(1, rows // batch_size)
        return Minibatches(self.buffer.last(rows), minibatches(rows, batch_size, steps, generator))

    def replayed(self, batch_size: int, steps: int, generator: torch.Generator, *, new: int = 0) -> Minibatches:
        """Random minibatches from the whole buffer, `new` rows of each from what came since the last update."""
        held, parts = len(self.buffer), []
        for rows, size in ((held, batch_size - new), (min(self.buffer.fresh, held), new)):
            if size:
                parts.append([held - rows + drawn for drawn in minibatches(rows, size, steps, generator)])
        return Minibatches(self.buffer.last(held), [torch.cat(part) for part in zip(*parts, strict=True)])

    def fit(
        self,
        loss: Loss,
        optimizer: torch.optim.Optimizer,
        batches: Minibatches,
        after_step: Callable[[], None] | None = None,
    ) -> Tensor:
        """One gradient step on each minibatch; the mean loss."""
        if isinstance(loss, LeastSquares):
            return torch.stack(least_squares(loss.layers, self._problems(loss, batches), optimizer)).mean()
        losses = []
        for part in batches.parts:
            value = loss(self._prepared(batches.slots, part.to(batches.slots.device))).mean()
            optimizer.zero_grad(set_to_none=True)
            value.backward()  # type: ignore[no-untyped-call]
            adam_step(optimizer)
            if after_step is not None:
                after_step()
            losses.append(value.detach())
        return torch.stack(losses).mean()

    def end_update(self) -> None:
        """Everything so far has been learnt from."""
        self.buffer.mark()

    def _problems(self, loss: LeastSquares, batches: Minibatches) -> Iterator[tuple[Tensor, Tensor]]:
        """Inputs and targets of each minibatch; as many as memory allows are gathered and preprocessed at once."""
        parts = iter(batches.parts)
        for first in parts:
            at_once = NUMBERS_AT_ONCE // (max(1, len(first)) * max(1, self.spaces.row_numbers))
            together = [first, *islice(parts, max(0, at_once - 1))]
            sizes = [len(part) for part in together]
            inputs, targets = loss.problem(self._prepared(batches.slots, torch.cat(together).to(batches.slots.device)))
            yield from zip(torch.split(inputs, sizes), torch.split(targets, sizes), strict=True)

    def _prepared(self, slots: Tensor, index: Tensor) -> Prepared:
        return Prepared(self, index, *self.buffer.rows(slots[index]))

    @property
    def _accumulating(self) -> bool:
        return self.input.moments is not None and not (self.frozen and self.ready)


def _shifted(first: Tensor, same: Tensor, envs: int, encode: Callable[[Tensor], Tensor]) -> Tensor:
    """Encodings of successors: those of the observations `envs` rows later where they are the `same`, else new ones."""
    new = torch.cat([~same, same.new_ones(envs)])
    second = first.roll(-envs, 0)
    second[new] = encode(new)
    return second
