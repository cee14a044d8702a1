"""All that is said of colour, for page and figures: one hue a family of methods, which the class of a bonus states."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

RECOMMENDED = "lgn"
"""First in legends and tables, in the strongest colour, with the thickest line."""
PAPER = "lpm"
"""The paper's own method: always among those in focus."""
REFERENCES = ("cell_counts",)
"""Methods that know what a bonus cannot: shown in tables, never ranked or called the best."""
NO_OTHERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Family:
    """Methods that reward the same thing."""

    label: str
    light: str
    """Colour on a light page and in figures."""
    dark: str


FAMILIES: Mapping[str, Family] = {
    "recommended": Family("learnability-gated novelty", "#d4290b", "#ff7350"),
    "progress": Family("learning progress", "#0b5fc0", "#68adff"),
    "novelty": Family("novelty over the run", "#00805a", "#3fcf9f"),
    "episodic": Family("novelty within the episode", "#748f00", "#b9dc3c"),
    "error": Family("prediction error", "#8a3ab3", "#d19bf2"),
    "disagreement": Family("disagreement and information gain", "#9a6a00", "#ecbb45"),
    "floor": Family("no bonus", "#59626b", "#aab5c0"),
    "other": Family("other", "#0a7d8c", "#4cc8d8"),
}
"""In the order of legends."""

TINTS, DASHES = (0.0, -0.45, 0.35), 3
"""Members of a family in turn: first other tints of its hue, then other dashes, see `Look`."""
_CLASS = re.compile(r'((?:@register\("\w+"[^\n]*\n)+)class .*?\n    family = "(\w+)"', re.DOTALL)


@cache
def declared() -> dict[str, str]:
    """Registered name to the family that its class states. The sources are read: a page imports no bonus."""
    bonuses = find_spec("lpm.bonuses")
    folders = bonuses.submodule_search_locations if bonuses else None
    files = [file for folder in folders or () for file in sorted(Path(folder).glob("*.py"))]
    for point in entry_points(group="lpm.bonuses"):
        with suppress(Exception):  # whatever another package raises: its bonus is then of no known family
            spec = find_spec(point.module)
            files.append(Path(spec.origin or "") if spec else Path())
    found = {"random": "floor", "cell_counts": "floor"}
    for file in files:
        for names, family in _CLASS.findall(file.read_text(encoding="utf-8") if file.is_file() else ""):
            found |= dict.fromkeys(re.findall(r'register\("(\w+)"', names), family)
    first = (RECOMMENDED, PAPER, "none", "rnd", "icm", "ensemble", "etd", "noveld")  # the best known of their families
    return dict(sorted(found.items(), key=lambda item: (item[0] not in first, item[0])))


@dataclass(frozen=True)
class Look:
    """How a method is drawn."""

    family: str
    tint: float
    """Share of white in the colour; of black, if negative (on a dark page the other way round)."""
    dash: int
    """0 solid, 1 dashed, 2 dotted."""

    @property
    def colour(self) -> str:
        """On white."""
        parts, end = bytes.fromhex(FAMILIES[self.family].light[1:]), 255 if self.tint > 0 else 0
        return "#" + "".join(f"{round(part + (end - part) * abs(self.tint)):02x}" for part in parts)


def family_of(method: str, own: Mapping[str, str] = NO_OTHERS) -> str:
    """The family of a method by its bonus's name, which "-" and anything may follow; else as `own` says.

    >>> family_of("lpm-slow"), family_of("rnd"), family_of("mine"), family_of("mine", {"mine": "novelty"})
    ('progress', 'novelty', 'other', 'novelty')
    """
    known = declared()
    family = known.get(method.replace("-", "_")) or known.get(method.partition("-")[0]) or own.get(method, "other")
    return family if family in FAMILIES else "other"


def in_order(methods: Iterable[str], own: Mapping[str, str] = NO_OTHERS) -> list[str]:
    """As given, the recommended one first, then its variants.

    >>> in_order(["lpm", "lgn_lifelong", "rnd", "lgn"])
    ['lgn', 'lgn_lifelong', 'lpm', 'rnd']
    """
    return sorted(methods, key=lambda method: (method != RECOMMENDED, family_of(method, own) != "recommended"))


def looks(methods: Iterable[str], own: Mapping[str, str] = NO_OTHERS) -> dict[str, Look]:
    """Method to look. A bonus that is installed looks the same on every page and in every figure."""
    found: dict[str, Look] = {}
    present = list(dict.fromkeys(methods))
    for name in FAMILIES:
        members = {m: m.replace("-", "_") for m in present if family_of(m, own) == name}
        known = [bonus for bonus, family in declared().items() if family == name]
        places = [*known, *(key for key in members.values() if key not in known)]
        for method, key in members.items():
            dash, tint = divmod(places.index(key), len(TINTS))
            found[method] = Look(name, TINTS[tint], dash % DASHES)
    return {method: found[method] for method in in_order(present, own)}


def colours_css() -> str:
    """The hues as CSS variables, light and dark."""
    return ":root {" + "".join(f" --{n}: light-dark({f.light}, {f.dark});" for n, f in FAMILIES.items()) + " }"
