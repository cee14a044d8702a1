"""Data files: checksums, the idx format, the two folders, downloads."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import math
import os
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from lpm.data.images import Bytes, DataError
from lpm.utils.versions import pip_install

# The largest file of either data set has 47,040,016 bytes. The limit stops a gzip bomb.
MAX_BYTES = 64 * 1024 * 1024


def sha256(raw: bytes) -> str:
    """Hexadecimal SHA-256 of ``raw``."""
    return hashlib.sha256(raw).hexdigest()


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
        raise DataError(f"{path}: damaged gzip file ({error}; sha256 {sha256(raw)}). {_advice(path)}") from error
    return content


def read_verified(path: Path, expected: str) -> bytes:
    """Content of a file (unpacked) whose SHA-256 must be ``expected``."""
    content = read_content(path)
    found = sha256(content)
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


def read_idx(path: Path | str) -> Bytes:
    """Read a uint8 idx file (the MNIST format), plain or .gz; magic number, dimensions, length checked."""
    path = Path(path)
    return parse_idx(read_content(path), path)


def parse_idx(raw: bytes, path: Path) -> Bytes:
    """Parse idx content; ``path`` is for the error messages."""
    if len(raw) < 4:
        raise DataError(f"{path}: an idx file starts with a magic number of 4 bytes, got {len(raw)} bytes")
    zeros, kind, ndim = struct.unpack(">HBB", raw[:4])
    if zeros != 0 or kind != 0x08 or not 1 <= ndim <= 4:
        raise DataError(
            f"{path}: expected the magic number 00 00 08 0d (unsigned bytes, d = 1..4 dimensions), "
            f"got {raw[:4].hex(' ')}"
        )
    start = 4 + 4 * ndim
    if len(raw) < start:
        raise DataError(f"{path}: {ndim} dimensions need a header of {start} bytes, got {len(raw)} bytes")
    dims: tuple[int, ...] = struct.unpack(f">{ndim}I", raw[4:start])
    size = math.prod(dims)  # Python integers: a forged header cannot overflow
    if len(raw) - start != size:
        raise DataError(f"{path}: dimensions {dims} need {size} bytes of data, got {len(raw) - start}")
    return np.frombuffer(raw, dtype=np.uint8, offset=start).reshape(dims)


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
