"""Stable-Baselines3's PPO with a bonus: one argument more, and the bonus saved beside the model.

python examples/sb3_ppo.py --bonus lgn --steps 50000 --save runs/ppo
python examples/sb3_ppo.py --bonus lgn --steps 50000 --save runs/ppo --resume
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

import lpm.envs  # noqa: F401  (registers lpm/MountainCar-v0)
from lpm.adapters.sb3 import IntrinsicCallback, load_bonus, save


def main() -> None:
    """Train, save, say both returns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="lpm/MountainCar-v0")
    parser.add_argument("--bonus", default="lgn", help="a name of `lpm bonuses`")
    parser.add_argument("--weight", type=float, help="of the bonus; the library's default if left out")
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--num-envs", type=int, default=8)
    parser.add_argument("--rollout", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, help="where the model goes; its bonus goes beside it")
    parser.add_argument("--resume", action="store_true", help="go on from --save")
    options = parser.parse_args()
    if options.resume and options.save is None:
        parser.error("--resume needs --save, the model to go on from")
    torch.set_num_threads(1)
    env = make_vec_env(options.env, n_envs=options.num_envs, seed=options.seed)
    if options.resume:
        model = PPO.load(options.save, env=env, device="cpu")
    else:
        model = PPO("MlpPolicy", env, n_steps=options.rollout, batch_size=256, seed=options.seed, device="cpu")
    intrinsic = IntrinsicCallback(options.bonus, options.weight, seed=options.seed)
    if options.resume:
        load_bonus(model, intrinsic, options.save)
    model.learn(options.steps, callback=intrinsic, reset_num_timesteps=not options.resume)
    if options.save is not None:
        save(model, intrinsic, options.save)
    returns = ", ".join(f"{name} {value:.2f}" for name, value in intrinsic.returns.means().items())
    print(f"reached after {model.num_timesteps} steps, {intrinsic.rollouts} rollouts: {returns or 'no episode ended'}")


if __name__ == "__main__":
    main()
