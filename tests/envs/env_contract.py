"""What every vector environment of the project promises, as functions a test calls with a way to make one."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, VectorEnv

Env = VectorEnv[Any, Any, Any]
Make = Callable[..., Env]
Real = dict[str, Any]


def row_actions(env: Env, seed: int) -> list[Any]:
    """One action space per row, seeded by row: a row's k-th sample never depends on the other rows."""
    spaces = [deepcopy(env.single_action_space) for _ in range(env.num_envs)]
    for row, space in enumerate(spaces):
        space.seed(seed + row)
    return spaces


def sample(spaces: list[Any]) -> list[Any]:
    """The next action of each row."""
    return [space.sample() for space in spaces]


def stack(env: Env, actions: list[Any]) -> Any:
    return np.asarray(actions, dtype=env.action_space.dtype).reshape(env.action_space.shape)


def real_transitions(env: Env, steps: int, seed: int = 3) -> list[list[Real]]:
    """Each row's real transitions, with the true successor, under any autoreset mode."""
    mode = env.metadata["autoreset_mode"]
    spaces = row_actions(env, 100 + seed)
    queues: list[list[Any]] = [[space.sample() for _ in range(steps)] for space in spaces]
    used = [0] * env.num_envs
    rows: dict[int, list[Real]] = defaultdict(list)
    obs, _ = env.reset(seed=seed)
    ended = np.zeros(env.num_envs, dtype=np.bool_)
    for _ in range(steps):
        if mode is AutoresetMode.DISABLED and ended.any():
            obs, _ = env.reset(options={"reset_mask": ended})
            ended = np.zeros(env.num_envs, dtype=np.bool_)
        actions = [queues[i][used[i]] for i in range(env.num_envs)]
        next_obs, reward, terminated, truncated, info = env.step(stack(env, actions))
        done = terminated | truncated
        for i in range(env.num_envs):
            if mode is AutoresetMode.NEXT_STEP and ended[i]:
                assert reward[i] == 0
                assert not done[i]
                continue
            final = mode is AutoresetMode.SAME_STEP and done[i]
            if final:
                assert info["_final_obs"][i]
                assert info["_final_info"][i]
            source = info["final_info"] if final else info
            rows[i].append(
                {
                    "obs": obs[i].copy(),
                    "action": actions[i],
                    "next_obs": (info["final_obs"][i] if final else next_obs[i]).copy(),
                    "reward": float(reward[i]),
                    "done": bool(done[i]),
                    "cell": int(source["cell"][i]),
                    "noise": bool(source["noise"][i]),
                }
            )
            used[i] += 1
        obs, ended = next_obs, done
    return [rows[i] for i in range(env.num_envs)]


def assert_same(first: list[Real], second: list[Real], least: int) -> None:
    """Two streams agree as far as both go, and that is at least `least` steps."""
    assert min(len(first), len(second)) >= least
    for step, (a, b) in enumerate(zip(first, second, strict=False)):
        assert data_equivalence(a, b, exact=True), f"step {step}: {a} and {b}"


def check_seeding(make: Make, steps: int) -> None:
    """Same seed, same trajectory; another seed, another; and row i is row 0 of a batch seeded i later."""
    first = real_transitions(make(num_envs=3), steps)
    again = real_transitions(make(num_envs=3), steps)
    for a, b in zip(first, again, strict=True):
        assert_same(a, b, steps // 2)
    for i in range(3):
        assert_same(first[i], real_transitions(make(num_envs=i + 1), steps)[i], steps // 2)


def check_autoreset_modes(make: Make, steps: int) -> None:
    """The three modes give each row the same real transitions, over at least one episode end."""
    streams = {mode: real_transitions(make(num_envs=2, autoreset_mode=mode), steps) for mode in AutoresetMode}
    for row in range(2):
        reference = streams[AutoresetMode.DISABLED][row]
        assert any(real["done"] for real in reference[:-2])
        for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
            assert_same(reference, streams[mode][row], steps // 2)


def check_save_and_restore(make: Make, before: int, after: int) -> None:
    """A state taken mid-episode, stored as plain numbers, continues identically in another instance."""
    env, other = make(num_envs=2), make(num_envs=2)
    env.reset(seed=5)
    other.reset(seed=77)
    spaces = row_actions(env, 9)
    for _ in range(before):
        env.step(stack(env, sample(spaces)))
    state = env.get_state()
    text = json.dumps({key: np.asarray(value).tolist() for key, value in state.items()})
    other.set_state({key: np.asarray(value, dtype=state[key].dtype) for key, value in json.loads(text).items()})
    actions = [stack(env, sample(spaces)) for _ in range(after)]
    futures = [[runner.step(action) for action in actions] for runner in (env, other)]
    for a, b in zip(*futures, strict=True):
        assert data_equivalence(a, b, exact=True)
    env.set_state(state)
    for action, future in zip(actions, futures[0], strict=True):
        assert data_equivalence(env.step(action), future, exact=True)


def check_spaces(make: Make, steps: int) -> None:
    """Observations lie in the declared space, arrays are never reused, and cells lie in their range."""
    env = make(num_envs=3)
    obs, info = env.reset(seed=1)
    assert env.observation_space.contains(obs)
    spaces = row_actions(env, 1)
    kept = [(obs, obs.copy())]
    for _ in range(steps):
        obs, reward, terminated, truncated, info = env.step(stack(env, sample(spaces)))
        assert env.observation_space.contains(obs)
        for array in (reward, terminated, truncated, info["cell"], info["noise"]):
            assert array.shape == (3,)
        assert terminated.dtype == truncated.dtype == info["noise"].dtype == np.bool_
        cells = info["cell"]
        assert ((cells >= 0) & (cells < env.num_cells)).all() if env.num_cells else (cells == -1).all()
        kept.append((obs, obs.copy()))
    for returned, copy in kept:
        np.testing.assert_array_equal(returned, copy)
