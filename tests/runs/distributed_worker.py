"""Pairs of processes for test_distributed.py. One process imports everything, then forks each pair: `FOLDER` is where
the scenarios leave what they found."""

from __future__ import annotations

import atexit
import dataclasses
import json
import os
import shutil
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from lpm.agents import A2CConfig, NetworkConfig, PPOConfig
from lpm.cli import main
from lpm.core.group import SINGLE_PROCESS, ProcessGroup, WorkerLost
from lpm.core.transitions import Transitions
from lpm.runs import RunConfig, build, distributed, train
from lpm.runs.distributed import joined

SMALL = PPOConfig(num_envs=4, rollout_steps=32, epochs=2, network=NetworkConfig(hidden=(16, 16)))
LPM = {"dynamics_steps": 4, "error_steps": 4, "batch_size": 64, "error_batch_size": 32, "buffer_size": 300}
UPDATES = {"lpm": 6, "lgn": 6}
FEWER = 4


def config(env_id: str, bonus: str, agent: Any = SMALL, **fields: Any) -> RunConfig:
    from lpm.core.registry import configure

    # one random stream for each row, as CartPole's own vector version has not
    env = {"noise": True} if env_id == "lpm/MountainCar-v0" else {"vectorization_mode": "sync"}
    return RunConfig(
        env_id,
        algo="a2c" if isinstance(agent, A2CConfig) else "ppo",
        bonus=bonus,
        steps=10 * agent.num_envs * agent.rollout_steps,
        agent=agent,
        bonus_settings=configure(bonus, **fields),
        env=env,
        device="cpu",
        seed=3,
    )


ROBUST = NetworkConfig(hidden=(16, 16), normalise="robust")
# CartPole's short episodes end at other steps in each row, and leave filler: shares of different sizes
CASES = {
    "lpm": config("CartPole-v1", "lpm", **LPM),
    "lgn": config("CartPole-v1", "lgn", fourier=32, warmup=100),
    "lgn in continuous actions": config("lpm/MountainCar-v0", "lgn", fourier=32, warmup=200, memory_size=64),
    "lpm_slow": config("CartPole-v1", "lpm_slow", dynamics_steps=4, batch_size=64, buffer_size=300),
    "rnd": config("CartPole-v1", "rnd", features=16, hidden=(16,), batch_size=50, proportion=0.5),
    "episodic": config("CartPole-v1", "ride", features=8, hidden=(16,), model_hidden=(16,)),
    "none, robust scale": config(
        "CartPole-v1", "none", PPOConfig(num_envs=4, rollout_steps=32, target_kl=0.01, network=ROBUST)
    ),
    "a2c": config(
        "CartPole-v1",
        "none",
        A2CConfig(num_envs=4, rollout_steps=32, standardise_returns=True, network=NetworkConfig(hidden=(16, 16))),
    ),
}


def finished(name: str, group: ProcessGroup = SINGLE_PROCESS, start: Any = None, updates: int | None = None) -> Any:
    """An agent's state, last metrics and parameters after some updates."""
    agent = build(CASES[name], group)
    updates = UPDATES.get(name, FEWER) if updates is None else updates
    if start is not None:
        agent.load_state_dict(group.broadcast(lambda: start))
    metrics: dict[str, float] = {}
    for _ in range(updates):
        metrics = agent.cycle()
    bonus = [] if agent.bonus is None else [p.detach().clone() for p in agent.bonus.parameters()]
    found = agent.state_dict(), metrics
    replicas = group.all_gather_objects([*(p.detach().clone() for p in agent.policy.parameters()), *bonus])
    agent.collector.envs.close()
    return (*found, replicas)


# ---- scenarios, each run by both processes of a pair ----------------------------------------------------------
def equality(folder: Path) -> None:
    with joined(120) as group:
        found: dict[str, Any] = {name: finished(name, group) for name in CASES}
        earlier = torch.load(folder / "single.pt", weights_only=False)
        found["resumed"] = finished("lgn in continuous actions", group, earlier, updates=2)
        obs = torch.full((2 + group.rank, 2, 1), float(group.rank))
        uneven = group.all_gather_block(Transitions.build(obs, obs[..., 0].long(), obs))
        found["uneven"] = uneven.obs[..., 0].tolist(), uneven.valid.tolist()
        if group.rank == 0:
            torch.save(found, folder / "pair.pt")


