"""Counting visits to coverage cells: how much of an environment has been seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Coverage:
    """Visits per cell, fed with the `info["cell"]` of each step.

    >>> coverage = Coverage(4)
    >>> coverage.add([1, 1, 3])
    >>> coverage.count, coverage.fraction
    (2, 0.5)
    """

    def __init__(self, num_cells: int) -> None:
        if num_cells < 1:
            raise ValueError(f"expected an environment with at least 1 coverage cell, got {num_cells}")
        self.visits: NDArray[np.int64] = np.zeros(num_cells, dtype=np.int64)
        self.count = 0
        """Cells visited at least once."""

    def add(self, cells: Any, valid: Any = None) -> None:
        """Count one visit for each cell; `valid` (a mask) leaves out rows that did not really act."""
        cells = np.atleast_1d(np.asarray(cells, dtype=np.int64))
        if valid is not None:
            cells = cells[np.atleast_1d(np.asarray(valid, dtype=np.bool_))]
        if len(cells) and (cells.min() < 0 or cells.max() >= len(self.visits)):
            wrong = cells[(cells < 0) | (cells >= len(self.visits))][0]
            raise ValueError(f"expected cells from 0 to {len(self.visits) - 1}, got {wrong}")
        new = cells[self.visits[cells] == 0]
        if len(new):
            self.count += len(np.unique(new))
        np.add.at(self.visits, cells, 1)

    @property
    def visited(self) -> NDArray[np.bool_]:
        """Which cells have been visited."""
        return self.visits > 0

    @property
    def fraction(self) -> float:
        """The visited share of all cells."""
        return self.count / len(self.visits)

    def state_dict(self) -> dict[str, NDArray[np.int64]]:
        """The counts, to be saved."""
        return {"visits": self.visits.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what `state_dict` gave."""
        visits = np.asarray(state["visits"], dtype=np.int64)
        if visits.shape != self.visits.shape:
            raise ValueError(f"expected visits of shape {self.visits.shape}, got {visits.shape}")
        self.visits = visits.copy()
        self.count = int((visits > 0).sum())
