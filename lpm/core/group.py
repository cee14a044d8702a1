"""The processes that train one run, and what they tell each other; a single process is a group of one.

Each process steps its share of the environments. Their blocks are then put together, so that bonus, mixer and
advantages are computed on all rows, in every process alike: methods know nothing of processes. Of each minibatch of
the policy a process computes the gradients of its share, which are averaged. Column n of a process's block is column
(rank · n_here + n) of the whole.
"""

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch import distributed as dist

from lpm.core.transitions import Transitions

T = TypeVar("T")

NO_ANSWER = "another process did not answer in time: it hangs, or its machine does"
"""The message about a process that may still be running."""


class WorkerLost(RuntimeError):
    """Another process of the run died, or did not answer in time."""


class ProcessGroup:
    """The processes of torch.distributed's default group, with any backend; without one, this process alone.

    The operations are collective: all processes call them, in the same order. In a single process each gives back what
    it was given. Where the backend is NCCL, what lives on the CPU goes through Gloo. `why` may know more about the loss
    of a process than torch says.

    >>> SINGLE_PROCESS.all_gather_columns(torch.ones(2, 3)).shape, SINGLE_PROCESS.any(True)
    (torch.Size([2, 3]), True)
    """

    def __init__(self, rank: int = 0, size: int = 1, why: Callable[[], str | None] | None = None) -> None:
        self.rank, self.size = rank, size
        self._why = why
        # None is the default group: held nowhere else, it is closed when torch destroys it
        beside = dist.is_available() and dist.is_initialized() and dist.get_backend() != "gloo"
        self._cpu: Any = dist.new_group(backend="gloo") if size > 1 and beside else None

    @classmethod
    def of_torch(cls, why: Callable[[], str | None] | None = None) -> Self:
        """All processes that torch.distributed knows."""
        return cls(dist.get_rank(), dist.get_world_size(), why)

    @property
    def is_single(self) -> bool:
        return self.size == 1

    # ---- learning -----------------------------------------------------------------------------------------
    def share(self, rows: Tensor) -> Tensor:
        """This process's rows of a minibatch; all of them if there are too few for everyone to have one."""
        return rows if self.is_single or len(rows) < self.size else rows[self.rank :: self.size]

    @torch.no_grad()
    def average_(self, tensors: Sequence[Tensor], weight: float) -> None:
        """Replace tensors of one dtype by their means over the processes, each process counting by its weight."""
        if self.is_single:
            return
        flat = torch.cat([*(tensor.flatten() for tensor in tensors), tensors[0].new_ones(1)]) * weight
        self._try(lambda: dist.all_reduce(flat, group=self._for(flat)))
        means = torch.split(flat[:-1] / flat[-1], [tensor.numel() for tensor in tensors])
        for tensor, mean in zip(tensors, means, strict=True):
            tensor.copy_(mean.view_as(tensor))

    # ---- blocks -------------------------------------------------------------------------------------------
    def all_gather_columns(self, block: Tensor) -> Tensor:
        """Blocks (T, n, ...) beside each other: (T, N, ...)."""
        if self.is_single:
            return block
        sent = block.detach().contiguous()
        if block.dtype == torch.bool:
            return self.all_gather_columns(sent.to(torch.uint8)).bool()
        parts = [torch.empty_like(sent) for _ in range(self.size)]
        self._try(lambda: dist.all_gather(parts, sent, group=self._for(sent)))
        return torch.cat(parts, dim=1)

    def all_gather_block(self, block: Transitions) -> Transitions:
        """The transitions of all processes; blocks that are shorter than others end in filler."""
        if self.is_single:
            return block
        missing = max(self.all_gather_objects(block.shape[0])) - block.shape[0]

        def whole(values: Tensor) -> Tensor:
            filler = values.new_zeros(missing, *values.shape[1:])
            return self.all_gather_columns(torch.cat([values, filler]))

        return block.map(whole)

    # ---- objects, for states and not for every step -------------------------------------------------------
    def any(self, flag: bool) -> bool:
        """Whether at least one process says so."""
        return flag if self.is_single else any(self.all_gather_objects(flag))

    def broadcast(self, make: Callable[[], T]) -> T:
        """What rank 0 makes, in all processes."""
        if self.is_single:
            return make()
        sent: list[Any] = [make() if self.rank == 0 else None]
        self._try(lambda: dist.broadcast_object_list(sent, src=0, group=self._cpu))
        return sent[0]  # type: ignore[no-any-return]

    def all_gather_objects(self, value: T) -> list[T]:
        """What each process has, in all of them."""
        if self.is_single:
            return [value]
        found: list[Any] = [None] * self.size
        self._try(lambda: dist.all_gather_object(found, value, group=self._cpu))
        return found

    # ---- torch.distributed --------------------------------------------------------------------------------
    def _for(self, tensor: Tensor) -> Any:
        return self._cpu if tensor.device.type == "cpu" else None

    def _try(self, operation: Callable[[], Any]) -> None:
        try:
            operation()
        except RuntimeError as error:
            late = "timed out" in str(error).lower() or "timeout" in str(error).lower()
            lost = NO_ANSWER if late else "the connection to another process was lost: it died or was killed"
            raise WorkerLost((self._why and self._why()) or lost) from error


SINGLE_PROCESS = ProcessGroup()
"""A process by itself."""


def this_machine() -> str:
    """The name of this machine, for messages."""
    return socket.gethostname()


def join_rows(parts: Sequence[Any], shared: Sequence[str]) -> Any:
    """States of environments beside each other; None if they cannot be: then new episodes begin.

    A state is an array with an entry per environment, or a dict of such; `shared` names entries that belong to all
    environments together.
    """
    first = parts[0]
    if isinstance(first, dict):
        found = {
            key: first[key] if key.split(".")[-1] in shared else join_rows([part[key] for part in parts], shared)
            for key in first
        }
        return None if any(value is None for value in found.values()) else found
    return np.concatenate(parts) if isinstance(first, np.ndarray) and first.ndim else None


def split_rows(whole: Any, rows: slice, shared: Sequence[str]) -> Any:
    """The state of some of the environments."""
    if isinstance(whole, Mapping):
        return {
            key: value if key.split(".")[-1] in shared else split_rows(value, rows, shared)
            for key, value in whole.items()
        }
    return whole[rows]
