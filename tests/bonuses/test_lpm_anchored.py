"""LPM with an anchored error model: new places pay, noise does not, and the contract holds."""

import runpy
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

import lpm
from lpm.core.check import check_intrinsic
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions

ANCHORED = {"anchor_features": 64}
LINE = Spaces(Box(-10, 10, (1,)), Discrete(2))


def block(obs: torch.Tensor, following: torch.Tensor) -> Transitions:
    """(T, 1, 1) observations in one environment."""
    action = torch.zeros(obs.shape[:2], dtype=torch.int64)
    return Transitions.build(obs, action, following)


def familiar(generator: torch.Generator) -> Transitions:
    obs = 0.5 * torch.randn(128, 1, 1, generator=generator)
    return block(obs, 0.9 * obs)


@pytest.mark.parametrize("fields", [{"form": "log"}, {"form": "exp"}, {"form": "linear"}], ids=str)
def test_contract(fields: dict[str, str]) -> None:
    check_intrinsic(partial(lpm.make, "lpm_anchored", dynamics_steps=1, buffer_size=64, **ANCHORED, **fields))


def test_contract_with_the_encoder_of_f() -> None:
    small = partial(lpm.make, "lpm_anchored", dynamics_steps=1, buffer_size=64, shared_encoder=True, **ANCHORED)
    check_intrinsic(small, Spaces(Box(0, 255, (3, 36, 36), np.uint8), Discrete(3)))


def first_contact(name: str) -> float:
    """The mean reward of a place far from all that was seen, after familiar ones are learnt."""
    generator = torch.Generator().manual_seed(0)
    bonus = lpm.make(name, LINE, num_envs=1, rollout_steps=128, seed=0)
    for _ in range(60):
        bonus.step(familiar(generator))
        bonus.update()
    new = 6 + 0.5 * torch.randn(128, 1, 1, generator=generator)
    return float(bonus.score(block(new, -0.9 * new)).mean())


def test_a_new_place_is_punished_by_a_network_and_less_by_an_anchored_g() -> None:
    network, anchored = first_contact("lpm"), first_contact("lpm_anchored")
    assert network < -1
    assert anchored > network + 2


def test_the_anchor_is_the_error_of_the_untrained_model() -> None:
    generator = torch.Generator().manual_seed(0)
    bonus = lpm.make("lpm_anchored", LINE, num_envs=1, rollout_steps=128, seed=0, **ANCHORED)
    transitions = familiar(generator)
    bonus.step(transitions)
    bonus.update()
    fresh = lpm.make("lpm_anchored", LINE, num_envs=1, rollout_steps=128, seed=0, **ANCHORED)
    fresh.step(transitions)
    fresh.experience.input.commit()
    with torch.no_grad():
        untrained = torch.log(fresh.mse(transitions) + bonus.floor).mean()
    assert float(bonus.error_model.anchor) == pytest.approx(float(untrained), abs=1e-5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"anchor_scale": 0.0}, "anchor_scale"), ({"anchor_forgetting": 1.5}, "anchor_forgetting"),
     ({"form": "rnd"}, "form"),
     ({"relative_floor": 0.5, "form": "linear"}, "relative_floor"), ({"anchor_features": 0}, "anchor_features")],
)  # fmt: skip
def test_bad_settings_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=f"LPMAnchoredConfig.{message}"):
        lpm.make("lpm_anchored", LINE, **fields)


def test_a_floor_that_rises_empties_the_queue() -> None:
    bonus = lpm.make("lpm_anchored", LINE, num_envs=1, rollout_steps=128, normalise="none", anchor_features=16)
    bonus.step(familiar(torch.Generator().manual_seed(0)))
    assert len(bonus.queue.slots) == 128
    bonus.update()
    assert len(bonus.queue.slots) == 0


def test_no_error_counts_twice_however_often_it_is_updated() -> None:
    traces = []
    for size in (128, 8):
        bonus = lpm.make("lpm_anchored", LINE, num_envs=1, rollout_steps=128, seed=0, anchor_forgetting=1.0, **ANCHORED)
        generator = torch.Generator().manual_seed(0)
        for transitions in (familiar(generator) for _ in range(3)):
            for t in range(0, 128, size):
                bonus.step(block(transitions.obs[t : t + size], transitions.next_obs[t : t + size]))
                bonus.update()
        traces.append(float(bonus.error_model.posterior.precision.trace()) - 64)
    assert traces[0] == pytest.approx(2 * 128, rel=0.1)  # the first block is measured, not learnt from
    assert traces[1] == pytest.approx(3 * 128 - 8, rel=0.1)


def test_the_example_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["first_visit.py", "--seeds", "1", "--visits", "2"])
    threads = torch.get_num_threads()
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "first_visit.py"), run_name="__main__")
    torch.set_num_threads(threads)
    assert "anchored g, log, new" in capsys.readouterr().out
