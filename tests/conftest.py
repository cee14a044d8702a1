import os
import signal
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import settings

# programs that tests start import the library that is tested, not another one that is installed
_library = find_spec("lpm")
assert _library is not None
assert _library.origin is not None
_paths = [str(Path(_library.origin).parents[1]), os.environ.get("PYTHONPATH", "")]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, _paths))

# the machine may be busy: a slow example is not a failure, and the same examples are tried every time
settings.register_profile("project", deadline=None, derandomize=True)
settings.load_profile("project")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _interruptible() -> None:
    # a shell starts background jobs with SIGINT ignored, and programs that the tests start inherit that
    signal.signal(signal.SIGINT, signal.default_int_handler)
