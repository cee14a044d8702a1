"""Running moments: accumulated, then committed."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lpm.nn.inputs import RobustScale, RunningMoments


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


# ---- the robust scale ------------------------------------------------------------------------------------------
def robust(rows: torch.Tensor) -> RobustScale:
    scale = RobustScale(tuple(rows.shape[1:]))
    scale.observe(rows)
    scale.commit()
    return scale


def test_the_robust_scale_of_normal_values_is_their_mean_and_std() -> None:
    rows = 5 + 3 * torch.randn(2000, 2, generator=torch.Generator().manual_seed(0))
    scale = robust(rows)
    torch.testing.assert_close(scale.mean, torch.full((2,), 5.0), atol=0.8, rtol=0)
    torch.testing.assert_close(scale.std, torch.full((2,), 3.0), atol=0.3, rtol=0)


def test_half_of_the_values_may_be_noise() -> None:
    generator = torch.Generator().manual_seed(0)
    car = 0.01 * torch.randn(600, 1, generator=generator)
    noise = 2 * torch.rand(500, 1, generator=generator) - 1
    rows = torch.cat([car, noise])[torch.randperm(1100, generator=generator)]
    assert float(robust(rows).std) < 0.03
    plain = RunningMoments((1,))
    plain.observe(rows)
    plain.commit()
    assert float(plain.std) > 0.3


def test_the_shortest_half_by_hand() -> None:
    # of eight values, the shortest interval between a value and the fourth after it: 1 to 3
    scale = robust(torch.tensor([[0.0], [1.0], [1.5], [2.0], [2.5], [3.0], [7.0], [90.0]]))
    assert float(scale.mean) == 2.0
    assert float(scale.std) == pytest.approx(2.0 / 1.3489795)
    far = scale.normalise(torch.tensor([[2.0], [90.0]]))
    assert far[0].item() == 0.0
    assert far[1].item() == pytest.approx(math.asinh(88 * 1.3489795 / 2))
    assert scale.normalise(torch.tensor([[90.0]]), clip=2.0).item() == 2.0


def test_flags_and_constants_have_a_scale_too() -> None:
    rows = torch.zeros(100, 2)
    rows[:10, 0] = 1
    scale = robust(rows)
    torch.testing.assert_close(scale.mean, torch.tensor([0.1, 0.0]))
    torch.testing.assert_close(scale.std, torch.tensor([0.3, 3e-5]))  # 1e-4 of the other spread: any unit does
    assert scale.normalise(rows).abs().max() < 5


def test_the_largest_numbers_stay_finite() -> None:
    largest = torch.finfo(torch.float32).max
    rows = torch.zeros(100, 2)
    rows[:, 1] = torch.linspace(-1, 1, 100)
    rows[0], rows[1] = largest, -largest
    scaled = robust(rows).normalise(rows)
    assert torch.isfinite(scaled).all()
    assert scaled.abs().max() < 100
    assert torch.isfinite(robust(torch.zeros(100, 1)).normalise(torch.tensor([[largest]]))).all()


@settings(max_examples=30, deadline=None, derandomize=True)
@given(counts=st.lists(st.integers(0, 3000), min_size=1, max_size=6), seed=st.integers(0, 99))
def test_the_robust_sample_is_the_same_however_the_rows_are_split(counts: list[int], seed: int) -> None:
    rows = torch.randn(sum(counts), 2, generator=torch.Generator().manual_seed(seed))
    whole, parts = RobustScale((2,)), RobustScale((2,))
    whole.observe(rows)
    for part in rows.split(counts):
        parts.observe(part)
    kept = int(whole.kept)
    assert min(len(rows), RobustScale.ROWS // 3) <= kept < RobustScale.ROWS
    assert torch.equal(whole.sample[:kept], rows[whole.number[:kept]])
    assert len(whole.number[:kept].unique()) == kept
    assert torch.equal(parts.sample[: int(parts.kept)], whole.sample[:kept])


@pytest.mark.parametrize("environments", [2, 3, 7, 8, 10, 16, 64])
def test_environments_that_take_turns_are_all_in_the_sample(environments: int) -> None:
    scale = RobustScale((1,))
    for _ in range(300):
        scale.observe(torch.arange(float(environments)).repeat(128).unsqueeze(1))
    seen = scale.sample[: int(scale.kept)].flatten().long().bincount(minlength=environments)
    expected = int(scale.kept) / environments
    assert (seen > 0.5 * expected).all()
    assert (seen < 1.5 * expected).all()


def test_the_robust_scale_takes_effect_when_committed_and_is_saved() -> None:
    scale = RobustScale((1,))
    scale.commit()
    assert int(scale.commits) == 0
    scale.observe(torch.arange(5000.0).unsqueeze(1))
    assert float(scale.std) == 1.0
    copy = RobustScale((1,))
    copy.load_state_dict(scale.state_dict())
    for one in (scale, copy):
        one.observe(torch.arange(777.0).unsqueeze(1))
        one.commit()
    assert int(scale.commits) == 1
    assert all(torch.equal(a, b) for a, b in zip(scale.state_dict().values(), copy.state_dict().values(), strict=True))
