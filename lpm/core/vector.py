"""True successors from Gymnasium's vector environments, whatever their autoreset mode, and sums over their episodes.

- NEXT_STEP: the step after an episode's end only resets. It is no transition (`valid` is False).
- SAME_STEP: the successor of the last step is in `info["final_obs"]`; the returned observation begins an episode.
- DISABLED: the caller resets the rows that ended, between two steps.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

Array = NDArray[Any]
Mask = NDArray[np.bool_]


def autoreset_mode(envs: Any) -> AutoresetMode:
    """How these environments begin a new episode."""
    mode = envs.metadata.get("autoreset_mode")
    if mode is None:
        raise ValueError(
            f"{envs}: expected metadata['autoreset_mode'] (gymnasium.vector.AutoresetMode), which says how to read the "
            f"end of an episode; got metadata {envs.metadata}"
        )
    return AutoresetMode(mode)


def valid_steps(mode: AutoresetMode, ended: Mask) -> Mask:
    """Which rows of a step are transitions, given which episodes the step before had `ended`."""
    return ~ended if mode is AutoresetMode.NEXT_STEP else np.ones_like(ended)


def use_final_obs(mode: AutoresetMode, successors: Array, done: Mask, info: dict[str, Any], key: str | None) -> None:
    """Put the true successors of the rows that are `done` into a copy of the returned observations.

    `key` names the entry of Dict observations that `successors` holds.
    """
    if mode is not AutoresetMode.SAME_STEP or not done.any():
        return
    if "final_obs" not in info:
        raise ValueError(f"expected info['final_obs'] from environments in SAME_STEP mode, got info {sorted(info)}")
    final = info["final_obs"]
    for row in np.flatnonzero(done):
        # one observation a row, as Gymnasium itself has it, or a dict of arrays
        value = final[key][row] if isinstance(final, dict) else final[row]
        successors[row] = value[key] if key is not None and isinstance(value, dict) else value


RECENT = 100  # episodes behind a reported return


class EpisodeSums:
    """Sums of several numbers over the running episode of each environment, and over the last 100 that ended."""

    def __init__(self, numbers: int, num_envs: int) -> None:
        self.running = np.zeros((numbers, num_envs))
        self.recent: deque[tuple[float, ...]] = deque(maxlen=RECENT)
        self.ended = 0
        """Episodes so far."""

    def add(self, block: NDArray[Any], done: Mask, left: Mask | None = None) -> None:
        """A (numbers, T, N) block; `done` (T, N) says where an episode ended, `left` which of them counts for nothing:
        the environment was reset before its end.
        """
        start, counted = 0, done if left is None else done & ~left
        for t in np.flatnonzero(done.any(axis=1)):
            self.running += block[:, start : t + 1].sum(axis=1)
            self.recent.extend(map(tuple, self.running[:, counted[t]].T.tolist()))
            self.ended += int(counted[t].sum())
            self.running[:, done[t]] = 0.0
            start = int(t) + 1
        self.running += block[:, start:].sum(axis=1)
