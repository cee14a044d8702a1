"""Which rows are transitions, and where their true successors are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from lpm.core.transitions import autoreset_mode, use_final_obs, valid_steps

DONE = np.array([False, True, False, True])


@pytest.mark.parametrize("given", [*AutoresetMode, "NextStep", "SameStep", "Disabled"])
def test_the_mode_is_read_from_the_metadata(given: Any) -> None:
    assert autoreset_mode(SimpleNamespace(metadata={"autoreset_mode": given})) is AutoresetMode(given)


def test_environments_that_do_not_say_their_mode_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected metadata\['autoreset_mode'\].*got metadata \{'fps': 30\}"):
        autoreset_mode(SimpleNamespace(metadata={"fps": 30}))


def test_only_where_the_next_step_resets_are_rows_no_transitions() -> None:
    assert valid_steps(AutoresetMode.NEXT_STEP, DONE).tolist() == (~DONE).tolist()
    for mode in (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED):
        assert valid_steps(mode, DONE).all()


def obs() -> Any:
    return np.arange(8.0).reshape(4, 2)


FINAL = [None, np.full(2, 10.0), None, np.full(2, 30.0)]


@pytest.mark.parametrize(
    ("final", "key"),
    [
        (np.array(FINAL, dtype=object), None),
        (np.stack([np.zeros(2) if row is None else row for row in FINAL]), None),
        (np.array([None if row is None else {"a": row, "b": 0} for row in FINAL], dtype=object), "a"),
        ({"a": np.stack([np.zeros(2) if row is None else row for row in FINAL]), "b": np.zeros(4)}, "a"),
    ],
    ids=["rows", "array", "rows of dicts", "dict of arrays"],
)
def test_final_observations_replace_those_after_a_reset(final: Any, key: str | None) -> None:
    successors = obs()
    use_final_obs(AutoresetMode.SAME_STEP, successors, DONE, {"final_obs": final}, key)
    assert np.array_equal(successors[[1, 3]], [[10, 10], [30, 30]])
    assert np.array_equal(successors[[0, 2]], obs()[[0, 2]])


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
def test_in_other_modes_the_returned_observation_is_the_successor(mode: AutoresetMode) -> None:
    successors = obs()
    use_final_obs(mode, successors, DONE, {"final_obs": np.array(FINAL, dtype=object)}, None)
    assert np.array_equal(successors, obs())


def test_missing_final_observations_are_refused_when_an_episode_ends() -> None:
    use_final_obs(AutoresetMode.SAME_STEP, obs(), np.zeros(4, dtype=bool), {}, None)
    with pytest.raises(ValueError, match=r"expected info\['final_obs'\] .* got info \['episode'\]"):
        use_final_obs(AutoresetMode.SAME_STEP, obs(), DONE, {"episode": 1}, None)
