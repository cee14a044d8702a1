import dataclasses

import numpy as np

from lpm.experiments.theory_streams import NAMES, StreamBonus, network_bonuses
from lpm.theory.stream import ONE_DIM, measure, run_stream

SHORT = dataclasses.replace(ONE_DIM, cycles=5)


def test_every_network_bonus_is_measured_with_an_interval() -> None:
    rows = measure(SHORT, network_bonuses(SHORT), seeds=2, resamples=10)
    assert {row.bonus for row in rows} == {f"{name} (library)" for name in NAMES}
    assert all(row.low <= row.mean <= row.high for row in rows if np.isfinite(row.mean))


def test_scores_come_before_learning() -> None:
    """The first cycle is scored by an untrained forward model: its score is that of a fresh bonus."""
    run = run_stream(SHORT, {"f": network_bonuses(SHORT)["forward_error (library)"]}, seed=0)
    again = run_stream(SHORT, {"f": network_bonuses(SHORT)["forward_error (library)"]}, seed=0)
    assert np.array_equal(run.scores["f"], again.scores["f"])
    fresh = StreamBonus("forward_error", SHORT, 0)
    zeros = np.zeros((SHORT.cycle, 1))
    before = fresh.score(zeros, np.zeros(SHORT.cycle, dtype=np.int64), zeros + 3.0)
    for _ in range(5):
        fresh.update(zeros, np.zeros(SHORT.cycle, dtype=np.int64), zeros + 3.0)
    after = fresh.score(zeros, np.zeros(SHORT.cycle, dtype=np.int64), zeros + 3.0)
    assert (after < before).all()
