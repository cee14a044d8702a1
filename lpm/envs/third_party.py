"""Environments of other packages: found by their id, and made readable for agents that see one array."""

import difflib
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Literal

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Dict, Graph, Sequence, Space, Text, flatdim

from lpm.envs.atari import AtariVector
from lpm.envs.minigrid import MiniGridVector, View, grid_class
from lpm.utils.versions import pip_install

Wrap = Literal["auto", "flatten", "image", "none"]
"""auto: only what cannot be read otherwise, MiniGrid's codes one-hot, ALE's games preprocessed; flatten: one vector,
one-hot for discrete values; image: the picture of a dictionary alone; none: as it is."""
WRAPS: tuple[Wrap, ...] = ("auto", "flatten", "image", "none")

# Start of an id -> module that registers it, and our extra for it, if any. Gymnasium has loaded no plug-ins since 1.0.
REGISTRARS: Mapping[str, tuple[str, str]] = {
    "lpm/": ("lpm.envs", ""),
    "ALE/": ("ale_py", "atari"),
    "MiniGrid-": ("minigrid", "minigrid"),
    "BabyAI-": ("minigrid", "minigrid"),
    "MiniWorld-": ("miniworld", ""),
}

Wrapper = Callable[[gymnasium.Env[Any, Any]], gymnasium.Wrapper[Any, Any, Any, Any]]


def find_spec(env_id: str) -> EnvSpec:
    """The registration of an id, `module:id` included; a ValueError says what to install or which id is near."""
    module, _, name = env_id.rpartition(":")
    if module:
        _import(module, f"{env_id}: no module {module!r}: expected an installed package or {module}.py in this folder")
    for start, (registrar, extra) in REGISTRARS.items():
        if name.startswith(start) and name not in gymnasium.registry:
            command = pip_install(extra) if extra else f"pip install {registrar}"
            _import(registrar, f"{env_id} needs the package {registrar!r}: {command}")
    try:
        return gymnasium.spec(name)
    except gymnasium.error.Error as error:
        raise ValueError(f"unknown environment {env_id!r}; {_near(name)}") from error


def _import(module: str, otherwise: str) -> None:
    try:
        import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name is None or module.split(".")[0] != missing.name.split(".")[0]:
            raise  # the module is there, and lacks something itself
        raise ValueError(otherwise) from missing


def _near(name: str) -> str:
    """Other versions of the same name, or else the most alike ids."""
    known = sorted(gymnasium.registry)
    base = name.rpartition("-v")[0] or name
    versions = [other for other in known if other.rpartition("-v")[0] == base]
    if near := versions or difflib.get_close_matches(name, known, n=3):
        return f"did you mean {' or '.join(near)}?"
    return "lpm envs lists ours, gymnasium.pprint_registry() all; an id of your own is given as module:id"


def wrappers_for(space: Space[Any], wrap: Wrap) -> tuple[Wrapper, ...]:
    """What to put around an environment with this observation space; nothing if it is one array already.

    >>> from gymnasium.spaces import Discrete
    >>> len(wrappers_for(Discrete(3), "auto")), len(wrappers_for(Box(0, 1, (2,)), "auto"))
    (1, 0)
    """
    if wrap not in WRAPS:
        raise ValueError(f"wrap: expected one of {', '.join(WRAPS)}, got {wrap!r}")
    if wrap == "none" or (isinstance(space, Box) and wrap == "auto"):
        return ()
    pictures = [key for key, part in space.items() if _is_picture(part)] if isinstance(space, Dict) else []
    if wrap == "image" and isinstance(space, Box) and _is_picture(space):
        return ()
    if wrap == "image" and len(pictures) != 1:
        raise ValueError(f"--wrap image: expected one picture in the observation, got {space}")
    if wrap == "image" or (wrap == "auto" and len(pictures) == 1):
        return (partial(_only, key=pictures[0]),)
    if isinstance(space, (Graph, Sequence, Text)):
        raise ValueError(f"observations of {space} have no fixed size: no wrapper makes them one array")
    if isinstance(space, Dict):
        numbers = [key for key, part in space.items() if _has_fixed_size(part)]
        if numbers and len(numbers) < len(space):
            drop = partial(gymnasium.wrappers.FilterObservation, filter_keys=numbers)
            return (drop, gymnasium.wrappers.FlattenObservation)
    return (gymnasium.wrappers.FlattenObservation,)


