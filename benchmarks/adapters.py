"""What an adapter costs: time per environment step of a library with a bonus, over the same library alone.

    python benchmarks/adapters.py
    python benchmarks/adapters.py --cases sb3-ppo gymnasium --bonuses none rnd lpm --repeats 3

Every case is measured without an adapter ("bare"), with the adapter and a bonus of zero ("none": the cost of
the adapter alone), and with real bonuses at their default settings. The variants of a case take turns in one process
on one thread, so that a busy machine slows all of them; ratios are medians over rounds. Processor time is read, which
other processes disturb less than wall time.

A case is a function of the name of a bonus, or None for the bare library, that returns a function of a number of
environment steps. Add one with `@case(name, package)`; cases whose package is missing are passed over and named.
"""

from __future__ import annotations

import argparse
import json
import runpy
import statistics
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

import lpm
import lpm.envs
from lpm import MixerConfig
from lpm.storage.files import write_atomic

Run = Callable[[int], None]
ENV = "lpm/MountainCar-v0"
DISCRETE = "MountainCar-v0"  # Gymnasium's own, where the loop is of discrete actions
NUM_ENVS, ROLLOUT = 8, 128
MIXER = MixerConfig(weight=0.1, scale="task")


@dataclass(frozen=True)
class Case:
    """One adapter in one loop."""

    name: str
    package: str
    """What must be installed."""
    build: Callable[[str | None], Run]
    """From the name of a bonus (None: no adapter) to a function that advances training by so many steps."""
    steps: int
    """Environment steps of one measurement."""


CASES: dict[str, Case] = {}


def case(name: str, package: str, steps: int) -> Callable[[Callable[[str | None], Run]], Callable[[str | None], Run]]:
    """Put a function into the table of cases."""

    def enter(build: Callable[[str | None], Run]) -> Callable[[str | None], Run]:
        CASES[name] = Case(name, package, build, steps)
        return build

    return enter


