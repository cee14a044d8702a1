import os
import signal

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import settings

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
