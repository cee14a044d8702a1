"""Give bonuses whatever hypothesis thinks of, for minutes or hours, and count what became of it.

    python tools/fuzz_campaign.py --minutes 60 --report results/fuzz/fuzz.json    # adds to the report that is there

The cases are those of `tests/core/test_fuzz.py`: finite rewards or a ValueError, and after a refused call the bonus is
as it was. A round that finds something goes into the report with the smallest case that shows it, and the next round
begins.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "core"))

from hypothesis import given, seed, settings
from hypothesis import strategies as st
from test_fuzz import CALLS, FUZZ, TRIED, attack

from lpm.runs.machine import run_versions
from lpm.storage.files import write_atomic

ROUND = 200
"""Cases between two looks at the clock."""


def one_round(number: int) -> str:
    """Some cases; what was found, or nothing."""

    @seed(number)
    @settings(FUZZ, max_examples=ROUND)
    @given(st.data())
    def cases(data: st.DataObject) -> None:
        attack(data)

    try:
        cases()
    except Exception as problem:  # whatever a bonus raised, with hypothesis's account of the case
        return "\n".join([f"{type(problem).__name__}: {problem}", *getattr(problem, "__notes__", ())])
    return ""


def main(words: list[str] | None = None) -> int:
    """Go on with the campaign; 1 if this part of it found something."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long")
    parser.add_argument("--report", type=Path, required=True, help="counts are written there after every round")
    options = parser.parse_args(words)
    report: dict[str, Any] = {"rounds": 0, "cpu_seconds": 0.0, "tried": {}, "calls": {}, "found": []}
    if options.report.exists():
        report = json.loads(options.report.read_text(encoding="utf-8"))
    before = Counter(report["tried"]), Counter(report["calls"]), report["cpu_seconds"]
    deadline, begun, found = time.monotonic() + 60 * options.minutes, time.process_time(), 0
    while time.monotonic() < deadline:
        problem = one_round(report["rounds"])
        report["rounds"] += 1
        if problem:
            found += 1
            report["found"].append({"round": report["rounds"] - 1, "problem": problem[:4000], "ended_by": ""})
            print(problem, flush=True)
        report["tried"] = dict(sorted((before[0] + TRIED).items()))
        report["calls"] = dict(sorted((before[1] + CALLS).items()))
        report["cpu_seconds"] = round(before[2] + time.process_time() - begun, 1)
        report["versions"] = run_versions()
        write_atomic(options.report, (json.dumps(report, indent=1) + "\n").encode())
        print(report["rounds"], report["tried"], f"{len(report['found'])} found", flush=True)
    return int(found > 0)


if __name__ == "__main__":
    raise SystemExit(main())