# ---- cases ------------------------------------------------------------------------------------------------
@case("gymnasium", "gymnasium", steps=8 * 1024)
def gymnasium_loop(bonus: str | None) -> Run:
    """A loop of random actions: nothing but the environment, so the ratio is the largest there can be."""
    from lpm.adapters.gymnasium import IntrinsicVectorReward

    envs: Any = gymnasium.make_vec(ENV, num_envs=NUM_ENVS, noise=True)
    if bonus is not None:
        envs = IntrinsicVectorReward(envs, bonus, rollout_steps=ROLLOUT, mixer=MIXER)
    envs.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-1, 1, (ROLLOUT, NUM_ENVS, 2)).astype(np.float32)

    def run(steps: int) -> None:
        for t in range(steps // NUM_ENVS):
            envs.step(actions[t % ROLLOUT])

    return run


def _sb3_envs(num_envs: int, **settings: Any) -> Any:
    from stable_baselines3.common.env_util import make_vec_env

    return make_vec_env(ENV, n_envs=num_envs, seed=0, env_kwargs={"noise": True, **settings})


@case("sb3-ppo", "stable_baselines3", steps=4 * NUM_ENVS * ROLLOUT)
def sb3_ppo(bonus: str | None) -> Run:
    """PPO, 8 environments, rollouts of 128 steps, 10 epochs."""
    from stable_baselines3 import PPO

    from lpm.adapters.sb3 import IntrinsicCallback, make_bonus

    model = PPO("MlpPolicy", _sb3_envs(NUM_ENVS), n_steps=ROLLOUT, batch_size=256, seed=0, device="cpu")
    callback = None if bonus is None else IntrinsicCallback(make_bonus(bonus, model), mixer=MIXER)
    return lambda steps: void(model.learn(steps, callback=callback, reset_num_timesteps=False))


@case("sb3-a2c", "stable_baselines3", steps=4 * NUM_ENVS * ROLLOUT)
def sb3_a2c(bonus: str | None) -> Run:
    """A2C, 8 environments, rollouts of 5 steps; the bonus updates every 25 rollouts."""
    from stable_baselines3 import A2C

    from lpm.adapters.sb3 import IntrinsicCallback, make_bonus

    model = A2C("MlpPolicy", _sb3_envs(NUM_ENVS), seed=0, device="cpu")
    callback = None
    if bonus is not None:
        callback = IntrinsicCallback(make_bonus(bonus, model, rollout_steps=125), mixer=MIXER)
    return lambda steps: void(model.learn(steps, callback=callback, reset_num_timesteps=False))


@case("sb3-sac", "stable_baselines3", steps=256)
def sb3_sac(bonus: str | None) -> Run:
    """SAC, one environment, one gradient step on 256 transitions each step."""
    from stable_baselines3 import SAC

    from lpm.adapters.sb3 import IntrinsicReplayBuffer, make_bonus

    model = SAC("MlpPolicy", _sb3_envs(1), seed=0, device="cpu", buffer_size=10_000)
    if bonus is not None:
        IntrinsicReplayBuffer.attach(model, make_bonus(bonus, model, rollout_steps=ROLLOUT), mixer=MIXER)
    return lambda steps: void(model.learn(steps, reset_num_timesteps=False))


@case("cleanrl-ppo", "gymnasium", steps=4 * NUM_ENVS * ROLLOUT)
def cleanrl_ppo(bonus: str | None) -> Run:
    """The single-file PPO of the examples, 8 environments, rollouts of 128 steps, 4 epochs."""
    example = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "cleanrl_ppo.py"))
    settings = example["Args"](env_id=DISCRETE, num_envs=NUM_ENVS, num_steps=ROLLOUT)
    envs = example["make_envs"](settings)
    if bonus is not None:
        envs = lpm.Intrinsic(envs, bonus, rollout_steps=ROLLOUT, mixer=MIXER)

    def run(steps: int) -> None:
        with redirect_stdout(StringIO()):
            example["train"](replace(settings, steps=steps), envs)

    return run


