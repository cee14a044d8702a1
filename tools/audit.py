"""Compare the versions that the project allows and pins with a database of known holes, without a network.

    git clone https://github.com/pypa/advisory-database
    python tools/audit.py advisory-database

Looked at are the least version of every requirement in pyproject.toml and every version in constraints.txt. Where there
is a network, `pip-audit -r constraints.txt` asks a newer database (the workflow does). Exit status 1: something is
known.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parents[1]


def asked_for() -> dict[str, dict[str, str]]:
    """Package to version, once as the least that is allowed and once as it is pinned."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    found: dict[str, dict[str, str]] = {"least": {}, "pinned": {}}
    for requirement in map(Requirement, listed):
        versions = [part.version for part in requirement.specifier if part.operator in (">=", "==")]
        if versions:
            found["least"][_plain(requirement.name)] = versions[0]
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, _, version = line.partition("==")
            found["pinned"][_plain(name)] = version
    return found


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def advisories(database: Path, package: str) -> Iterator[dict[str, Any]]:
    """What the database, a clone with or without files, knows of a package."""
    git = ["git", "-C", str(database)]
    names = subprocess.run(
        [*git, "ls-tree", "--name-only", "HEAD", f"vulns/{package}/"], capture_output=True, text=True
    )
    for name in names.stdout.split():
        shown = subprocess.run([*git, "show", f"HEAD:{name}"], capture_output=True, text=True, check=True)
        yield yaml.safe_load(shown.stdout)


def concerns(advisory: dict[str, Any], package: str, version: str) -> bool:
    """Whether the version is one that the advisory lists, or lies in a range of it."""
    if "withdrawn" in advisory:
        return False
    for entry in advisory.get("affected", ()):
        if _plain(entry["package"]["name"]) != package:
            continue
        if version in entry.get("versions", ()):
            return True
        for span in entry.get("ranges", ()):
            if span["type"] == "ECOSYSTEM" and _within(span["events"], Version(version)):
                return True
    return False


def _within(events: list[dict[str, str]], version: Version) -> bool:
    inside = False
    for event in events:
        for kind, bound in event.items():
            try:
                reached = version >= Version(bound) if kind != "last_affected" else version > Version(bound)
            except InvalidVersion:
                continue
            if reached:
                inside = kind == "introduced"
    return inside


def main(words: list[str] | None = None) -> int:
    """Print what is known; 1 if anything is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database", type=Path, help="a clone of github.com/pypa/advisory-database")
    database = parser.parse_args(words).database
    date = subprocess.run(
        ["git", "-C", str(database), "log", "-1", "--format=%cs"], capture_output=True, text=True, check=True
    ).stdout.strip()
    looked, known = 0, []
    for kind, versions in asked_for().items():
        for package, version in sorted(versions.items()):
            for advisory in advisories(database, package):
                looked += 1
                if concerns(advisory, package, version):
                    names = ", ".join([advisory["id"], *advisory.get("aliases", ())])
                    known.append(f"{kind} {package} {version}: {names}")
    print(*known, sep="\n")
    total = ", ".join(f"{len(versions)} {kind}" for kind, versions in asked_for().items())
    print(f"{total} versions, {looked} advisories of them, database of {date}: {len(known)} known")
    return int(bool(known))


if __name__ == "__main__":
    sys.exit(main())
