"""Environment steps per second of training, beside other learners in the same run.

    python benchmarks/training.py --sb3 PATH/TO/PYTHON --rllte PATH/TO/PYTHON --jax PATH/TO/PYTHON --json FOLDER

PATH/TO/PYTHON are interpreters with stable-baselines3, with rllte-core (and the gymnasium 0.29.1 that its PPO
needs) and with rejax, each perhaps an environment of its own; what is not given is not measured. The single-file PPO
of `examples/cleanrl_ppo.py` is measured where it fits: vectors and discrete actions. rejax compiles environments and
learner into one program: the limit of what leaving Python could gain. All learners get block sizes, passes,
minibatches and one thread alike; the networks are the same too, except rllte's. They take turns, so that a busy
machine slows all. Two clocks are read: wall time, and processor time, which a busy machine disturbs less.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lpm.runs.machine import machine
from lpm.storage.files import write_atomic

SB3 = """
import json, sys, time
import torch
torch.set_num_threads(1)
import gymnasium
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
case = json.loads(sys.argv[1])
if case["env"].startswith("ale:"):
    import ale_py
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack
    gymnasium.register_envs(ale_py)
    envs = VecFrameStack(make_atari_env(case["env"][4:], n_envs=case["envs"], seed=0), 4)
else:
    envs = make_vec_env(case["env"], n_envs=case["envs"], seed=0)
block = case["envs"] * case["rollout"]
model = PPO(
    "CnnPolicy" if case["env"].startswith("ale:") else "MlpPolicy", envs, n_steps=case["rollout"],
    batch_size=block // case["minibatches"], n_epochs=case["epochs"], learning_rate=1e-3, ent_coef=0.01,
    gamma=0.99, seed=0, device="cpu",
)
model.learn(block)
wall, cpu = time.perf_counter(), time.process_time()
model.learn(case["blocks"] * block)
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
steps = case["blocks"] * block
print(json.dumps({"wall": steps / wall, "cpu": steps / cpu}))
"""

RLLTE = """
import json, os, sys, tempfile, time
import torch
torch.set_num_threads(1)
import gymnasium
from rllte.agent import PPO
from rllte.env.utils import Gymnasium2Torch
from rllte.xplore.reward import RND
case = json.loads(sys.argv[1])
os.chdir(tempfile.mkdtemp())  # it writes its models where it is
def make():
    return gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make(case["env"]))
envs = Gymnasium2Torch(gymnasium.vector.SyncVectorEnv([make] * case["envs"]), "cpu")
block = case["envs"] * case["rollout"]
agent = PPO(
    env=envs, seed=0, device="cpu", num_steps=case["rollout"], batch_size=block // case["minibatches"],
    n_epochs=case["epochs"], feature_dim=64, hidden_dim=64, lr=1e-3, discount=0.99,
)
if case["bonus"] == "rnd":
    agent.set(reward=RND(envs, device="cpu"))
agent.train(block, log_interval=10**9, save_interval=10**9)
wall, cpu = time.perf_counter(), time.process_time()
agent.train(case["blocks"] * block, log_interval=10**9, save_interval=10**9)
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
steps = case["blocks"] * block
print(json.dumps({"wall": steps / wall, "cpu": steps / cpu}))
"""

SINGLE_FILE = """
import json, sys, time
import torch
torch.set_num_threads(1)
sys.path.insert(0, sys.argv[2])
import cleanrl_ppo
case = json.loads(sys.argv[1])
block = case["envs"] * case["rollout"]
def run(blocks):
    args = cleanrl_ppo.Args(
        env_id=case["env"], steps=blocks * block, num_envs=case["envs"], num_steps=case["rollout"],
        epochs=case["epochs"], minibatches=case["minibatches"], bonus="none",
    )
    envs = cleanrl_ppo.make_envs(args)
    wall, cpu = time.perf_counter(), time.process_time()
    cleanrl_ppo.train(args, envs)
    return time.perf_counter() - wall, time.process_time() - cpu
