"""Evidence made of random numbers, shaped like the real experiments; nothing here was measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lpm.experiments.evidence import Claim, Curve, Evidence, Heatmap, PaperNumber, Score

LABELS = {
    "lpm": "LPM",
    "ensemble": "Ensemble",
    "rnd": "RND",
    "ama": "AMA",
    "etd": "ETD",
    "eme": "EME",
    "idf": "IDF",
    "none": "No bonus",
    "random": "Random bonus",
}
PAPER = {
    ("deterministic", "lpm"): (76.5, 9.08),
    ("deterministic", "ensemble"): (91.22, 2.04),
    ("deterministic", "rnd"): (45.5, 14.53),
    ("stochastic", "lpm"): (67.04, 14.6),
    ("stochastic", "ensemble"): (61.02, 5.03),
    ("stochastic", "rnd"): (28.0, 10.1),
}


def one_figure() -> Evidence:
    """Scores of one metric alone: what is exported of it is quickly drawn."""
    whole = mountain_car(methods=2, points=3)
    scores = tuple(score for score in whole.scores if score.metric == "coverage")
    return replace(whole, scores=scores, curves=(), heatmaps=())


def mountain_car(seeds: int = 5, methods: int = 9, points: int = 60, scale: str = "short") -> Evidence:
    """Two conditions, three metrics, paper numbers, claims, heat maps."""
    rng = np.random.default_rng(1)
    names = dict(list(LABELS.items())[:methods])
    conditions = {"deterministic": "deterministic", "stochastic": "stochastic"}
    scores, curves, maps = [], [], []
    finals: dict[tuple[str, str], np.ndarray] = {}
    steps = tuple(float(x) for x in np.linspace(0, 50_000, points).round())
    for condition in conditions:
        for index, method in enumerate(names):
            mean, std = PAPER.get((condition, method), (75.0 - 7 * index - 10 * (condition == "stochastic"), 6.0))
            final = np.clip(rng.normal(mean - 3 * (index == 1), std, seeds), 1, 100)
            finals[condition, method] = final
            paper = PAPER.get((condition, method))
            number = PaperNumber(*paper, "Table 2", 5) if paper else None
            scores.append(Score(condition, "coverage", method, dict(enumerate(final.tolist())), number))
            shape = 1 - np.exp(-np.linspace(0, 4, points))
            runs = {
                seed: tuple((final[seed] * shape + rng.normal(0, 0.6, points) * (shape > 0)).tolist())
                for seed in range(seeds)
            }
            curves.append(Curve(condition, "coverage", method, steps, runs))
            bonus = {
                seed: tuple((np.exp(-np.linspace(0, 6, points)) * rng.lognormal(0, 0.2, points)).tolist())
                for seed in runs
            }
            curves.append(Curve(condition, "bonus", method, steps, bonus))
            y, x = np.mgrid[-1:1:10j, -1:1:10j]
            visits = (np.exp(-2.5 * (x**2 + y**2)) * final.mean() * 8).round()
            visits[visits < 3] = 0
            visits[0, 0] = np.nan
            maps.append(Heatmap(condition, method, visits))
    for method in names:
        drop = 100 * (1 - finals["stochastic", method] / finals["deterministic", method])
        paper_drop = {"lpm": 12.4, "ensemble": 33.1, "rnd": 38.5}.get(method)
        number = PaperNumber(paper_drop, None, "Table 2", 5) if paper_drop else None
        scores.append(Score("both", "drop", method, dict(enumerate(drop.tolist())), number))
    claims = [
        Claim(f"LPM covers most under noise: more than {names[m]}", "Section 5.3", "stochastic", "coverage", "lpm", m)
        for m in ("ensemble", "rnd", "ama", "etd")
        if m in names
    ]
    claims.append(Claim("LPM has the smallest drop", "Section 5.3", "both", "drop", "lpm", "rnd"))
    claims.append(Claim("LPM beats NGU", "Section 5.3", "stochastic", "coverage", "lpm", "ngu"))
    return Evidence(
        name="mountain-car",
        title="MountainCar with a noisy action",
        place="Table 2",
        about=(
            "A car without a reward of its own and, in the stochastic condition, an action that freezes it and shows "
            "noise. Measured: how many of 100 cells of position and velocity are visited.",
            "A bonus that loves noise stays with the noisy action and covers less.",
        ),
        scale=scale,
        methods=names,
        conditions=conditions | {"both": "deterministic to stochastic"},
        metrics={"coverage": "coverage (%)", "drop": "drop (%)", "bonus": "bonus"},
        scores=tuple(scores),
        curves=tuple(curves),
        heatmaps=tuple(maps),
        claims=tuple(claims),
        settings={"agent": "ppo", "steps": 50_000, "mixer": {"weight": 1.0, "normalise": True}},
        versions={"torch": "2.13.0", "numpy": "2.4.6"},
        lower_is_better=("drop",),
        warnings=("runs/stochastic/eme/seed_4.json: skipped: not a complete JSON file",),
    )


def hostile() -> Evidence:
    """Names that would be markup, a script or a formula if they were not escaped; one seed; ties."""
    bad = "</script><script>window.hacked=1</script>"
    image = '"><img src=x onerror="window.hacked=2">'
    return Evidence(
        name=bad,
        title=f"{bad} $\\frac{{$ 50 % & _under_",
        place=image,
        about=(bad, image),
        scale="paper",
        methods={bad: bad, "a'b\"c": "quotes ' and \" and \\ and ${x}"},
        conditions={image: image},
        metrics={bad: bad, "</style>": "</style>"},
        step_label=image,
        scores=(Score(image, bad, bad, {0: 1.0}, PaperNumber(0.0, None, image)), Score(image, bad, "a'b\"c", {0: 1.0})),
        curves=(
            Curve(image, bad, bad, (0.0, 1.0), {0: (1.0, -1.0)}),
            Curve(image, "</style>", bad, (0.0,), {0: (5.0,), 1: (5.0,)}),
        ),
        heatmaps=(Heatmap(image, bad, np.zeros((2, 3))),),
        claims=(Claim(bad, image, image, bad, bad, "a'b\"c"),),
        settings={bad: {image: bad}},
        versions={bad: image},
        warnings=(bad, image),
    )
