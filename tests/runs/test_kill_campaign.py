"""A short form of `tools/kill_campaign.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "kill_campaign.py"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_four_kills(tmp_path: Path) -> None:
    command = [sys.executable, str(TOOL), "--work", str(tmp_path / "work"), "--report", str(tmp_path / "report.json")]
    subprocess.run([*command, "--kills", "4", "--sweeps", "none", "--seed", "1"], check=True, timeout=900)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["problems"] == []
    assert report["kills"] == report["identical"] >= 4
    assert {"write", "fsync", "rename"} & set(report["faults"])
