"""Bonuses in Stable-Baselines3 and sb3-contrib.

On-policy (PPO, A2C, TRPO, RecurrentPPO, MaskablePPO):

    model = PPO("MlpPolicy", env)
    intrinsic = IntrinsicCallback(make_bonus("lpm", model), MixerConfig(weight=0.1))
    model.learn(100_000, callback=intrinsic)

Off-policy (SAC, TD3, DDPG, DQN, TQC, QR-DQN):

    model = SAC("MlpPolicy", env)
    intrinsic = IntrinsicReplayBuffer.attach(model, make_bonus("lpm", model), MixerConfig(weight=0.1))
    model.learn(100_000)
"""

from __future__ import annotations

from lpm.adapters._common import missing
from lpm.core.mixer import MixerConfig

try:
    import stable_baselines3 as _  # noqa: F401
except ImportError as error:
    raise missing("stable-baselines3", "sb3") from error

from lpm.adapters.sb3_model import make_bonus, spaces_of
from lpm.adapters.sb3_offpolicy import IntrinsicReplayBuffer
from lpm.adapters.sb3_onpolicy import IntrinsicCallback
from lpm.adapters.sb3_saving import companion, load_bonus, save

__all__ = [
    "IntrinsicCallback",
    "IntrinsicReplayBuffer",
    "MixerConfig",
    "companion",
    "load_bonus",
    "make_bonus",
    "save",
    "spaces_of",
]
