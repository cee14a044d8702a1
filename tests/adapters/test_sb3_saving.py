"""Stable-Baselines3: a model and its bonus on disk."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from sb3_cases import ROWS, STEPS, envs, off_policy, on_policy, parameters, same
from stable_baselines3 import DQN, PPO

from lpm.adapters.sb3 import (
    IntrinsicCallback,
    IntrinsicReplayBuffer,
    MixerConfig,
    companion,
    load_bonus,
    make_bonus,
    save,
)
from lpm.storage.state_file import save_state

MIXER = MixerConfig(weight=0.3)


def flat(state: Any) -> list[Any]:
    if isinstance(state, dict):
        return [leaf for key in sorted(state, key=str) for leaf in flat(state[key])]
    return [leaf for item in state for leaf in flat(item)] if isinstance(state, (list, tuple)) else [state]


def equal(left: Any, right: Any) -> bool:
    return all(
        torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
        for a, b in zip(flat(left), flat(right), strict=True)
    )


def intrinsic_of(model: Any, name: str = "lpm") -> Any:
    # of several updates' memory, so that a queue lost on the way would show
    steps = 2 * STEPS if isinstance(model, PPO) else 10
    bonus = make_bonus(name, model, rollout_steps=steps, seed=3, warmup=16)
    if isinstance(model, PPO):
        return IntrinsicCallback(bonus, mixer=MIXER)
    return IntrinsicReplayBuffer.attach(model, bonus, mixer=MIXER)


def go_on(model: Any, intrinsic: Any, steps: int) -> None:
    torch.manual_seed(5)
    model.set_random_seed(5)
    callback = intrinsic if isinstance(intrinsic, IntrinsicCallback) else None
    model.learn(steps, callback=callback, reset_num_timesteps=False)


@pytest.mark.parametrize("name", ["lpm", "lgn"])
def test_save_load_and_go_on_equals_going_on_on_policy(name: str, tmp_path: Path) -> None:
    model = on_policy("PPO", envs())
    intrinsic = intrinsic_of(model, name)
    model.learn(3 * STEPS * ROWS, callback=intrinsic)
    save(model, intrinsic, tmp_path / "run")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["run.bonus.safetensors", "run.zip"]
    loaded = PPO.load(tmp_path / "run", env=copy.deepcopy(model.env), force_reset=False)
    again = intrinsic_of(loaded, name)
    assert not equal(intrinsic.state_dict(), again.state_dict())
    load_bonus(loaded, again, tmp_path / "run")
    assert equal(intrinsic.state_dict(), again.state_dict())
    for part in ((model, intrinsic), (loaded, again)):
        go_on(*part, 3 * STEPS * ROWS)
    assert again.rollouts == 6
    assert equal(intrinsic.state_dict(), again.state_dict())
    assert same(parameters(model), parameters(loaded))


def test_save_load_and_go_on_equals_going_on_off_policy(tmp_path: Path) -> None:
    model = off_policy("DQN", envs())
    intrinsic = intrinsic_of(model)
    model.learn(25 * ROWS)  # in the middle of a block of 10 steps
    save(model, intrinsic, tmp_path / "run.zip")
    model.save_replay_buffer(tmp_path / "replay.pkl")
    loaded = DQN.load(tmp_path / "run.zip", env=copy.deepcopy(model.env), force_reset=False)
    loaded.load_replay_buffer(tmp_path / "replay.pkl")
    again = intrinsic_of(loaded)
    load_bonus(loaded, again, tmp_path / "run.zip")
    for part in ((model, intrinsic), (loaded, again)):
        go_on(*part, 40 * ROWS)
    assert again.updates == 6
    assert equal(intrinsic.state_dict(), again.state_dict())
    assert same(parameters(model), parameters(loaded))


def test_a_bonus_by_name_is_saved_before_and_read_after_it_was_made(tmp_path: Path) -> None:
    model, first, second = on_policy("PPO", envs()), IntrinsicCallback("rnd", seed=1), IntrinsicCallback("rnd", seed=2)
    save(model, first, tmp_path / "run")
    load_bonus(model, second, tmp_path / "run")
    assert equal(first.state_dict(), second.state_dict())


def test_files_that_do_not_belong_are_refused(tmp_path: Path) -> None:
    model = on_policy("PPO", envs())
    intrinsic = intrinsic_of(model)
    with pytest.raises(ValueError, match=r"lost\.bonus\.safetensors: expected the bonus of this model"):
        load_bonus(model, intrinsic, tmp_path / "lost")
    path = tmp_path / "run"
    save(model, intrinsic, path)
    with pytest.raises(ValueError, match="expected the state of RND, got that of LPM"):
        load_bonus(model, IntrinsicCallback(make_bonus("rnd", model)), path)
    with pytest.raises(ValueError, match="does not fit this LPM"):
        load_bonus(model, IntrinsicCallback(make_bonus("lpm", model, dynamics_hidden=(8,))), path)
    with pytest.raises(ValueError, match="expected one built with num_envs=3, got num_envs=2"):
        load_bonus(model, IntrinsicCallback(make_bonus("lpm", model, num_envs=2)), path)
    model.num_timesteps = 7
    with pytest.raises(ValueError, match="expected num_timesteps 7, as the model, got 0"):
        load_bonus(model, intrinsic, path)
    file = companion(path)
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"its header claims .* bytes, expected 1 to .* within the 1,000 of the file"):
        load_bonus(model, intrinsic, path)
    save_state({"weights": torch.zeros(1)}, file)
    with pytest.raises(ValueError, match="expected a file of kind 'adapter', got state"):
        load_bonus(model, intrinsic, path)
    torch.save({"weights": torch.zeros(1)}, file)
    with pytest.raises(ValueError, match="got a pickle or an archive of one"):
        load_bonus(model, intrinsic, path)


def test_a_file_with_changed_weights_is_refused(tmp_path: Path) -> None:
    model = on_policy("PPO", envs())
    intrinsic = intrinsic_of(model)
    save(model, intrinsic, tmp_path / "run")
    weights = next(intrinsic.bonus.parameters()).detach().numpy().tobytes()
    file, content = companion(tmp_path / "run"), bytearray(companion(tmp_path / "run").read_bytes())
    content[content.index(weights)] ^= 1
    file.write_bytes(content)
    with pytest.raises(ValueError, match="damaged: the checksum is not the one in the manifest"):
        load_bonus(model, intrinsic, tmp_path / "run")


def test_a_bonus_that_a_loaded_replay_buffer_has_replaced_is_refused(tmp_path: Path) -> None:
    model = off_policy("DQN", envs())
    intrinsic = intrinsic_of(model)
    save(model, intrinsic, tmp_path / "run")
    model.save_replay_buffer(tmp_path / "replay")
    model.load_replay_buffer(tmp_path / "replay")
    with pytest.raises(ValueError, match="load_replay_buffer replaces it: call that first, then attach"):
        load_bonus(model, intrinsic, tmp_path / "run")


def test_a_bare_bonus_is_told_from_what_holds_it(tmp_path: Path) -> None:
    model = on_policy("PPO", envs())
    bonus: Any = make_bonus("rnd", model)
    for act in (save, load_bonus):
        with pytest.raises(ValueError, match="expected the IntrinsicCallback or IntrinsicReplayBuffer, got RND"):
            act(model, bonus, tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_a_file_that_would_run_code_is_refused(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return print, ("run",)

    model = on_policy("PPO", envs())
    torch.save({"format": "lpm.adapters/1", "bonus": Bomb()}, companion(tmp_path / "run"))
    with pytest.raises(ValueError, match="got a pickle or an archive of one"):
        load_bonus(model, intrinsic_of(model), tmp_path / "run")