def killed(folder: Path) -> None:
    """The command, whose second process is killed once there is a checkpoint and goes on for a while."""
    run = folder / "killed"
    if os.environ["RANK"] == "1":
        from lpm.agents import PPO

        cycle, count = PPO.cycle, iter(range(10**9))

        def cycle_or_die(self: Any) -> Any:
            if next(count) == 4:
                os.kill(os.getpid(), 9)
            return cycle(self)

        PPO.cycle = cycle_or_die  # type: ignore[method-assign]
    words = ["train", "lpm/MountainCar-v0", "--bonus", "lpm", "--steps", "1280", "--out", str(run)]
    # of ten passes rounding grows: to 6e-4 in one process, too, if the rows of its minibatches are in another order
    words += ["--ppo.num-envs", "4", "--ppo.rollout-steps", "32", "--ppo.epochs", "4"]
    words += ["--device", "cpu", "--timeout-seconds", "60"]
    raise SystemExit(main(words))


def interrupted(folder: Path) -> None:
    """The killed run goes on, until its second process is sent SIGTERM."""
    run = folder / "interrupted"
    if os.environ["RANK"] == "0":
        shutil.copytree(folder / "killed", run)
    else:
        from lpm.agents import PPO

        cycle, count = PPO.cycle, iter(range(10**9))

        def cycle_and_signal(self: Any) -> Any:
            if next(count) == 2:
                os.kill(os.getpid(), signal.SIGTERM)
            return cycle(self)

        PPO.cycle = cycle_and_signal  # type: ignore[method-assign]
    raise SystemExit(main(["train", "--out", str(run), "--resume", "--timeout-seconds", "60"]))


def failing(folder: Path) -> None:
    """The second process stops by itself, with a reason."""
    with joined(60) as group:
        if group.rank == 1:
            raise ValueError("its disk is full")
        group.any(True)


def silent(folder: Path) -> None:
    """The second process never answers."""
    with joined(4) as group:
        if group.rank == 1:
            time.sleep(7)
            os._exit(0)
        try:
            group.any(True)
        except WorkerLost as lost:
            (folder / "silent").write_text(str(lost))


def refused(folder: Path) -> None:
    """The command with five environments for two processes."""
    words = ["train", "lpm/MountainCar-v0", "--bonus", "none", "--ppo.num-envs", "5", "--out", str(folder / "refused")]
    raise SystemExit(main([*words, "--device", "cpu", "--timeout-seconds", "60"]))


def differing(folder: Path) -> None:
    """The command, with another torch in the second process."""
    if os.environ["RANK"] == "1":
        distributed.run_versions = lambda: {"torch": "0.0.1"}  # type: ignore[assignment]
    words = ["train", "lpm/MountainCar-v0", "--out", str(folder / "differing"), "--timeout-seconds", "60"]
    raise SystemExit(main(words))


def told(folder: Path) -> None:
    """The command, with another bonus in the second process."""
    bonus = ("none", "rnd")[int(os.environ["RANK"])]
    words = ["train", "lpm/MountainCar-v0", "--bonus", bonus, "--out", str(folder / "told")]
    raise SystemExit(main([*words, "--timeout-seconds", "60"]))


def told_in_a_script(folder: Path) -> None:
    """`train` of a script, with another seed in the second process."""
    with joined(60) as group:
        seeded = dataclasses.replace(CASES["a2c"], seed=group.rank)
        train(seeded, folder / "told_in_a_script", group=group)


# ---- pairs ----------------------------------------------------------------------------------------------------
def pair(scenario: Callable[[Path], None], folder: Path) -> dict[str, Any]:
    """Run a scenario in two processes: how they ended and what they wrote."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = []
    for rank in range(2):
        child = os.fork()
        if child == 0:
            os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
            os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            _in_child(scenario, folder, rank)
        children.append(child)
    started = time.monotonic()
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    texts = [(folder / f"{scenario.__name__}-{rank}.txt").read_text() for rank in range(2)]
    return {"codes": codes, "texts": texts, "seconds": time.monotonic() - started}


def _in_child(scenario: Callable[[Path], None], folder: Path, rank: int) -> None:
    stream = os.open(folder / f"{scenario.__name__}-{rank}.txt", os.O_CREAT | os.O_WRONLY)
    os.dup2(stream, 1)
    os.dup2(stream, 2)
    code = 0
    try:
        scenario(folder)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    atexit._run_exitfuncs()
    os._exit(code)


if __name__ == "__main__":
    torch.set_num_threads(1)
    place = Path(sys.argv[1])
    scenarios = (equality, killed, interrupted, failing, silent, refused, differing, told, told_in_a_script)
    ended = {each.__name__: pair(each, place) for each in scenarios}
    (place / "ended.json").write_text(json.dumps(ended))
