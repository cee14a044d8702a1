"""Bonuses and learners give the CPU's numbers on an accelerator: a pretended one, and a real one where there is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from device_cases import BREACHES, CASES

FAST = [name for name in CASES if name.endswith("/vector") or name in ("rnd/moved", "lgn/image", "lgn/continuous")] + [
    "PPO/continuous",
    "A2C/discrete",
]
READ_OUT = {"agent.py:raw_bonus", "agent.py:_values", "agent.py:batch"}
"""Where the learners need numbers on the CPU: rewards and values for the mixer and the advantages."""


def pretended(cases: list[str]) -> dict[str, Any]:
    """What `pretend_device.py` found, in a process of its own: the device stays for the life of a process."""
    pytest.importorskip("torch.utils.backend_registration")
    if not hasattr(torch.utils.backend_registration, "_setup_privateuseone_for_python_backend"):
        pytest.skip("this torch cannot have a device in Python")
    program = Path(__file__).parent / "pretend_device.py"
    done = subprocess.run([sys.executable, program, *cases], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == len(cases)
    return found


def check(cases: list[str]) -> None:
    found = pretended(cases)
    errors = {name: case["error"][:500] for name, case in found.items() if "error" in case}
    assert not errors
    copied = {name: set(case["to_cpu"]) - {"outside"} for name, case in found.items()}
    assert not {name: places for name, places in copied.items() if places and name.split("/")[0] not in ("PPO", "A2C")}
    assert set().union(*copied.values()) <= READ_OUT


def test_on_a_pretended_device() -> None:
    check(FAST)


@pytest.mark.slow
def test_every_case_on_a_pretended_device() -> None:
    check(list(CASES))


def test_the_pretended_device_refuses_what_a_gpu_refuses() -> None:
    found = pretended(list(BREACHES))
    assert "tensors on the CPU" in found["breach/mixed"]["error"]
    assert "a CPU generator" in found["breach/generator"]["error"]
    assert found["breach/copy"]["to_cpu"] == {"outside": 3}


ACCELERATOR = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else None


@pytest.mark.skipif(ACCELERATOR is None, reason="no CUDA or MPS device here")
@pytest.mark.parametrize("case", sorted(CASES))
def test_on_a_real_device(case: str) -> None:
    CASES[case](torch.device(str(ACCELERATOR)))
