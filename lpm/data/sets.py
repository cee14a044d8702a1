"""The two data sets: what their files are called, where they come from, and what stands in for them."""

import functools
import importlib.util
import io
import os
import sys
import tarfile
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from lpm.data.download import (
    DataError,
    Unreachable,
    cache_folder,
    data_folder,
    download,
    missing_package,
    read_verified,
)
from lpm.storage.files import write_atomic

Split = Literal["train", "test"]
Bytes = npt.NDArray[np.uint8]
StandIn = tuple[Bytes, Bytes, str]
"""Images, labels and what they are."""

_announced: set[str] = set()


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Labelled images, read-only, with a note of where they really came from."""

    images: Bytes
    """uint8, (n, height, width) for grey images or (n, height, width, 3) for colour."""
    labels: npt.NDArray[np.integer[Any]]
    """Class of each image, (n,)."""
    source: str
    """What was really used; belongs in the results."""
    complete: bool
    """True for the full split of the named data set, False for a subset or a stand-in."""

    def __post_init__(self) -> None:
        # Sets are shared between callers, so hand out read-only views; a caller's own arrays stay writable.
        for name, array in (("images", self.images), ("labels", self.labels)):
            view = array.view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    def __len__(self) -> int:
        return len(self.images)


def mnist(split: Split = "train") -> ImageSet:
    """MNIST, (n, 28, 28) uint8 with labels 0..9, from the first source that works (see ``lpm.data``)."""
    return _load(MNIST, split, os.environ.get("LPM_DATA", ""), os.environ.get("LPM_CACHE", ""))


def cifar10(split: Split = "train") -> ImageSet:
    """CIFAR-10, (n, 32, 32, 3) uint8 with labels 0..9, from the first source that works (see ``lpm.data``).

    The last resort are crops of a few photographs: natural images for a noisy TV, not CIFAR-10. Their label
    is the number of the photograph.
    """
    return _load(CIFAR10, split, os.environ.get("LPM_DATA", ""), os.environ.get("LPM_CACHE", ""))


@dataclass(frozen=True, eq=False)
class DataSet:
    """One data set."""

    name: str
    """As people call it; its cache folder is named after it."""
    files: dict[Split, tuple[str, ...]]
    """The files of each split."""
    sha256: dict[str, str]
    """Checksums of their unpacked content, so that plain and gzipped copies are both recognised."""
    addresses: tuple[str, ...]
    """Where they can be downloaded."""
    downloads: dict[str, str]
    """What is downloaded, with its checksum."""
    parse: Callable[[Sequence[bytes]], tuple[Bytes, Bytes]]
    """The content of a split's files as images and labels."""
    stand_in: Callable[[], StandIn | None] = lambda: None
    """Images that can be had without any of this; None where there are none."""


@functools.cache
def _load(kind: DataSet, split: Split, data_variable: str, cache_variable: str) -> ImageSet:
    """One load per set, split and setting; the two variables are only the key."""
    if split not in get_args(Split):
        raise ValueError(f"split: expected one of {get_args(Split)}, got {split!r}")
    folder = data_folder()
    if folder is not None:
        if _has(kind, folder, split):
            return _complete(kind, folder, split, "LPM_DATA folder")
        if kind is CIFAR10 and (folder / SUBSET).is_file():
            return _subset(folder / SUBSET, split)
    cache = cache_folder() / kind.name.lower().replace("-", "")
    if _has(kind, cache, split):
        return _complete(kind, cache, split, "user cache")
    try:
        host = download(kind.addresses, kind.downloads, cache)
    except Unreachable as error:
        stand_in = kind.stand_in()
        if stand_in is None:
            unpacked = f" (unpacked: {', '.join(kind.sha256)})" if kind is CIFAR10 else ""
            raise DataError(
                f"{kind.name}: no source works here ({error}). On another machine download {', '.join(kind.downloads)} "
                f"from {kind.addresses[0]}, and set LPM_DATA to a folder with these files{unpacked}."
            ) from error
        images, labels, source = stand_in
        announce(kind.name, f"{source}. {kind.name} is out of reach ({error}); LPM_DATA can name a folder with it.")
        return ImageSet(*part(images, labels, split), source, complete=False)
    for archive in (cache / name for name in kind.downloads if name.endswith(".tar.gz")):
        _unpack(archive, kind.sha256)
    return _complete(kind, cache, split, f"downloaded from {host}")


def part(images: Bytes, labels: Bytes, split: Split) -> tuple[Bytes, Bytes]:
    """Divide a small set that stands in for both splits: every fifth image is test, the rest train.

    The small sets are sorted by class, so this keeps the classes balanced without drawing random numbers.
    """
    keep = (np.arange(len(images)) % 5 == 4) == (split == "test")
    return images[keep], labels[keep]


def announce(name: str, message: str) -> None:
    """Say on stderr what is used for the data set ``name``, once per process."""
    if name not in _announced:
        _announced.add(name)
        print(f"lpm: {message}", file=sys.stderr)


def quiet() -> None:
    """No more messages in this process: for workers whose parent has printed what is used."""
    _announced.update(("MNIST", "CIFAR-10"))


