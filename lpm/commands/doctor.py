"""`lpm doctor`: what this machine has, and what is missing for what."""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from lpm.commands.terminal import parse, terminal
from lpm.utils.versions import EXTRAS, pip_install

CPU_WHEELS = "https://download.pytorch.org/whl/cpu"


@dataclass(frozen=True)
class Doctor:
    """Print versions, threads, devices, data and what is missing. Exit status 1 if something installed is broken."""


def run(args: Sequence[str]) -> int:
    """Parse, look, print."""
    parse(Doctor, args)
    console = terminal()
    broken = list(_broken())
    for title, lines in (("Versions", _versions()), ("Compute", _compute()), ("Data", _data()), ("Extras", _extras())):
        console.print(title, style="bold")
        for name, value in lines:
            console.print(f"  {name:<14} {value}")
    for problem in broken:
        console.print(f"broken: {problem}", style="red")
    console.print("Everything that is installed works." if not broken else f"{len(broken)} broken.")
    return 1 if broken else 0


def _versions() -> Iterator[tuple[str, str]]:
    from lpm.runs.machine import machine

    found = machine()
    yield "lpm", found["lpm"]
    yield "python", f"{found['python']} ({sys.executable})"
    yield from found["packages"].items()
    yield "system", f"{found['system']} {found['release']} {found['architecture']}"


def _compute() -> Iterator[tuple[str, str]]:
    import torch

    from lpm.runs.machine import machine

    found = machine()
    yield "processor", f"{found['processor'] or 'unknown'}, {found['cores']} cores"
    limits = [f"{name}={os.environ[name]}" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name in os.environ]
    yield "threads", " ".join((f"torch would use {torch.get_num_threads()}; lpm train uses --threads (1)", *limits))
    devices = ["cpu"]
    if torch.cuda.is_available():
        devices += [f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        devices.append("mps")
    yield "devices", ", ".join(devices)
    if torch.version.cuda and not torch.cuda.is_available():
        smaller = f"smaller: pip install torch --index-url {CPU_WHEELS}"
        yield "hint", f"torch was built for CUDA and there is no GPU; {smaller}"


def _data() -> Iterator[tuple[str, str]]:
    from lpm.data.download import cache_folder

    folder = os.environ.get("LPM_DATA", "")
    there = "" if not folder or os.path.isdir(folder) else " (is not a folder)"
    yield "LPM_DATA", f"{folder}{there}" if folder else "not set: data sets are fetched when they are first needed"
    try:
        cache = cache_folder()
    except ImportError as missing:
        yield "cache", str(missing)
        return
    files = [path for path in cache.rglob("*") if path.is_file()] if cache.is_dir() else []
    yield "cache", f"{cache}: {len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB"


def _extras() -> Iterator[tuple[str, str]]:
    for extra, modules in EXTRAS.items():
        lacks = [module for module in modules if find_spec(module) is None]
        yield extra, f"lacks {', '.join(lacks)}: {pip_install(extra)}" if lacks else "installed"


def _broken() -> Iterator[str]:
    """Bonuses of other packages that cannot be loaded."""
    from lpm.core.registry import lookup, names

    for name in names():
        try:
            lookup(name)
        except ValueError as problem:
            yield str(problem)
