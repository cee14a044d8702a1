"""What a backend reports while it runs jobs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Started:
    """An attempt at a job has begun."""

    index: int
    """Of the job in the list given to the backend."""


@dataclass(frozen=True)
class Ticked:
    """A run has done some work."""

    index: int
    units: int
    resumed: bool = False
    """Done in an earlier attempt and found in the scratch folder: it says nothing about speed."""


@dataclass(frozen=True)
class Died:
    """The process of a job has died; it is tried again."""

    index: int
    reason: str


@dataclass(frozen=True)
class Finished:
    """A job has a result."""

    index: int
    content: bytes
    """Of the result file."""


@dataclass(frozen=True)
class Failed:
    """A job has no result and is not tried again."""

    index: int
    reason: str


@dataclass(frozen=True)
class Waiting:
    """Nothing new; sent now and then so that clocks go on."""


Event = Started | Ticked | Died | Finished | Failed | Waiting
