"""Pictures of environments for reports."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

import lpm.envs  # noqa: F401  (registers our ids)
from lpm.experiments.evidence import Frame


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
        frames.append(Frame(caption, png(np.asarray(env.render()))))
        env.close()
    return tuple(frames)


def png(pixels: NDArray[Any]) -> bytes:
    """(H, W, 3) pixels as a PNG."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(stream, "PNG", optimize=True)
    return stream.getvalue()
