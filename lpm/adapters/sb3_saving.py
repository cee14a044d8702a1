"""A Stable-Baselines3 model and its bonus on disk: the model's zip, and a companion file beside it."""

from __future__ import annotations

import io
from pathlib import Path

from stable_baselines3.common.base_class import BaseAlgorithm

from lpm.adapters._state import Stateful, read_about, read_state, write_state
from lpm.files import write_atomic


def companion(path: str | Path) -> Path:
    """Where the bonus of a model saved at `path` is kept.

    >>> companion("runs/model.zip").name, companion("runs/model").name
    ('model.bonus.pt', 'model.bonus.pt')
    """
    path = Path(path)
    return path.with_name(f"{path.name.removesuffix('.zip')}.bonus.pt")


def save(model: BaseAlgorithm, intrinsic: Stateful, path: str | Path) -> None:
    """Save the model as `model.save` does, and its bonus in a companion file; each is written whole or not at all.

    `intrinsic` is the IntrinsicCallback or IntrinsicReplayBuffer. Stored transitions are saved by
    `model.save_replay_buffer`.
    """
    path = Path(path)
    content = io.BytesIO()
    model.save(content)
    write_state(companion(path), intrinsic, num_timesteps=model.num_timesteps)
    write_atomic(path if path.suffix else path.with_name(f"{path.name}.zip"), content.getvalue())


def load_bonus(model: BaseAlgorithm, intrinsic: Stateful, path: str | Path) -> None:
    """Put back the bonus of a model that was saved at `path` and has just been loaded from there."""
    file = companion(path)
    if not file.exists():
        raise ValueError(f"{file}: expected the bonus of this model; lpm.adapters.sb3.save writes it beside the model")
    steps = read_about(file)["num_timesteps"]
    if steps != model.num_timesteps:
        raise ValueError(
            f"{file}: expected the bonus of step {model.num_timesteps}, as the model, got that of step {steps}"
        )
    read_state(file, intrinsic)
