"""What is installed: versions that a number was made with, and the commands that bring what is not."""

import json
import platform
import re
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

DISTRIBUTION = "lpm-exploration"


def versions(*packages: str) -> dict[str, str]:
    """Of Python, and of those packages that are installed."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def pip_install(extra: str) -> str:
    """The command that adds an extra, from where this installation came: a clone, a file, a git address or an index."""
    clone = Path(__file__).resolve().parents[2]
    if (clone / "pyproject.toml").is_file():
        return f'pip install -e "{clone}[{extra}]"'
    try:
        origin = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        origin = {}
    return f'pip install "{requirement(origin, extra)}"'


def requirement(origin: Mapping[str, Any], extra: str) -> str:
    """This distribution with an extra, as pip takes it; `origin` is what pip noted about an installation (PEP 610).

    >>> requirement({}, "maze")
    'lpm-exploration[maze]'
    >>> requirement({"url": "https://host/lpm", "vcs_info": {"vcs": "git", "commit_id": "1f3a"}}, "maze")
    'lpm-exploration[maze] @ git+https://host/lpm@1f3a'
    """
    named, url = f"{DISTRIBUTION}[{extra}]", origin.get("url", "")
    if "vcs_info" in origin:
        return f"{named} @ {origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"
    path = Path(url2pathname(urlsplit(url).path)) if url.startswith("file:") else None
    if not url or (path is not None and not path.exists()):  # a clone or file that is gone
        return named
    return f"{path}[{extra}]" if "dir_info" in origin else f"{named} @ {url}"


# ---- what brings the packages that are optional ---------------------------------------------------------------
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
