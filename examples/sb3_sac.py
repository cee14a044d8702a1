"""Stable-Baselines3's SAC with a bonus under VecNormalize: sampled transitions are scored with the bonus as it is now.

python examples/sb3_sac.py --bonus lgn --steps 10000 --save runs/sac
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from stable_baselines3 import SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

import lpm.envs  # noqa: F401  (registers lpm/MountainCar-v0)
from lpm.adapters.sb3 import IntrinsicReplayBuffer, save


def main() -> None:
    """Train, save, say both returns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="lpm/MountainCar-v0")
    parser.add_argument(
        "--bonus", default="lgn", help="a name of `lpm bonuses`; of lgn its form for replayed transitions is taken"
    )
    parser.add_argument("--weight", type=float, help="of the bonus; the library's default if left out")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--num-envs", type=int, default=4)
    parser.add_argument("--rollout-steps", type=int, default=128, help="steps between two updates of the bonus")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, help="where the model goes; its bonus goes beside it")
    options = parser.parse_args()
    torch.set_num_threads(1)
    env = VecNormalize(make_vec_env(options.env, n_envs=options.num_envs, seed=options.seed))
    model = SAC("MlpPolicy", env, batch_size=128, policy_kwargs={"net_arch": [64, 64]}, seed=options.seed, device="cpu")
    intrinsic = IntrinsicReplayBuffer.attach(
        model, options.bonus, options.weight, rollout_steps=options.rollout_steps, seed=options.seed
    )
    model.learn(options.steps)
    if options.save is not None:
        save(model, intrinsic, options.save)
        model.save_replay_buffer(options.save.with_suffix(".replay.pkl"))
        env.save(str(options.save.with_suffix(".vecnormalize.pkl")))
    returns = ", ".join(f"{name} {value:.2f}" for name, value in intrinsic.returns.means().items())
    learnt = f"{intrinsic.updates} updates of the bonus"
    print(f"reached after {model.num_timesteps} steps, {learnt}: {returns or 'no episode ended'}")


if __name__ == "__main__":
    main()
