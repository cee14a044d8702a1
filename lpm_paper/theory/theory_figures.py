"""The figures of the theory page. matplotlib is imported only when a figure is drawn."""

import io
from pathlib import Path
from typing import Any

import numpy as np

from lpm.storage.files import write_atomic
from lpm_paper.theory import limits, noise
from lpm_paper.theory.exact_bonuses import exact_factories
from lpm_paper.theory.stream import ONE_DIM, TARGETS, run_stream
from lpm_paper.theory.theorems import Theorem1, random_grids, theorem1

BLUE, ORANGE, GREEN, PURPLE, GREY = "#2563a8", "#d9822b", "#3a8f5c", "#7b4fa3", "#8a8f98"


def _figure(width: float, height: float, rows: int, columns: int) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = list(np.atleast_1d(figure.subplots(rows, columns)).ravel())
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(True, color="#e6e8eb", linewidth=0.6)
        ax.set_axisbelow(True)
    return figure, axes


def _label(ax: Any, title: str, x: str, y: str, legend: str = "best", **settings: Any) -> None:
    """Title, names of the axes and the legend."""
    ax.set(xlabel=x, ylabel=y, **settings)
    ax.set_title(title, loc="left")
    ax.legend(frameon=False, fontsize=8, loc=legend)


def _save(figure: Any, path: Path) -> Path:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    write_atomic(path, buffer.getvalue())
    return path


def draw_bound(path: Path, count: int = 4000) -> Path:
    """The bound on random models with the counterexamples, and two one-parameter families."""
    figure, (left, middle, right) = _figure(13.0, 4.2, 1, 3)
    grid = random_grids(np.random.default_rng(1), count)
    terms = theorem1(grid, grid.log_mse_at(grid.mle()))
    span = np.array([1e-8, 1e4])
    left.scatter(terms.gain, terms.c * terms.reward, s=3, color=BLUE, alpha=0.35, linewidths=0)
    left.plot(span, span, color="black", linewidth=1, label="c·r = IG (the bound)")
    more, less = limits.not_monotone()
    for term, label, marker in ((more, "MSE (1, 100, 100)", "^"), (less, "MSE (1, 1, 1e6)", "v")):
        look = {"s": 60, "color": ORANGE, "marker": marker, "edgecolors": "black", "zorder": 3}
        left.scatter(term.gain, term.reward, label=label, **look)
    logarithmic = {"xscale": "log", "yscale": "log", "xlim": (1e-8, 30), "ylim": (1e-5, 1e4)}
    _label(left, "A lower bound, not a ranking", "information gain (nats)", "c·r", "lower right", **logarithmic)

    strength = np.logspace(-3, 0.5, 60)
    weak = [limits.weak_data(float(s)) for s in strength]
    middle.loglog(strength, [float(t.reward) for t in weak], color=ORANGE, label="r (first order)")
    middle.loglog(strength, [float(t.gain) for t in weak], color=BLUE, label="IG (second order)")
    _label(middle, "Near zero, r and IG have different orders", "strength s of the data, MSE = (1, 2, 5)^s", "nats")

    samples = np.unique(np.logspace(0, 3, 40).astype(int))
    sized = [limits.sample_size_is_invisible(int(n)) for n in samples]
    right.semilogx(samples, [float(t.reward) for t in sized], color=ORANGE, label="r")
    right.semilogx(samples, [float(t.gain) for t in sized], color=BLUE, label="IG")
    right.axhline(np.log(3), color=GREY, linestyle=":", linewidth=1)
    right.text(1000, np.log(3) - 0.06, "log 3: the most there is to know", fontsize=8, color=GREY, ha="right")
    samples_label = "samples n, same MSE curve (1, 1.5, 2), c = n/2"
    _label(right, "r does not see how much data there was", samples_label, "nats", "center right")
    return _save(figure, path)


