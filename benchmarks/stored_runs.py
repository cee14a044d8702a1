"""Runs that are kept: one JSON file each, and none is run twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lpm.storage.files import write_atomic


def stored(path: Path, asked: Mapping[str, Any], run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The run that `path` holds, or a new one, kept there; a file of other settings than those `asked` is refused."""
    if path.exists():
        kept: dict[str, Any] = json.loads(path.read_text())
        settings = kept.get("settings", kept)
        found = {name: settings.get(name) for name in asked}
        if found != asked:
            raise ValueError(f"{path}: expected a run of {dict(asked)}, got one of {found}; use another folder")
        return kept
    result = run()
    write_atomic(path, json.dumps(result).encode() + b"\n")
    return result
