"""Words of prose in the README and the docs against their budgets; tables, code and formulas do not count.

python tools/docs_words.py    # every page and shelf; 1 if one has more words than its budget
"""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUDGETS = {"README": 600, "tutorials, how-to and explanation": 7_000, "reference": 13_000}
REFERENCE = [
    "architecture.md",
    "bonuses/*",
    "reference/*",
    "results*",
    "verdicts.md",
    "suite.md",
    "noise_table.md",
    "noisy_mnist.md",
    "maze.md",
    "random_policy.md",
    "theory*.md",
    "environments.md",
    "data.md",
    "benchmarks.md",
]
"""Pages that are looked up, not read; results too."""
LEFT_OUT = re.compile(
    r"\A---\n.*?\n---\n"  # front matter
    r"|^[ ]*```.*?^[ ]*```"  # code
    r"|<!--.*?-->"
    r"|\$\$.*?\$\$|\$[^$\n]+\$"  # formulas
    r"|^[ ]*\|.*?$"  # tables
    r"|\]\([^)]*\)",  # addresses of links
    re.DOTALL | re.MULTILINE,
)


def words(text: str) -> int:
    """Words of prose.

    >>> words("# One *title*\\n\\n| a | b |\\n|---|---|\\n\\nThree $x + y$ more [words](page.md).")
    5
    """
    return len(re.findall(r"\w[\w'’.-]*", LEFT_OUT.sub(" ", text)))


def counted() -> dict[str, dict[str, int]]:
    """Shelf to page to words."""
    found: dict[str, dict[str, int]] = {"README": {}, "tutorials, how-to and explanation": {}, "reference": {}}
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        name = path.relative_to(ROOT).as_posix()
        page = name.removeprefix("docs/")
        reference = any(fnmatch(page, pattern) for pattern in REFERENCE)
        shelf = "README" if page == name else "reference" if reference else "tutorials, how-to and explanation"
        found[shelf][name] = words(path.read_text(encoding="utf-8"))
    return found


def main() -> int:
    """Print, and compare."""
    over = 0
    for shelf, pages in counted().items():
        for page, count in pages.items():
            print(f"{count:7,}  {page}")
        total, budget = sum(pages.values()), BUDGETS.get(shelf)
        over += budget is not None and total > budget
        print(f"{total:7,}  {shelf}" + ("" if budget is None else f", of at most {budget:,}"), end="\n\n")
    return int(over > 0)


if __name__ == "__main__":
    raise SystemExit(main())
