import dataclasses

import numpy as np

from lpm_paper.theory.networks import NAMES, StreamBonus, network_bonuses
from lpm_paper.theory.stream import ONE_DIM, measure, run_stream

SHORT = dataclasses.replace(ONE_DIM, cycles=5)


def test_every_network_bonus_is_measured_with_an_interval() -> None:
    rows = measure(SHORT, network_bonuses(SHORT), seeds=2)
    assert {row.bonus for row in rows} == {f"{name} (library)" for name in NAMES}
    assert all(row.low <= row.mean <= row.high for row in rows if np.isfinite(row.mean))


def test_scores_come_before_learning() -> None:
    obs = np.random.default_rng(0).uniform(-1, 1, (SHORT.cycle, 1))
    cycle = (obs, np.zeros(SHORT.cycle, dtype=np.int64), np.sin(3 * obs))
    bonus = StreamBonus("forward_error", SHORT, 0)
    bonus.update(*cycle)  # fixes the observation statistics
    first = bonus.score(*cycle)
    assert np.array_equal(first, bonus.score(*cycle))
    for _ in range(10):
        bonus.update(*cycle)
    assert bonus.score(*cycle).mean() < first.mean() / 2


def test_streams_are_deterministic() -> None:
    factories = {"f": network_bonuses(SHORT)["forward_error (library)"]}
    first, again = (run_stream(SHORT, factories, seed=0) for _ in range(2))
    assert np.array_equal(first.scores["f"], again.scores["f"])