def draw_identity(path: Path) -> Path:
    """c r split into its three parts for the named models."""
    figure, (ax,) = _figure(9.0, 3.8, 1, 1)
    more, less = limits.not_monotone()
    cases: list[tuple[str, Theorem1]] = [
        ("MSE (1, 100, 100), MLE", more),
        ("MSE (1, 1, 1e6), MLE", less),
        ("ratio 1e12, MLE", limits.unbounded_reward()),
        ("admissible, not MLE", limits.theorem2_without_mle()[0]),
        ("estimate off support", limits.estimate_off_support()),
        ("MAP", limits.map_breaks_bound()),
        ("posterior mean, two modes", limits.posterior_mean_breaks_bound()),
    ]
    places = np.arange(len(cases))[::-1]
    parts = np.array([[float(t.gain), float(t.reverse_kl), float(t.optimism)] for _, t in cases])
    positive = np.zeros(len(cases))
    names = ("KL(post‖prior) = IG", "KL(prior‖post)", "optimism l(θ_D) − E_post l")
    for column, (name, color) in enumerate(zip(names, (BLUE, GREEN, ORANGE), strict=True)):
        value = parts[:, column]
        ax.barh(places, value, left=np.where(value >= 0, positive, 0.0), color=color, height=0.6, label=name)
        positive += np.maximum(value, 0.0)
    ax.scatter(parts.sum(axis=1), places, color="black", s=28, zorder=3, label="c·r (their sum)")
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set_yticks(places, [label for label, _ in cases])
    ax.set_xlim(-6.0, 14.8)
    ax.set_xlabel("nats")
    title = "c·r = two divergences plus optimism: the bound holds where the dot is right of the blue bar"
    ax.set_title(title, loc="left", fontsize=10)
    ax.legend(frameon=False, fontsize=8, loc="lower right")
    return _save(figure, path)


def draw_noise(path: Path) -> Path:
    """Spread and bias under pure noise, and the reward while the mean is learnt."""
    figure, (left, middle, right) = _figure(13.0, 4.0, 1, 3)
    dims = np.unique(np.logspace(0, 3, 60).astype(int))
    rng = np.random.default_rng(7)
    drawn = [noise.simulate_noise(rng, dim, 100_000) for dim in noise.TABLE_DIMS]
    left.loglog(dims, [noise.log_error_std(int(d)) for d in dims], color=BLUE, label="sqrt(psi1(D/2))")
    left.loglog(noise.TABLE_DIMS, [d.log_std[0] for d in drawn], "o", color="black", ms=5, label="sampled")
    dimension = "D, dimension of the observation"
    _label(left, "log form: zero mean, this spread", dimension, "std of one reward (nats)")
    middle.semilogx(dims, [noise.exp_form_bias(int(d)) for d in dims], color=ORANGE, label="exp(psi(D/2))·2/D − 1")
    middle.semilogx(noise.TABLE_DIMS, [d.exp_bias[0] for d in drawn], "o", color="black", ms=5, label="sampled")
    _label(middle, "exp form: noise is penalised", dimension, "mean reward / sigma²")
    ratio = np.linspace(0.0, 4.0, 60)
    for dim, color in ((1, BLUE), (2, GREEN), (8, PURPLE)):
        pay = [noise.bias_payout(dim, dim * float(b) ** 2) for b in ratio]
        right.plot(ratio, pay, color=color, label=f"exact, D = {dim}")
    right.plot(ratio, np.log1p(ratio**2), color="black", linestyle="--", label="log(1 + b²/sigma²), D → ∞")
    _label(right, "reward while the mean of noise is learnt", "initial bias b / sigma", "total reward (nats)")
    return _save(figure, path)


