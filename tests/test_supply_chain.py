"""What is installed, what it is licensed under, and that nothing is fetched unasked."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
FOREIGN = ("nvidia-", "cuda-", "triton")  # of torch's CUDA build


@pytest.fixture(scope="module")
def licences() -> Any:
    spec = importlib.util.spec_from_file_location("licences", ROOT / "tools" / "licences.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def locked() -> dict[str, list[Requirement]]:
    """Name -> its lines in constraints.txt."""
    found: dict[str, list[Requirement]] = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if not line.startswith("#"):
            needed = Requirement(line)
            found.setdefault(re.sub(r"[-_.]+", "-", needed.name).lower(), []).append(needed)
    return found


def test_the_lock_pins_one_version_of_everything_and_names_no_host(licences: Any) -> None:
    lock = locked()
    for lines in lock.values():
        assert all(re.fullmatch(r"==[\w.+!]+", str(line.specifier)) and line.url is None for line in lines), lines
    missing = set(licences.brought(("dev",))) - set(lock)
    assert not missing, "run make lock"


def test_the_lock_is_within_the_projects_own_bounds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lock = locked()
    extras = project["optional-dependencies"]
    for text in [*project["dependencies"], *extras["dev"], *extras["docs"], *extras["release"], *extras["rllib"]]:
        needed = Requirement(text)
        assert needed.specifier or needed.extras, f"{text}: a lower bound is missing"
        for line in lock.get(needed.name.lower(), []):
            version = str(line.specifier).removeprefix("==")
            assert needed.specifier.contains(version), f"{text} is locked at {version}"


def test_every_package_that_is_brought_is_listed_with_its_licence(licences: Any) -> None:
    rows = re.findall(r"^\| ([\w-]+) \| (.+) \| (the package|an extra) \|$", licences.FILE.read_text(), re.MULTILINE)
    listed = {name: licence for name, licence, _ in rows}
    brought = {name for name in licences.brought() if not name.startswith(FOREIGN)}
    assert brought <= set(listed), "run python tools/licences.py"
    assert not [name for name, licence in listed.items() if licence == "not stated"]
    assert not [name for name, licence, by in rows if by == "the package" and "GPL" in licence]


def test_actions_are_pinned_by_their_commit() -> None:
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        for action in re.findall(r"uses: (\S+)", workflow.read_text()):
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), f"{workflow.name}: {action}"


OFFLINE = """
import sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "urllib.Request"):
        raise SystemExit(f"asked the network: {event} {arguments}")

sys.addaudithook(refuse)
"""
IMPORTS = """
import importlib, pkgutil, lpm, lpm_paper
for package in (lpm, lpm_paper):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith(("__main__", "rllib", "torchrl", "ray_train")):
            importlib.import_module(module.name)
"""
TRAINING = """
from lpm.cli import main
main(["train", "lpm/MountainCar-v0", "--env.noise", "True", "--preset", "noisy", "--steps", "1024", "--out", "run"])
"""


def test_neither_imports_nor_a_run_ask_the_network(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE + IMPORTS + TRAINING], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]


def test_the_check_of_the_network_can_fail(tmp_path: Path) -> None:
    work = "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9/')"
    done = subprocess.run([sys.executable, "-c", OFFLINE + work], cwd=tmp_path, capture_output=True, text=True)
    assert "asked the network" in done.stderr
