"""Bonuses in Stable-Baselines3 and sb3-contrib.

On-policy (PPO, A2C, TRPO, RecurrentPPO, MaskablePPO):

    model = PPO("MlpPolicy", env)
    model.learn(100_000, callback=IntrinsicCallback("lgn"))

Off-policy (SAC, TD3, DDPG, DQN, TQC, QR-DQN):

    model = SAC("MlpPolicy", env)
    IntrinsicReplayBuffer.attach(model, "lgn")
    model.learn(100_000)

A model and its bonus on disk (`save`, `load_bonus`) are the model's zip and a companion file beside it.
"""

import io
from pathlib import Path

from lpm.adapters._common import missing
from lpm.adapters._state import Stateful, read_state, write_state
from lpm.core.mixer import MixerConfig
from lpm.storage.files import write_atomic

try:
    from stable_baselines3.common.base_class import BaseAlgorithm
except ImportError as error:
    raise missing("stable-baselines3", "sb3") from error

from lpm.adapters.sb3_model import make_bonus, spaces_of
from lpm.adapters.sb3_offpolicy import IntrinsicReplayBuffer
from lpm.adapters.sb3_onpolicy import IntrinsicCallback

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


def companion(path: str | Path) -> Path:
    """Where the bonus of a model saved at `path` is kept.

    >>> companion("runs/model.zip").name, companion("runs/model").name
    ('model.bonus.safetensors', 'model.bonus.safetensors')
    """
    path = Path(path)
    return path.with_name(f"{path.name.removesuffix('.zip')}.bonus.safetensors")


def save(model: BaseAlgorithm, intrinsic: Stateful, path: str | Path) -> None:
    """Save the model as `model.save` does, and its bonus in a companion file; each is written whole or not at all.

    `intrinsic` is the IntrinsicCallback or IntrinsicReplayBuffer. Stored transitions are saved by
    `model.save_replay_buffer`.
    """
    _ready(model, intrinsic)
    path, content = Path(path), io.BytesIO()
    model.save(content)
    write_state(companion(path), intrinsic, num_timesteps=model.num_timesteps)
    write_atomic(path if path.suffix else path.with_name(f"{path.name}.zip"), content.getvalue())


def load_bonus(model: BaseAlgorithm, intrinsic: Stateful, path: str | Path) -> None:
    """Put back the bonus of a model that was saved at `path` and has just been loaded from there."""
    if isinstance(intrinsic, IntrinsicReplayBuffer) and model.replay_buffer is not intrinsic:  # type: ignore[attr-defined]
        raise ValueError(
            "load_bonus: expected the model's own IntrinsicReplayBuffer, but the model has another replay buffer; "
            "load_replay_buffer replaces it: call that first, then attach, then load_bonus"
        )
    _ready(model, intrinsic)
    file = companion(path)
    if not file.exists():
        raise ValueError(f"{file}: expected the bonus of this model; lpm.adapters.sb3.save writes it beside the model")
    read_state(file, intrinsic, num_timesteps=model.num_timesteps)


def _ready(model: BaseAlgorithm, intrinsic: Stateful) -> None:
    if isinstance(intrinsic, IntrinsicCallback):
        intrinsic.prepare(model)
    elif not isinstance(intrinsic, IntrinsicReplayBuffer):
        raise ValueError(
            f"intrinsic: expected the IntrinsicCallback or IntrinsicReplayBuffer, got {type(intrinsic).__name__}"
        )
