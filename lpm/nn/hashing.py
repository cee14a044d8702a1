"""Counting visits in fixed memory: 64-bit keys of observations, and a sketch that counts keys."""

import copy
import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from lpm.core.settings import Count, Positive, Settings
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.inputs import ObservationInput, in_chunks
from lpm.nn.memory import EpisodicMemory

Key = Literal["auto", "bytes", "bins", "simhash"]

# odd constants of a well-known 64-bit finaliser (splitmix64), written as signed numbers
_GOLDEN = -7046029254386353131
_MIX_1 = -4658895280553007687
_MIX_2 = -7723592293110705685


def mix(words: Tensor) -> Tensor:
    """Scramble int64 words so that every output bit depends on every input bit (splitmix64); a bijection."""
    words = (words ^ ((words >> 30) & 0x3FFFFFFFF)) * _MIX_1
    words = (words ^ ((words >> 27) & 0x1FFFFFFFFF)) * _MIX_2
    return words ^ ((words >> 31) & 0x1FFFFFFFF)


def hash_words(words: Tensor) -> Tensor:
    """64-bit keys (B,) of rows of int64 words (B, W).

    Two different rows share a key with probability about 2^-64: among a million observations, one chance in 10^7.
    """
    place = torch.arange(1, words.shape[1] + 1, device=words.device) * _GOLDEN
    return mix(mix(words ^ place).sum(1) + words.shape[1])


def hash_bytes(rows: Tensor) -> Tensor:
    """64-bit keys (B,) of uint8 rows (B, ...), eight bytes to a word."""
    flat = rows.reshape(rows.shape[0], -1) if rows.shape[0] else rows.new_zeros(0, 1)
    padded = nn.functional.pad(flat, (0, -flat.shape[1] % 8)).contiguous()
    return hash_words(padded.view(torch.int64))


@dataclass(frozen=True)
class KeyConfig(Settings):
    """How observations become keys."""

    key: Key = "auto"
    """"bytes": every byte of an image or grid (papers: the grid's full state or its bytes; float images are reduced to
    256 levels); "bins": cells of a vector; "simhash": signs of random projections. "auto": bytes for images and grids,
    bins for vectors of at most 16 dimensions, simhash for longer ones, whose cells would hardly ever be met twice."""
    bins: Count = 20
    """Cells across the range of each bounded dimension, for "bins"."""
    bin_width: Positive = 0.1
    """Width of the cells of unbounded dimensions, in the observation's own unit, for "bins"."""
    hash_bits: Count = 64
    """Random projections of "simhash" (Tang et al. 2017: 16 to 256)."""


class ObservationKeys(nn.Module):
    """Raw observations (B, ...) to 64-bit keys (B,); equal keys count as the same state."""

    projection: Tensor
    low: Tensor
    high: Tensor
    width: Tensor

    def __init__(self, spaces: Spaces, config: KeyConfig) -> None:
        super().__init__()
        kind, vector, size = config.key, spaces.kind == "vector", math.prod(spaces.input_shape)
        if kind == "auto":
            kind = "bytes" if not vector else "bins" if size <= 16 else "simhash"
        if kind == "bytes" and vector:
            raise ValueError(
                f"key: expected 'bins' or 'simhash' for vector observations, got 'bytes' for {spaces.observation}: "
                "the bytes of floats hardly ever repeat"
            )
        self.kind = kind
        self.raw_bytes = spaces.obs_dtype == torch.uint8
        self.input = ObservationInput(spaces)
        if kind == "simhash":
            self.register_buffer("projection", torch.randn(config.hash_bits, size))
        if kind == "bins":
            self.last = config.bins - 1
            for name, value in zip(
                ("low", "high", "width"), _cells(spaces, config.bins, config.bin_width), strict=True
            ):
                self.register_buffer(name, value)

    def forward(self, obs: Tensor) -> Tensor:
        """Keys of raw observations."""
        return in_chunks(self._keys, obs)

    def _keys(self, obs: Tensor) -> Tensor:
        if self.kind == "bytes" and self.raw_bytes:
            return hash_bytes(obs)
        x = self.input(obs).flatten(1)
        if self.kind == "bytes":
            return hash_bytes((x * 255).round().clamp(0, 255).to(torch.uint8))
        if self.kind == "bins":
            cell = torch.floor((x - self.low) / self.width)
            cell = torch.where(x == self.high, self.last, cell)  # the last cell includes its upper edge
            return hash_words(cell.clamp(-(2.0**62), 2.0**62).long())
        return hash_bytes((x @ self.projection.T > 0).to(torch.uint8))


