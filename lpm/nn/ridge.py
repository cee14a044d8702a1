"""Ridge regression in closed form: everything seen is two matrices, and no gradient step is ever taken."""

from __future__ import annotations

import torch
from torch import Tensor, nn

JITTER = 1e-8
ATTEMPTS = 12  # with ten times as much jitter each


class RidgeByAction(nn.Module):
    """Linear regressions y ≈ x·W, one for each action, from running sums of xᵀx and xᵀy in float64.

    W minimises Σ‖y − x·W‖² + ridge·‖W − W₀‖². W₀ is 0, but for the first `persistence` outputs: there it is the best
    model in which each output is a multiple of the input of the same number plus a constant ("the feature stays, or
    returns to its mean"), two numbers per output, known after a few rows. The columns of x are then (features, …, 1 at
    place `one`, …).

    >>> import torch
    >>> model = RidgeByAction(1, 2, 1, ridge=1e-6)
    >>> x, action = torch.tensor([[0.0, 1.0], [1.0, 1.0]]), torch.tensor([0, 0])
    >>> model.add(x, action, torch.tensor([[1.0], [3.0]]))
    >>> model.solve()
    >>> [round(w, 3) for w in model.weight.flatten().tolist()]
    [2.0, 1.0]
    """

    gram: Tensor  # (A, K, K) Σ xᵀx
    moment: Tensor  # (A, K, D) Σ xᵀy
    weight: Tensor  # (A, K, D) the solution, in float32

    def __init__(
        self, actions: int, columns: int, outputs: int, *, ridge: float, persistence: int = 0, one: int = -1
    ) -> None:
        super().__init__()
        self.ridge, self.persistence, self.one = ridge, persistence, one
        self.register_buffer("gram", torch.zeros(actions, columns, columns, dtype=torch.float64))
        self.register_buffer("moment", torch.zeros(actions, columns, outputs, dtype=torch.float64))
        self.register_buffer("weight", torch.zeros(actions, columns, outputs))
        # Without data the prior holds. Started at 0 instead, LGN's f erred by the distance from the start, and g shut
        # the gate on everything far from it for thousands of steps.
        self.solve()

    def forward(self, x: Tensor, action: Tensor, outputs: slice = slice(None)) -> Tensor:
        """Rows (B, K) and their actions (B,) to predictions (B, D), or some of the outputs only."""
        weight = self.weight[..., outputs]
        out = x.new_zeros(len(x), weight.shape[2])
        for number, rows in _by_action(action, len(weight)):
            out[rows] = x[rows] @ weight[number]
        return out

    def add(self, x: Tensor, action: Tensor, y: Tensor, keep: float = 1.0) -> None:
        """Take in rows (B, K) with targets (B, D); what was seen before counts `keep` times as much as it did."""
        if keep != 1:
            self.gram.mul_(keep)
            self.moment.mul_(keep)
        for number, rows in _by_action(action, len(self.weight)):
            inputs = x[rows]
            self.gram[number] += (inputs.T @ inputs).double()
            self.moment[number] += (inputs.T @ y[rows]).double()

    def solve(self) -> None:
        """Make what was added take effect."""
        start = self._persistence() if self.persistence else torch.zeros_like(self.moment)
        precision = self.gram.clone()
        precision.diagonal(dim1=1, dim2=2).add_(self.ridge)
        self.weight.copy_(start + solve_positive(precision, self.moment - self.gram @ start))

    def _persistence(self) -> Tensor:
        """W₀: for each action and output d, least squares on (x_d, 1), with a share of x_d between 0 and 1."""
        outputs = self.persistence
        count = self.gram[:, self.one, self.one].unsqueeze(1) + 1
        x, y = self.gram[:, self.one, :outputs], self.moment[:, self.one, :outputs]
        square = self.gram.diagonal(dim1=1, dim2=2)[:, :outputs]
        product = self.moment.diagonal(dim1=1, dim2=2)[:, :outputs]
        variance, covariance = square - x * x / count, product - x * y / count
        # a feature that has hardly moved is expected to stay
        little = 1e-3 * variance.mean(1, keepdim=True) + 1e-9
        share = ((covariance + little) / (variance + little)).clamp(0, 1)
        start = torch.zeros_like(self.moment)
        start[..., :outputs].diagonal(dim1=1, dim2=2)[:, :outputs] = share
        start[:, self.one, :outputs] = (y - share * x) / count
        return start


def _by_action(action: Tensor, count: int) -> list[tuple[int, Tensor | slice]]:
    """The rows of each action that occurs."""
    if count == 1:
        return [(0, slice(None))]
    order = torch.argsort(action, stable=True)
    sizes = torch.bincount(action, minlength=count).tolist()
    return [(number, rows) for number, rows in enumerate(torch.split(order, sizes)) if len(rows)]


def solve_positive(matrix: Tensor, right: Tensor) -> Tensor:
    """matrix⁻¹·right for symmetric positive matrices (..., K, K); 0 where numbers overflowed, as without data."""
    factor = cholesky_with_jitter(matrix)
    return torch.zeros_like(right) if factor is None else torch.cholesky_solve(right, factor)


def cholesky_with_jitter(matrix: Tensor) -> Tensor | None:
    """Cholesky factors of symmetric matrices (..., K, K), with as much jitter as it takes; None if none is enough."""
    factor, failed = torch.linalg.cholesky_ex(matrix)
    jitter = JITTER * matrix.diagonal(dim1=-2, dim2=-1).mean(-1, keepdim=True)
    for _ in range(ATTEMPTS):
        if not bool(failed.any()):
            break
        raised = matrix.clone()
        raised.diagonal(dim1=-2, dim2=-1).add_(jitter)
        factor, failed = torch.linalg.cholesky_ex(raised)
        jitter = 10 * jitter
    return None if bool(failed.any()) else factor
