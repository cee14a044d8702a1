"""Random numbers for a batch of environments: one stream per row, saved and restored as plain arrays."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_SEED_SALT = 0x6C706D5F726F7773
_LOW_64 = (1 << 64) - 1
TO_UNIT = 1.0 / (1 << 53)
Bits = TypeVar("Bits", np.uint64, NDArray[np.uint64])


def mix64(value: Bits) -> Bits:
    """The output function of SplitMix64 (Steele, Lea and Flood 2014) on counters: arrays, or numbers in kernels."""
    value = (value ^ (value >> np.uint64(30))) * _MIX_1
    value = (value ^ (value >> np.uint64(27))) * _MIX_2
    return value ^ (value >> np.uint64(31))


class RowRandom:
    """SplitMix64 streams, one per row: `state` is a uint64 array, so no row's draws depend on other rows.

    Drawing for many rows at once costs one NumPy expression instead of one call per row, and compiled kernels
    can advance the same `state` in place.
    """

    def __init__(self, num_rows: int) -> None:
        self.state: NDArray[np.uint64] = mix64(np.arange(num_rows, dtype=np.uint64))

    def seed(self, row: int, seed: int) -> None:
        """Start a row's stream again; the salt keeps it apart from other generators of the same seed."""
        self.state[row] = mix64(np.array([(seed ^ _SEED_SALT) & _LOW_64], dtype=np.uint64))[0]

    def bits(self, rows: NDArray[Any], count: int) -> NDArray[np.uint64]:
        """`count` 64-bit words for each of the rows (a mask or indices): shape (rows, count)."""
        start = self.state[rows]
        steps = np.arange(1, count + 1, dtype=np.uint64) * GOLDEN
        self.state[rows] = start + np.uint64(count * int(GOLDEN) & _LOW_64)
        return mix64(start[:, None] + steps[None, :])

    def uniform(self, rows: NDArray[Any], count: int) -> NDArray[np.float64]:
        """`count` numbers in [0, 1) for each of the rows."""
        return (self.bits(rows, count) >> np.uint64(11)).astype(np.float64) * TO_UNIT

    def integers(self, rows: NDArray[Any], high: int) -> NDArray[np.int64]:
        """One number in [0, high) for each of the rows (bias below high / 2**53)."""
        if high < 1:
            raise ValueError(f"expected high of at least 1, got {high}")
        return (self.uniform(rows, 1)[:, 0] * high).astype(np.int64)

    def bytes(self, rows: NDArray[Any], count: int) -> NDArray[np.uint8]:
        """`count` uniform bytes for each of the rows: shape (rows, count)."""
        words = self.bits(rows, -(-count // 8))
        return words.astype("<u8", copy=False).view(np.uint8)[:, :count]


def generators_to_array(generators: Sequence[np.random.Generator]) -> NDArray[np.uint64]:
    """PCG64 generators as an array of shape (n, 6): no pickle, no objects."""
    rows = []
    for generator in generators:
        state: dict[str, Any] = dict(generator.bit_generator.state)
        words = [part for value in state["state"].values() for part in divmod(value, 1 << 64)]
        rows.append([*words, state["has_uint32"], state["uinteger"]])
    return np.array(rows, dtype=np.uint64)


def check_generators(array: NDArray[Any], count: int) -> None:
    """Refuse what `generators_to_array` cannot have given for so many generators."""
    if array.shape != (count, 6) or array.dtype != np.uint64:
        raise ValueError(f"expected generator states uint64 of shape {(count, 6)}, got {array.dtype} of {array.shape}")
    if (array[:, 4] > 1).any() or (array[:, 5] >= 2**32).any():
        raise ValueError("expected generator states with a half word of 32 bits, got others")


def generators_from_array(array: NDArray[np.uint64]) -> list[np.random.Generator]:
    """Generators in the states that `generators_to_array` gave."""
    check_generators(array, len(array))
    generators = [np.random.default_rng(0) for _ in array]
    for generator, words in zip(generators, array.tolist(), strict=True):
        high, low, inc_high, inc_low, has_uint32, uinteger = words
        state = {"state": high << 64 | low, "inc": inc_high << 64 | inc_low}
        half = {"has_uint32": has_uint32, "uinteger": uinteger}
        generator.bit_generator.state = {"bit_generator": "PCG64", "state": state, **half}
    return generators
