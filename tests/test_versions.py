"""The command that adds an extra works for the installation at hand, wherever that came from."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from lpm.utils import versions


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """An installation that is no clone; its note about where it came from is to be filled in."""
    origin: dict[str, Any] = {}

    class Distribution:
        @staticmethod
        def read_text(_: str) -> str | None:
            return json.dumps(origin) if origin else None

    monkeypatch.setattr(versions, "__file__", str(tmp_path / "site-packages" / "lpm" / "utils" / "versions.py"))
    monkeypatch.setattr(versions, "distribution", lambda _: Distribution)
    return origin


def test_from_an_index(installed: dict[str, Any]) -> None:
    assert versions.pip_install("maze") == 'pip install "lpm-exploration[maze]"'


def test_from_a_git_address(installed: dict[str, Any]) -> None:
    installed.update(url="https://host/lpm.git", vcs_info={"vcs": "git", "commit_id": "1f3a"})
    assert versions.pip_install("maze") == 'pip install "lpm-exploration[maze] @ git+https://host/lpm.git@1f3a"'


def test_from_a_folder_while_it_is_there(installed: dict[str, Any], tmp_path: Path) -> None:
    clone = tmp_path / "my clone"
    installed.update(url=clone.as_uri(), dir_info={})
    assert versions.pip_install("maze") == 'pip install "lpm-exploration[maze]"'
    clone.mkdir()
    assert versions.pip_install("maze") == f'pip install "{clone}[maze]"'


def test_from_a_wheel(installed: dict[str, Any], tmp_path: Path) -> None:
    wheel = tmp_path / "lpm.whl"
    wheel.touch()
    installed.update(url=wheel.as_uri(), archive_info={})
    assert versions.pip_install("maze") == f'pip install "lpm-exploration[maze] @ {wheel.as_uri()}"'


def test_in_a_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(versions, "__file__", str(tmp_path / "lpm" / "utils" / "versions.py"))
    assert versions.pip_install("maze") == f'pip install -e "{tmp_path}[maze]"'


def test_without_any_metadata(installed: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: str) -> None:
        raise PackageNotFoundError

    monkeypatch.setattr(versions, "distribution", none)
    assert versions.pip_install("maze") == 'pip install "lpm-exploration[maze]"'
