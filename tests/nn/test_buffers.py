"""Ring buffers against collections.deque, and minibatches."""

from collections import deque

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lpm.nn.memory import RingBuffer, minibatches

FIELDS = {"x": ((), torch.int64), "y": ((2, 3), torch.float32)}


def rows(start: int, count: int) -> dict[str, torch.Tensor]:
    x = torch.arange(start, start + count)
    return {"x": x, "y": x.float().view(-1, 1, 1).expand(-1, 2, 3)}


@settings(max_examples=100, deadline=None, derandomize=True)
@given(capacity=st.integers(1, 7), pushes=st.lists(st.integers(0, 20), max_size=8), wanted=st.integers(0, 30))
def test_equals_a_deque(capacity: int, pushes: list[int], wanted: int) -> None:
    ring, reference, total = RingBuffer(capacity, FIELDS), deque[int](maxlen=capacity), 0
    for count in pushes:
        ring.push(**rows(total, count))
        reference.extend(range(total, total + count))
        total += count
        assert (ring.total, len(ring)) == (total, len(reference))
        slots = ring.last(len(ring))
        assert ring["x"][slots].tolist() == list(reference)
        assert ring["y"][slots, 1, 2].tolist() == list(reference)
        assert ring["x"][ring.last(wanted)].tolist() == list(reference)[max(0, len(reference) - wanted) :]


@settings(max_examples=30, deadline=None, derandomize=True)
@given(capacity=st.integers(1, 7), pushes=st.lists(st.integers(0, 9), max_size=5))
def test_splitting_a_push_changes_no_slot(capacity: int, pushes: list[int]) -> None:
    whole, split, total = RingBuffer(capacity, FIELDS), RingBuffer(capacity, FIELDS), sum(pushes)
    whole.push(**rows(0, total))
    start = 0
    for count in pushes:
        split.push(**rows(start, count))
        start += count
    slots = whole.last(total)
    assert torch.equal(slots, split.last(total))
    assert torch.equal(whole["y"][slots], split["y"][slots])


def test_state_is_complete() -> None:
    ring, other = RingBuffer(5, FIELDS), RingBuffer(5, FIELDS)
    ring.push(**rows(0, 8))
    other.load_state_dict(ring.state_dict())
    for buffer in (ring, other):
        buffer.push(**rows(8, 3))
        assert buffer["x"][buffer.last(5)].tolist() == [6, 7, 8, 9, 10]


def test_rows_are_copied() -> None:
    ring, x = RingBuffer(3, {"x": ((), torch.float32)}), torch.ones(2)
    ring.push(x=x)
    x.zero_()
    assert ring["x"].tolist() == [1.0, 1.0, 0.0]


def test_memory() -> None:
    assert RingBuffer(10, FIELDS).nbytes == 10 * (8 + 6 * 4)


@pytest.mark.parametrize(
    ("pushed", "message"),
    [
        ({"x": torch.zeros(2)}, r"expected fields \['x', 'y'\], got \['x'\]"),
        ({**rows(0, 2), "z": torch.zeros(2)}, r"expected fields \['x', 'y'\], got \['x', 'y', 'z'\]"),
        ({"x": torch.zeros(2), "y": torch.zeros(1, 2, 3)}, r"expected y of shape \(2, 2, 3\), got \(1, 2, 3\)"),
        ({"x": torch.zeros(2), "y": torch.zeros(2, 3)}, r"expected y of shape \(2, 2, 3\), got \(2, 3\)"),
    ],
)
def test_refuses_what_would_broadcast(pushed: dict[str, torch.Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RingBuffer(4, FIELDS).push(**pushed)


def test_refuses_no_capacity() -> None:
    with pytest.raises(ValueError, match=r"RingBuffer.capacity: expected at least 1, got 0"):
        RingBuffer(0, FIELDS)


# ---- minibatches ----------------------------------------------------------------------------------------------
@settings(max_examples=100, deadline=None, derandomize=True)
@given(size=st.integers(1, 40), batch=st.integers(1, 50), steps=st.integers(1, 12))
def test_no_replacement_within_a_pass(size: int, batch: int, steps: int) -> None:
    drawn = list(minibatches(size, batch, steps, torch.Generator().manual_seed(0)))
    width = min(batch, size)
    assert [len(index) for index in drawn] == [width] * steps
    per_pass = size // width
    for first in range(0, steps, per_pass):
        index = torch.cat(drawn[first : first + per_pass]).tolist()
        assert len(set(index)) == len(index)
        assert set(index) <= set(range(size))


def test_minibatches_follow_from_the_generator() -> None:
    def draw(seed: int) -> torch.Tensor:
        return torch.stack(list(minibatches(20, 4, 9, torch.Generator().manual_seed(seed))))

    before = torch.get_rng_state()
    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))
    assert torch.equal(before, torch.get_rng_state())


def test_every_row_is_drawn_equally_often() -> None:
    """The tail that a pass drops is another one every time."""
    index = torch.cat(list(minibatches(10, 4, 5000, torch.Generator().manual_seed(0))))
    share = index.bincount(minlength=10) / 2500  # each pass of two steps draws a row with probability 0.8
    assert ((share - 0.8).abs() < 5 * (0.8 * 0.2 / 2500) ** 0.5).all()