def draw_queue(path: Path) -> Path:
    """The lag of the error queue, and the two expectations."""
    figure, (left, right) = _figure(11.0, 4.0, 1, 2)
    per_cycle = 32
    capacities = np.arange(4, 5 * per_cycle + 1, 4)
    versions = capacities / per_cycle
    falling = -np.arange(40.0)
    lags = [noise.mean_lag(int(c), per_cycle) for c in capacities]
    left.plot(versions, lags, color=BLUE, label="(m+1)(1 − m/2K), m = ⌊K⌋")
    left.plot(versions, np.maximum(1.0, (versions + 1) / 2), color=ORANGE, linestyle="--", label="(K+1)/2")
    simulated = [noise.tabular_rewards(falling, int(c), per_cycle)[-1] for c in capacities[::4]]
    left.plot(versions[::4], simulated, "o", color="black", ms=4, label="FIFO queue, simulated")
    queue = "K = queue size / transitions per update"
    _label(left, "Queue size sets the scale of the reward", queue, "reward / progress per update")
    outcomes = [limits.demo(kind) for kind in ("learning", "lucky", "known")]
    place = np.arange(len(outcomes))
    for offset, (label, color, values) in enumerate(
        (
            ("IG/c (theorem's lower bound)", GREY, [o.bound for o in outcomes]),
            ("theorem: mean over parameters", BLUE, [o.theorem_reward for o in outcomes]),
            ("algorithm: mean over o'", ORANGE, [o.algorithm_reward for o in outcomes]),
        )
    ):
        right.bar(place + 0.26 * (offset - 1), values, width=0.24, color=color, label=label)
    right.axhline(0.0, color="black", linewidth=0.8)
    right.set_xticks(place, ["prior wrong,\ndata good", "prior right,\ndata misleading", "nothing\nto learn"])
    right.text(2, 0.05, "all three are 0", fontsize=8, ha="center")
    _label(right, "Two expectations, two rewards", "", "nats")
    return _save(figure, path)


def draw_stream(path: Path, streams: int) -> Path:
    """Information gain and three bonuses along the 1-D stream, mean per cycle and region over `streams` seeds."""
    names = ("LPM, exact g", "pointwise, lag 1", "forward error")
    factories = {name: build for name, build in exact_factories(ONE_DIM.dim).items() if name in names}
    runs = [run_stream(ONE_DIM, factories, seed) for seed in range(streams)]
    figure, axes = _figure(12.0, 6.2, 2, 2)
    cycles = np.arange(1, ONE_DIM.cycles)

    def curve(kind: str, name: str, region: int) -> list[float]:
        def rewards(cycle: Any) -> list[float]:
            return [x for run in runs for x in getattr(run, kind)[name][(run.cycle == cycle) & (run.region == region)]]

        return [float(np.mean(rewards(cycle))) for cycle in cycles]

    for region, title in ((0, "deterministic region (sigma 0.02)"), (1, "noisy region (sigma 1)")):
        top, bottom = axes[region], axes[2 + region]
        for name, color in zip(TARGETS, (BLUE, GREEN, PURPLE), strict=True):
            top.plot(cycles, curve("targets", name, region), color=color, label=name)
        top.set(yscale="log", ylabel="information gain (nats)", ylim=(3e-3, 5))
        top.set_title(title, loc="left")
        for name, color in zip(names, (BLUE, ORANGE, GREY), strict=True):
            bottom.plot(cycles, curve("scores", name, region), color=color, label=name)
        bottom.axhline(0.0, color="black", linewidth=0.8)
        bottom.set(xlabel="model update", ylabel="mean reward")
        top.legend(frameon=False, fontsize=8)
        bottom.legend(frameon=False, fontsize=8)
    figure.suptitle(f"1-D stream, mean of {streams} seeds", fontsize=10)
    return _save(figure, path)


def draw_all(out: Path, streams: int) -> list[Path]:
    """Write every figure into `out`; the last one is a mean over so many streams."""
    return [
        draw_bound(out / "theory_bound.png"),
        draw_identity(out / "theory_identity.png"),
        draw_noise(out / "theory_noise.png"),
        draw_queue(out / "theory_queue.png"),
        draw_stream(out / "theory_stream.png", streams),
    ]