def _has_fixed_size(space: Space[Any]) -> bool:
    try:
        flatdim(space)
    except (NotImplementedError, ValueError):  # texts, graphs, spaces of somebody's own
        return False
    return not isinstance(space, Text)


def _only(env: gymnasium.Env[Any, Any], key: str) -> gymnasium.Wrapper[Any, Any, Any, Any]:
    """One entry of a dictionary, such as MiniGrid's image."""
    space: Any = env.observation_space
    return gymnasium.wrappers.TransformObservation(env, itemgetter(key), space[key])


def _is_picture(space: Space[Any]) -> bool:
    return isinstance(space, Box) and len(space.shape) in (2, 3) and min(space.shape[:2]) > 1


def make_readable(
    env_id: str, num_envs: int, wrap: Wrap = "auto", **arguments: Any
) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """`gymnasium.make_vec`, wrapped as far as `wrap` says."""
    spec = find_spec(env_id)
    if _is_grid(spec, wrap):
        return MiniGridVector(spec.id, num_envs, **{"observation": _grid_view(wrap, arguments), **arguments})
    if _is_game(spec, wrap):
        return _make_game(spec, num_envs, arguments)
    if spec.id.startswith("ALE/"):
        arguments = {"vectorization_mode": "sync", **arguments}  # ale-py's own batch is preprocessed
    envs = gymnasium.make_vec(env_id, num_envs=num_envs, **arguments)
    wrappers = wrappers_for(envs.single_observation_space, wrap)
    if not wrappers:
        return envs
    envs.close()
    # environments one by one: a vector environment of somebody's own takes no wrappers
    arguments = {**arguments, "vectorization_mode": "sync"}
    return gymnasium.make_vec(env_id, num_envs=num_envs, wrappers=wrappers, **arguments)


def reading_note(env_id: str, wrap: Wrap, arguments: Mapping[str, Any] = MappingProxyType({})) -> str:
    """One line on what an agent sees of MiniGrid and ALE environments; empty for others."""
    spec = find_spec(env_id)
    if _is_grid(spec, wrap):
        seen = {"onehot": "codes one-hot, with the direction", "flat": "codes as numbers, with the direction"}
        view = seen.get(_grid_view(wrap, arguments), "codes as a picture, without the direction")
        return f"Observations: {view}; the mission is left out."
    if _is_game(spec, wrap):
        sticky = spec.kwargs.get("repeat_action_probability", 0.0)
        frames = "84x84 gray, 4 frames repeated and 4 stacked; up to 30 no-ops at the start"
        return f"Observations: {frames}, sticky actions {sticky:g}. --wrap none leaves the game as it is."
    return ""


_GRID_VIEWS: Mapping[str, View] = {"auto": "onehot", "flatten": "flat", "image": "image"}


def _grid_view(wrap: Wrap, arguments: Mapping[str, Any]) -> View:
    """One-hot codes unless noise is added to the codes, as numbers."""
    return "flat" if wrap == "auto" and arguments.get("noise") == "gaussian" else _GRID_VIEWS[wrap]


def _is_grid(spec: EnvSpec, wrap: Wrap) -> bool:
    return wrap in _GRID_VIEWS and grid_class(spec) is not None


def _is_game(spec: EnvSpec, wrap: Wrap) -> bool:
    return wrap == "auto" and spec.id.startswith("ALE/") and spec.kwargs.get("obs_type") != "ram"


def _make_game(spec: EnvSpec, num_envs: int, arguments: dict[str, Any]) -> AtariVector:
    sticky = spec.kwargs.get("repeat_action_probability", 0.0)
    idle = 2 if arguments.get("noise") else 0
    settings = {"repeat_action_probability": sticky, "idle_actions": idle, **arguments}
    try:
        return AtariVector(num_envs, spec.kwargs["game"], **settings)
    except TypeError as error:
        raise ValueError(f"{spec.id}: {error}; with --wrap none the settings are those of ale-py") from error
