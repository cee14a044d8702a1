"""What is remembered, all of it in `state_dict`: rings of rows, the present episode of each environment, neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.inputs import in_chunks

Columns = Mapping[str, tuple[tuple[int, ...], torch.dtype]]
"""Name to the shape and dtype of a row."""


class RingBuffer(nn.Module):
    """A fixed number of rows in named tensors; the newest overwrite the oldest.

    >>> import torch
    >>> ring = RingBuffer(3, {"x": ((), torch.float32)})
    >>> ring.push(x=torch.tensor([1.0, 2.0, 3.0, 4.0]))
    >>> ring["x"][ring.last(2)]
    tensor([3., 4.])
    """

    pushed: Tensor

    def __init__(self, capacity: int, fields: Columns) -> None:
        super().__init__()
        if capacity < 1:
            raise ValueError(f"RingBuffer.capacity: expected at least 1, got {capacity}")
        self.capacity = capacity
        self.register_buffer("pushed", torch.zeros((), dtype=torch.int64))
        self.fields = tuple(fields)
        self.contents = tuple(f"rows_{name}" for name in fields)
        for name, (shape, dtype) in fields.items():
            self.register_buffer(f"rows_{name}", torch.zeros((capacity, *shape), dtype=dtype))

    def __len__(self) -> int:
        return min(self.total, self.capacity)

    def __getitem__(self, name: str) -> Tensor:
        """The storage of a field, (capacity, ...), in slot order."""
        storage = getattr(self, f"rows_{name}")
        assert isinstance(storage, Tensor)
        return storage

    @property
    def total(self) -> int:
        """How many rows were ever pushed."""
        return int(self.pushed)

    @property
    def nbytes(self) -> int:
        return sum(self[name].nbytes for name in self.fields)

    @torch.no_grad()
    def push(self, **rows: Tensor) -> None:
        """Append rows (B, ...) in order."""
        if set(rows) != set(self.fields):
            raise ValueError(f"RingBuffer.push: expected fields {sorted(self.fields)}, got {sorted(rows)}")
        count = next(iter(rows.values())).shape[0]
        for name, values in rows.items():
            expected = (count, *self[name].shape[1:])
            if tuple(values.shape) != expected:
                raise ValueError(f"RingBuffer.push: expected {name} of shape {expected}, got {tuple(values.shape)}")
        kept = min(count, self.capacity)
        start = (self.total + count - kept) % self.capacity
        head = min(kept, self.capacity - start)
        for name, values in rows.items():
            values, storage = values[count - kept :], self[name]
            storage[start : start + head] = values[:head]
            storage[: kept - head] = values[head:]
        self.pushed += count

    def last(self, count: int) -> Tensor:
        """Slots of the newest `count` rows (or as many as there are), oldest first."""
        count = min(count, len(self))
        return torch.arange(self.total - count, self.total, device=self.pushed.device) % self.capacity


class TransitionBuffer(RingBuffer):
    """Valid transitions in raw form (images as uint8), with extra columns if named; knows what is new since `mark`."""

    marked: Tensor

    def __init__(self, spaces: Spaces, capacity: int, extra: Columns | None = None) -> None:
        observation, action = (spaces.obs_shape, spaces.obs_dtype), (spaces.action_shape, spaces.action_dtype)
        super().__init__(capacity, {"obs": observation, "action": action, "next_obs": observation, **(extra or {})})
        self.register_buffer("marked", torch.zeros((), dtype=torch.int64))

    def observe(self, batch: Transitions, **extra: Tensor) -> int:
        """Append the valid transitions of a block, with extra columns given per valid row; return how many."""
        rows = batch.rows()
        self.push(obs=rows.obs, action=rows.action, next_obs=rows.next_obs, **extra)
        return rows.obs.shape[0]

    @property
    def fresh(self) -> int:
        """How many transitions were observed since the last `mark`."""
        return self.total - int(self.marked)

    def mark(self) -> None:
        """Everything so far has been learnt from."""
        self.marked.copy_(self.pushed)

    def rows(self, slots: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Raw (obs, action, next_obs) of the given slots."""
        # index_select copies whole rows; indexing would look at every pixel
        obs, action, next_obs = (self[name].index_select(0, slots) for name in ("obs", "action", "next_obs"))
        return obs, action, next_obs


def fixed_sample(count: int, most: int) -> Tensor:
    """Indices of at most `most` of `count` rows: always the same ones, and no regular pattern of the rows.

    >>> len(fixed_sample(10, 4)), sorted(fixed_sample(3, 4).tolist())
    (4, [0, 1, 2])
    """
    return torch.randperm(count, generator=torch.Generator().manual_seed(0))[:most]


