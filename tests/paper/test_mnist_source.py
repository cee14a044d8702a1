"""Noisy MNIST draws the transitions of the paper, reproducibly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lpm.data import ImageSet
from lpm_paper.mnist import NoisyMNIST


def digit_set(counts: list[int]) -> ImageSet:
    """Images of 2 x 2 pixels: the first pixel is the label, the second the number of the image."""
    labels = np.repeat(np.arange(10), counts)
    np.random.default_rng(5).shuffle(labels)
    images = np.zeros((len(labels), 2, 2), np.uint8)
    images[:, 0, 0] = labels
    images[:, 0, 1] = np.arange(len(labels))
    return ImageSet(images, labels, "synthetic", complete=False)


DIGITS = digit_set([6, 5, 1, 30, 2, 3, 4, 1, 20, 2])


def decode(obs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    raw = np.rint(obs * 255).astype(int)
    return raw[:, 0], raw[:, 1]


@given(n=st.integers(0, 40), seed=st.integers(0, 2**32), kind=st.sampled_from(["mixed", "deterministic", "stochastic"]))
def test_zero_stays_and_one_becomes_a_digit_from_two_to_nine(n: int, seed: int, kind: str) -> None:
    batch = NoisyMNIST(DIGITS, seed).sample(n, kind=kind)  # type: ignore[arg-type]
    assert batch.obs.shape == batch.next_obs.shape == (n, 4)
    assert batch.obs.dtype == batch.next_obs.dtype == np.float32
    assert batch.stochastic.shape == (n,)
    assert batch.stochastic.dtype == np.bool_
    start, _ = decode(batch.obs)
    after, after_index = decode(batch.next_obs)
    np.testing.assert_array_equal(start, batch.stochastic.astype(int))
    still = ~batch.stochastic
    np.testing.assert_array_equal(batch.obs[still], batch.next_obs[still])
    assert np.isin(after[batch.stochastic], np.arange(2, 10)).all()
    np.testing.assert_array_equal(DIGITS.labels[after_index], after)  # a real image of that digit
    if kind != "mixed":
        assert (batch.stochastic == (kind == "stochastic")).all()


def test_pixels_are_scaled_to_the_unit_interval() -> None:
    images = np.repeat(np.arange(10, dtype=np.uint8)[:, None, None], 2, axis=1)
    images[1] = 255
    source = NoisyMNIST(ImageSet(images, np.arange(10), "synthetic", complete=False), seed=0)
    assert (source.sample(3, kind="stochastic").obs == np.float32(1)).all()
    assert (source.sample(3, kind="deterministic").obs == np.float32(0)).all()
    assert source.pixels == 2


def test_frequencies() -> None:
    """Each count lies within 5 standard deviations of its expectation."""
    n = 40_000
    source = NoisyMNIST(DIGITS, seed=1)
    batch = source.sample(n)
    assert abs(batch.stochastic.sum() - n / 2) < 5 * np.sqrt(n / 4)

    batch = source.sample(n, kind="stochastic")
    after, index = decode(batch.next_obs)
    # Uniform over digits, although the set has 30 threes and a single two ...
    p = 1 / 8
    assert (np.abs(np.bincount(after, minlength=10)[2:] - n * p) < 5 * np.sqrt(n * p * (1 - p))).all()
    # ... and then uniform over the images of a digit.
    threes = np.bincount(index[after == 3], minlength=len(DIGITS))[DIGITS.labels == 3]
    m = int(threes.sum())
    assert (np.abs(threes - m / 30) < 5 * np.sqrt(m / 30)).all()
    ones = np.bincount(decode(batch.obs)[1], minlength=len(DIGITS))[DIGITS.labels == 1]
    assert (np.abs(ones - n / 5) < 5 * np.sqrt(n / 5)).all()


def test_same_seed_same_batches_and_other_seed_others() -> None:
    one, two, other = NoisyMNIST(DIGITS, 7), NoisyMNIST(DIGITS, np.random.default_rng(7)), NoisyMNIST(DIGITS, 8)
    for kind in ("mixed", "stochastic", "mixed", "deterministic"):
        a, b, c = (source.sample(32, kind=kind) for source in (one, two, other))  # type: ignore[arg-type]
        np.testing.assert_array_equal(a.obs, b.obs)
        np.testing.assert_array_equal(a.next_obs, b.next_obs)
        assert not np.array_equal(a.obs, c.obs)


def test_global_random_state_is_untouched() -> None:
    before = np.random.get_state()  # noqa: NPY002
    NoisyMNIST(DIGITS, 0).sample(10)
    after = np.random.get_state()  # noqa: NPY002
    np.testing.assert_array_equal(before[1], after[1])
    assert before[2] == after[2]


def test_missing_digit_is_named() -> None:
    with pytest.raises(ValueError, match=r"none of \[4, 7\] in 'synthetic'"):
        NoisyMNIST(digit_set([1, 1, 1, 1, 0, 1, 1, 0, 1, 1]), seed=0)


def test_bad_input() -> None:
    wrong = ImageSet(np.zeros((11, 2, 2), np.uint8), np.arange(11), "synthetic", complete=False)
    with pytest.raises(ValueError, match=r"digits 0\.\.9, got 0\.\.10"):
        NoisyMNIST(wrong, seed=0)