def _find(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _has(kind: DataSet, folder: Path, split: Split) -> bool:
    missing = [name for name in kind.files[split] if _find(folder, name) is None]
    if missing and len(missing) < len(kind.files[split]):
        raise DataError(f"{folder}: holds a part of {kind.name} {split} only. Add {', '.join(missing)} (plain or .gz).")
    return not missing


def _complete(kind: DataSet, folder: Path, split: Split, place: str) -> ImageSet:
    paths = {name: _find(folder, name) or folder / name for name in kind.files[split]}
    contents = [read_verified(path, kind.sha256[name]) for name, path in paths.items()]
    source = f"{kind.name} complete, {place}"
    announce(kind.name, source)
    return ImageSet(*kind.parse(contents), source, complete=True)


def _unpack(archive: Path, names: Container[str]) -> None:
    """Replace an archive (whose checksum was right) by the named files in it; nothing else is read."""
    with tarfile.open(archive) as members:
        for member in members:
            name = Path(member.name).name
            stream = members.extractfile(member) if name in names and member.isreg() else None
            if stream is not None:
                write_atomic(archive.parent / name, stream.read())
    archive.unlink()


# --- MNIST ---


def _parse_mnist(contents: Sequence[bytes]) -> tuple[Bytes, Bytes]:
    """Images and labels of two idx files, whose headers have 16 and 8 bytes; their checksums were right."""
    images, labels = contents
    return np.frombuffer(images, np.uint8, offset=16).reshape(-1, 28, 28), np.frombuffer(labels, np.uint8, offset=8)


MNIST = DataSet(
    name="MNIST",
    files={"train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
           "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")},
    sha256={
        "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
    addresses=("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
    downloads={
        "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    },
    parse=_parse_mnist,
)  # fmt: skip

# --- CIFAR-10 ---

SUBSET = "cifar10_test_5000.npz"
SUBSET_SHA256 = "7393174b5008b8a68708b566e2b36617a8771578b91ab55e3d63f794996bb265"
PHOTOGRAPHS = {
    "china.jpg": "8378025ad2519d649d02e32bd98990db4ab572357d9f09841c2fbfbb4fefad29",
    "flower.jpg": "a77f6ec41e353afdf8bdff2ea981b2955535d8d83294f8cfa49cf4e423dd5638",
}
CROPS = 10_000


def from_records(contents: Sequence[bytes]) -> tuple[Bytes, Bytes]:
    """Images and labels of the binary version: a label byte, then a red, a green and a blue plane each."""
    table = np.frombuffer(b"".join(contents), dtype=np.uint8).reshape(-1, 3073)
    images = np.ascontiguousarray(table[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    return images, table[:, 0].copy()


def _subset(path: Path, split: Split) -> ImageSet:
    with np.load(io.BytesIO(read_verified(path, SUBSET_SHA256)), allow_pickle=False) as arrays:
        images, labels = part(arrays["images"], arrays["labels"], split)
    source = "CIFAR-10 subset: 5,000 JPEG-compressed test images from the LPM_DATA folder, 4 of 5 as train"
    announce("CIFAR-10", source)
    return ImageSet(images, labels, source, complete=False)


def _crops_of_photographs() -> StandIn | None:
    """Crops of the two photographs that come with scikit-learn, if it is installed here; it is not imported."""
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        return None
    folder = Path(package.origin).parent / "datasets" / "images"
    photographs = [decode(read_verified(folder / name, checksum)) for name, checksum in PHOTOGRAPHS.items()]
    source = f"not CIFAR-10: {CROPS:,} random crops of the photographs {', '.join(PHOTOGRAPHS)}, 4 of 5 as train"
    return *crops(photographs, CROPS), source


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

    def shrunk(photograph: Bytes, scale: int) -> Bytes:
        """Mean over blocks of ``scale`` x ``scale`` pixels."""
        height, width = photograph.shape[0] // scale, photograph.shape[1] // scale
        blocks = photograph[: height * scale, : width * scale].reshape(height, scale, width, scale, 3)
        return np.asarray(blocks.mean(axis=(1, 3)).round().astype(np.uint8))

    sizes = [[shrunk(photograph, scale) for scale in (1, 2, 4)] for photograph in photographs]
    labels = rng.integers(len(photographs), size=n)
    scales = rng.integers(3, size=n)
    corners = rng.random((n, 2))
    images = np.empty((n, 32, 32, 3), dtype=np.uint8)
    for i in range(n):
        photograph = sizes[labels[i]][scales[i]]
        top, left = (int(corners[i, axis] * (photograph.shape[axis] - 31)) for axis in (0, 1))
        images[i] = photograph[top : top + 32, left : left + 32]
    return images, labels.astype(np.uint8)


CIFAR10 = DataSet(
    name="CIFAR-10",
    files={"train": tuple(f"data_batch_{i}.bin" for i in range(1, 6)), "test": ("test_batch.bin",)},
    # The binary version: its records are plain bytes. The Python version is a pickle, which can run code.
    sha256={
        "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    },
    addresses=("https://www.cs.toronto.edu/~kriz/",),
    downloads={"cifar-10-binary.tar.gz": "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
    parse=from_records,
    stand_in=_crops_of_photographs,
)
