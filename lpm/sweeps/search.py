"""A search over settings with Optuna: seeded, kept in a file, and going on where it was killed."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lpm.storage.files import parse_json, read_regular, write_atomic
from lpm.storage.lock import exclusive
from lpm.sweeps.fields import Field
from lpm.utils.versions import pip_install

STUDY = "search.json"


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

    A file in `out` holds the trials so far. A search that was killed proposes again what was under way, and ends with
    the same trials as one that was not: the sampler is seeded anew for every trial. `settings` are everything else that
    the scores depend on; a folder with other ones is refused.
    """
    try:
        import optuna
    except ModuleNotFoundError:
        raise ValueError(f"lpm tune needs Optuna: {pip_install('tune')}") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    complete, failed = optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.FAIL
    distributions = {field.name: _distribution(optuna.distributions, field) for field in fields}
    whole = {**settings, "seed": seed, "batch": batch, **{f"field {f.name}": repr(f) for f in fields}}

    def frozen(params: dict[str, Any], value: float | None) -> Any:
        state = failed if value is None else complete
        return optuna.create_trial(state=state, value=value, params=params, distributions=distributions)

    out.mkdir(parents=True, exist_ok=True)
    with exclusive(out / ".tune.lock", "search"):
        try:
            stored = parse_json(read_regular(out / STUDY))
            known = dict(stored["settings"])
            earlier = [frozen(params, value) for params, value in stored["trials"]] if known == whole else []
        except FileNotFoundError:
            known, earlier = whole, []
        except (ValueError, LookupError, TypeError, AttributeError) as problem:
            raise ValueError(
                f"{out / STUDY}: expected the trials of a search, but it cannot be read ({problem}); use another --out "
                "or delete it"
            ) from problem
        if changed := sorted(name for name in {*known, *whole} if known.get(name) != whole.get(name)):
            shown = "; ".join(f"{name}: {known.get(name)!r} there, {whole.get(name)!r} now" for name in changed)
            raise ValueError(f"{out} holds another search ({shown}); use another --out")
        study = optuna.create_study(direction="maximize")
        study.add_trials(earlier)
        while (done := len(study.trials)) < trials:
            # whole batches at fixed places, so that a search that was killed proposes what it would have proposed
            numbers = range(done, min(done - done % batch + batch, trials))
            for number in numbers:
                study.sampler = optuna.samplers.TPESampler(seed=seed * 1_000_003 + number)
                study.ask(distributions)
            proposed = [_trial(study.trials[number], fields) for number in numbers]
            for trial, value in zip(proposed, evaluate(proposed), strict=True):
                study.tell(trial.number, value, state=failed if value is None else complete)
            rows = [[trial.params, trial.value] for trial in study.trials]
            write_atomic(out / STUDY, json.dumps({"settings": whole, "trials": rows}).encode())
        return [_trial(stored, fields) for stored in study.trials]


def _distribution(kinds: Any, field: Field) -> Any:
    if field.choices:
        return kinds.CategoricalDistribution([repr(choice) for choice in field.choices])
    kind = kinds.IntDistribution if isinstance(field.low, int) else kinds.FloatDistribution
    return kind(field.low, field.high, log=field.log)


def _trial(stored: Any, fields: Sequence[Field]) -> Trial:
    values = {}
    for field in fields:
        raw = stored.params[field.name]
        values[field.name] = {repr(choice): choice for choice in field.choices}[raw] if field.choices else raw
    return Trial(stored.number, values, stored.value)
