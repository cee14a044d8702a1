"""Noisy MNIST (the paper's Figure 2): how a bonus decays on learnable and on unlearnable transitions.

A 0 is followed by itself, a 1 by a random image of 2 to 9. Every update is one gradient step on 32 new transitions.
Every 10 updates, from before the first one, the bonus is evaluated on transitions that are never trained on: fresh
draws of the training digits, and of held-out digits. Nothing is cut from the curves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from lpm import data
from lpm.experiments.evidence import Claim, Curve, Evidence, PaperNumber, Score
from lpm.experiments.experiment import Experiment, Method
from lpm.sweeps import Result, Tick
from lpm.utils.versions import versions

if TYPE_CHECKING:
    from lpm.core.bonus import IntrinsicReward
    from lpm.core.transitions import Transitions

BATCH = 32
Kind = Literal["mixed", "deterministic", "stochastic"]
SHARE_OF_NOISE: dict[Kind, float] = {"mixed": 0.5, "deterministic": 0.0, "stochastic": 1.0}


@dataclass(frozen=True, eq=False)
class Batch:
    """A batch of transitions."""

    obs: NDArray[np.float32]
    """Start images, (n, pixels), in [0, 1]."""
    next_obs: NDArray[np.float32]
    """Successors, (n, pixels), in [0, 1]."""
    stochastic: NDArray[np.bool_]
    """(n,): True where the start is a 1 and the successor is noise."""


class NoisyMNIST:
    """Draws one-step transitions from an image set, with a random generator of its own; there are no actions.

    Use the train split to learn from and, for held-out digits, a second source on the test split.

    >>> images = np.arange(10, dtype=np.uint8).reshape(10, 1, 1)
    >>> digits = data.ImageSet(images, np.arange(10), "ten made-up digits", complete=False)
    >>> batch = NoisyMNIST(digits, seed=0).sample(4, kind="deterministic")
    >>> batch.obs.shape, bool((batch.obs == batch.next_obs).all())
    ((4, 1), True)
    """

    def __init__(self, digits: data.ImageSet, seed: int | np.random.Generator) -> None:
        labels = np.asarray(digits.labels, dtype=np.int64)
        if labels.size and not 0 <= labels.min() <= labels.max() <= 9:
            raise ValueError(f"labels: expected digits 0..9, got {labels.min()}..{labels.max()}")
        counts = np.bincount(labels, minlength=10)
        if not counts.all():
            missing = np.flatnonzero(counts == 0).tolist()
            raise ValueError(f"expected images of every digit 0..9, got none of {missing} in {digits.source!r}")
        self.digits = digits
        self._rng = np.random.default_rng(seed)
        self._images = digits.images.reshape(len(digits), -1)
        # Images in order of their digit: those of digit d are _order[_starts[d] : _starts[d] + _counts[d]].
        self._order = np.argsort(labels, kind="stable")
        self._counts = counts
        self._starts = np.cumsum(counts) - counts

    @property
    def pixels(self) -> int:
        """Length of an observation: 784 for MNIST."""
        return int(self._images.shape[1])

    def sample(self, n: int, kind: Kind = "mixed") -> Batch:
        """Draw ``n`` independent transitions.

        ``mixed`` starts at a 0 or a 1 with probability 0.5 each, ``deterministic`` always at a 0, ``stochastic``
        always at a 1. The noise is uniform over the digits 2..9 first, then over the images of that digit.
        """
        stochastic = self._rng.random(n) < SHARE_OF_NOISE[kind]
        start = self._pick(stochastic.astype(np.int64))
        noise = self._pick(self._rng.integers(2, 10, size=n))
        return Batch(self._scaled(start), self._scaled(np.where(stochastic, noise, start)), stochastic)

    def _pick(self, digit: NDArray[np.int64]) -> NDArray[np.int64]:
        """Index of a random image of each given digit."""
        index: NDArray[np.int64] = self._order[self._starts[digit] + self._rng.integers(self._counts[digit])]
        return index

    def _scaled(self, index: NDArray[np.int64]) -> NDArray[np.float32]:
        return np.divide(self._images[index], np.float32(255), dtype=np.float32)


# The paper's networks and budget with the library's three changes: no reward before g is fitted, g without an average
# residual on the queue, and a queue of one batch.
_LPM = {"variant": "paper-mnist", "buffer_size": 19_200, "gate_fitted": True, "affine": True, "queue_size": BATCH}
_ANCHORED = {"variant": "mnist", "buffer_size": 19_200, "gate_fitted": True, "queue_size": BATCH}

METHODS: dict[str, Method] = {
    "lgn": Method("LGN, lifelong", "lgn_lifelong", {"warmup": BATCH}),  # draws of digits have no episodes
    "lpm": Method("LPM (log)", "lpm", _LPM),
    "lpm-paper": Method("LPM, literal", "lpm", {"variant": "paper-mnist", "buffer_size": 19_200}),
    "lpm-exp": Method("LPM (exp)", "lpm_release", {**_LPM, "form": "exp"}),
    "lpm-linear": Method("LPM (linear)", "lpm_release", {**_LPM, "form": "linear"}),
    "lpm-release": Method("LPM, release", "lpm_release", {"variant": "release-mnist", "buffer_size": 1_000}),
    "lpm-slow": Method("LPM, slow copy", "lpm_slow", {"variant": "mnist", "buffer_size": 19_200}),
    "lpm-anchored": Method("LPM, anchored g", "lpm_anchored", _ANCHORED),
    "ama": Method("AMA, lr 1e-4", "ama", {"variant": "mnist"}),
    "ama-1e-3": Method("AMA, lr 1e-3", "ama", {"variant": "mnist", "lr": 1e-3}),
    "etd": Method("ETD", "etd", {"epochs": 1, "lr": 1e-3, "batch_size": BATCH}),
    "forward_error": Method("Forward error", "forward_error", {"variant": "mnist"}),
}

# Section 5.1 and Figure 2: "converging to zero after approximately 150 steps", AMA "(≈400)"; no number for EDT.
FIGURE = "Figure 2"
PAPER_STEPS = {"lpm": 150, "lpm-paper": 150, "lpm-release": 150, "ama": 400, "ama-1e-3": 400}


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
    methods: tuple[str, ...] = tuple(METHODS)
    conditions: tuple[str, ...] | None = None


SCALES = {
    "smoke": Scale(updates=20, eval_every=10, eval_transitions=64, seeds=2),
    "short": Scale(updates=600, eval_every=10, eval_transitions=256, seeds=5),
    "paper": Scale(updates=600, eval_every=10, eval_transitions=256, seeds=5),
}

KINDS: tuple[Kind, ...] = ("deterministic", "stochastic")
POOLS = ("training", "heldout")


def run(task: dict[str, Any], tick: Tick, scratch: Path, pools: Mapping[str, data.ImageSet] | None = None) -> Result:
    """One method, one seed: train, evaluate every few updates, return the curves. Too short to need checkpoints."""
    from lpm.core.registry import make
    from lpm.core.spaces import Spaces

    if pools is None:
        data.quiet()  # the process that started the runs has said what is used
        pools = {"training": data.mnist("train"), "heldout": data.mnist("test")}
    seed: int = task["seed"]
    train_seed, *eval_seeds = np.random.SeedSequence(seed).spawn(1 + len(POOLS))
    source = NoisyMNIST(pools["training"], np.random.default_rng(train_seed))
    fresh = {p: NoisyMNIST(pools[p], np.random.default_rng(s)) for p, s in zip(POOLS, eval_seeds, strict=True)}
    spaces = Spaces(Box(0.0, 1.0, (source.pixels,)), Discrete(1))
    bonus = make(task["bonus"], spaces, num_envs=BATCH, rollout_steps=1, seed=seed, **task["fields"])
    curves: dict[str, list[Any]] = {"step": [], **{f"{p}_{k}": [] for p in POOLS for k in KINDS}}
    diverged = {}
    for update in range(task["updates"] + 1):
        if update % task["eval_every"] == 0:
            row = {f"{p}_{k}": _mean_bonus(bonus, fresh[p], k, task["eval_transitions"]) for p in POOLS for k in KINDS}
            bad = [f"bonus ({name}) is {value}" for name, value in row.items() if not math.isfinite(value)]
            if bad:  # the same task end like this again: a result like any other
                diverged = {"diverged": f"{bad[0]} at update {update}"}
                tick(task["updates"] - update)
                break
            curves["step"].append(update)
            for name, value in row.items():
                curves[name].append(value)
        if update < task["updates"]:
            bonus.step(_block(source.sample(BATCH)))
            bonus.update()
            tick(1)
    parameters = sum(p.numel() for p in bonus.parameters())
    return {"curves": curves, "parameters": parameters, "versions": versions("torch", "numpy"), **diverged}


def _mean_bonus(bonus: IntrinsicReward, source: NoisyMNIST, kind: Kind, transitions: int) -> float:
    """The mean bonus of new transitions, in blocks of one batch: what the next 32 of them would get."""
    batches = range(math.ceil(transitions / BATCH))
    return float(np.mean([bonus.score(_block(source.sample(BATCH, kind))).mean().item() for _ in batches]))


def _block(batch: Batch) -> Transitions:
    """One time step in 32 environments, each an episode of its own. There is only one action."""
    import torch

    from lpm.core.transitions import Transitions

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


def scores_of(steps: Sequence[int], values: Sequence[float], never: int) -> dict[str, float]:
    """Steps to settle (`never` if it does not), the first non-zero bonus and the last one, if there are any.

    >>> scores_of([0, 10, 20], [0.0, 2.0, 0.05], never=30)
    {'settled': 20.0, 'first': 2.0, 'last': 0.05}
    """
    settled = settling_step(steps, values)
    ends = {"first": next((value for value in values if value), 0.0), "last": values[-1]} if values else {}
    return {"settled": float(never if settled is None else settled), **ends}


class NoisyMNISTExperiment(Experiment):
    """Every bonus on learnable and on unlearnable transitions, seen in training and held out."""

    @property
    def conditions(self) -> Mapping[str, str]:
        """Of a run. The evidence has one for each kind of transition and pool of digits."""
        return {"both": "zeros and ones together"}

    def describe(self, common: dict[str, Any], fields: Mapping[str, Any]) -> tuple[dict[str, Any], int, None]:
        """One run. The digits are looked for now: a bad file is an error of the command, not of each run."""
        size, digits = SCALES[common["scale"]], data.mnist("train")
        data.mnist("test")
        settings = {**common, "fields": {**self.methods[common["method"]].fields, **fields}}
        settings |= {name: getattr(size, name) for name in ("updates", "eval_every", "eval_transitions")}
        return {**settings, "data": digits.source, "complete": digits.complete}, size.updates, None

    run = staticmethod(run)

    def evidence(self, results: Sequence[Result]) -> Evidence:
        """Scores and curves of both kinds of transitions, on training and on held-out digits."""
        words = {"training": "training digits", "heldout": "held-out digits"}
        conditions = {f"{pool}_{kind}": f"{kind}, {words[pool]}" for pool in POOLS for kind in KINDS}
        scores, curves = [], []
        for condition in conditions:
            for (_, method), runs in self.found(results).items():
                found = {r["settings"]["seed"]: (r["curves"]["step"], r["curves"][condition]) for r in runs}
                diverged = tuple(r["settings"]["seed"] for r in runs if r.get("diverged"))
                whole = {seed: curve for seed, curve in found.items() if seed not in diverged}
                if whole:
                    steps = tuple(next(iter(whole.values()))[0])
                    lines = {seed: tuple(values) for seed, (_, values) in whole.items()}
                    curves.append(Curve(condition, "bonus", method, steps, lines))
                updates = runs[0]["settings"]["updates"]
                scored = {seed: scores_of(*curve, updates) for seed, curve in found.items()}
                for seed in diverged:  # what stopped being finite has not settled
                    scored[seed]["settled"] = float(updates)
                known = method in PAPER_STEPS and condition.startswith("training")
                for metric in ("settled", "first", "last"):
                    paper = PaperNumber(PAPER_STEPS[method], place=FIGURE) if known and metric == "settled" else None
                    values = {seed: numbers[metric] for seed, numbers in scored.items() if metric in numbers}
                    if values:
                        ended = tuple(seed for seed in diverged if seed in values)
                        scores.append(Score(condition, metric, method, values, paper, ended))
        first = results[0]["settings"]
        settings = {key: first[key] for key in ("updates", "eval_every", "eval_transitions", "data")}
        shown = {"scores": tuple(scores), "curves": tuple(curves), "settings": settings}
        return self.show(results, conditions, step_label="updates", **shown)


EXPERIMENT = NoisyMNISTExperiment(
    name="mnist",
    not_ranked="measures bonuses, not agents",
    title="Noisy MNIST: does the bonus fall for noise?",
    place=FIGURE,
    about=(
        "A 0 is followed by itself (deterministic), a 1 by a random image of 2 to 9 (stochastic). A bonus that is not "
        "fooled by noise goes to zero on both, and no slower on the noise.",
        "Each method is scored on new transitions of the training digits and, separately, of held-out digits. The two "
        "differ because the error model is fitted on errors made on training digits before they were trained on; on "
        "held-out digits the dynamics model's generalisation gap is added to the error and so taken off the bonus.",
        "A run whose bonus never settles counts with its whole length.",
    ),
    methods=METHODS,
    metrics={
        "settled": "steps until |bonus| stays below 5 % of its first value (never: all)",
        "bonus": "bonus",
        "first": "first bonus",
        "last": "last bonus",
    },
    sizes=SCALES,
    claims=tuple(
        Claim(f"LPM settles sooner than AMA ({kind})", FIGURE, f"training_{kind}", "settled", "lpm", "ama")
        for kind in KINDS
    ),
    lower_is_better=("settled",),
    unranked=("bonus", "first", "last"),
)
