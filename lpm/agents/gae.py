"""Generalised advantage estimation (Schulman et al. 2016) on NumPy arrays shaped (T, N)."""

from __future__ import annotations

from typing import Any

import numpy as np

from lpm.core.mixer import Floats, Mask


def gae(
    rewards: Floats,
    values: Floats,
    final_values: Floats,
    last_values: Floats,
    terminated: Mask,
    truncated: Mask,
    valid: Mask,
    *,
    gamma: float,
    lam: float,
    episodic: bool = True,
) -> Floats:
    """Advantages (T, N); 0 where `valid` is False.

    `values` are those of the observations acted on; `final_values` those of the true successors, read only where an
    episode was truncated; `last_values` (N,) those of the observations that follow the block. An episodic stream is
    cut at the end of an episode: a terminal state is worth 0, a truncated one its value. A stream that is not
    episodic runs on into the next episode. Filler steps (`valid` False) are passed over.

    >>> one = np.ones((3, 1), dtype=np.float32)
    >>> no = np.zeros((3, 1), dtype=bool)
    >>> gae(one, 0 * one, 0 * one, 0 * one[0], no, no, ~no, gamma=0.5, lam=1.0).ravel().tolist()
    [1.75, 1.5, 1.0]
    """
    following = _following(values, last_values, valid)
    decay = np.full(rewards.shape, gamma * lam, dtype=np.float32)
    if episodic:
        following = np.where(truncated, final_values, following)
        following[terminated] = 0.0
        decay[terminated | truncated] = 0.0
    delta = rewards + np.float32(gamma) * following - values
    delta[~valid] = 0.0
    decay[~valid] = 1.0
    advantages = np.empty_like(delta)
    carry = np.zeros_like(last_values)
    for t in range(len(delta) - 1, -1, -1):
        np.multiply(carry, decay[t], out=carry)
        np.add(carry, delta[t], out=carry)
        advantages[t] = carry
    advantages[~valid] = 0.0
    return advantages


def _following(values: Floats, last_values: Floats, valid: Mask) -> Floats:
    """The value of the next observation acted on, skipping filler."""
    following: Any = np.empty_like(values)
    following[:-1], following[-1] = values[1:], last_values
    for t in np.flatnonzero(~valid.all(axis=1))[::-1]:
        if t > 0:
            following[t - 1] = np.where(valid[t], values[t], following[t])
    return following  # type: ignore[no-any-return]
