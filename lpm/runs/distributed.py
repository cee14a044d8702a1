"""One run on many processes: how they find each other, agree on versions, and learn that one of them is gone.

`torchrun --nproc-per-node N -m lpm train ...` starts N processes and tells each its number; `joined` makes them a
group. Whoever has a group already (Ray Train, RLlib, one's own script) passes `ProcessGroup.of_torch()` to `train`.
"""

import atexit
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch
from torch import distributed as dist

from lpm.core.group import NO_ANSWER, SINGLE_PROCESS, ProcessGroup, WorkerLost, this_machine
from lpm.runs.machine import run_versions

TIMEOUT_SECONDS = 300.0
"""How long a process may keep the others waiting, unless told otherwise."""
PARTING_SECONDS = 10.0
"""How long a process that failed waits for rank 0 to have printed why."""
_FAILED, _REPORTED = "lpm/failed", "lpm/reported"
_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def started_by_torchrun() -> bool:
    """Whether this process is one of several that torchrun (or what sets its variables) started."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


@contextmanager
def joined(timeout: float = TIMEOUT_SECONDS) -> Iterator[ProcessGroup]:
    """The group of the processes that torchrun started; a single one if it started none.

    What goes wrong inside, in any process, is raised in rank 0; the others exit with status 1.
    """
    if not started_by_torchrun():
        yield SINGLE_PROCESS
        return
    if missing := [name for name in _VARIABLES if name not in os.environ]:
        raise ValueError(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']}: expected torchrun's {', '.join(_VARIABLES)}, got no "
            f"{', '.join(missing)}; start with torchrun, or unset WORLD_SIZE to train in one process"
        )
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = _find_others(rank, size, timeout)
    if rank == 0:
        atexit.register(_mark_reported, store)  # after the reason was printed, or all went well
    try:
        group = ProcessGroup.of_torch(lambda: None if rank else _reason(store))
        check_versions(group)
        yield group
        dist.destroy_process_group()
        if rank:
            _wait_until_reported(store)  # torchrun ends them all as soon as one has ended with an exit status
    except BaseException as problem:
        if rank == 0:
            raise
        _leave(store, rank, problem)
        raise SystemExit(1) from problem


def check_versions(group: ProcessGroup) -> None:
    """Refuse to train with different versions of anything: the processes would compute different numbers."""
    expect_same(group, {f"the version of {name}": version for name, version in run_versions().items()})


def expect_same(group: ProcessGroup, told: Mapping[str, Any]) -> None:
    """Refuse processes that differ in what they were told or have installed, naming the first difference."""
    tables = group.all_gather_objects({**told, "host": this_machine()})
    hosts = [table.pop("host") for table in tables]
    for rank, other in enumerate(tables):
        for name in {**tables[0], **other}:
            first, here = (repr(table[name]) if name in table else "none" for table in (tables[0], other))
            if first != here:
                raise ValueError(
                    f"the processes differ: {name} is {first} in process 0 on {hosts[0]}, {here} in process {rank} on "
                    f"{hosts[rank]}; start all of them with the same settings and packages"
                )


def _find_others(rank: int, size: int, timeout: float) -> Any:
    """Join torch's process group, through a store that outlives the loss of a process; the store."""
    limit = timedelta(seconds=timeout)
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", rank)) % torch.cuda.device_count())
    # with it a collective that times out raises here; without it NCCL ends the process
    os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")
    agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    try:
        stores: Any = dist  # torch gives no types for them
        server = rank == 0 and not agent
        tcp = stores.TCPStore(address, port, size, is_master=server, timeout=limit, wait_for_workers=False)
        store = stores.PrefixStore(f"lpm/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", tcp)
        store.set(f"here/{rank}", this_machine())
        _wait_for(store, range(size) if rank == 0 else range(1), size, limit)
        backend = "nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=limit)
        return store
    except RuntimeError as error:
        why = str(error).partition("\n")[0]
        text = f"the {size} processes did not find each other at {address}:{port}: {why}"
        lost = error if isinstance(error, WorkerLost) else WorkerLost(text)
        if rank == 0:
            raise lost from error.__cause__ or error
        print(f"process {rank}: {lost}", file=sys.stderr)  # rank 0 may be the one that is missing
        raise SystemExit(1) from error


def _wait_for(store: Any, ranks: Sequence[int], size: int, limit: timedelta) -> None:
    """Name those that never came."""
    try:
        store.wait([f"here/{rank}" for rank in ranks], limit)
    except RuntimeError as error:
        missing = [rank for rank in ranks if not store.check([f"here/{rank}"])]
        if not missing:
            return  # the last one came just now
        raise WorkerLost(
            f"of {size} processes number {', '.join(map(str, missing))} never answered within "
            f"{limit.total_seconds():g} s: is every machine started, with the same --nnodes and --rdzv-endpoint?"
        ) from error


def _reason(store: Any) -> str | None:
    """Why another process left, if it left a reason."""
    with suppress(Exception):
        store.wait([_FAILED], timedelta(seconds=1))
        return str(store.get(_FAILED).decode())
    return None


def _leave(store: Any, rank: int, problem: BaseException) -> None:
    """Leave the reason for rank 0, close the connections so that it looks, and let it print the reason."""
    try:
        # a loss is another's to explain; who waits in vain may be the first to know
        if not isinstance(problem, WorkerLost) or NO_ANSWER in str(problem):
            text = str(problem) or type(problem).__name__
            store.set(_FAILED, f"process {rank} on {this_machine()} stopped: {text}")
        dist.destroy_process_group()
    except RuntimeError:
        pass  # the store is gone with rank 0
    if not _wait_until_reported(store) and isinstance(problem, WorkerLost):
        print(f"process {rank}: {problem}; process 0 is gone too", file=sys.stderr)


def _wait_until_reported(store: Any) -> bool:
    """Whether rank 0 has printed why."""
    try:
        store.wait([_REPORTED], timedelta(seconds=PARTING_SECONDS))
    except RuntimeError:
        return False
    return True


def _mark_reported(store: Any) -> None:
    with suppress(Exception):
        store.set(_REPORTED, "yes")