def minibatches(size: int, batch: int, steps: int, generator: torch.Generator) -> Iterator[Tensor]:
    """`steps` index tensors into `size` rows, without replacement within a pass; the tail of a pass is dropped.

    Indices are drawn on the CPU, where the generator lives, so that every device sees the same minibatches.
    """
    batch = min(batch, size)
    order, position = torch.randperm(size, generator=generator), 0
    for _ in range(steps):
        if position + batch > size:
            order, position = torch.randperm(size, generator=generator), 0
        yield order[position : position + batch]
        position += batch


# ---- memories of episodes --------------------------------------------------------------------------------------
class EpisodeMemory(nn.Module):
    """Of the present episode of each environment."""

    contents = ("rows",)
    rows: Tensor
    count: Tensor  # (N,) of rows of the present episode

    def __init__(self, num_envs: int, capacity: int, shape: tuple[int, ...] = (), dtype: Any = torch.float32) -> None:
        super().__init__()
        if capacity < 1:
            raise ValueError(f"{type(self).__name__}.capacity: expected at least 1, got {capacity}")
        self.capacity = capacity
        self.register_buffer("rows", torch.zeros((num_envs, capacity, *shape), dtype=dtype))
        self.register_buffer("count", torch.zeros(num_envs, dtype=torch.int64))

    def starts(self, batch: Transitions) -> Tensor:
        """Which transitions of the next block are the first of their episode, (T, N)."""
        return episode_starts(batch, self.count > 0)

    def embedded(self, batch: Transitions, embed: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """Embeddings of the first observations of episodes and of all successors of the next block, (T, N, F) each."""
        return embed_episodes(batch, self.starts(batch), embed)


class EpisodicMemory(EpisodeMemory):
    """Rows of the present episode of each environment; when a ring is full, its oldest row is overwritten.

    >>> import torch
    >>> memory = EpisodicMemory(2, 3)
    >>> memory.push(torch.tensor([5.0, 7.0]), torch.tensor([True, False]))
    >>> memory.sizes.tolist(), memory.stored[memory.live].tolist()
    ([1, 0], [5.0])
    """

    @property
    def sizes(self) -> Tensor:
        """How many rows each environment holds, (N,)."""
        return self.count.clamp_max(self.capacity)

    @property
    def stored(self) -> Tensor:
        """The slots in use by at least one environment, (N, M, *shape)."""
        return self.rows[:, : int(self.sizes.max())]

    @property
    def live(self) -> Tensor:
        """Which of the `stored` slots hold a row, (N, M)."""
        sizes = self.sizes
        return torch.arange(int(sizes.max()), device=sizes.device) < sizes.unsqueeze(1)

    def push(self, rows: Tensor, mask: Tensor) -> None:
        """Append one row (N, *shape) to each environment in `mask`."""
        env = mask.nonzero().squeeze(1)
        self.rows[env, self.count[env] % self.capacity] = rows[env].to(self.rows.dtype)
        self.count += mask

    def end_episodes(self, rows: Tensor) -> None:
        """Forget the episodes of these environments (N,)."""
        self.count.masked_fill_(rows, 0)

    def visit(self, batch: Transitions, first: Tensor, following: Tensor, query: Callable[[int], Tensor]) -> Tensor:
        """Walk through a block in time; return what `query(t)` says before the successor of step t is stored.

        `first` and `following` are rows (T, N, *shape) for `obs` and `next_obs`. An episode starts with the row of
        its first observation (`first` is read nowhere else) and is forgotten after its last transition was queried.
        Invalid transitions leave no trace.
        """
        done, rewards = batch.done & batch.valid, []
        for t in range(batch.shape[0]):
            valid = batch.valid[t]
            self.push(first[t], valid & (self.count == 0))
            rewards.append(query(t))
            self.push(following[t], valid)
            self.end_episodes(done[t])
        return torch.stack(rewards)


def interleave(first: Tensor, following: Tensor) -> Tensor:
    """Two of (T, N, ...) as one of (N, 2T, ...), taking turns."""
    return torch.stack([first, following], 1).flatten(0, 1).transpose(0, 1)


def episodes_over(batch: Transitions) -> Tensor:
    """Which environments (N,) ended an episode with their last valid transition of a block."""
    time = torch.arange(batch.shape[0], device=batch.device).unsqueeze(1)
    latest = torch.where(batch.valid, time, -1).amax(0)
    return (latest >= 0) & batch.done.gather(0, latest.clamp_min(0).unsqueeze(0)).squeeze(0)


def episode_starts(batch: Transitions, running: Tensor) -> Tensor:
    """Which valid transitions are the first of their episode, given which episodes (N,) are running before."""
    valid, steps = batch.valid, batch.shape[0]
    time = torch.arange(steps, device=valid.device).unsqueeze(1)
    latest = torch.where(valid, time, -1).cummax(0).values
    before = torch.cat([torch.full_like(latest[:1], -1), latest[:-1]])  # the valid step before, -1: none in this block
    ended = batch.done.gather(0, before.clamp_min(0))
    return valid & torch.where(before < 0, ~running, ended)


def embed_episodes(batch: Transitions, starts: Tensor, embed: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Embeddings of the first observations of episodes and of all successors, each (T, N, F); zero elsewhere.

    Within an episode the successor of one step is the observation of the next, so that nothing is embedded twice.
    """
    split = int(starts.sum())
    rows = in_chunks(embed, torch.cat([batch.obs[starts], batch.next_obs[batch.valid]]))
    first = rows.new_zeros(*batch.shape, *rows.shape[1:])
    following = first.clone()
    first[starts] = rows[:split]
    following[batch.valid] = rows[split:]
    return first, following


class WindowMemory(EpisodeMemory):
    """The latest rows of the present episode of each environment, and the nearest of them to any new row.

    A block is laid behind what is remembered, as one line of rows per environment, so that all its steps are compared
    at once: step t sees the rows before it, of its own episode, and at most `capacity` of them.
    """

    # rows (N, capacity, *shape) have the newest last; `count` of them are held

    @property
    def live(self) -> Tensor:
        """Which of the rows are held, (N, capacity)."""
        return torch.arange(self.capacity, device=self.count.device) >= self.capacity - self.count.unsqueeze(1)

    def timeline(self, batch: Transitions, obs: Tensor, next_obs: Tensor) -> EpisodeTimeline:
        """The remembered rows and those of a block, (T, N, ...) for observations and successors, in one line."""
        starts = self.starts(batch)
        old, live = self.live, interleave(starts, batch.valid)
        begins = interleave(starts, torch.zeros_like(starts))
        episode = torch.cat([torch.zeros_like(old, dtype=torch.int64), begins.cumsum(1)], 1)
        rows = torch.cat([self.rows, interleave(obs, next_obs).to(self.rows.dtype)], 1)
        return EpisodeTimeline(rows, torch.cat([old, live], 1), episode, self.capacity)

    def keep(self, batch: Transitions, line: EpisodeTimeline) -> None:
        """Remember the end of a line; nothing of an episode that is over."""
        kept = line.live & (line.episode == line.episode[:, -1:]) & ~episodes_over(batch).unsqueeze(1)
        newer = kept.flip(1).cumsum(1).flip(1)  # 1 for the newest
        env, place = (kept & (newer <= self.capacity)).nonzero(as_tuple=True)
        self.rows.zero_()
        self.rows[env, self.capacity - newer[env, place]] = line.rows[env, place]
        self.count.copy_(kept.sum(1).clamp_max(self.capacity))

    def end_episodes(self, rows: Tensor) -> None:
        """Forget the episodes of these environments (N,)."""
        self.rows[rows] = 0
        self.count[rows] = 0


Compare = Callable[[Tensor, Tensor, Tensor, slice], Tensor]
"""Of queries (N, S, D), rows (N, M, D), which of them each query sees (N, S, M), and the steps S: (N, S, ...)."""


class EpisodeTimeline(NamedTuple):
    """Rows of each environment in time order: remembered ones, then two per step of a block (start and successor)."""

    rows: Tensor  # (N, L, ...)
    live: Tensor  # (N, L) which of them exist
    episode: Tensor  # (N, L) number of the episode, 0 for the one that was running
    capacity: int

    def compare(self, rows: Tensor, compare: Compare, pairs: int) -> Tensor:
        """What `compare` says of every successor and the rows of its episode before it, (T, N, ...).

        `rows` are the line's as they are compared, (N, L, D). About so many `pairs` of them are compared at a time.
        """
        steps = (self.live.shape[1] - self.capacity) // 2
        held = int(self.live[:, : self.capacity].sum(1).max())
        used = slice(self.capacity - held, None)  # nobody holds the rows before
        rows, live, episode = rows[:, used], self.live[:, used], self.episode[:, used]
        order, found = live.cumsum(1), []
        at_once = max(1, pairs // max(1, live.numel()))
        for start in range(0, steps, at_once):
            span = slice(start, start + at_once)
            at = held + 1 + 2 * torch.arange(steps, device=rows.device)[span]
            seen = live.unsqueeze(1) & (episode.unsqueeze(1) == episode[:, at].unsqueeze(2))
            age = order[:, at].unsqueeze(2) - order.unsqueeze(1)
            seen &= (age > 0) & (age <= self.capacity)
            found.append(compare(rows[:, at], rows, seen, span).transpose(0, 1))
        return torch.cat(found)

    def nearest(self, rows: Tensor, weight: Tensor | None = None) -> Tensor:
        """Distance of each successor (T, N) to the nearest earlier row of its episode; 0 where there is none.

        `rows` are the line's as they are compared, (N, L, D); `weight` (T, N, D) is that of each squared difference.
        """

        def nearest(query: Tensor, rows: Tensor, seen: Tensor, steps: slice) -> Tensor:
            return nearest_weighted(query, rows, None if weight is None else weight[steps].transpose(0, 1), seen)

        return self.compare(rows, nearest, PAIRS_AT_ONCE)


PAIRS_AT_ONCE = 2**22
"""Distances that are computed at a time."""
PAIRS_IN_CACHE = 2**17
"""Distances that are computed at a time where they are passed over many times."""


def nearest_weighted(query: Tensor, rows: Tensor, weight: Tensor | None, live: Tensor | None) -> Tensor:
    """√Σ_d w_d (q_d − r_d)² to the nearest live row: queries and weights (N, Q, D), rows (N, M, D), live (N, Q, M).

    None as weights: all 1; as live: all rows are.

    The neighbour is found by a matrix product in float64 and its distance computed from differences. 0 where no row
    is live.
    """
    query, rows = query.double(), rows.double()
    if rows.shape[1] == 0:
        return query.new_zeros(query.shape[:2]).float()
    if weight is None:
        rough = torch.baddbmm(rows.square().sum(2).unsqueeze(1), query, rows.transpose(1, 2), alpha=-2)
    else:
        weight = weight.double()
        squares = torch.bmm(weight, rows.square().transpose(1, 2))
        rough = torch.baddbmm(squares, weight * query, rows.transpose(1, 2), alpha=-2)
    index = (rough if live is None else rough.masked_fill_(~live, torch.inf)).argmin(2)
    near = rows.gather(1, index.unsqueeze(2).expand(-1, -1, rows.shape[2]))
    squares = (query - near).square()
    distance = (squares if weight is None else weight * squares).sum(2).sqrt()
    return (distance if live is None else torch.where(live.any(2), distance, 0)).float()


def nearest_squares(query: Tensor, rows: Tensor, live: Tensor, k: int) -> Tensor:
    """Squared distances of queries (N, Q, D) to their k nearest live rows (N, M, D), (N, Q, min(k, M)), ascending.

    `live` is (N, Q, M); where fewer rows are live, infinity. The neighbours are found by a matrix product; their
    distances are then computed again from differences, because the product loses all digits of a small distance.
    """
    rough = torch.baddbmm(rows.square().sum(2).unsqueeze(1), query, rows.transpose(1, 2), alpha=-2)
    return exact_squares(rough.masked_fill_(~live, torch.inf), query, rows, k)


def exact_squares(rough: Tensor, query: Tensor, rows: Tensor, k: int) -> Tensor:
    """Squared distances of queries (N, Q, D) to the k of their rows (N, M, D) that are nearest by `rough` (N, Q, M).

    Ascending, (N, Q, min(k, M)); infinite where `rough` is.
    """
    k = min(k, rough.shape[2])
    if k == 0:
        return rough
    least, index = smallest(rough, k)
    near = rows.gather(1, index.flatten(1).unsqueeze(2).expand(-1, -1, rows.shape[2])).view(*index.shape, rows.shape[2])
    squares = (near - query.unsqueeze(2)).square().sum(3)
    return squares.masked_fill(least.isinf(), torch.inf).sort(dim=2).values


GROUP = 64


def smallest(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k smallest of (..., M) and their places, in no order: `topk`, which would look at everything k times.

    They are in the k groups with the smallest minima.

    >>> [part.sort().values.tolist() for part in smallest(torch.arange(1000.0).flip(0), 3)]
    [[0.0, 1.0, 2.0], [997, 998, 999]]
    """
    groups = values.shape[-1] // GROUP
    if groups <= 2 * k:
        return values.topk(k, dim=-1, largest=False, sorted=False)
    grouped = values[..., : groups * GROUP].view(*values.shape[:-1], groups, GROUP)
    best = grouped.amin(-1).topk(k, dim=-1, largest=False, sorted=False).indices
    chosen = grouped.gather(-2, best.unsqueeze(-1).expand(*best.shape, GROUP)).flatten(-2)
    place = (best.unsqueeze(-1) * GROUP + torch.arange(GROUP, device=values.device)).flatten(-2)
    rest = torch.arange(groups * GROUP, values.shape[-1], device=values.device)
    chosen = torch.cat([chosen, values[..., groups * GROUP :]], -1)
    place = torch.cat([place, rest.expand(*place.shape[:-1], -1)], -1)
    least, at = chosen.topk(k, dim=-1, largest=False, sorted=False)
    return least, place.gather(-1, at)
