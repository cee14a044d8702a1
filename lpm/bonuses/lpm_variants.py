"""Named settings of LPM: the paper read literally, and what the authors' published code computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Algorithm 1 and nothing else: one gate, g's raw output, no standardisation.
_LITERAL: dict[str, Any] = {"gate_fitted": False, "affine": False, "normalise": "none"}

_MNIST: dict[str, Any] = {
    "dynamics_hidden": (784, 784, 784),
    "dynamics_skip": True,
    "error_hidden": (256, 128, 64),
    "error_floor": 1e-6,
    "queue_size": 100,
    "batch_size": 32,
    "error_batch_size": 32,
    "dynamics_steps": 1,
    "error_steps": 1,
}
_MINIWORLD: dict[str, Any] = {
    "activation": "relu",
    "features": None,
    "dynamics_hidden": (512,),
    "error_hidden": (256, 128),
    "queue_size": 100,
    "batch_size": 64,
    "error_batch_size": 32,
    "dynamics_steps": 1,
    "error_steps": 1,
}
_ATARI: dict[str, Any] = {
    "activation": "leaky_relu",
    "features": 512,
    "dynamics_hidden": (512,),
    "error_hidden": (256, 128),
}
# The release: linear space, no gate, no replay (the buffer is the queue's window and the current rollout).
_RELEASE: dict[str, Any] = {**_LITERAL, "form": "exp", "gate_full": False, "error_floor": 1e-6}

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "paper": {**_LITERAL, "queue_size": 100},
    "paper-mnist": {**_LITERAL, **_MNIST},
    "paper-miniworld": {**_LITERAL, **_MINIWORLD},
    "paper-atari": {**_LITERAL, **_ATARI, "queue_size": 128},
    "release-mnist": {
        **_RELEASE,
        **_MNIST,
        "reward_scale": 0.2,
        "error_outputs": 784,
        "error_every": 5,
        "buffer_size": 100,
        "replay": "latest",
    },
    "release-miniworld": {
        **_RELEASE,
        **_MINIWORLD,
        "reward_cap": 0.5,
        "clamp": (-10.0, 10.0),
        "error_lr": 1e-2,
        "error_every": 5,
        "buffer_size": 100,
        "replay": "latest",
    },
    "release-atari": {
        **_RELEASE,
        **_ATARI,
        "exp_weight": 0.4,
        "clamp": (-10.0, 10.0),
        "normalise": "scalar",
        "warmup": 10_000,
        "dynamics_lr": 1e-4,
        "error_lr": 1e-4,
        "queue_size": 16_384,
        "buffer_size": 16_384,
        "replay": "latest",
        "batch_size": 1024,
        "error_batch_size": 32,
        "dynamics_steps": 24,
        "error_steps": 24,
    },
    "release-montezuma": {
        **_LITERAL,
        "form": "rnd",
        "gate_full": False,
        "normalise": "scalar",
        "warmup": 10_000,
        "rnd_weight": 0.1,
        "dynamics_lr": 1e-4,
        "error_lr": 1e-4,
        "error_hidden": (512, 512),
        "queue_size": 10_000,
        "replay": "latest",
        "batch_size": 2048,
        "error_batch_size": 128,
        "dynamics_steps": 24,
        "error_steps": 24,
    },
}
