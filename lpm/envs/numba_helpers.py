"""Kernels: compiled with numba where it is installed, run as plain Python with equal results where it is not."""

import hashlib
import tempfile
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar, cast
from unittest.mock import patch

import numpy as np

from lpm.utils.versions import pip_install

Kernel = TypeVar("Kernel", bound=Callable[..., object])


def compiled(kernel: Kernel) -> Kernel:
    """Compile a kernel that works on arrays and scalars only; it runs without the GIL and is cached on disk.

    No `fastmath`: results are the same on every machine. No `parallel`: numba's thread pools do not survive a fork,
    so callers split the work over Python threads instead.
    """
    try:
        from numba import config, njit
    except ImportError:
        return uncompiled(kernel)
    folder = _cache_folder()
    # numba reads the folder when it decorates; the kernels of other packages keep their own
    with patch.object(config, "CACHE_DIR", folder or ""):
        return cast(Kernel, njit(nogil=True, cache=folder is not None, error_model="numpy")(kernel))


@cache
def _cache_folder() -> str | None:
    """Where compiled kernels are kept: `NUMBA_CACHE_DIR`, or the user's cache folder; None if it cannot be written.

    Never in the package: files that pip did not install stay behind when it uninstalls, and shadow the next install.
    numba notices a change in a kernel's own file only, so our folder is named after the sources of all of them.
    """
    from numba import config
    from numba.misc.appdirs import AppDirs

    folder: str = vars(config)["CACHE_DIR"]
    if not folder:
        sources = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))))
        user: Any = AppDirs
        folder = str(Path(user("lpm", appauthor=False).user_cache_dir) / "numba" / sources.hexdigest()[:16])
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return None
    return folder


def uncompiled(kernel: Kernel) -> Kernel:
    """The kernel as plain Python; 64-bit counters wrap around silently, as they do in compiled code."""

    @wraps(kernel)
    def call(*args: object) -> object:
        with np.errstate(over="ignore"):
            return kernel(*args)

    return cast(Kernel, call)


def numba_threads(what: str) -> int:
    """The threads numba would use (`NUMBA_NUM_THREADS`); without numba, an error that says how to get it."""
    try:
        from numba import config
    except ImportError as error:
        raise ImportError(f"{what} needs numba: {pip_install('maze')}") from error
    return int(vars(config)["NUMBA_NUM_THREADS"])
