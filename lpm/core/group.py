"""The processes that train one run, and their collective operations; a single process is a group of one.

Each process has its share of the environments, and of everything that comes from them: blocks, replayed transitions,
episodic memories. Networks, optimisers, statistics and random generators are the same in all of them. Row n of a
block of one process is row (rank · n_here + n) of the block that a single process would have.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from torch import distributed as dist

T = TypeVar("T")


NO_ANSWER = "another process did not answer in time: it hangs, or its machine does"
"""The message about a process that may still be running."""


class WorkerLost(RuntimeError):
    """Another process of the run died, or did not answer in time."""


@dataclass(frozen=True)
class RowIndex:
    """Where the rows of this process stand among the rows of all of them, in the order of a single process."""

    group: ProcessGroup
    index: Tensor
    """(B,) places of this process's rows."""
    total: int
    """Rows of all processes."""

    def repeated(self, times: int) -> RowIndex:
        """The order when each row is replaced by several that follow one another."""
        number = self.index.unsqueeze(1) * times + torch.arange(times, device=self.index.device)
        return RowIndex(self.group, number.flatten(), self.total * times)

    def join(self, rows: Tensor) -> Tensor:
        return self.group.all_gather_rows(rows)[self.group.all_gather_rows(self.index).argsort()]


class ProcessGroup:
    """The processes of torch.distributed's default group, with any backend; without one, this process alone.

    The operations are collective: all processes call them, in the same order. In a single process each gives back what
    it was given. Where the backend is NCCL, what lives on the CPU goes through Gloo. `why` may know more about the loss
    of a process than torch says.

    >>> SINGLE_PROCESS.all_gather_columns(torch.ones(2, 3)).shape, SINGLE_PROCESS.any(True, False)
    (torch.Size([2, 3]), (True, False))
    """

    def __init__(self, rank: int = 0, size: int = 1, why: Callable[[], str | None] | None = None) -> None:
        self.rank, self.size = rank, size
        self._why = why
        # None is the default group: held nowhere else, it is closed when torch destroys it
        beside = dist.is_available() and dist.is_initialized() and dist.get_backend() != "gloo"
        self._cpu: Any = dist.new_group(backend="gloo") if size > 1 and beside else None

    @classmethod
    def of_torch(cls, why: Callable[[], str | None] | None = None) -> ProcessGroup:
        """All processes that torch.distributed knows."""
        return cls(dist.get_rank(), dist.get_world_size(), why)

    def __deepcopy__(self, memo: dict[int, Any]) -> ProcessGroup:
        return self  # connections are not copied

    @property
    def is_single(self) -> bool:
        """Whether this is the only process."""
        return self.size == 1

    # ---- numbers ------------------------------------------------------------------------------------------
    def sum(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Sums over the processes, of one dtype."""
        if self.is_single:
            return tensors
        flat = torch.cat([tensor.detach().flatten() for tensor in tensors])
        self._reduce(flat)
        parts = torch.split(flat, [tensor.numel() for tensor in tensors])
        return tuple(part.view_as(tensor) for part, tensor in zip(parts, tensors, strict=True))

    def average_(self, tensors: Sequence[Tensor], weight: float) -> None:
        """Replace tensors by their means over the processes, each process counting by its weight."""
        if self.is_single:
            return
        with torch.no_grad():
            count = torch.tensor(float(weight), device=tensors[0].device)
            *sums, total = self.sum(*(tensor * weight if weight else torch.zeros_like(tensor) for tensor in tensors),
                                    count)  # fmt: skip
            for tensor, summed in zip(tensors, sums, strict=True):
                tensor.copy_(summed / total.clamp_min(1e-12))

    def mean(self, values: Tensor) -> Tensor:
        """Mean of all processes' values."""
        return self.all_gather_rows(values.flatten()).mean()

    def std(self, values: Tensor) -> Tensor:
        """Standard deviation, without correction, of all processes' values."""
        return self.all_gather_rows(values.flatten()).std(correction=0)

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """Which of the flags at least one process has set."""
        return tuple(bool(votes) for votes in self.sum(*torch.tensor(flags, dtype=torch.float32)))

    # ---- rows ---------------------------------------------------------------------------------------------
    def all_gather_columns(self, block: Tensor) -> Tensor:
        """Blocks (T, n, ...) beside each other: (T, N, ...)."""
        return block if self.is_single else torch.cat(self._gather(block), dim=1)

    def all_gather_rows(self, rows: Tensor) -> Tensor:
        """Rows (b, ...) behind each other: (B, ...)."""
        if self.is_single:
            return rows
        counts = [int(count) for count in self._gather(torch.tensor([len(rows)]))]
        padded = rows.new_zeros(max(counts), *rows.shape[1:])
        padded[: len(rows)] = rows
        return torch.cat([part[:count] for part, count in zip(self._gather(padded), counts, strict=True)])

    def row_index(self, valid: Tensor) -> RowIndex | None:
        """Where the valid rows (T, n) of a block stand among those of all processes; None in a single process."""
        if self.is_single:
            return None
        shapes = self._gather(torch.tensor(valid.shape))
        if all(torch.equal(shape, shapes[0]) for shape in shapes):
            whole, width = self.all_gather_columns(valid), valid.shape[1]
            places = whole.flatten().cumsum(0).view_as(whole)[:, self.rank * width : (self.rank + 1) * width]
            return RowIndex(self, places[valid] - 1, int(whole.sum()))
        # blocks of different sizes have no common time: one process's rows come after the other's
        counts = [int(count) for count in self._gather(valid.sum().view(1))]
        here = torch.arange(counts[self.rank], device=valid.device)
        return RowIndex(self, here + sum(counts[: self.rank]), sum(counts))

    # ---- objects, for states and not for every step -------------------------------------------------------
    def gather(self, value: T) -> list[T]:
        """What each process has, in rank 0; nothing elsewhere."""
        if self.is_single:
            return [value]
        found: list[Any] | None = [None] * self.size if self.rank == 0 else None
        self._try(lambda: dist.gather_object(value, found, dst=0, group=self._cpu))
        return found or []

    def scatter(self, values: Sequence[T] | None) -> T:
        """To each process its value, from rank 0, which alone gives any."""
        if self.is_single:
            assert values is not None
            return values[0]
        mine: list[Any] = [None]
        given = None if values is None else list(values)
        self._try(lambda: dist.scatter_object_list(mine, given, src=0, group=self._cpu))
        return mine[0]  # type: ignore[no-any-return]

    def all_gather_objects(self, value: T) -> list[T]:
        """What each process has, in all of them."""
        if self.is_single:
            return [value]
        found: list[Any] = [None] * self.size
        self._try(lambda: dist.all_gather_object(found, value, group=self._cpu))
        return found

    # ---- torch.distributed --------------------------------------------------------------------------------
    def _reduce(self, tensor: Tensor) -> None:
        self._try(lambda: dist.all_reduce(tensor, group=self._for(tensor)))

    def _gather(self, tensor: Tensor) -> list[Tensor]:
        """One tensor of equal shape from each process."""
        sent = tensor.detach().contiguous()
        if tensor.dtype == torch.bool:
            return [part.bool() for part in self._gather(sent.to(torch.uint8))]
        parts = [torch.empty_like(sent) for _ in range(self.size)]
        self._try(lambda: dist.all_gather(parts, sent, group=self._for(sent)))
        return parts

    def _for(self, tensor: Tensor) -> Any:
        return self._cpu if tensor.device.type == "cpu" else None

    def _try(self, operation: Callable[[], Any]) -> None:
        try:
            operation()
        except RuntimeError as error:
            raise WorkerLost((self._why and self._why()) or _lost(str(error))) from error


SINGLE_PROCESS = ProcessGroup()
"""A process by itself."""
_CURRENT: ContextVar[ProcessGroup] = ContextVar("group", default=SINGLE_PROCESS)


def current_group() -> ProcessGroup:
    """The processes that train what is being built, one unless `using` says otherwise."""
    return _CURRENT.get()


@contextmanager
def using(group: ProcessGroup) -> Iterator[None]:
    """Bonuses and agents that are built inside are trained by the processes of the group together."""
    token = _CURRENT.set(group)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _lost(error: str) -> str:
    """What torch says when another process is gone, in a sentence."""
    if "timed out" in error.lower() or "timeout" in error.lower():
        return NO_ANSWER
    return "the connection to another process was lost: it died or was killed"


def this_machine() -> str:
    """The name of this machine, for messages."""
    return socket.gethostname()


@runtime_checkable
class Sharded(Protocol):
    """A module of which each process holds a part."""

    def whole(self, parts: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """The state that a single process would have, from the states of all."""

    def part(self, whole: Mapping[str, Tensor], rank: int, size: int) -> dict[str, Tensor]:
        """The state that process `rank` of `size` goes on from."""


def whole_rows(parts: Sequence[Any], shared: Sequence[str]) -> Any:
    """States of environments beside each other; None if they cannot be: then new episodes begin.

    A state is an array or a tensor with an entry per environment, or a dict of such; `shared` names entries that
    belong to all environments together.
    """
    first = parts[0]
    if isinstance(first, dict):
        found = {
            key: first[key] if key.split(".")[-1] in shared else whole_rows([part[key] for part in parts], shared)
            for key in first
        }
        return None if any(value is None for value in found.values()) else found
    if isinstance(first, Tensor):
        return torch.cat(list(parts))
    return np.concatenate(parts) if isinstance(first, np.ndarray) and first.ndim else None


def part_of_rows(whole: Any, rank: int, size: int, shared: Sequence[str]) -> Any:
    """The state of the environments of process `rank` of `size`."""
    if isinstance(whole, Mapping):
        return {
            key: value if key.split(".")[-1] in shared else part_of_rows(value, rank, size, shared)
            for key, value in whole.items()
        }
    count = len(whole) // size
    return whole[rank * count : (rank + 1) * count]
