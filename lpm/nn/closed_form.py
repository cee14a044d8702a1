"""Models in closed form: ridge regression, Bayesian regression, and covariances that fade with age. No gradient."""

import math

import torch
from torch import Tensor, nn

from lpm.nn.memory import fixed_sample

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


def expected_gain(q: Tensor) -> Tensor:
    """Information that an observation with variance ratio q = xᵀSx/σ² will bring, in nats: ½ log(1 + q)."""
    return 0.5 * torch.log1p(q)


def realised_gain(q: Tensor, square: Tensor) -> Tensor:
    """KL of the posterior after an observation from the one before, in nats.

    `square` is the squared residual in units of the noise variance. Its expectation under the model is 1 + q, and
    then this is `expected_gain`.
    """
    return 0.5 * (torch.log1p(q) - q / (1 + q) + square * q / (1 + q).square())


class RandomFeatures(nn.Module):
    """Random Fourier features √(2/F)·cos(Wx/ℓ + b): the kernel is Gaussian with length scale ℓ."""

    weight: Tensor  # (F, inputs) directions in units of the length scale
    phase: Tensor  # (F,)
    scale: Tensor  # ℓ; 0 while it is not known

    def __init__(self, inputs: int, features: int, length_scale: float = 0.0, dtype: torch.dtype | None = None) -> None:
        """Build inside `seeded`."""
        super().__init__()
        self.register_buffer("weight", torch.randn(features, inputs, dtype=dtype))
        self.register_buffer("phase", 2 * math.pi * torch.rand(features, dtype=dtype))
        self.register_buffer("scale", torch.tensor(length_scale, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs) to (B, F), of norm about 1."""
        angle = x.to(self.phase.dtype) @ (self.weight.T / self.scale.clamp_min(1e-12)) + self.phase
        return angle.cos_().mul_(math.sqrt(2 / len(self.phase)))


def median_distance(x: Tensor, most: int = 512) -> float:
    """The median distance between two of the rows, of which a sample of at most `most` is looked at.

    >>> median_distance(torch.tensor([[0.0], [1.0], [3.0]]))
    2.0
    """
    distances = torch.nn.functional.pdist(x[fixed_sample(len(x), most).to(x.device)].double())
    distances = distances[distances.isfinite()]
    middle = float(distances.median()) if len(distances) else 0.0
    return middle if middle > 0 else 1.0


class BayesianRegression(nn.Module):
    """Posterior of D independent linear regressions that share their features, noise and prior, in float64.

    The prior of each weight is N(0, 1/prior_precision), the noise N(0, noise²).
    """

    precision: Tensor  # (F, F)
    moment: Tensor  # (F, D) Xᵀy/σ²
    factor: Tensor  # (F, F) Cholesky factor of the precision
    mean: Tensor  # (F, D)

    def __init__(self, features: int, outputs: int, *, noise: float = 1.0, prior_precision: float = 1.0) -> None:
        super().__init__()
        self.noise = noise
        self.prior_precision = prior_precision
        eye = torch.eye(features, dtype=torch.float64)
        self.register_buffer("precision", prior_precision * eye)
        self.register_buffer("moment", torch.zeros(features, outputs, dtype=torch.float64))
        self.register_buffer("factor", math.sqrt(prior_precision) * eye)
        self.register_buffer("mean", torch.zeros(features, outputs, dtype=torch.float64))

    def ratio(self, x: Tensor) -> Tensor:
        """q = xᵀSx/σ² of each row (B, F): the variance of the prediction in units of the noise variance, (B,)."""
        half: Tensor = torch.linalg.solve_triangular(self.factor, x.T, upper=False)
        return half.square().sum(0) / self.noise**2

    def squares(self, x: Tensor, y: Tensor) -> Tensor:
        """Squared residuals in units of the noise variance, (B, D)."""
        return (y - x @ self.mean).square() / self.noise**2

    @torch.no_grad()
    def add(self, x: Tensor, y: Tensor) -> None:
        """Condition on rows (B, F) and their targets (B, D); takes effect with `refresh`."""
        self.precision.addmm_(x.T, x, alpha=1 / self.noise**2)
        self.moment.addmm_(x.T, y, alpha=1 / self.noise**2)

    @torch.no_grad()
    def forget(self, kept: float) -> None:
        """Keep this share of the evidence: precision and moment shrink towards those of the prior."""
        self.precision.mul_(kept).diagonal().add_((1 - kept) * self.prior_precision)
        self.moment.mul_(kept)

    @torch.no_grad()
    def refresh(self) -> None:
        """Factor the precision, with as much jitter as it takes, and solve for the mean."""
        self.factor.copy_(_cholesky(self.precision))
        self.mean.copy_(torch.cholesky_solve(self.moment, self.factor))

    def log_determinant(self) -> Tensor:
        """log det of the precision at the last `refresh`, 0-d."""
        return 2 * self.factor.diagonal().log().sum()


def _cholesky(precision: Tensor) -> Tensor:
    factor = cholesky_with_jitter(precision)
    if factor is None:
        raise ArithmeticError("Bayesian regression: its precision matrix has no Cholesky factor, even with jitter")
    return factor


OUTLIER_SCALE = 9.0
"""Multiples of the typical squared size beyond which a state or a step counts no more: three standard deviations."""
MIN_STEP = 1e-6
"""Of the mean squared step: less than this is standing still."""


class FadingCovariance(nn.Module):
    """Covariance of rows that fade with age, in float64. Age is counted in weight: what has none fades nothing."""

    total: Tensor
    sums: Tensor
    products: Tensor

    def __init__(self, width: int, horizon: float) -> None:
        super().__init__()
        self.horizon = horizon
        self.register_buffer("total", torch.zeros((), dtype=torch.float64))
        self.register_buffer("sums", torch.zeros(width, dtype=torch.float64))
        self.register_buffer("products", torch.zeros(width, width, dtype=torch.float64))

    def add(self, rows: Tensor, weight: Tensor, *, centred: bool = True) -> None:
        """Take in rows (B, D) by their weights (B,). Not `centred`: the second moment about 0 is meant."""
        rows, weight = rows.double(), weight.double()
        weighted = rows * weight.unsqueeze(1)
        sums = weighted.sum(0) if centred else torch.zeros_like(self.sums)
        added = weight.sum(), sums, weighted.T @ rows
        keep = math.exp(-self.age(weight) / self.horizon)
        for total, new in zip((self.total, self.sums, self.products), added, strict=True):
            total.mul_(keep).add_(new)

    def age(self, weight: Tensor) -> float:
        """By how much rows of these weights (B,) make older what came before."""
        return float(weight.sum())

    @property
    def mean(self) -> Tensor:
        """(D,)."""
        return self.sums / self.total.clamp_min(1e-9)

    def matrix(self) -> Tensor:
        """(D, D)."""
        return self.products / self.total.clamp_min(1e-9) - torch.outer(self.mean, self.mean)


def inverse_root(matrix: Tensor, ridge: float) -> Tensor:
    """(M + ridge · mean diagonal)^(−½), symmetric: features in units of `matrix`, mixed as little as possible."""
    size = ridge * matrix.diagonal().mean().clamp_min(1e-12)
    values, vectors = torch.linalg.eigh(
        matrix + size * torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    )
    root: Tensor = (vectors * values.clamp_min(size).rsqrt()) @ vectors.T
    return root


def influence(rows: Tensor, typical: Tensor) -> Tensor:
    """Huber's weights min(1, OUTLIER_SCALE · m / size²): no row (B, D) counts for more than so many of typical size² m.

    >>> influence(torch.tensor([[0.0], [3.0], [30.0]]), torch.tensor(1.0)).tolist()
    [1.0, 1.0, 0.009999999776482582]
    """
    return (OUTLIER_SCALE * typical / rows.square().sum(1).clamp_min(1e-30)).clamp_max(1)


def typical_square(rows: Tensor) -> Tensor:
    """Median squared size of the rows (B, D) that are not 0: an agent that mostly stands still takes steps too."""
    squares = rows.square().sum(1)
    moving = squares[squares > MIN_STEP * squares.mean()]
    return moving.median().clamp_min(1e-12) if len(moving) else squares.new_ones(())


def noise_floor(covariance: Tensor) -> Tensor:
    """Squared distance that noise of this covariance (D, D) nearly always keeps between two looks at one state.

    It is 2 tr C on average, with a deviation of √(8 tr C²). Of the many looks that are remembered the nearest is about
    two deviations nearer: few numbers come close by chance, many do not.

    >>> noise_floor(torch.eye(2)).item(), round(noise_floor(torch.eye(200)).item())
    (0.0, 320)
    """
    return (2 * covariance.trace() - 2 * (8 * covariance.square().sum()).sqrt()).clamp_min(0)