def _torchrl_ppo(bonus: str | None, *, in_env: bool) -> Run:
    from tensordict.nn import TensorDictModule
    from torchrl.collectors import Collector
    from torchrl.envs import GymEnv, SerialEnv, TransformedEnv
    from torchrl.modules import MLP, ProbabilisticActor, ValueOperator
    from torchrl.objectives import ClipPPOLoss
    from torchrl.objectives.value import GAE

    from lpm.adapters.torchrl import IntrinsicLoss, IntrinsicTransform

    env: Any = SerialEnv(NUM_ENVS, lambda: GymEnv(DISCRETE, categorical_action_encoding=True))
    transform = None
    if bonus is not None:
        transform = IntrinsicTransform.of(env, bonus, rollout_steps=ROLLOUT, mixer=MIXER)
        env = TransformedEnv(env, transform) if in_env else env
    policy = ProbabilisticActor(
        TensorDictModule(MLP(2, 3, num_cells=[64, 64]), in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        distribution_class=torch.distributions.Categorical,
        return_log_prob=True,
    )
    value = ValueOperator(MLP(2, 1, num_cells=[64, 64]))
    advantage, loss = GAE(gamma=0.99, lmbda=0.95, value_network=value), ClipPPOLoss(policy, value)
    optimizer = torch.optim.Adam(loss.parameters(), lr=3e-4)
    frames = NUM_ENVS * ROLLOUT
    collector = Collector(
        env,
        policy,
        frames_per_batch=frames,
        total_frames=-1,
        postproc=None if in_env else transform,
        auto_register_policy_transforms=False,
    )
    batches = iter(collector)
    learn = None if transform is None else IntrinsicLoss(transform)

    def run(steps: int) -> None:
        for _ in range(-(-steps // frames)):
            batch = next(batches)
            advantage(batch)
            rows = batch.reshape(-1)
            for _ in range(4):
                for index in torch.randperm(frames).chunk(4):
                    losses = loss(rows[index])
                    optimizer.zero_grad()
                    (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()
                    optimizer.step()
            if learn is not None:
                learn(batch)

    return run


@case("torchrl-ppo", "torchrl", steps=NUM_ENVS * ROLLOUT)
def torchrl_ppo(bonus: str | None) -> Run:
    """Collector, GAE, ClipPPOLoss, 8 environments, 128 steps, 4 epochs; blocks are scored as postproc."""
    return _torchrl_ppo(bonus, in_env=False)


@case("torchrl-ppo-env", "torchrl", steps=NUM_ENVS * ROLLOUT)
def torchrl_ppo_env(bonus: str | None) -> Run:
    """The same with the transform in the environment: every step is scored by itself."""
    return _torchrl_ppo(bonus, in_env=True)


@case("rllib-ppo", "ray", steps=NUM_ENVS * ROLLOUT)
def rllib_ppo(bonus: str | None) -> Run:
    """PPO in one process, 8 environments, batches of 1,024, 4 epochs."""
    import ray
    from ray.rllib.algorithms.ppo import PPOConfig

    from lpm.adapters.rllib import add_intrinsic

    if not ray.is_initialized():
        ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    batch = NUM_ENVS * ROLLOUT
    config = (
        PPOConfig()
        .environment(DISCRETE)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=NUM_ENVS)
        .learners(num_learners=0)
        .training(train_batch_size_per_learner=batch, minibatch_size=batch // 4, num_epochs=4)
        .debugging(seed=0)
    )
    if bonus is not None:
        add_intrinsic(config, bonus, mixer=MIXER)
    algorithm = config.build_algo()

    def run(steps: int) -> None:
        for _ in range(-(-steps // batch)):
            algorithm.train()

    return run


# ---- measuring --------------------------------------------------------------------------------------------
def void(value: Any) -> None:
    """For loops that return something."""


def measure(case: Case, bonuses: list[str], repeats: int) -> dict[str, list[float]]:
    """Seconds of processor time per environment step, of each variant in each round."""
    variants: dict[str, str | None] = {"bare": None, **{name: name for name in bonuses}}
    runs = {name: case.build(bonus) for name, bonus in variants.items()}
    for run in runs.values():
        run(max(case.steps // 4, 128))  # warm up: first calls, first updates
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.process_time()
            run(case.steps)
            found[name].append((time.process_time() - start) / case.steps)
    return found


def table(found: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Median time per step, the cost over the bare library, and the ratio in the same round."""
    bare = found["bare"]
    return [
        {
            "variant": name,
            "us_per_step": 1e6 * statistics.median(seconds),
            "added_us": 1e6 * statistics.median(a - b for a, b in zip(seconds, bare, strict=True)),
            "ratio": statistics.median(a / b for a, b in zip(seconds, bare, strict=True)),
        }
        for name, seconds in found.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=sorted(CASES), default=list(CASES))
    parser.add_argument("--bonuses", nargs="+", default=["none", "rnd", "lpm"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, help="write the rows as JSON as well")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: dict[str, list[dict[str, Any]]] = {}
    for name in options.cases:
        if find_spec(CASES[name].package) is None:
            print(f"\n{name}: passed over, {CASES[name].package} is not installed")
            continue
        rows[name] = table(measure(CASES[name], options.bonuses, options.repeats))
        print(f"\n{name}: median of {options.repeats}, processor time")
        print(f"{'':12}{'us/step':>10}{'added':>10}{'ratio':>8}")
        for row in rows[name]:
            print(f"{row['variant']:12}{row['us_per_step']:>10.1f}{row['added_us']:>10.1f}{row['ratio']:>8.2f}")
    if options.out:
        write_atomic(options.out, json.dumps(rows, indent=1).encode())


if __name__ == "__main__":
    main()
