"""The coverage counter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lpm.envs.coverage import Coverage


@given(st.lists(st.lists(st.integers(0, 11), max_size=8), max_size=12))
def test_counts_what_a_set_would(batches: list[list[int]]) -> None:
    coverage = Coverage(12)
    for batch in batches:
        coverage.add(np.array(batch, dtype=np.int64))
    cells = [cell for batch in batches for cell in batch]
    assert coverage.count == len(set(cells)) == coverage.visited.sum()
    assert coverage.fraction == len(set(cells)) / 12
    np.testing.assert_array_equal(coverage.visits, np.bincount(cells, minlength=12))
    copy = Coverage(12)
    copy.load_state_dict(coverage.state_dict())
    assert copy.count == coverage.count
    np.testing.assert_array_equal(copy.visits, coverage.visits)


def test_rows_that_did_not_act_are_left_out() -> None:
    coverage = Coverage(3)
    coverage.add([0, 1, 2], valid=[True, False, True])
    np.testing.assert_array_equal(coverage.visited, [True, False, True])
    coverage.add(1)
    assert coverage.count == 3


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="at least 1 coverage cell, got 0"):
        Coverage(0)
    with pytest.raises(ValueError, match="cells from 0 to 2, got 3"):
        Coverage(3).add([1, 3])
    with pytest.raises(ValueError, match="cells from 0 to 2, got -1"):
        Coverage(3).add([-1])
    with pytest.raises(ValueError, match=r"visits of shape \(3,\), got \(2,\)"):
        Coverage(3).load_state_dict({"visits": [1, 2]})
