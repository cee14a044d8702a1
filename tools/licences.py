"""Writes LICENCES.md: what `pip install lpm-exploration[all,adapters]` brings, with each package's licence.

    python tools/licences.py            # write it, from the metadata of what is installed
    python tools/licences.py --check    # 1 if it is not up to date

Packages for other systems (NVIDIA's libraries, for one) are not installed here and not listed.
"""

from __future__ import annotations

import argparse
import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "LICENCES.md"
HEADER = """# Licences

`lpm-exploration` is MIT-licensed ([LICENSE](LICENSE)). The wheel has no code of others in it. `tools/licences.py`
writes this file.

In the repository, for the documentation only: [KaTeX](docs/katex), MIT ([licence](docs/katex/LICENSE)).

Installed with `lpm-exploration[all,adapters]` on a machine without an NVIDIA card, as each package states it:

| package | licence | with |
|---|---|---|
"""


def canonical(name: str) -> str:
    """The name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def brought(extras: tuple[str, ...] = ("all", "adapters")) -> dict[str, Distribution]:
    """Every installed package that the project with ``extras`` asks for, and what those ask for."""
    found: dict[str, Distribution] = {}
    asked: set[tuple[str, str]] = set()
    waiting = [("lpm-exploration", extra) for extra in ("", *extras)]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in asked:
            continue
        asked.add((name, extra))
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        found[name] = package
        for text in package.requires or []:
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                waiting += [(canonical(needed.name), wanted) for wanted in ("", *needed.extras)]
    del found["lpm-exploration"]
    return found


def licence(package: Distribution) -> str:
    """What the metadata state: the SPDX expression, else the classifiers, else the first line of a text."""
    stated = package.metadata.get_all("License-Expression") or []
    stated = stated or [
        line.rpartition(" :: ")[2]
        for line in package.metadata.get_all("Classifier") or []
        if line.startswith("License :: ") and line.count(" :: ") > 1
    ]
    stated = stated or (package.metadata.get("License") or "").strip().splitlines()[:1]
    files = [file for file in package.files or [] if file.name.upper().startswith("LICEN")]
    stated = stated or [file.read_text().strip().splitlines()[0] for file in files[:1]]
    return ", ".join(stated) or "not stated"


def page() -> str:
    """The whole file."""
    core = brought(())
    rows = [
        f"| {name} | {licence(package)} | {'the package' if name in core else 'an extra'} |\n"
        for name, package in sorted(brought().items())
    ]
    return HEADER + "".join(rows)


def main() -> int:
    """Write or check; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, 1 if it would change")
    if parser.parse_args().check:
        return int(FILE.read_text(encoding="utf-8") != page())
    FILE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
