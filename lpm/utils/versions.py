"""What is installed: versions that a number was made with, and the command that adds an extra to this installation."""

import json
import platform
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