def _cells(spaces: Spaces, bins: int, bin_width: float) -> tuple[Tensor, Tensor, Tensor]:
    """Lowest edge, highest edge (infinity if unbounded) and width of the cells of each dimension, (D,)."""
    box: Any = spaces.observation
    if spaces.kind != "vector":  # images come scaled to [0, 1]
        size = math.prod(spaces.input_shape)
        return torch.zeros(size), torch.ones(size), torch.full((size,), 1 / bins)
    low, high = (torch.as_tensor(bound, dtype=torch.float64).flatten() for bound in (box.low, box.high))
    bounded = torch.isfinite(low) & torch.isfinite(high) & (high - low < 1e30) & (high > low)
    width = torch.where(bounded, (high - low) / bins, bin_width)
    return torch.where(bounded, low, 0.0).float(), torch.where(bounded, high, torch.inf).float(), width.float()


class CountSketch(nn.Module):
    """Counts of 64-bit keys in fixed memory (a count-min sketch).

    Each key has one cell in each of `depth` tables of 2^bits cells; its count is the smallest of them. Counts are
    never too small. With n distinct keys a count is too large only if other keys share all its cells, which has
    probability (1 − exp(−n / 2^bits))^depth: for 18 bits and depth 4, 2e-6 at n = 10^4 and 1 % at n = 10^5. Nothing
    depends on the order in which keys arrive.
    """

    cells: Tensor  # (depth, 2^bits)

    def __init__(self, bits: int = 18, depth: int = 4) -> None:
        super().__init__()
        if not 1 <= bits <= 30 or depth < 1:
            raise ValueError(f"CountSketch: expected 1 to 30 bits and a depth of at least 1, got {bits} and {depth}")
        self.register_buffer("cells", torch.zeros(depth, 2**bits, dtype=torch.int32))

    def add(self, keys: Tensor) -> None:
        """Count each of the keys (B,) once more."""
        depth, width = self.cells.shape
        index = self._index(keys) + width * torch.arange(depth, device=keys.device).unsqueeze(1)
        ones = torch.ones(index.numel(), dtype=torch.int32, device=keys.device)
        self.cells.view(-1).index_add_(0, index.flatten(), ones)

    def count(self, keys: Tensor) -> Tensor:
        """How often each of the keys (B,) was counted, (B,) int64."""
        return self.cells.gather(1, self._index(keys)).amin(0).long()

    def _index(self, keys: Tensor) -> Tensor:
        depth, width = self.cells.shape
        salt = torch.arange(1, depth + 1, device=keys.device).unsqueeze(1) * _GOLDEN
        return mix(keys.unsqueeze(0) + salt) & (width - 1)


def episode_counts(batch: Transitions, memory: EpisodicMemory, keys: ObservationKeys, keep: bool) -> Tensor:
    """N(o') within the episode, the new visit and the episode's first observation included, (T, N) int64.

    `memory` holds the keys of the present episodes; with `keep` it moves on through the block.
    """
    memory = memory if keep else copy.deepcopy(memory)
    first, following = memory.embedded(batch, keys)

    def visits(t: int) -> Tensor:
        return 1 + ((memory.stored == following[t].unsqueeze(1)) & memory.live).sum(1)

    return memory.visit(batch, first, following, visits)
