"""Environment steps per second of one run against the number of its processes.

    python benchmarks/processes.py --processes 1 2 --json rates.json -- lpm/MountainCar-v0 --bonus lgn --steps 2e5

What follows `--` is what `lpm train` gets; it should run for a minute or more, on the machine that is to be planned
for and with nothing else on it. `tools/plan_run.py` makes hours and cost of the file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from lpm.runs.machine import machine
from lpm.storage.files import write_atomic


def measure(words: list[str], processes: int) -> dict[str, Any]:
    """One run to its end: its speed, and where its time went."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        start = [sys.executable, *(launcher if processes > 1 else []), "-m", "lpm", "train"]
        subprocess.run([*start, *words, "--out", str(out), "--checkpoint-seconds", "1e9"], check=True)
        result = json.loads((out / "result.json").read_text())
    shares = result["time_shares"]
    return {"processes": processes, "steps_per_second": result["steps_per_second"], "time_shares": shares}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("words", nargs="+", help="what lpm train gets")
    given = parser.parse_args()
    rates = [measure(given.words, count) for count in given.processes]
    columns = ["processes", "steps/s", "against one process"]
    first = rates[0]["steps_per_second"]
    rows = [
        [str(rate["processes"]), f"{rate['steps_per_second']:,.0f}", f"{rate['steps_per_second'] / first:.2f}×"]
        for rate in rates
    ]
    found = {"machine": machine(), "train": given.words, "rates": rates, "columns": columns, "rows": rows}
    write_atomic(given.json, json.dumps(found, indent=1).encode())
    for row in (columns, ["---"] * 3, *rows):
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
