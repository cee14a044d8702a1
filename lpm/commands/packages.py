"""Optional packages: what brings each of them, so that an error can name the one command that helps."""

import re
from collections.abc import Mapping

from lpm.utils.versions import pip_install

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "data": ("pooch", "tqdm", "PIL"),
    "experiments": ("matplotlib", "scipy"),
    "maze": ("numba",),
    "atari": ("ale_py",),
    "minigrid": ("minigrid",),
    "tensorboard": ("tensorboard",),
    "tune": ("optuna",),
    "wandb": ("wandb",),
    "mlflow": ("mlflow",),
    "ray": ("ray",),
    "sb3": ("stable_baselines3", "sb3_contrib"),
    "torchrl": ("torchrl", "tensordict"),
}
"""Extra of this distribution to the modules that it brings."""
FOREIGN: Mapping[str, str] = {
    "pygame": 'pip install "gymnasium[classic-control]"',
    "Box2D": 'pip install swig "gymnasium[box2d]"',
    "mujoco": 'pip install "gymnasium[mujoco]"',
    "cv2": "pip install opencv-python-headless",
    "moviepy": "pip install moviepy",
}
"""Modules of other people's environments to the command that brings them."""


def command_for(module: str) -> str:
    """The smallest installation that brings a module.

    >>> command_for("numba.core") == pip_install("maze"), command_for("pygame"), command_for("their_package")
    (True, 'pip install "gymnasium[classic-control]"', 'pip install their_package')
    """
    name = module.split(".")[0]
    for extra, modules in EXTRAS.items():
        if name in modules:
            return pip_install(extra)
    return FOREIGN.get(name, f"pip install {name}")


def explained(problem: ImportError) -> str | None:
    """One line about a missing package; None if it is a defect of this one."""
    name = problem.name
    if isinstance(problem, ModuleNotFoundError) and name:
        return None if name.split(".")[0] == "lpm" else f"needs the package {name.split('.')[0]!r}: {command_for(name)}"
    return " ".join(str(problem).split()) or None


def about_dependency(message: str) -> str:
    """The message of Gymnasium's DependencyNotInstalled with a command of ours where the package is known.

    >>> about_dependency("Box2D is not installed, you can install it by run `pip install swig` followed by ...")
    'needs the package \\'Box2D\\': pip install swig "gymnasium[box2d]"'
    """
    for name in FOREIGN:
        if re.search(rf"\b{name}\b", message, re.IGNORECASE):
            return f"needs the package {name!r}: {FOREIGN[name]}"
    return " ".join(message.split())
