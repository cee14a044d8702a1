"""What every experiment is: methods, conditions and sizes, a job for each run, and evidence from results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol, Self

from lpm.experiments import papers
from lpm.experiments.evidence import Description, Evidence
from lpm.sweeps import Job, Result, Tick
from lpm.sweeps.fields import literal
from lpm.utils.suggest import suggest

if TYPE_CHECKING:
    from lpm.agents.agent import PolicyKind


@dataclass(frozen=True)
class Method:
    """A bonus with its settings in an experiment."""

    label: str
    """Shown in tables and figures."""
    bonus: str
    """Its registered name."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What differs from its defaults; "variant" names a set of settings."""
    policy: PolicyKind = "learnt"
    """"uniform": random actions, nothing is learnt; "cell_counts": learnt from the environment's own cells."""


class Size(Protocol):
    """How large an experiment is, and what it runs unless told otherwise."""

    @property
    def seeds(self) -> int: ...  # runs per method and condition
    @property
    def methods(self) -> tuple[str, ...]: ...
    @property
    def conditions(self) -> tuple[str, ...] | None: ...  # None: all


@dataclass(frozen=True, kw_only=True)
class Experiment(Description):
    """A table or figure of the paper. A subclass says what a run is (`describe`, `run`) and what results show."""

    methods: Mapping[str, Method]
    """All methods, in the order of tables."""
    sizes: Mapping[str, Size]

    # ---- what a subclass says -----------------------------------------------------------------------------
    @property
    def conditions(self) -> Mapping[str, str]:
        """Condition to label."""
        raise NotImplementedError

    def describe(self, common: dict[str, Any], fields: Mapping[str, Any]) -> tuple[dict[str, Any], int, Any]:
        """The settings of a run (`common` and more), its amount of work, and its task, None if it is the settings.

        `fields` are added to those of the method's bonus.
        """
        raise NotImplementedError

    @staticmethod
    def run(task: Any, tick: Tick, scratch: Path) -> Result:
        raise NotImplementedError

    def evidence(self, results: Sequence[Result]) -> Evidence:
        """What results of one scale show."""
        raise NotImplementedError

    def preflight(self, scale: str, conditions: Sequence[str], method: str) -> None:
        """Try once what every run needs, so that it fails at once and once."""

    # ---- what all have ------------------------------------------------------------------------------------
    def default_methods(self, scale: str) -> tuple[str, ...]:
        """The methods that this size runs unless told otherwise."""
        return self.sizes[scale].methods

    def default_conditions(self, scale: str) -> tuple[str, ...]:
        """The conditions that this size runs unless told otherwise."""
        return self.sizes[scale].conditions or tuple(self.conditions)

    def opened(self, methods: Iterable[str]) -> Self:
        """The same with these methods too, each as `parse_method` reads it."""
        more = {name: parse_method(name, self.methods) for name in methods if name not in self.methods}
        return replace(self, methods={**self.methods, **more}) if more else self

    def job(
        self, scale: str, condition: str, method: str, seed: int, out: Path, fields: Mapping[str, Any] | None = None
    ) -> Job:
        """One run; `fields` are added to the method's own (a search over settings)."""
        expect_known("scale", scale, self.sizes)
        expect_known("condition", condition, self.conditions)
        expect_known("method", method, self.methods)
        common = {"experiment": self.name, "scale": scale, "condition": condition, "method": method, "seed": seed,
                  "bonus": self.methods[method].bonus}  # fmt: skip
        settings, units, task = self.describe(common, fields or {})
        path = out / "runs" / condition / folder_name(method) / f"seed_{seed}.json"
        return Job(f"{method}, {condition}, seed {seed}", path, settings, units, task)

    def found(self, results: Sequence[Result]) -> dict[tuple[str, str], list[Result]]:
        """(condition, method) to results, in the order of tables."""
        if not results:
            raise ValueError(f"{self.name}: expected at least one result, got none")
        cells: dict[tuple[str, str], list[Result]] = {}
        for result in results:
            cells.setdefault((result["settings"]["condition"], result["settings"]["method"]), []).append(result)
        return {(c, m): cells[c, m] for c in self.conditions for m in self.methods if (c, m) in cells}

    def unfinished(self, results: Sequence[Result]) -> str:
        """What these results lack of the runs of their scale, in words; empty if they are all there."""
        scale = results[0]["settings"]["scale"]
        if scale not in self.sizes:
            return ""
        seeds, cells = self.sizes[scale].seeds, self.found(results)
        methods, conditions = self.default_methods(scale), self.default_conditions(scale)
        done = {(c, m): min(len(cells.get((c, m), ())), seeds) for c in conditions for m in methods}
        if sum(done.values()) == seeds * len(done):
            return ""
        absent = [m for m in methods if not any(done[c, m] for c in conditions)]
        empty = [c for c in conditions if not any(done[c, m] for m in methods)]
        few = [f"{self.methods[m].label} in {self.conditions[c]} ({n})" for (c, m), n in done.items()
               if n < seeds and m not in absent and c not in empty]  # fmt: skip
        parts = [f"Not complete: {sum(done.values()):,} of {seeds * len(done):,} runs of `--scale {scale}`."]
        for what, names in (
            ("No runs of ", [self.methods[m].label for m in absent]),
            ("No runs in ", [self.conditions[c] for c in empty]),
            (f"Fewer than {seeds} seeds: ", few),
        ):
            more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
            parts += [f"{what}{'; '.join(names[:MOST_NAMED])}{more}."] if names else []  # labels have commas
        return " ".join(parts)

    def show(self, results: Sequence[Result], conditions: Mapping[str, str], **shown: Any) -> Evidence:
        """Evidence with everything that follows from the experiment itself."""
        present = {method for _, method in self.found(results)}
        seconds: dict[str, list[float]] = {}
        for result in results:
            if isinstance(result.get("seconds"), int | float):
                seconds.setdefault(result["settings"]["method"], []).append(float(result["seconds"]))
        own = {
            **{item.name: getattr(self, item.name) for item in fields(Description)},
            "scale": results[0]["settings"]["scale"],
            "methods": {name: method.label for name, method in self.methods.items() if name in present},
            "conditions": conditions,
            "versions": results[0]["versions"],
            "unfinished": self.unfinished(results),
            "seconds": {method: median(times) for method, times in seconds.items()},
            "warnings": tuple(self._warnings(results)),
        }
        return Evidence(**{**own, **shown})

    def _warnings(self, results: Sequence[Result]) -> Iterator[str]:
        """Of methods and conditions that the experiment does not have, and of runs that diverged."""
        for kind, known in (("method", self.methods), ("condition", self.conditions)):
            for name, count in Counter(str(result["settings"][kind]) for result in results).items():
                if name not in known:
                    yield f"{self.name}: {count} runs of the unknown {kind} {name!r} are left out"
        for result in results:
            if result.get("diverged"):
                s = result["settings"]
                where = f"{s['experiment']} {s['scale']} {s['condition']}, {s['method']}, seed {s['seed']}"
                yield f"{where}: diverged: {result['diverged']}; it is counted with what it had reached"


