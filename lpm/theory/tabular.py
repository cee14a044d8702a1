"""LPM for one cell of a table: a literal FIFO error queue and an error model that is the queue's mean."""

from __future__ import annotations

from collections import deque

import numpy as np

from lpm.theory._types import FloatArray


def mean_lag(capacity: int, per_cycle: int) -> float:
    """Mean age, in model updates, of the errors in a full FIFO queue when g is refitted.

    With K = capacity / per_cycle and m = floor(K) full cycles, the ages are 1..m with weight 1/K each and m + 1
    with the rest: (m + 1)(1 - m / (2K)). It is 1 for K <= 1 and (K + 1)/2 for integer K only.
    """
    if capacity < 1 or per_cycle < 1:
        raise ValueError(f"capacity and per_cycle must be positive, got {capacity} and {per_cycle}")
    versions = capacity / per_cycle
    full = capacity // per_cycle
    return (full + 1) * (1 - full / (2 * versions))


def tabular_rewards(errors: FloatArray, capacity: int, per_cycle: int, initial: float = 0.0) -> FloatArray:
    """LPM rewards per cycle for a cell whose log error during cycle tau is `errors[tau]`.

    Each cycle pushes `per_cycle` copies of its error, rewards them with the present g, then sets g to the
    mean of the queue. `initial` is g before its first update.
    """
    queue: deque[float] = deque(maxlen=capacity)
    error_model = initial
    rewards = np.empty(len(errors))
    for cycle, error in enumerate(errors):
        queue.extend([float(error)] * per_cycle)
        rewards[cycle] = error_model - error
        error_model = float(np.mean(queue))
    return rewards


def geometric_errors(factor: float, cycles: int, floor: float = 0.0) -> FloatArray:
    """log(MSE + floor) for MSE = 1, factor, factor^2, ..."""
    return np.asarray(np.log(factor ** np.arange(cycles, dtype=np.float64) + floor))
