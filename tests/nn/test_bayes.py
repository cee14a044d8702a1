"""Bayesian regression as the anchored g: exact, back to the prior without data, forgetting, state."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lpm.core.seeding import seeded
from lpm.nn.closed_form import _cholesky, median_distance
from lpm_paper.lpm_anchored import AnchoredErrorModel


def model(inputs: int = 2, features: int = 256, **changes: float) -> AnchoredErrorModel:
    fields = {"length_scale": 0.25, "forgetting": 1.0, "ridge": 0.1, **changes}
    with seeded(torch.Generator().manual_seed(0)):
        return AnchoredErrorModel(inputs, features=features, **fields)


def data(rows: int = 200, inputs: int = 2, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, inputs, generator=generator)
    return x, torch.sin(3 * x[:, 0]) - 5


def test_is_the_prior_everywhere_before_data_and_far_from_it() -> None:
    g = model()
    g.anchor.fill_(2.0)
    x, errors = data()
    assert g(x).tolist() == [[2.0]] * len(x)
    g.fit(x, errors)
    assert float((g(x).squeeze(1) - errors).abs().mean()) < 0.3
    far = torch.full((1, 2), 40.0)
    # cosines do not vanish: far away their sum is noise around zero, of the size that F features leave
    assert abs(float(g(far)) - 2.0) < 2.5
    near, away = float(g(x[:1])), float(g(far))
    assert near < -3 < away


def test_equals_ridge_regression_on_its_features() -> None:
    g = model(ridge=0.3)
    x, errors = data(64)
    for part in (slice(0, 20), slice(20, 64)):
        g.fit(x[part], errors[part])
    g2 = model(ridge=0.3)
    g2.features.scale.copy_(g.features.scale)
    phi = g2.features(x).double()
    exact = torch.linalg.solve(phi.T @ phi + 0.3 * torch.eye(256, dtype=torch.float64), phi.T @ errors.double())
    torch.testing.assert_close(g.posterior.mean[:, 0], exact, atol=1e-4, rtol=1e-3)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.05, 0.95), st.integers(1, 6))
def test_forgetting_decays_towards_the_prior(kept: float, updates: int) -> None:
    g = model(forgetting=kept, features=16)
    x, errors = data(32)
    g.fit(x, errors)
    precision, moment = g.posterior.precision.clone(), g.posterior.moment.clone()
    g.fit(x[:0], errors[:0])  # an update of nothing takes nothing away
    torch.testing.assert_close(g.posterior.precision, precision)
    for _ in range(updates):
        g.fit(torch.full_like(x, torch.nan), errors)  # rows that are left out, as many as make a whole update
    prior = 0.1 * torch.eye(16, dtype=torch.float64)
    torch.testing.assert_close(g.posterior.precision - prior, kept**updates * (precision - prior))
    torch.testing.assert_close(g.posterior.moment, kept**updates * moment)


def test_what_is_forgotten_is_learnt_anew() -> None:
    g = model(forgetting=0.5)
    x, errors = data()
    g.fit(x, errors)
    for _ in range(12):
        g.fit(x, errors + 3)
    assert float((g(x).squeeze(1) - errors - 3).abs().mean()) < 0.3


def test_state_is_whole() -> None:
    g, x, errors = model(), *data()
    g.fit(x, errors)
    other = copy.deepcopy(model())
    other.load_state_dict(g.state_dict())
    for each in (g, other):
        each.fit(x[:50], errors[:50] + 1)
    assert torch.equal(g(x), other(x))


def test_one_point_repeated_has_a_scale_and_a_solution() -> None:
    g = model()
    x = torch.zeros(10, 2)
    assert median_distance(x) == 1.0
    g.fit(x, torch.full((10,), -4.0))
    assert torch.isfinite(g(x)).all()


def test_singular_precision_gets_jitter() -> None:
    ones = torch.ones(4, 4, dtype=torch.float64)
    solution = torch.cholesky_solve(torch.ones(4, 1, dtype=torch.float64), _cholesky(ones))
    assert float((ones @ solution - 1).abs().max()) == pytest.approx(0, abs=1e-4)


def test_a_matrix_that_no_jitter_mends_is_an_error_not_a_loop() -> None:
    broken = torch.full((4, 4), torch.nan, dtype=torch.float64)
    with pytest.raises(ArithmeticError, match="Cholesky"):
        _cholesky(broken)


def test_rows_that_are_not_finite_are_left_out() -> None:
    x, errors = data()
    clean, dirty = model(), model()
    for g in (clean, dirty):
        g.fit(x, errors)
    clean.fit(x[2:], errors[2:])
    errors[0], x[1, 0] = torch.inf, torch.nan
    dirty.fit(x, errors)
    assert torch.equal(clean.posterior.mean, dirty.posterior.mean)


def test_environments_that_take_turns_all_count_for_the_length_scale() -> None:
    x = torch.randn(512, 8, 1, generator=torch.Generator().manual_seed(0))
    x[:, 1:] *= 10
    assert median_distance(x.flatten(0, 1)) == pytest.approx(median_distance(x.flip(1).flatten(0, 1)), rel=0.2)