run(1)
wall, cpu = run(case["blocks"])
steps = case["blocks"] * block
print(json.dumps({"wall": steps / wall, "cpu": steps / cpu}))
"""
JAX = """
import json, os, sys, time
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
import jax
from rejax import PPO
case = json.loads(sys.argv[1])
block = case["envs"] * case["rollout"]
steps = case["blocks"] * block
agent = PPO.create(
    env=case["env"], total_timesteps=steps, eval_freq=steps, num_envs=case["envs"], num_steps=case["rollout"],
    num_epochs=case["epochs"], num_minibatches=case["minibatches"], learning_rate=1e-3, ent_coef=0.01, gamma=0.99,
    normalize_observations=True, skip_initial_evaluation=True, eval_callback=lambda *rest: (),
    agent_kwargs={"hidden_layer_sizes": (64, 64), "activation": "tanh"},
)
train = jax.jit(agent.train)
jax.block_until_ready(train(jax.random.PRNGKey(0)))
wall, cpu = time.perf_counter(), time.process_time()
jax.block_until_ready(train(jax.random.PRNGKey(1)))
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
print(json.dumps({"wall": steps / wall, "cpu": steps / cpu}))
"""
EXAMPLES = Path(__file__).parents[1] / "examples"


@dataclass(frozen=True)
class Case:
    """One environment, as ours and as the others know it."""

    name: str
    env_id: str
    settings: dict[str, Any]
    sb3_env: str
    envs: int
    blocks: int
    rollout: int = 128
    vector: bool = True
    """Whether rllte and the single file can do it: vectors and, for the latter, discrete actions."""
    discrete_env: str | None = None
    """The environment for the single file, if it is another."""
    jax_env: str | None = None
    """The environment as gymnax has it."""


CASES = {
    case.name: case
    for case in (
        Case(
            "mountain-car",
            "lpm/MountainCar-v0",
            {},
            "MountainCarContinuous-v0",
            8,
            20,
            discrete_env="MountainCar-v0",
            jax_env="MountainCarContinuous-v0",
        ),
        Case("cartpole", "CartPole-v1", {}, "CartPole-v1", 64, 5, jax_env="CartPole-v1"),
        Case("cartpole-python", "CartPole-v1", {"vectorization_mode": "sync"}, "CartPole-v1", 64, 5),
        Case("atari", "lpm/Atari-v0", {"game": "breakout"}, "ale:BreakoutNoFrameskip-v4", 16, 2, 32, vector=False),
    )
}
EPOCHS, MINIBATCHES = 4, 4


def agent_of(case: Case, bonus: str) -> Any:
    """Our PPO with a bonus, as `lpm train` builds it."""
    from lpm.agents import PPOConfig
    from lpm.core.registry import configure
    from lpm.experiments.experiment import parse_method
    from lpm.runs import RunConfig, build

    method = parse_method(bonus)
    config = RunConfig(
        case.env_id,
        bonus=method.bonus,
        bonus_settings=configure(method.bonus, **method.fields),
        policy=method.policy,
        env=case.settings,
        device="cpu",
        agent=PPOConfig(num_envs=case.envs, rollout_steps=case.rollout, epochs=EPOCHS, minibatches=MINIBATCHES),
    )
    return build(config)


def ours(case: Case, bonus: str) -> dict[str, Any]:
    """One measurement in this process: a block to warm up, then `case.blocks`."""
    import torch

    from lpm.sweeps.job import keep_freed_memory

    torch.set_num_threads(1)
    keep_freed_memory()  # as in the processes of lpm train
    agent = agent_of(case, bonus)
    agent.cycle()
    before = {**agent.collector.seconds, **agent.seconds}
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(case.blocks):
        agent.cycle()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    spent = {part: seconds - before[part] for part, seconds in {**agent.collector.seconds, **agent.seconds}.items()}
    steps = case.blocks * case.envs * case.rollout
    shares = {part: seconds / wall for part, seconds in spent.items()}
    return {"wall": steps / wall, "cpu": steps / cpu, "shares": shares}


def in_child(command: list[str]) -> dict[str, Any]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:  # one learner that does not run takes nothing from the others
        why = (done.stderr.strip().splitlines() or ["no message"])[-1]
        print(f"{command[0]}: {why}", file=sys.stderr)
        return {"wall": math.nan, "cpu": math.nan, "error": why}
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def measure(
    case: Case, bonuses: list[str], sb3: str | None, rllte: str | None, jax: str | None, repeats: int
) -> dict[str, Any]:
    """Print a table of one environment and return it as it is stored."""
    found: dict[str, list[dict[str, Any]]] = {}
    settings = {
        "env": case.sb3_env,
        "envs": case.envs,
        "blocks": case.blocks,
        "rollout": case.rollout,
        "epochs": EPOCHS,
        "minibatches": MINIBATCHES,
    }
    for _ in range(repeats):
        for bonus in bonuses:
            child = [sys.executable, __file__, "--child", case.name, bonus]
            found.setdefault(f"lpm ppo + {bonus}", []).append(in_child(child))
        if sb3 is not None:
            found.setdefault("sb3 ppo", []).append(in_child([sb3, "-c", SB3, json.dumps(settings)]))
        if case.vector:
            words = json.dumps({**settings, "env": case.discrete_env or case.sb3_env})
            child = [sys.executable, "-c", SINGLE_FILE, words, str(EXAMPLES)]
            found.setdefault("single-file ppo (CleanRL style)", []).append(in_child(child))
        if rllte is not None and case.vector:
            for bonus in ("none", "rnd"):
                words = json.dumps({**settings, "bonus": bonus})
                found.setdefault(f"rllte ppo + {bonus}", []).append(in_child([rllte, "-c", RLLTE, words]))
        if jax is not None and case.jax_env is not None:
            words = json.dumps({**settings, "env": case.jax_env, "blocks": 10 * case.blocks})
            found.setdefault("rejax ppo (compiled)", []).append(in_child([jax, "-c", JAX, words]))
    base = found.get("sb3 ppo")
    rows = []
    print(f"\n{case.name}: {case.envs} environments, blocks of {case.rollout} steps, median of {repeats}")
    print(f"{'':48}{'steps/s':>10}{'per CPU s':>11}{'vs sb3':>8}{'(CPU)':>8}   time in")
    for name, results in found.items():
        if any("error" in result for result in results):
            why = next(result["error"] for result in results if "error" in result)
            print(f"{name:48}does not run: {why[:100]}")
            rows.append([name, "does not run", "", ""])
            continue
        wall, cpu = (statistics.median(result[key] for result in results) for key in ("wall", "cpu"))
        ratios = ["", ""]
        if base:
            # pairs of one round, so that a change of load between rounds does not count
            ratios = [
                f"{statistics.median(a[key] / b[key] for a, b in zip(results, base, strict=True)):.2f}"
                for key in ("wall", "cpu")
            ]
        shares = "  ".join(f"{part} {share:.0%}" for part, share in results[0].get("shares", {}).items())
        print(f"{name:48}{wall:>10,.0f}{cpu:>11,.0f}{ratios[0]:>8}{ratios[1]:>8}   {shares}")
        rows.append([name, f"{cpu:,.0f}", ratios[1], shares.replace("  ", ", ")])
    columns = [case.name, "steps per CPU second", "beside SB3", "where the time goes"]
    return {"columns": columns, "rows": rows, "rounds": repeats, "load": os.getloadavg()[0], "machine": machine()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sb3", help="Python with stable-baselines3")
    parser.add_argument("--rllte", help="Python with rllte-core and gymnasium 0.29.1")
    parser.add_argument("--jax", help="Python with rejax")
    parser.add_argument("--json", type=Path, help="also write training_CASE.json into this folder")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument(
        "--bonuses", nargs="+", default=["none", "lpm", "lgn", "rnd"], help="NAME or NAME:FIELD=VALUE,..."
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(ours(CASES[options.child[0]], options.child[1])))
        return
    for name in options.cases:
        table = measure(CASES[name], options.bonuses, options.sb3, options.rllte, options.jax, options.repeats)
        if options.json:
            write_atomic(options.json / f"training_{name}.json", json.dumps(table, indent=1).encode())


if __name__ == "__main__":
    main()
