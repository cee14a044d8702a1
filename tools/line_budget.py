"""Lines per package against the budget in pyproject.toml, `[tool.lpm.budget]`; `make lint` runs it.

    python tools/line_budget.py          # 1 if a package has more lines than its budget, or none is set
    python tools/line_budget.py --set    # write what there is now as the budget

A budget goes down with the code. To raise one is a decision, and shows in the diff.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "pyproject.toml"
TABLE = re.compile(r"(?<=\[tool\.lpm\.budget\]\n).*?(?=\n\[|\Z)", re.DOTALL)


def counted() -> dict[str, int]:
    """Lines of Python per package, the modules beside them and both totals."""
    lines: Counter[str] = Counter()
    for package in ("lpm", "lpm_paper"):
        for path in sorted((ROOT / package).rglob("*.py")):
            count = len(path.read_text(encoding="utf-8").splitlines())
            lines[package] += count
            inside = path.relative_to(ROOT).parts[1:-1]
            if package == "lpm":
                lines[f"lpm.{inside[0]}" if inside else "lpm.*"] += count
    return dict(sorted(lines.items()))


def main(words: list[str] | None = None) -> int:
    """Compare, or set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", action="store_true", help="write what there is now")
    options = parser.parse_args(words)
    found, text = counted(), FILE.read_text(encoding="utf-8")
    if options.set:
        table = "".join(f'"{package}" = {count}\n' for package, count in found.items())
        FILE.write_text(TABLE.sub(table, text), encoding="utf-8")
        return 0
    budget = tomllib.loads(text)["tool"]["lpm"]["budget"]
    over = [name for name, count in found.items() if count > budget.get(name, -1)]
    for name in over:
        print(f"{name}: expected at most {budget.get(name, 'a budget of')} lines, got {found[name]}")
    gone = sorted(set(budget) - set(found))
    if gone:
        print(f"no such package: {', '.join(gone)}; take it out of [tool.lpm.budget]")
    return int(bool(over or gone))


if __name__ == "__main__":
    raise SystemExit(main())
