from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lpm.agents.agent import gae
from lpm.core.mixer import Floats

GAMMA, LAM = 0.9, 0.8


def reference(
    r: Floats,
    v: Floats,
    final: Floats,
    last: float,
    terminated: list[bool],
    truncated: list[bool],
    valid: list[bool],
    episodic: bool,
) -> list[float]:
    """One environment, filler removed first, then the textbook recursion on Python numbers."""
    kept = [t for t in range(len(r)) if valid[t]]
    out = [0.0] * len(r)
    carry = 0.0
    for k in range(len(kept) - 1, -1, -1):
        t = kept[k]
        following = float(v[kept[k + 1]]) if k + 1 < len(kept) else last
        cut = False
        if episodic and terminated[t]:
            following, cut = 0.0, True
        elif episodic and truncated[t]:
            following, cut = float(final[t]), True
        delta = float(r[t]) + GAMMA * following - float(v[t])
        carry = delta + (0.0 if cut else GAMMA * LAM * carry)
        out[t] = carry
    return out


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.booleans())
def test_equals_the_textbook_with_filler_removed(seed: int, steps: int, episodic: bool) -> None:
    rng = np.random.default_rng(seed)
    r, v, final = (rng.normal(size=(steps, 3)).astype(np.float32) for _ in range(3))
    last = rng.normal(size=3).astype(np.float32)
    kind = rng.integers(0, 5, size=(steps, 3))
    valid = np.ones((steps, 3), dtype=bool)
    for t in range(1, steps):  # filler follows an end, as in NEXT_STEP
        valid[t] = ~(valid[t - 1] & (kind[t - 1] <= 1))
    terminated, truncated = (kind == 0) & valid, (kind == 1) & valid
    got = gae(r, v, final, last, terminated, truncated, valid, gamma=GAMMA, lam=LAM, episodic=episodic)
    for env in range(3):
        columns = (x[:, env].tolist() for x in (terminated, truncated, valid))
        expected = reference(r[:, env], v[:, env], final[:, env], float(last[env]), *columns, episodic)
        assert got[:, env].tolist() == pytest.approx(expected, abs=1e-4)


def one(*values: float) -> Floats:
    return np.array(values, dtype=np.float32)[:, None]


NO = np.zeros((2, 1), dtype=bool)
END = np.array([[False], [True]])


def test_truncation_bootstraps_from_the_final_observation_termination_does_not() -> None:
    args = (one(0, 0), one(0, 0), one(7, 7), one(100)[0])
    cut = gae(*args, NO, END, ~NO, gamma=0.5, lam=1.0)
    assert cut[:, 0].tolist() == [1.75, 3.5]
    ended = gae(*args, END, NO, ~NO, gamma=0.5, lam=1.0)
    assert ended[:, 0].tolist() == [0.0, 0.0]
    running = gae(*args, END, NO, ~NO, gamma=0.5, lam=1.0, episodic=False)
    assert running[:, 0].tolist() == [25.0, 50.0]
