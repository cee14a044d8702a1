"""Running moments: accumulated, then committed."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lpm.nn.statistics import RunningMoments


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    counts=st.lists(st.integers(0, 20), min_size=1, max_size=5).filter(lambda counts: sum(counts) > 0),
    centre=st.floats(-1e3, 1e3),
    spread=st.floats(0.1, 100),
    seed=st.integers(0, 99),
)
def test_equals_torch_however_the_rows_are_split(counts: list[int], centre: float, spread: float, seed: int) -> None:
    rows = centre + spread * torch.randn(sum(counts), 3, generator=torch.Generator().manual_seed(seed))
    moments = RunningMoments((3,))
    for part in rows.split(counts):
        moments.observe(part)
    moments.commit()
    torch.testing.assert_close(moments.mean, rows.double().mean(0).float())
    expected = rows.double().std(0, correction=0).clamp_min(1e-4).float()
    torch.testing.assert_close(moments.std, expected, atol=1e-4, rtol=1e-4)


def test_nothing_takes_effect_before_commit() -> None:
    moments = RunningMoments((2,))
    moments.observe(torch.full((5, 2), 7.0))
    assert moments.mean.tolist() == [0.0, 0.0]
    assert moments.std.tolist() == [1.0, 1.0]
    moments.commit()
    assert moments.mean.tolist() == [7.0, 7.0]
    assert int(moments.commits) == 1


def test_commit_of_nothing_is_nothing() -> None:
    moments = RunningMoments((2,))
    moments.observe(torch.zeros(0, 2))
    moments.commit()
    assert int(moments.commits) == 0
    assert moments.std.tolist() == [1.0, 1.0]


def test_scalar_std_is_the_root_of_the_mean_variance() -> None:
    moments = RunningMoments((2,), scalar_std=True)
    moments.observe(torch.tensor([[-1.0, 10.0], [1.0, 16.0]]))  # variances 1 and 9
    moments.commit()
    assert moments.mean.tolist() == [0.0, 13.0]
    assert moments.std.item() == pytest.approx(5**0.5)


def test_constant_dimensions_stay_finite_and_clipped() -> None:
    moments = RunningMoments((1,), min_std=1e-4)
    moments.observe(torch.full((100, 1), 0.1))
    moments.commit()
    assert moments.std.item() == pytest.approx(1e-4)
    assert moments.normalise(torch.tensor([[0.1]])).abs().item() < 1e-3
    assert moments.normalise(torch.tensor([[5.0], [-5.0]]), clip=10.0).tolist() == [[10.0], [-10.0]]


def test_large_offsets_keep_their_spread() -> None:
    """Sums are kept in float64: in float32 the variance of 10,000 ± 1 would be lost."""
    moments = RunningMoments((1,))
    for seed in range(20):
        moments.observe(1e4 + torch.randn(500, 1, generator=torch.Generator().manual_seed(seed)))
    moments.commit()
    assert moments.std.item() == pytest.approx(1.0, abs=0.03)


def test_state_is_complete() -> None:
    moments, other = RunningMoments((2,)), RunningMoments((2,))
    moments.observe(torch.rand(5, 2))
    moments.commit()
    moments.observe(torch.rand(5, 2))
    other.load_state_dict(moments.state_dict())
    for each in (moments, other):
        each.observe(torch.ones(1, 2))
        each.commit()
    assert torch.equal(moments.mean, other.mean)
    assert torch.equal(moments.std, other.std)
