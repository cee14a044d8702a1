"""From RLlib's episode chunks to blocks (T, N): each chunk a stretch of one row, the rest filler."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Chunk:
    """What an episode chunk was before RLlib made it longer and called it truncated."""

    episode: str
    """The id that all chunks of an episode share."""
    start: int
    """How far into the episode it begins."""
    length: int
    """Its real steps."""
    terminated: bool
    truncated: bool
    """By the environment; False where only the rollout ended."""


@dataclass(frozen=True)
class Place:
    """Where a chunk goes in the block."""

    row: int
    start: int


def lay_out(chunks: Sequence[Chunk], running: Sequence[str | None]) -> tuple[list[Place], list[str | None]]:
    """A place for every chunk, and which episode each row is in afterwards, given which it was in before.

    An episode stays in its row until it ends, so that a memory per row is a memory per episode. RLlib does not say
    which environment a chunk came from, nor keeps them in the order of time; neither need be known.

    >>> chunks = [Chunk("c", 0, 3, False, False), Chunk("b", 0, 1, True, False), Chunk("a", 7, 2, True, False)]
    >>> lay_out(chunks, ["a", None])
    ([Place(row=1, start=1), Place(row=1, start=0), Place(row=0, start=0)], [None, 'c'])
    """
    parts: dict[str, list[int]] = {}
    for i in sorted(range(len(chunks)), key=lambda i: chunks[i].start):
        parts.setdefault(chunks[i].episode, []).append(i)
    ended = {episode for episode, held in parts.items() if chunks[held[-1]].terminated or chunks[held[-1]].truncated}
    # an episode that does not go on was lost with its environment
    before = {episode: row for row, episode in enumerate(running) if episode in parts}
    rows: list[str | None] = [None] * len(running)
    lengths = [0] * len(running)
    places: dict[int, Place] = {}
    # first those that go on, where they were; last those that take their row into the next block
    order = [*before, *(e for e in parts if e not in before and e in ended)]
    for episode in [*order, *(e for e in parts if e not in before and e not in ended)]:
        if episode in before:
            row = before[episode]
        else:
            free = [i for i, holder in enumerate(rows) if holder is None]
            if not free:
                raise ValueError(f"expected at most {len(rows)} unfinished episodes, one per environment, got more")
            row = min(free, key=lengths.__getitem__)
        for i in parts[episode]:
            places[i] = Place(row, lengths[row])
            lengths[row] += chunks[i].length
        rows[row] = None if episode in ended else episode
    return [places[i] for i in range(len(chunks))], rows


def fill_block(
    parts: Sequence[NDArray[np.generic]], places: Sequence[Place], shape: tuple[int, int]
) -> NDArray[np.generic]:
    """The chunks' arrays at their places in a (T, N, ...) array; filler repeats a real entry, so that it is valid."""
    block = np.broadcast_to(parts[0][0], (*shape, *parts[0].shape[1:])).copy()
    for part, place in zip(parts, places, strict=True):
        block[place.start : place.start + len(part), place.row] = part
    return block


def flags(chunks: Sequence[Chunk], places: Sequence[Place], shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Terminated, truncated and valid, (3, T, N)."""
    block = np.zeros((3, *shape), dtype=np.bool_)
    for chunk, place in zip(chunks, places, strict=True):
        end = place.start + chunk.length
        block[2, place.start : end, place.row] = True
        block[:2, end - 1, place.row] = chunk.terminated, chunk.truncated
    return block
