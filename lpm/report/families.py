"""Families of methods and how each method looks: one hue a family, the bonus that the project recommends first.

Everything about colour is here, for the page and for exported figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

RECOMMENDED = "lgn"
"""First in legends and tables, in the strongest colour, with the thickest line."""
PAPER = "lpm"
"""The paper's own method: always among those in focus."""
REFERENCES = ("oracle",)
"""Methods that know what a bonus cannot: shown in tables, never ranked or called the best."""


NO_OTHERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Family:
    """Methods that reward the same thing."""

    label: str
    light: str
    """Colour on a light page and in figures."""
    dark: str
    methods: tuple[str, ...]
    """Names, with underscores; a name followed by "-" and anything is a variant of it."""


FAMILIES: Mapping[str, Family] = {
    "recommended": Family("learnability-gated novelty", "#d4290b", "#ff7350", ("lgn", "lgn_lifelong")),
    "progress": Family("learning progress", "#0b5fc0", "#68adff", ("lpm", "lpm_slow", "lpm_anchored", "lpm_exp",
                       "pointwise", "curiosity_critic", "gamma_progress", "lpm_release")),
    "novelty": Family("novelty", "#00805a", "#3fcf9f", ("rnd", "etd", "eme", "ngu", "noveld", "count",
                      "episodic_count", "e3b", "re3", "ride", "deir")),
    "error": Family("prediction error", "#8a3ab3", "#d19bf2", ("idf", "icm", "forward_error", "ama",
                    "byol_hindsight")),
    "disagreement": Family("disagreement and information gain", "#9a6a00", "#ecbb45", ("ensemble", "bayes_gain",
                           "lbs", "cig")),
    "floor": Family("no bonus", "#59626b", "#aab5c0", ("none", "random", "oracle")),
    "other": Family("other", "#0a7d8c", "#4cc8d8", ()),
}  # fmt: skip
"""In the order of legends. Methods that are named here look the same on every page."""

TINTS, DASHES = (0.0, -0.45, 0.35), 3
"""Members of a family in turn: first other tints of its hue, then other dashes, see `Look`."""


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
        base = FAMILIES[self.family].light
        parts = (int(base[i : i + 2], 16) for i in (1, 3, 5))
        end = 255 if self.tint > 0 else 0
        return "#" + "".join(f"{round(part + (end - part) * abs(self.tint)):02x}" for part in parts)


def family_of(method: str, own: Mapping[str, str] = NO_OTHERS) -> str:
    """The family of a method: as its name says, else as its bonus's class says (`own`).

    >>> family_of("lpm-slow"), family_of("rnd"), family_of("mine"), family_of("mine", {"mine": "novelty"})
    ('progress', 'novelty', 'other', 'novelty')
    """
    for name, family in FAMILIES.items():
        if any(method.replace("-", "_") == known or method.startswith(f"{known}-") for known in family.methods):
            return name
    return own[method] if own.get(method) in FAMILIES else "other"


def in_order(methods: Iterable[str], own: Mapping[str, str] = NO_OTHERS) -> list[str]:
    """As given, the recommended one first, then its variants.

    >>> in_order(["lpm", "lgn_lifelong", "rnd", "lgn"])
    ['lgn', 'lgn_lifelong', 'lpm', 'rnd']
    """
    return sorted(methods, key=lambda method: (method != RECOMMENDED, family_of(method, own) != "recommended"))


def looks(methods: Iterable[str], own: Mapping[str, str] = NO_OTHERS) -> dict[str, Look]:
    """Method to look. A method that `FAMILIES` names looks the same on every page and in every figure."""
    found: dict[str, Look] = {}
    present = list(dict.fromkeys(methods))
    for name, family in FAMILIES.items():
        members = {m: m.replace("-", "_") for m in present if family_of(m, own) == name}
        places = [*family.methods, *(key for key in members.values() if key not in family.methods)]
        for method, key in members.items():
            dash, tint = divmod(places.index(key), len(TINTS))
            found[method] = Look(name, TINTS[tint], dash % DASHES)
    return {method: found[method] for method in in_order(present, own)}


def colours_css() -> str:
    """The hues as CSS variables, light and dark."""
    return ":root {" + "".join(f" --{n}: light-dark({f.light}, {f.dark});" for n, f in FAMILIES.items()) + " }"
