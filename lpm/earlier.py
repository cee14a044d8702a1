"""Settings as earlier versions wrote them, in the words of this one.

Stored results and run folders are never rewritten. They are read through this module, so that a finished run counts as
finished and its numbers stand in the same tables. One rule a change, oldest first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

AGENTS_OWN = {"heads": "value_heads", "episodic": "episodic_bonus"}


def current_tables(tables: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of a `config.toml`."""
    settings = current_settings({"bonus": tables["run"]["bonus"], "fields": tables.get("bonus", {}), "config": tables})
    now: dict[str, Any] = settings["config"]
    policy = {"policy": settings["policy"]} if "policy" in settings else {}
    return {**now, "run": {**now["run"], "bonus": settings["bonus"], **policy}, "bonus": settings["fields"]}


def current_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a stored result: what makes the method, and under "config" what its runs have in common."""
    settings = dict(settings)
    config = settings.get("config")
    if isinstance(config, Mapping):
        settings["config"] = _agents_own_fields(config)
    if settings.get("bonus") == "random":  # uniformly random actions were a bonus
        settings |= {"bonus": "none", "policy": "uniform"}
    if "bonus" in settings and isinstance(settings.get("fields"), Mapping):
        from lpm.core.registry import upgrade  # torch is loaded by those who need it

        settings["bonus"], settings["fields"] = upgrade(settings["bonus"], settings["fields"])
    return settings


def _agents_own_fields(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Two fields of the agent were the mixer's."""
    mixer, algo = tables.get("mixer"), next((name for name in ("ppo", "a2c") if name in tables), "")
    if not (isinstance(mixer, Mapping) and isinstance(tables.get(algo), Mapping)):
        return dict(tables)
    moved = {new: mixer[old] for old, new in AGENTS_OWN.items() if old in mixer}
    kept = {name: value for name, value in mixer.items() if name not in AGENTS_OWN}
    return {**tables, "mixer": kept, algo: {**tables[algo], **moved}}
