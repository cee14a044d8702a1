"""A search over settings with Optuna: seeded, kept in a file, and going on where it was killed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lpm.storage.files import parse_json, read_regular
from lpm.storage.lock import exclusive
from lpm.sweeps.fields import Field
from lpm.utils.versions import pip_install

STUDY = "study.log"


@dataclass(frozen=True)
class Trial:
    """Settings that were tried."""

    number: int
    fields: Mapping[str, Any]
    """Field to value."""
    value: float | None = None
    """How good they are, more is better; None if a run failed."""


Evaluate = Callable[[Sequence[Trial]], Sequence[float | None]]
"""Runs proposed trials; for each its value (more is better), or None if a run failed."""


def search(
    out: Path,
    fields: Sequence[Field],
    settings: Mapping[str, Any],
    evaluate: Evaluate,
    *,
    trials: int,
    batch: int,
    seed: int,
) -> list[Trial]:
    """Try settings until there are `trials` of them, `batch` at a time; return all, in order.

    The study is a file in `out`. A search that was killed goes on with the trials that were under way, and ends with
    the same trials as one that was not: the sampler is seeded anew for every trial. `settings` are everything else
    that the scores depend on; a folder with other ones is refused.
    """
    try:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    except ModuleNotFoundError:
        raise ValueError(f"lpm tune needs Optuna: {pip_install('tune')}") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    out.mkdir(parents=True, exist_ok=True)
    with exclusive(out / ".tune.lock", "search"):
        with _named(out / STUDY):
            _cut_unfinished_line(out / STUDY)
            lock: Any = _HeldAlready()
            study = optuna.create_study(
                storage=JournalStorage(JournalFileBackend(str(out / STUDY), lock)),
                study_name="lpm",
                direction="maximize",
                load_if_exists=True,
            )
            for trial in study.trials:
                _trial(trial, [field for field in fields if field.name in trial.params])
        whole = {**settings, "seed": seed, "batch": batch, **{f"field {f.name}": repr(f) for f in fields}}
        _check_settings(study, whole, out)
        _search(optuna, study, fields, evaluate, trials, batch, seed)
        return [_trial(t, fields) for t in study.trials if _complete(t, fields)]


class _HeldAlready:
    """Optuna's lock, which we do not need: `.tune.lock` is held. Its own waits for ever if a killed search left it."""

    def acquire(self) -> bool:
        """Nobody else is there."""
        return True

    def release(self) -> None:
        """Nothing to give back."""


def _cut_unfinished_line(log: Path) -> None:
    """Look at the log of an earlier search before Optuna does, and cut off a line that was not written to its end."""
    if not log.exists() and not log.is_symlink():
        return
    *lines, rest = read_regular(log).split(b"\n")
    for number, line in enumerate(lines, 1):
        entry = parse_json(line)
        if not isinstance(entry, dict) or type(entry.get("op_code")) is not int:
            raise ValueError(f"line {number}: expected an entry of Optuna's journal, got {line[:80]!r}")
    if rest:
        os.truncate(log, log.stat().st_size - len(rest))


@contextmanager
def _named(log: Path) -> Iterator[None]:
    """Whatever a log that is none makes Optuna raise, as a sentence."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError, RuntimeError) as problem:
        raise ValueError(
            f"{log}: expected the log of a search, but it cannot be read ({problem}); use another --out or delete it"
        ) from problem


def _search(
    optuna: Any, study: Any, fields: Sequence[Field], evaluate: Evaluate, trials: int, batch: int, seed: int
) -> None:
    running, complete, failed = (getattr(optuna.trial.TrialState, s) for s in ("RUNNING", "COMPLETE", "FAIL"))
    for trial in study.trials:
        if trial.state == running and not _complete(trial, fields):
            study.tell(trial.number, state=failed)  # killed while it was being proposed: as if it never was
    while True:
        known = [trial for trial in study.trials if _complete(trial, fields)]
        proposed = [_trial(trial, fields) for trial in known if trial.state == running]
        # whole batches at fixed places, so that a search that was killed proposes what it would have proposed
        place = len(known) - len(proposed)
        for number in range(len(known), min(place - place % batch + batch, trials)):
            study.sampler = optuna.samplers.TPESampler(seed=seed * 1_000_003 + number)
            asked = study.ask({f.name: _distribution(optuna, f) for f in fields})
            proposed.append(_trial(study.trials[asked.number], fields))
        if not proposed:
            return
        for trial, value in zip(proposed, evaluate(proposed), strict=True):
            study.tell(trial.number, value, state=failed if value is None else complete)


def _distribution(optuna: Any, field: Field) -> Any:
    if field.choices:
        return optuna.distributions.CategoricalDistribution([repr(choice) for choice in field.choices])
    kinds = optuna.distributions
    kind = kinds.IntDistribution if isinstance(field.low, int) else kinds.FloatDistribution
    return kind(field.low, field.high, log=field.log)


def _complete(trial: Any, fields: Sequence[Field]) -> bool:
    """Whether every field has a value."""
    return all(field.name in trial.params for field in fields)


def _trial(stored: Any, fields: Sequence[Field]) -> Trial:
    values = {}
    for field in fields:
        raw = stored.params[field.name]
        values[field.name] = {repr(choice): choice for choice in field.choices}[raw] if field.choices else raw
    return Trial(stored.number, values, stored.value)


def _check_settings(study: Any, settings: Mapping[str, Any], out: Path) -> None:
    stored = study.user_attrs.get("settings")
    if stored is None:
        study.set_user_attr("settings", dict(settings))
    elif stored != settings:
        changed = sorted(k for k in {*stored, *settings} if stored.get(k) != settings.get(k))
        shown = "; ".join(f"{k}: {stored.get(k)!r} there, {settings.get(k)!r} now" for k in changed)
        raise ValueError(f"{out} holds another search ({shown}); use another --out")
