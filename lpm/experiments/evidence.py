"""What an experiment shows, as plain data: per-seed scores and curves, the paper's numbers, the paper's claims."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

SCALES = ("smoke", "", "short", "long", "paper")
"""From the smallest budget to the largest; runs of `lpm train` have none."""


def size_of(scale: str) -> int:
    """Place in the order of budgets; a scale that is not known counts as none.

    >>> sorted(["paper", "smoke", "long", "short"], key=size_of)
    ['smoke', 'short', 'long', 'paper']
    """
    return SCALES.index(scale if scale in SCALES else "")


@dataclass(frozen=True)
class PaperNumber:
    """A number the paper reports."""

    value: float
    """The mean."""
    std: float | None = None
    """Its standard deviation over seeds, where the paper has one."""
    place: str = ""
    """Where it stands, e.g. "Table 2"."""
    seeds: int | None = None
    """Over how many runs, where the paper says so."""
    paper_size: str = ""
    """Why only runs of the paper's own budget can be compared with it, in words; empty if smaller ones can."""


@dataclass(frozen=True)
class Score:
    """One cell of a table: a method in a condition, one number per seed."""

    condition: str
    """E.g. "deterministic"; its label is in `Evidence.conditions`."""
    metric: str
    """E.g. "coverage"; its label is in `Evidence.metrics`."""
    method: str
    """E.g. "lpm"; its label is in `Evidence.methods`."""
    values: Mapping[int, float]
    """Seed to value. Seeds are the unit of every statistic."""
    paper: PaperNumber | None = None
    """The paper's number for this cell."""
    diverged: tuple[int, ...] = ()
    """Seeds of runs that ended early because a number stopped being finite; counted with what they had reached."""
    of_means: bool = False
    """Whether it is computed from means over seeds: `values` are then each seed's share in it, and have no spread."""


@dataclass(frozen=True)
class Curve:
    """A number over the course of training, one line per seed."""

    condition: str
    metric: str
    method: str
    steps: tuple[float, ...]
    """The x axis, common to the seeds."""
    runs: Mapping[int, tuple[float, ...]]
    """Seed to values, each as long as `steps`."""


@dataclass(frozen=True)
class Heatmap:
    """How often each cell of a grid was visited, averaged over seeds."""

    condition: str
    method: str
    visits: NDArray[np.float64]
    """(rows, columns), first row at the top; NaN where no agent can be."""


@dataclass(frozen=True)
class Claim:
    """A comparison that the paper states: `better` scores higher than `worse` (lower, where less is better)."""

    text: str
    """In words, short."""
    place: str
    """Where the paper says it."""
    condition: str
    metric: str
    better: str
    worse: str
    paper_size: str = ""
    """Why only the paper's own budget can test it, in words; empty if a smaller one can."""

    def untestable(self, scale: str) -> str:
        """Why runs of this scale cannot test it; empty if they can."""
        return "" if scale == "paper" else self.paper_size


@dataclass(frozen=True, kw_only=True)
class Description:
    """What is said of an experiment, before it is run as in the report of its runs."""

    name: str
    """As in `lpm reproduce NAME`."""
    title: str
    """In words."""
    place: str
    """The paper's table or figure."""
    about: tuple[str, ...]
    """Paragraphs: what is measured, and how to read it."""
    metrics: Mapping[str, str]
    """Metric to label, the main one first."""
    claims: tuple[Claim, ...] = ()
    lower_is_better: tuple[str, ...] = ()
    """Metrics of which less is better; a claim's `better` then means lower."""
    unranked: tuple[str, ...] = ()
    """Metrics of which neither more nor less is better, as the size of a bonus: nobody is the best."""
    not_ranked: str = ""
    """Why it does not say how well a method explores, in words; empty if it does."""


@dataclass(frozen=True, kw_only=True)
class Evidence(Description):
    """Everything a report shows of one experiment."""

    scale: str
    """smoke, short, long or paper."""
    methods: Mapping[str, str]
    """Method to label, in the order of tables and legends."""
    conditions: Mapping[str, str]
    """Condition to label."""
    families: Mapping[str, str] = field(default_factory=dict)
    """Method to the family that its bonus's class names, for methods that the report does not know by name."""
    step_label: str = "environment steps"
    """Of the curves' x axis."""
    scores: tuple[Score, ...] = ()
    curves: tuple[Curve, ...] = ()
    heatmaps: tuple[Heatmap, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What all runs have in common: agent, budget, mixing."""
    versions: Mapping[str, str] = field(default_factory=dict)
    unfinished: str = ""
    """What of the scale's runs is missing, in words; empty if none is."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Method to the median time of a run."""
    warnings: tuple[str, ...] = ()
    """Files that were skipped and runs that failed, in words."""
