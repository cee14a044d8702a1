"""Settings of the methods that count visits: when two observations are the same state."""

from __future__ import annotations

from dataclasses import dataclass

from lpm.core.settings import Count, Positive, Settings
from lpm.core.spaces import Spaces
from lpm.nn.hashing import Key, ObservationKeys


@dataclass(frozen=True)
class KeyConfig(Settings):
    """How observations become keys."""

    key: Key = "auto"
    """"bytes": every byte of an image or grid (papers: the grid's full state or its bytes); "bins": cells of a
    vector; "simhash": signs of random projections. "auto": bytes for images and grids, bins for vectors of at most 16
    dimensions, simhash for longer ones."""
    bins: Count = 20
    """Cells across the range of each bounded dimension, for "bins"."""
    bin_width: Positive = 0.1
    """Width of the cells of unbounded dimensions, in the observation's own unit, for "bins"."""
    hash_bits: Count = 64
    """Random projections of "simhash" (Tang et al. 2017: 16 to 256)."""

    def build(self, spaces: Spaces) -> ObservationKeys:
        """The module that computes the keys; call it inside `seeded`."""
        return ObservationKeys(spaces, self.key, bins=self.bins, bin_width=self.bin_width, bits=self.hash_bits)
