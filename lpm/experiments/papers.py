"""Packages that reproduce a paper: each adds experiments, and commands if it likes, as an entry point `lpm.papers`.

In the `pyproject.toml` of such a package:

    [project.entry-points."lpm.papers"]
    my_paper = "my_package:PAPER"

Loading `my_package` must be cheap: experiments and commands are named there, and imported only when they are asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

GROUP = "lpm.papers"


@dataclass(frozen=True)
class Paper:
    """What a package adds to the command line and to reports."""

    experiments: Mapping[str, str] = field(default_factory=dict)
    """Name as in `lpm reproduce NAME` to `module:ATTRIBUTE`, an `Experiment`; in the order of reports."""
    commands: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Name as in `lpm NAME` to a module with `run(args) -> int`, and to its line in `lpm --help`."""


@dataclass
class Installed:
    """What the papers of this installation offer together."""

    experiments: dict[str, str] = field(default_factory=dict)
    commands: dict[str, tuple[str, str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """Papers that cannot be loaded, and names that two of them have; each is skipped."""


def installed() -> Installed:
    """All papers of this installation, by name. One that cannot be loaded is named in `problems` and skipped."""
    found = Installed()
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        where = f"paper {point.name!r} ({point.value})"
        try:
            paper = point.load()
        except Exception as error:  # whatever another package's import raises
            found.problems.append(f"{where} is skipped: it cannot be loaded: {type(error).__name__}: {error}")
            continue
        if not isinstance(paper, Paper):
            found.problems.append(f"{where} is skipped: expected a Paper, got {type(paper).__name__}")
            continue
        taken = [name for name, at in paper.experiments.items() if found.experiments.setdefault(name, at) != at]
        taken += [name for name, at in paper.commands.items() if found.commands.setdefault(name, at) != at]
        found.problems += [f"{name!r} of {where} is skipped: another paper has the name" for name in taken]
    return found


def load(address: str) -> Any:
    """What `module:ATTRIBUTE` names."""
    module, _, attribute = address.partition(":")
    return getattr(import_module(module), attribute)
