"""Pictures of environments for reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

import lpm.envs  # noqa: F401  (registers our ids)
from lpm.experiments.evidence import Frame
from lpm.files import png_bytes


def rendered(env_id: str, cases: Mapping[str, Mapping[str, Any]], steps: int, seed: int = 0) -> tuple[Frame, ...]:
    """One picture a case (caption to arguments of the environment), after some random steps.

    A report must not need the packages of an environment: where one is missing there are no pictures.
    """
    frames = []
    for caption, arguments in cases.items():
        try:
            env = gymnasium.make(env_id, render_mode="rgb_array", disable_env_checker=True, **arguments)
        except ImportError:
            return ()
        env.reset(seed=seed)
        env.action_space.seed(seed)
        for _ in range(steps):
            *_, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()
        frames.append(Frame(caption, png_bytes(np.asarray(env.render(), dtype=np.uint8))))
        env.close()
    return tuple(frames)
