"""Noisy MNIST (the paper's Figure 2): how a bonus decays on learnable and on unlearnable transitions.

A 0 is followed by itself, a 1 by a random image of 2 to 9. Every update is one gradient step on 32 new transitions.
Every 10 updates, from before the first one, the bonus is evaluated on transitions that are never trained on: fresh
draws of the training digits, and of held-out digits. Nothing is cut from the curves.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete

from lpm import data
from lpm.core.registry import make
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.envs.mnist import Batch, Kind, NoisyMNIST
from lpm.sweeps import Result, Tick

BATCH = 32


@dataclass(frozen=True)
class Method:
    """A bonus with its settings in this experiment."""

    label: str
    """Shown in tables and figures."""
    bonus: str
    """Its registered name."""
    fields: Mapping[str, Any]
    """What differs from its defaults."""


# The paper's networks and budget with the library's three changes: g fitted before it pays, g without an average
# residual on the queue, and a queue of one batch.
_LPM = {"variant": "paper-mnist", "buffer_size": 19_200, "gate_fitted": True, "affine": True, "queue_size": BATCH}

METHODS: dict[str, Method] = {
    "lpm": Method("LPM (log)", "lpm", _LPM),
    "lpm-paper": Method("LPM, literal", "lpm", {"variant": "paper-mnist", "buffer_size": 19_200}),
    "lpm-exp": Method("LPM (exp)", "lpm", {**_LPM, "form": "exp"}),
    "lpm-linear": Method("LPM (linear)", "lpm", {**_LPM, "form": "linear"}),
    "lpm-release": Method("LPM, release", "lpm", {"variant": "release-mnist", "buffer_size": 1_000}),
    "ama": Method("AMA, lr 1e-4", "ama", {"variant": "mnist"}),
    "ama-1e-3": Method("AMA, lr 1e-3", "ama", {"variant": "mnist", "lr": 1e-3}),
    "etd": Method("ETD (EDT)", "etd", {"epochs": 1, "lr": 1e-3, "batch_size": BATCH}),
    "forward_error": Method("Forward error", "forward_error", {"variant": "mnist"}),
}

# Section 5.1 and Figure 2: "converging to zero after approximately 150 steps", AMA "(≈400)"; no number for EDT.
PAPER_STEPS = {"lpm": 150, "lpm-paper": 150, "ama": 400, "ama-1e-3": 400}


@dataclass(frozen=True)
class Scale:
    """How large the experiment is."""

    updates: int
    """Training steps (App. C.1: 600)."""
    eval_every: int
    """Updates between two evaluations (App. C.1: 10)."""
    eval_transitions: int
    """Transitions per evaluation and kind; the release uses 32."""
    seeds: int
    """Runs per method (App. C.1: 5)."""


SCALES = {
    "smoke": Scale(updates=20, eval_every=10, eval_transitions=64, seeds=2),
    "desk": Scale(updates=600, eval_every=10, eval_transitions=256, seeds=5),
    "paper": Scale(updates=600, eval_every=10, eval_transitions=256, seeds=5),
}

KINDS: tuple[Kind, ...] = ("deterministic", "stochastic")
POOLS = ("training", "heldout")


def job_settings(method: str, seed: int, scale: Scale, digits: data.ImageSet) -> dict[str, Any]:
    """Everything a run depends on, as JSON."""
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r} of mnist; expected one of {', '.join(METHODS)}")
    return {
        "experiment": "mnist",
        "method": method,
        "bonus": METHODS[method].bonus,
        "fields": dict(METHODS[method].fields),
        "seed": seed,
        "updates": scale.updates,
        "eval_every": scale.eval_every,
        "eval_transitions": scale.eval_transitions,
        "data": digits.source,
        "complete": digits.complete,
    }


def run(
    settings: dict[str, Any], tick: Tick, scratch: Path, pools: Mapping[str, data.ImageSet] | None = None
) -> Result:
    """One method, one seed: train, evaluate every few updates, return the curves. Too short to need checkpoints."""
    if pools is None:
        data.quiet()  # the process that started the runs has said what is used
        pools = {"training": data.mnist("train"), "heldout": data.mnist("test")}
    seed: int = settings["seed"]
    train_seed, *eval_seeds = np.random.SeedSequence(seed).spawn(1 + len(POOLS))
    source = NoisyMNIST(pools["training"], np.random.default_rng(train_seed))
    fresh = {p: NoisyMNIST(pools[p], np.random.default_rng(s)) for p, s in zip(POOLS, eval_seeds, strict=True)}
    spaces = Spaces(Box(0.0, 1.0, (source.pixels,)), Discrete(1))
    bonus = make(settings["bonus"], spaces, num_envs=BATCH, rollout_steps=1, seed=seed, **settings["fields"])
    curves: dict[str, list[Any]] = {"step": [], **{f"{p}_{k}": [] for p in POOLS for k in KINDS}}
    for update in range(settings["updates"] + 1):
        if update % settings["eval_every"] == 0:
            curves["step"].append(update)
            for pool in POOLS:
                for kind in KINDS:
                    batches = range(math.ceil(settings["eval_transitions"] / BATCH))
                    # in blocks of one batch: the reward that the next 32 transitions would get
                    scores = [bonus.score(_block(fresh[pool].sample(BATCH, kind))).mean().item() for _ in batches]
                    curves[f"{pool}_{kind}"].append(float(np.mean(scores)))
        if update < settings["updates"]:
            bonus.step(_block(source.sample(BATCH)))
            bonus.update()
            tick(1)
    parameters = sum(p.numel() for p in bonus.parameters())
    return {
        "curves": curves,
        "parameters": parameters,
        "versions": {"torch": torch.__version__, "numpy": np.__version__},
    }


def _block(batch: Batch) -> Transitions:
    """One time step in 32 environments, each an episode of its own. There is only one action."""
    obs, next_obs = (torch.from_numpy(x).unsqueeze(0) for x in (batch.obs, batch.next_obs))
    ended = torch.ones(obs.shape[:2], dtype=torch.bool)
    return Transitions.build(obs, torch.zeros(obs.shape[:2], dtype=torch.int64), next_obs, terminated=ended)


def settling_step(steps: Iterable[int], values: Iterable[float], share: float = 0.05) -> int | None:
    """First evaluated step from which |value| stays below `share` of its first non-zero value; None if never.

    >>> settling_step([0, 10, 20, 30], [0.0, 2.0, 0.05, -0.04])
    20
    >>> settling_step([0, 10, 20], [1.0, 0.01, 0.2]) is None
    True
    """
    pairs = list(zip(steps, np.abs(np.asarray(list(values), dtype=float)), strict=True))
    first = next((value for _, value in pairs if value > 0), None)
    if first is None:
        return None
    settled: int | None = None
    for step, value in reversed(pairs):
        if value >= share * first:
            break
        settled = step
    return settled


@dataclass(frozen=True)
class Row:
    """One line of the table: a method on one kind of transition and one pool of digits."""

    method: str
    pool: str
    kind: str
    first: tuple[float, float]
    """Mean and std over seeds of the first non-zero bonus."""
    final: tuple[float, float]
    """Mean and std over seeds of the last bonus."""
    settled: tuple[float, float] | None
    """Mean and std of the settling step over the seeds that settled."""
    settled_seeds: int
    """How many seeds settled."""
    seeds: int
    """How many seeds there are."""


def summarise(results: Iterable[Result]) -> list[Row]:
    """The table, from per-seed results. Population std over seeds, as in the paper's figure."""
    by_method: dict[str, list[Result]] = {}
    for result in results:
        by_method.setdefault(result["settings"]["method"], []).append(result)
    rows = []
    for method in (m for m in METHODS if m in by_method):
        for pool in POOLS:
            for kind in KINDS:
                curves = [(r["curves"]["step"], r["curves"][f"{pool}_{kind}"]) for r in by_method[method]]
                firsts = [next((v for v in values if v != 0), 0.0) for _, values in curves]
                settled = [s for s in (settling_step(*curve) for curve in curves) if s is not None]
                rows.append(
                    Row(
                        method,
                        pool,
                        kind,
                        _mean_std(firsts),
                        _mean_std([values[-1] for _, values in curves]),
                        _mean_std(settled) if settled else None,
                        len(settled),
                        len(curves),
                    )
                )
    return rows


def mean_curves(results: Iterable[Result], method: str, key: str) -> tuple[Any, Any, Any]:
    """Steps, mean and std over seeds of one curve."""
    chosen = [r["curves"] for r in results if r["settings"]["method"] == method]
    values = np.asarray([c[key] for c in chosen])
    return np.asarray(chosen[0]["step"]), values.mean(0), values.std(0)


def scale_named(name: str, seeds: int | None) -> Scale:
    """A scale by name, with the number of seeds replaced if given."""
    if name not in SCALES:
        raise ValueError(f"scale: expected one of {', '.join(SCALES)}, got {name!r}")
    if seeds is not None and seeds < 1:
        raise ValueError(f"seeds: expected at least 1, got {seeds}")
    return SCALES[name] if seeds is None else dataclasses.replace(SCALES[name], seeds=seeds)


def _mean_std(values: list[Any]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values))
