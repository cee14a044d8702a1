"""The file that keeps a bonus beside the model it trained."""

from pathlib import Path
from typing import Any, Protocol

from lpm.adapters._common import Returns
from lpm.core.bonus import IntrinsicReward
from lpm.core.mixer import RewardMixer
from lpm.storage.files import replacing
from lpm.storage.state_file import load, write
from lpm.storage.state_tree import check_like

KIND = "adapter"
PARTS = ("bonus", "mixer", "returns")


class Stateful(Protocol):
    """A part of an adapter that has a bonus and can be saved."""

    bonus: IntrinsicReward
    mixer: RewardMixer
    returns: Returns

    def state_dict(self) -> dict[str, Any]:
        """Everything, as tensors and plain Python."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` saved."""


def parts(adapter: Stateful) -> dict[str, Any]:
    """What the state of every adapter holds."""
    saved = (adapter.bonus.state_dict(), adapter.mixer.state_dict(), adapter.returns.state_dict())
    return dict(zip(PARTS, saved, strict=True))


def load_parts(adapter: Stateful, state: dict[str, Any], **rest: Any) -> None:
    """Restore what `parts` gave; a state that does not fit, in these or in the `rest`, is refused untouched."""
    check_like({**{name: {} for name in PARTS}, **rest}, state, type(adapter).__name__)
    adapter.mixer.check_state(state["mixer"])
    adapter.returns.check_state(state["returns"])
    adapter.bonus.load_state_dict(state["bonus"])
    adapter.mixer.load_state_dict(state["mixer"])
    adapter.returns.load_state_dict(state["returns"])


def write_state(path: str | Path, part: Stateful, **about: int) -> None:
    """Write the state of an adapter and a few integers about it: whole or not at all."""
    with replacing(Path(path)) as stream:
        write(stream, {"bonus": type(part.bonus).__name__, "about": about, "state": part.state_dict()}, KIND)


def read_state(path: str | Path, part: Stateful, **about: int) -> None:
    """Put a state back into an adapter with a bonus of the same kind and sizes; the integers must be as saved."""
    kind, stored = type(part.bonus).__name__, load(Path(path), KIND)
    check_like({"bonus": "", "about": {}, "state": {}}, stored, str(path))
    if stored["bonus"] != kind:
        raise ValueError(f"{path}: expected the state of {kind}, got that of {stored['bonus']}")
    for name, value in about.items():
        if stored["about"].get(name) != value:
            raise ValueError(f"{path}: expected {name} {value}, as the model, got {stored['about'].get(name)}")
    try:
        part.load_state_dict(stored["state"])
    except (RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: does not fit this {kind}: {error}") from error
