"""The bonus of one transition that can be learnt and of one that cannot.

From one fixed state, action 0 always leads to the same observation and action 1 to Gaussian noise. Every step is an
episode of its own, so the noisy transition is the same one for ever. Same budget and seeds for all methods.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete

from lpm.core.registry import make
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.sweeps import Job, Result, Tick

DIM, ENVS, STEPS = 8, 16, 16
SIGMA = 0.5
NEGLIGIBLE = 0.01
"""Of the reward for something that was never seen: a first reward below this share is no measure for later ones."""


RewardCurves = Mapping[str, Any]
"""Of one "method" and "seed" the mean bonus before each update: "learnable" of action 0, "noise" of action 1, which is
N(0, 0.25) in every one of 8 dimensions; "unseen": the last one where action 0 leads to what it never led to before."""


def run(method: str, seed: int, updates: int = 100, tick: Tick | None = None, **fields: Any) -> RewardCurves:
    """Train a bonus on both transitions; `fields` are its config's."""
    generator = torch.Generator().manual_seed(seed)
    spaces = Spaces(Box(-np.inf, np.inf, (DIM,)), Discrete(2))
    bonus = make(method, spaces, num_envs=ENVS, rollout_steps=STEPS, seed=seed, **fields)
    start = torch.randn(DIM, generator=generator)
    learnt = torch.randn(DIM, generator=generator)
    curves: dict[str, list[float]] = {"learnable": [], "noise": []}
    for _ in range(updates):
        action = torch.randint(2, (STEPS, ENVS), generator=generator)
        noise = SIGMA * torch.randn(STEPS, ENVS, DIM, generator=generator)
        reward = bonus.step(_transitions(start, action, torch.where(action.unsqueeze(2) == 0, learnt, noise)))
        for kind, curve in enumerate(curves.values()):
            curve.append(reward[action == kind].mean().item())
        bonus.update()
        if tick is not None:
            tick(1)
    elsewhere = torch.randn(DIM, generator=generator)
    surprise = bonus.score(_transitions(start, torch.zeros(1, ENVS, dtype=torch.int64), elsewhere))
    return {"method": method, "seed": seed, **curves, "unseen": surprise.mean().item()}


def job(name: str, settings: dict[str, Any], path: Path) -> Job:
    """One method and seed, with `method`, `seed`, `updates` and, if wanted, `fields` in its settings."""
    return Job(name, path, {**settings, "unseen": True}, settings["updates"])


def run_job(settings: dict[str, Any], tick: Tick, scratch: Path) -> Result:
    """Do a job."""
    fields = settings.get("fields", {})
    return {"curves": run(settings["method"], settings["seed"], settings["updates"], tick, **fields)}


def _transitions(start: torch.Tensor, action: torch.Tensor, successor: torch.Tensor) -> Transitions:
    """Episodes of one step; `successor` is one row, or (T, N, D)."""
    obs, next_obs = (rows.expand(*action.shape, DIM) for rows in (start, successor))
    ended, policy = torch.ones_like(action, dtype=torch.bool), torch.zeros(*action.shape, 2)
    return Transitions.build(obs, action, next_obs, terminated=ended, reward=torch.zeros(action.shape), policy=policy)


def first_reward(curve: Sequence[float]) -> float:
    """The first bonus that is not 0."""
    return next((value for value in curve if value != 0), 0.0)


def noise_share(final: float, starts: Iterable[float], unseen: float) -> float:
    """The final reward of noise as a share of the reward of something new; nan if the bonus is always 0.

    Something new is the larger first reward of the two transitions. A bonus that starts with next to nothing on both
    is measured against its reward for an outcome that was never seen.

    >>> noise_share(0.5, (2.0, -1.0), 10.0), noise_share(0.5, (0.0, 1e-9), 10.0)
    (0.25, 0.05)
    """
    first = max(abs(start) for start in starts)
    news = first if first > NEGLIGIBLE * abs(unseen) else abs(unseen)
    return final / news if news else float("nan")


@dataclass(frozen=True)
class NoiseRow:
    """A line of the table: means over seeds."""

    method: str
    start: tuple[float, float]
    """First non-zero bonus of the learnable and of the noisy transition."""
    final: tuple[float, float]
    """Mean of the last ten updates of each."""
    unseen: float
    """The final reward of an outcome of action 0 that was never seen."""
    share: float
    """`noise_share`."""


def summarise(curves: Iterable[RewardCurves]) -> list[NoiseRow]:
    """The table from per-seed curves."""
    by_method: dict[str, list[RewardCurves]] = {}
    for curve in curves:
        by_method.setdefault(curve["method"], []).append(curve)
    rows = []
    for method, runs in sorted(by_method.items()):
        kinds = [[run[kind] for run in runs] for kind in ("learnable", "noise")]
        known, noise = (float(np.mean([first_reward(curve) for curve in curves])) for curves in kinds)
        learnt, left = (float(np.mean([curve[-10:] for curve in curves])) for curves in kinds)
        unseen = float(np.mean([run["unseen"] for run in runs]))
        share = noise_share(left, (known, noise), unseen)
        rows.append(NoiseRow(method, (known, noise), (learnt, left), unseen, share))
    return rows


HEADER = ("bonus", "learnable: start", "final", "noise: start", "final", "never seen", "noise / news")


def table_rows(rows: Iterable[NoiseRow]) -> list[tuple[str, ...]]:
    """The table as text, in the columns of `HEADER`."""
    table = []
    for row in rows:
        numbers = (row.start[0], row.final[0], row.start[1], row.final[1], row.unseen)
        share = "–" if row.share != row.share else f"{100 * row.share:.1f} %"
        table.append((row.method, *(f"{value:.4g}" for value in numbers), share))
    return table
