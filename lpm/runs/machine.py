"""What a run ran on."""

import os
import platform
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

import lpm
from lpm.utils.versions import versions

PACKAGES = ("torch", "numpy", "gymnasium", "numba", "ale-py", "minigrid")


def run_versions() -> dict[str, str]:
    """Of this library and what it ran with."""
    return {"lpm": lpm.__version__, **versions(*PACKAGES)}


def machine() -> dict[str, Any]:
    """Versions and hardware, as plain values."""
    found = run_versions()
    return {
        "lpm": found.pop("lpm"),
        "python": found.pop("python"),
        "packages": found,
        "system": platform.system(),
        "release": platform.release(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "byteorder": sys.byteorder,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def _processor() -> str:
    with suppress(OSError):
        if found := re.search(r"^model name\s*:(.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE):
            return found[1].strip()
    return platform.processor()
