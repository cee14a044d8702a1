"""Ridge regression by action against numpy and scikit-free plain formulas."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lpm.nn.closed_form import RidgeByAction, solve_positive


def _data(seed: int, rows: int = 40, columns: int = 3, outputs: int = 2, actions: int = 3):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, columns, generator=generator)
    x[:, -1] = 1
    y = torch.randn(rows, outputs, generator=generator)
    return x, torch.randint(actions, (rows,), generator=generator), y


def test_equals_the_normal_equations_of_each_action() -> None:
    x, action, y = _data(0)
    model = RidgeByAction(3, 3, 2, ridge=0.5)
    model.add(x[:25], action[:25], y[:25])
    model.add(x[25:], action[25:], y[25:])
    model.solve()
    for number in range(3):
        chosen = (action == number).numpy()
        a, b = x.numpy()[chosen].astype(float), y.numpy()[chosen].astype(float)
        expected = np.linalg.solve(a.T @ a + 0.5 * np.eye(3), a.T @ b)
        np.testing.assert_allclose(model.weight[number].numpy(), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(model(x, action)[chosen].numpy(), a @ expected, rtol=1e-4, atol=1e-5)


def test_golden_values() -> None:
    model = RidgeByAction(1, 2, 1, ridge=1.0)
    model.add(torch.tensor([[1.0, 1.0], [2.0, 1.0]]), torch.zeros(2, dtype=torch.int64), torch.tensor([[1.0], [3.0]]))
    model.solve()
    # (xᵀx + I) w = xᵀy: [[6, 3], [3, 3]] w = [7, 4]
    assert model.weight.flatten().tolist() == [1.0, torch.tensor(1 / 3).item()]


def test_old_rows_fade() -> None:
    x, action, y = _data(1, actions=1)
    faded, weighted = (RidgeByAction(1, 3, 2, ridge=0.1) for _ in range(2))
    faded.add(x[:20], action[:20], y[:20])
    faded.add(x[20:], action[20:], y[20:], keep=0.25)
    weighted.add(x[:20] * 0.5, action[:20], y[:20] * 0.5)
    weighted.add(x[20:], action[20:], y[20:])
    faded.solve()
    weighted.solve()
    torch.testing.assert_close(faded.weight, weighted.weight)


def test_without_data_it_predicts_nothing_and_with_persistence_the_feature_itself() -> None:
    plain = RidgeByAction(2, 3, 2, ridge=5.0)
    plain.solve()
    assert not plain.weight.any()
    lasting = RidgeByAction(1, 3, 2, ridge=1e6, persistence=2, one=2)
    steady = torch.tensor([[1.0, -2.0, 1.0], [1.1, -2.1, 1.0], [0.9, -1.9, 1.0]]).repeat(20, 1)
    zero = torch.zeros(len(steady), dtype=torch.int64)
    lasting.add(steady, zero, steady[:, :2])  # what comes is what was
    lasting.solve()
    torch.testing.assert_close(lasting(steady, zero), steady[:, :2], rtol=0.1, atol=0.05)


def test_persistence_returns_to_the_mean_where_nothing_lasts() -> None:
    generator = torch.Generator().manual_seed(2)
    x = torch.cat([torch.randn(500, 2, generator=generator), torch.ones(500, 1)], 1)
    y = 3 + torch.randn(500, 2, generator=generator)
    model = RidgeByAction(1, 3, 2, ridge=1e6, persistence=2, one=2)
    model.add(x, torch.zeros(500, dtype=torch.int64), y)
    model.solve()
    assert model.weight[0, :2].abs().max() < 0.1
    torch.testing.assert_close(model.weight[0, 2], torch.tensor([3.0, 3.0]), rtol=0.1, atol=0.1)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(1e-3, 1e3))
def test_shrinks_the_same_whatever_the_order_of_rows(seed: int, ridge: float) -> None:
    x, action, y = _data(seed)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    models = [RidgeByAction(3, 3, 2, ridge=ridge, persistence=2, one=2) for _ in range(2)]
    models[0].add(x, action, y)
    models[1].add(x[order], action[order], y[order])
    for model in models:
        model.solve()
    torch.testing.assert_close(models[0].weight, models[1].weight, rtol=1e-3, atol=1e-4)


def test_a_singular_or_overflowed_matrix_never_raises() -> None:
    ones = torch.ones(1, 3, 3, dtype=torch.float64)
    assert solve_positive(ones, torch.ones(1, 3, 1, dtype=torch.float64)).isfinite().all()
    assert not solve_positive(ones * torch.inf, torch.ones(1, 3, 1, dtype=torch.float64)).any()
