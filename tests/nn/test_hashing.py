"""Keys and counts: exactness where it is promised, and the stated rate of collisions."""

import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from hypothesis import given, settings
from hypothesis import strategies as st

from lpm.core.seeding import seeded
from lpm.core.spaces import Spaces
from lpm.nn.hashing import CountSketch, Key, KeyConfig, ObservationKeys, hash_bytes, hash_words, mix


def keys_of(box: Box, kind: Key = "auto", **options: float) -> ObservationKeys:
    with seeded(torch.Generator().manual_seed(0)):
        return ObservationKeys(Spaces(box, Discrete(2)), KeyConfig(key=kind, **options))  # type: ignore[arg-type]


def test_mix_is_splitmix64() -> None:
    # the published generator: state 0 advanced once by the golden ratio gives 0xE220A8397B1DCDAF
    golden = torch.tensor([0x9E3779B97F4A7C15 - 2**64])
    assert mix(golden).item() % 2**64 == 0xE220A8397B1DCDAF


def test_keys_of_bytes_have_no_collisions_among_near_twins() -> None:
    """All one-byte and many two-byte changes of a frame, also in the highest byte of a word."""
    frame = torch.zeros(1, 40, dtype=torch.uint8)
    rows = [frame]
    for place in range(40):
        single = frame.repeat(255, 1)
        single[:, place] = torch.arange(1, 256, dtype=torch.uint8)
        rows.append(single)
    for a, b in ((7, 15), (0, 8), (7, 39)):
        double = frame.repeat(255 * 255, 1)
        grid = torch.cartesian_prod(torch.arange(1, 256), torch.arange(1, 256)).to(torch.uint8)
        double[:, a], double[:, b] = grid[:, 0], grid[:, 1]
        rows.append(double)
    keys = hash_bytes(torch.cat(rows))
    assert len(keys.unique()) == len(keys)


def test_order_of_words_matters() -> None:
    assert hash_words(torch.tensor([[1, 2]])) != hash_words(torch.tensor([[2, 1]]))
    assert hash_words(torch.tensor([[0]])) != hash_words(torch.tensor([[0, 0]]))


def test_bins_cut_bounded_and_unbounded_dimensions() -> None:
    box = Box(np.array([-1.0, -np.inf], np.float32), np.array([1.0, np.inf], np.float32))
    keys = keys_of(box, "bins", bins=4, bin_width=0.5)
    a, b, c, d = keys(torch.tensor([[0.01, 0.1], [0.49, 0.4], [0.51, 0.1], [0.01, 0.6]]))
    assert a == b
    assert len({int(a), int(c), int(d)}) == 3


def test_the_upper_edge_belongs_to_the_last_of_the_cells() -> None:
    for low, high in ((-1.0, 1.0), (-1.2, 0.6), (0.0, 0.7)):
        keys = keys_of(Box(low, high, (1,)), "bins", bins=20)
        line = torch.linspace(low, high, 20_001).unsqueeze(1)
        assert len(keys(line).unique()) == 20
        assert keys(line[-1:]) == keys(line[-2:-1])
    white = keys_of(Box(0, 255, (7, 7, 3), np.uint8), "bins", bins=2)(torch.full((2, 7, 7, 3), 255, dtype=torch.uint8))
    grey = keys_of(Box(0, 255, (7, 7, 3), np.uint8), "bins", bins=2)(torch.full((2, 7, 7, 3), 200, dtype=torch.uint8))
    assert torch.equal(white, grey)


def test_float_and_uint8_images_have_the_same_keys() -> None:
    image = torch.randint(0, 256, (5, 7, 7, 3), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    stored, floating = keys_of(Box(0, 255, (7, 7, 3), np.uint8)), keys_of(Box(0, 255, (7, 7, 3), np.float32))
    assert stored.kind == floating.kind == "bytes"
    # channels first is what networks see; keys of float images are taken after that, so only equality is promised
    assert torch.equal(
        stored(image)[:, None] == stored(image)[None], floating(image.float())[:, None] == floating(image.float())[None]
    )


def test_simhash_keeps_direction_and_forgets_length() -> None:
    keys = keys_of(Box(-1.0, 1.0, (50,)), "simhash", hash_bits=32)
    x = torch.randn(3, 50, generator=torch.Generator().manual_seed(0))
    assert torch.equal(keys(x), keys(2 * x))
    assert not (keys(x) == keys(-x)).any()


def test_auto_chooses_by_shape() -> None:
    assert keys_of(Box(-1.0, 1.0, (16,))).kind == "bins"
    assert keys_of(Box(-1.0, 1.0, (17,))).kind == "simhash"
    assert keys_of(Box(0, 255, (7, 7, 3), np.uint8)).kind == "bytes"


def test_bytes_of_float_vectors_are_refused() -> None:
    with pytest.raises(ValueError, match="key: expected 'bins' or 'simhash' for vector observations, got 'bytes'"):
        keys_of(Box(-1.0, 1.0, (3,)), "bytes")


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=60))
@settings(max_examples=50, deadline=None)
def test_few_keys_are_counted_exactly_and_in_any_order(keys: list[int]) -> None:
    forwards, backwards = CountSketch(16), CountSketch(16)
    forwards.add(torch.tensor(keys))
    for key in reversed(keys):
        backwards.add(torch.tensor([key]))
    assert forwards.count(torch.tensor(keys)).tolist() == [keys.count(key) for key in keys]
    assert torch.equal(forwards.cells, backwards.cells)


def test_collisions_are_as_rare_as_stated_and_never_lower_a_count() -> None:
    bits, depth, n = 12, 2, 2048
    sketch = CountSketch(bits, depth)
    keys = mix(torch.arange(n))
    sketch.add(keys)
    counts = sketch.count(keys)
    assert int(counts.min()) >= 1
    stated = (1 - math.exp(-n / 2**bits)) ** depth
    assert (counts > 1).float().mean().item() == pytest.approx(stated, abs=0.03)


def test_sketch_refuses_absurd_sizes() -> None:
    with pytest.raises(ValueError, match="expected 1 to 30 bits and a depth of at least 1, got 40 and 4"):
        CountSketch(40)
