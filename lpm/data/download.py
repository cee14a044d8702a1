"""Data files: checksums, the two folders, downloads."""

import gzip
import hashlib
import importlib.util
import io
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from lpm.utils.versions import pip_install


class DataError(ValueError):
    """A data file is corrupt or no source could be reached. The message says what to do."""


# The largest file of either data set has 47,040,016 bytes. The limit stops a gzip bomb.
MAX_BYTES = 64 * 1024 * 1024


def read_content(path: Path) -> bytes:
    """Content of a file, unpacked when the name ends in .gz."""
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise DataError(f"{path}: expected at most {MAX_BYTES:,} bytes, got {size:,}. {_advice(path)}")
    raw = path.read_bytes()
    if path.suffix != ".gz":
        return raw
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as stream:
            content = stream.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise OSError(f"unpacks to more than {MAX_BYTES} bytes")
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: damaged gzip file ({error}). {_advice(path)}") from error
    return content


def read_verified(path: Path, expected: str) -> bytes:
    """Content of a file (unpacked) whose SHA-256 must be ``expected``."""
    content = read_content(path)
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise DataError(
            f"{path}: wrong checksum. Expected sha256 {expected} of the unpacked content, found {found} "
            f"({len(content)} bytes). {_advice(path)}"
        )
    return content


def _advice(path: Path) -> str:
    return (
        f"The file is damaged or not the original: delete {path.name} to have it fetched again, "
        "or replace it by a good copy, or point LPM_DATA at a folder that has one."
    )


def data_folder() -> Path | None:
    """The folder in LPM_DATA, or None when the variable is unset or empty."""
    value = os.environ.get("LPM_DATA", "")
    if not value:
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        raise DataError(f"LPM_DATA: expected an existing folder, got {value!r}. Create it or unset it.")
    return folder


def cache_folder() -> Path:
    """Where fetched data is kept: LPM_CACHE, or the operating system's cache folder for ``lpm``."""
    value = os.environ.get("LPM_CACHE", "")
    if value:
        return Path(value).expanduser()
    try:
        import pooch
    except ImportError as error:
        raise missing_package("pooch") from error
    return Path(pooch.os_cache("lpm"))


class Unreachable(Exception):
    """No address gave the files; the message says why."""


def download(addresses: Sequence[str], checksums: Mapping[str, str], folder: Path) -> str:
    """Download files (name -> SHA-256) into ``folder`` from the first address that has them all; returns its host.

    A file gets its final name only after its checksum was found right; each is tried twice on every address.
    """
    try:
        import pooch
        import requests
    except ImportError as error:
        raise missing_package("pooch") from error
    if importlib.util.find_spec("tqdm") is None:  # pooch draws its progress bar with it
        raise missing_package("tqdm")
    pooch.get_logger().setLevel("ERROR")  # the progress bar and our own error say enough
    problems = []
    for address in addresses:
        host = urlsplit(address).netloc
        files = pooch.create(folder, address, registry=dict(checksums), retry_if_failed=1)
        try:
            for name in checksums:
                files.fetch(name, downloader=pooch.HTTPDownloader(progressbar=True, timeout=(3.0, 30.0)))
        except (requests.RequestException, OSError, ValueError) as error:  # ValueError: a wrong checksum
            problems.append(f"{host}: {type(error).__name__}")
        else:
            return host
    raise Unreachable("; ".join(problems))


def missing_package(name: str) -> ImportError:
    """The error for an optional package that is not installed."""
    return ImportError(
        f"the package {name!r} is needed to fetch or decode data: {pip_install('data')} "
        "(or point LPM_DATA at a folder with the files)"
    )
