"""Compiled kernels are cached outside the package: what pip did not install stays behind when it uninstalls."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")

ROOT = Path(__file__).parents[2]
STEP = "from lpm.envs.mountain_car import cell_at; cell_at(0.1, 0.0)"  # the smallest kernel


def _step(package: Path, home: Path, **more: str) -> None:
    env = {**os.environ, "PYTHONPATH": str(package), "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1", **more}
    for name in {"NUMBA_CACHE_DIR", "XDG_CACHE_HOME"} - set(more):
        env.pop(name, None)
    done = subprocess.run([sys.executable, "-c", STEP], env=env, cwd=home, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def _kernels(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.suffix in (".nbi", ".nbc")]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, as pip would install it."""
    shutil.copytree(ROOT / "lpm", tmp_path / "installed" / "lpm", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "installed"


def test_kernels_are_cached_in_the_users_folder_and_not_in_the_package(package: Path, tmp_path: Path) -> None:
    home, before = tmp_path / "home", sorted((tmp_path / "installed").rglob("*"))
    home.mkdir()
    _step(package, home)
    assert sorted(package.rglob("*")) == before
    first = _kernels(home)
    assert first
    _step(package, home)
    assert sorted(_kernels(home)) == sorted(first)  # found again
    other = package / "lpm" / "envs" / "rng.py"
    other.write_text(f"{other.read_text()}\n# edited\n")
    _step(package, home)
    assert len(_kernels(home)) == 2 * len(first)  # a kernel may take constants from another file


def test_numbas_own_setting_is_respected(package: Path, tmp_path: Path) -> None:
    home, chosen = tmp_path / "home", tmp_path / "chosen"
    home.mkdir()
    _step(package, home, NUMBA_CACHE_DIR=str(chosen))
    assert _kernels(chosen)
    assert not _kernels(home)
    assert not _kernels(package)


def test_a_home_that_cannot_be_written_means_no_cache(package: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "file").touch()  # no folder can be made below a file, whoever asks
    _step(package, home, XDG_CACHE_HOME=str(home / "file"), LOCALAPPDATA=str(home / "file"), HOME=str(home / "file"))
    assert not _kernels(home)
    assert not _kernels(package)


@pytest.mark.slow
def test_an_editable_install_after_an_ordinary_one_works(tmp_path: Path) -> None:
    """`pip install .`, run, `pip install -e .`, import: files left in site-packages/lpm used to shadow the clone."""
    import venv

    setuptools = pytest.importorskip("setuptools", "77")
    venv.create(tmp_path / "venv", with_pip=True)
    python = next(path for path in (tmp_path / "venv").glob("*/python*") if path.is_file())
    site = next((tmp_path / "venv").rglob("site-packages"))
    clone = tmp_path / "clone"
    shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns(".git", ".venv", "results", "__pycache__", "runs"))
    # nothing is downloaded: this interpreter's setuptools builds, and its other packages are found after the venv's own
    shutil.rmtree(site / "setuptools", ignore_errors=True)
    shutil.copytree(Path(setuptools.__file__).parent, site / "setuptools")
    others = f"import sys; sys.path += {[path for path in sys.path if path.endswith('site-packages')]}\n"
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NUMBA_CACHE_DIR")}
    env["HOME"] = env["XDG_CACHE_HOME"] = str(tmp_path / "home")

    def run(*words: str) -> str:
        done = subprocess.run([str(python), *words], env=env, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    install = ("-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation")
    where = "import lpm; print(lpm.names.__module__, lpm.__file__)"
    run(*install, str(clone))
    assert str(site) in run("-c", others + where)
    run("-c", others + STEP)
    run(*install, "-e", str(clone))
    assert str(clone / "lpm" / "__init__.py") in run("-c", others + where)