MOST_NAMED = 6
"""Missing methods, conditions and cells that are named one by one."""


def load_experiment(name: str) -> Experiment:
    """An experiment of an installed paper by name."""
    found = papers.installed()
    if name not in found.experiments:
        hint = suggest(name, found.experiments)
        raise ValueError("; ".join([f"unknown experiment {name!r}{hint}", *found.problems]))
    where = found.experiments[name]
    try:
        experiment: Experiment = papers.load(where)
    except (ImportError, AttributeError) as problem:
        raise ValueError(f"experiment {name!r}: {where} cannot be loaded: {problem}") from problem
    return experiment


def folder_name(method: str) -> str:
    """A method's name where no character has a meaning to a file system.

    >>> folder_name("my_package.bonuses:Mine:lr=1e-3")
    'my_package.bonuses_Mine_lr=1e-3'
    """
    return re.sub(r"[^\w.=,+-]", "_", method)


def expect_known(kind: str, name: str, known: Sequence[str] | Mapping[str, Any]) -> None:
    """Refuse an unknown method, condition or scale with the nearest known ones."""
    if name not in known:
        raise ValueError(f"unknown {kind} {name!r}{suggest(name, known)}")


# ---- methods as people write them: a bonus by name, with fields if wanted -------------------------------------
BASELINES: dict[str, Method] = {
    "none": Method("No bonus", "none"),
    "random": Method("Random actions", "none", policy="uniform"),
    "cell_counts": Method("Count of true cells", "none", policy="cell_counts"),
}
"""References: no bonus, random actions, and a count of the environment's own cells, which no bonus sees."""


def parse_method(text: str, known: Mapping[str, Method] = BASELINES) -> Method:
    """A method as people write it: a known name, a registered bonus or another package's class, with fields if wanted.

    Nothing is imported here: a name that no bonus has is refused by whoever builds it.

    >>> parse_method("lpm:lr=1e-3").fields
    {'lr': 0.001}
    >>> parse_method("my_package.bonuses:Mine:hidden=(64, 64),form=log").bonus
    'my_package.bonuses:Mine'
    """
    name, fields = _split(text)
    found = known.get(name) or BASELINES.get(name) or Method(name.rpartition(":")[2], name)
    if fields and found.policy != "learnt":
        raise ValueError(f"{text!r}: {name} has no bonus, and so no fields")
    words = ", ".join(f"{field}={value}" for field, value in fields.items())
    return replace(found, label=f"{found.label}, {words}", fields={**found.fields, **fields}) if words else found


def method_name(text: str) -> str:
    """The same method in one spelling, whatever spaces were typed.

    >>> method_name("lgn: width = 64")
    'lgn:width=64'
    """
    name, fields = _split(text)
    words = ",".join(f"{field}={value}".replace(" ", "") for field, value in fields.items())
    return f"{name}:{words}" if words else name


def parse_fields(text: str) -> dict[str, Any]:
    """Fields from `name=value,name=value`; commas within brackets belong to the value."""
    fields: dict[str, Any] = {}
    for part in re.split(r",(?![^(\[]*[)\]])", text):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not name.isidentifier() or not value:
            raise ValueError(f"fields {text!r}: expected name=value, more of them after commas, got {part!r}")
        fields[name] = literal(value)
    return fields


def _split(text: str) -> tuple[str, dict[str, Any]]:
    """The name, which may be `module:Class`, and the fields."""
    head, equals, _ = text.partition("=")
    if not equals:
        return text.strip(), {}
    name, colon, _ = head.rpartition(":")
    if not colon or not name.strip():
        raise ValueError(f"{text!r}: expected a bonus before its fields, as in lgn:width=64")
    return name.strip(), parse_fields(text[len(name) + 1 :])
