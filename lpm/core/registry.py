"""Bonuses by name: ours, and those of other packages through the entry-point group `lpm.bonuses`."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

import torch

from lpm.core.bonus import IntrinsicReward
from lpm.core.settings import check_types, enough_memory
from lpm.core.spaces import Spaces
from lpm.utils.suggest import suggest

GROUP = "lpm.bonuses"

B = TypeVar("B", bound=type[IntrinsicReward])


@dataclass(frozen=True)
class Entry:
    """A registered bonus."""

    name: str
    """The name given to `make`."""
    bonus: type[IntrinsicReward]
    """The class."""
    defaults: dict[str, Any] = field(default_factory=dict)
    """Config fields that this name sets differently from the class."""
    label: str = ""
    """The name in tables and legends."""
    use: str = ""
    """What it is for, in one sentence."""


_ENTRIES: dict[str, Entry] = {}


def register(name: str, *, label: str = "", use: str = "", **defaults: Any) -> Callable[[B], B]:
    """Class decorator: make a bonus available as `make(name, ...)`, perhaps with its own label, use and defaults.

    Packages that should be found without being imported declare an entry point instead, in `pyproject.toml`:

        [project.entry-points."lpm.bonuses"]
        my_bonus = "my_package.my_module:MyBonus"
    """

    def decorate(bonus: B) -> B:
        if not (isinstance(bonus, type) and issubclass(bonus, IntrinsicReward)):
            raise ValueError(f"register({name!r}): expected a subclass of IntrinsicReward, got {bonus!r}")
        if not dataclasses.is_dataclass(getattr(bonus, "Config", None)):
            raise ValueError(f"register({name!r}): {bonus.__name__}.Config must be a (frozen) dataclass")
        known = _ENTRIES.get(name)
        # the same class again is fine: modules are reloaded, notebook cells run twice
        if known is not None and _address(known.bonus) != _address(bonus):
            raise ValueError(f"register({name!r}) for {_address(bonus)}: the name is taken by {_address(known.bonus)}")
        _ENTRIES[name] = Entry(name, bonus, defaults, label or vars(bonus).get("label") or name, use or bonus.use)
        return bonus

    return decorate


def names() -> list[str]:
    """The names of all bonuses that can be made, other packages' included."""
    _load_builtins()
    return sorted({*_ENTRIES, *(point.name for point in entry_points(group=GROUP))})


def lookup(name: str) -> Entry:
    """The entry of a name; an unknown one raises with the nearest names. `package.module:Class` is imported."""
    _load_builtins()
    if name not in _ENTRIES:
        for point in entry_points(group=GROUP, name=name):
            bonus = _load(point)
            # a module that also uses the decorator has registered itself by now, perhaps with defaults
            if name not in _ENTRIES or _ENTRIES[name].bonus is not bonus:
                register(name)(bonus)
    if name not in _ENTRIES and ":" in name:
        register(name)(_load(EntryPoint(name, name, GROUP)))
    if name not in _ENTRIES:
        raise ValueError(f"unknown bonus {name!r}{suggest(name, names())}")
    return _ENTRIES[name]


def configure(name: str, variant: str | None = None, **fields: Any) -> Any:
    """The frozen config of a bonus: its defaults, a named variant's settings, then the given fields."""
    entry = lookup(name)
    variants, known = entry.bonus.variants, [f.name for f in dataclasses.fields(entry.bonus.Config)]
    if variant is not None and variant not in variants:
        raise ValueError(f"unknown variant {variant!r} of {name!r}{suggest(variant, variants)}")
    for given in fields:
        if given not in known:
            raise ValueError(f"{name!r} has no field {given!r}{suggest(given, known)}")
    check_types(entry.bonus.Config, fields)
    named = {} if variant is None else variants[variant]
    return entry.bonus.Config(**{**entry.defaults, **named, **fields})


def make(
    name: str,
    spaces: Spaces,
    *,
    num_envs: int = 1,
    rollout_steps: int = 128,
    seed: int = 0,
    device: str | torch.device = "cpu",
    variant: str | None = None,
    **fields: Any,
) -> IntrinsicReward:
    """Build a bonus.

    `num_envs` and `rollout_steps` size what is kept between two updates; `fields` are those of its config.

    >>> from gymnasium.spaces import Box, Discrete
    >>> bonus = make("lpm", Spaces(Box(-1, 1, (4,)), Discrete(2)), num_envs=8, rollout_steps=64)
    >>> bonus.queue_size
    512
    """
    config, build = configure(name, variant, **fields), lookup(name).bonus
    with enough_memory():
        bonus = build(spaces, config, num_envs=num_envs, rollout_steps=rollout_steps, seed=seed)
    return bonus.to(resolve_device(device))


def resolve_device(device: str | torch.device) -> torch.device:
    """The device meant by a name; "auto" is the best one there is."""
    accelerators = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        return torch.device(next((name for name, present in accelerators.items() if present), "cpu"))
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device: expected 'auto' or the name of a torch device, got {device!r}") from error
    if not accelerators.get(chosen.type, True):
        raise ValueError(f"device: expected one that this machine has, got {str(device)!r}; 'auto' picks the best")
    return chosen


def _address(bonus: type) -> str:
    return f"{bonus.__module__}.{bonus.__qualname__}"


def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:  # whatever another package's import raises, its name belongs to the message
        where = "it" if point.name == point.value else f"its entry point {point.value!r} in group {GROUP!r}"
        raise ValueError(f"bonus {point.name!r}: {where} cannot be loaded: {type(error).__name__}: {error}") from error


def _load_builtins() -> None:
    # by name, not by import statement: core knows that bonuses exist, not what they are
    import_module("lpm.bonuses")
