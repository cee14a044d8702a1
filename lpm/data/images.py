"""The type every data source returns, and the rules they share."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Split = Literal["train", "test"]
Bytes = npt.NDArray[np.uint8]

_announced: set[str] = set()


class DataError(ValueError):
    """A data file is corrupt or no source could be reached. The message says what to do."""


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
        images, labels = self.images, self.labels
        shape_ok = images.ndim == 3 or (images.ndim == 4 and images.shape[3] == 3)
        if images.dtype != np.uint8 or not shape_ok:
            raise ValueError(
                "images: expected uint8 of shape (n, height, width) or (n, height, width, 3), "
                f"got {images.dtype} {images.shape}"
            )
        if not np.issubdtype(labels.dtype, np.integer) or labels.shape != (len(images),):
            raise ValueError(f"labels: expected integers of shape ({len(images)},), got {labels.dtype} {labels.shape}")
        # Sets are shared between callers, so hand out read-only views; a caller's own arrays stay writable.
        for name, array in (("images", images), ("labels", labels)):
            view = array.view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    def __len__(self) -> int:
        return len(self.images)


def part(images: Bytes, labels: Bytes, split: Split) -> tuple[Bytes, Bytes]:
    """Divide a small set that stands in for both splits: every fifth image is test, the rest train.

    The small sets are sorted by class, so this keeps the classes balanced without drawing random numbers.
    """
    is_test = np.arange(len(images)) % 5 == 4
    keep = is_test if split == "test" else ~is_test
    return images[keep], labels[keep]


def announce(name: str, message: str) -> None:
    """Say on stderr what is used for the data set ``name``, once per process."""
    if name not in _announced:
        _announced.add(name)
        print(f"lpm: {message}", file=sys.stderr)


def quiet() -> None:
    """No more messages in this process: for workers whose parent has printed what is used."""
    _announced.update(("MNIST", "CIFAR-10"))
