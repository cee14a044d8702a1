"""Noise-robust exploration for reinforcement learning.

``import lpm`` costs nothing: names are loaded on first use, so that torch is imported only when needed.

>>> import lpm
>>> "lpm" in lpm.names()
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lpm.adapters.gymnasium import Intrinsic as Intrinsic
    from lpm.core.bonus import IntrinsicReward as IntrinsicReward
    from lpm.core.check import check_intrinsic as check_intrinsic
    from lpm.core.mixer import MixerConfig as MixerConfig
    from lpm.core.mixer import RewardMixer as RewardMixer
    from lpm.core.registry import make as make
    from lpm.core.registry import names as names
    from lpm.core.registry import register as register
    from lpm.core.spaces import Spaces as Spaces
    from lpm.core.transitions import Transitions as Transitions
    from lpm.storage.state_file import load_state as load_state
    from lpm.storage.state_file import save_state as save_state

__version__ = "0.1.0"

_HOMES = {
    "Intrinsic": "lpm.adapters.gymnasium",
    "IntrinsicReward": "lpm.core.bonus",
    "MixerConfig": "lpm.core.mixer",
    "RewardMixer": "lpm.core.mixer",
    "Spaces": "lpm.core.spaces",
    "Transitions": "lpm.core.transitions",
    "check_intrinsic": "lpm.core.check",
    "load_state": "lpm.storage.state_file",
    "make": "lpm.core.registry",
    "names": "lpm.core.registry",
    "register": "lpm.core.registry",
    "save_state": "lpm.storage.state_file",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'lpm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
