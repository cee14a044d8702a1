"""Make the results page anew from the per-seed files in `results/`: tables of docs/results.md, figures beside it.

    python tools/refresh_results.py

A table stands between `<!-- table NAME -->` and `<!-- end -->`, where NAME is that of an exported Markdown file.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from lpm.files import write_atomic
from lpm.report.pages import write_pages

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "results.md"
FIGURES = ROOT / "docs" / "results"
TABLE = re.compile(r"(<!-- table (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
PICTURE = re.compile(r"\]\(results/([\w.-]+\.png)\)")


def main() -> int:
    """Refresh tables and copy the pictures that the document shows; 1 if one of them does not exist."""
    text = DOCUMENT.read_text(encoding="utf-8")
    with TemporaryDirectory() as folder:
        written = write_pages([ROOT / "results"], Path(folder) / "index.html", figures=Path(folder))
        for warning in written.warnings:
            print(f"warning: {warning}")
        wanted = [f"{name}.md" for _, name, _ in TABLE.findall(text)] + PICTURE.findall(text)
        missing = [name for name in wanted if not (Path(folder) / name).exists()]
        if missing:
            print(f"no such export: {', '.join(missing)}", file=sys.stderr)
            return 1
        FIGURES.mkdir(exist_ok=True)
        for name in PICTURE.findall(text):
            shutil.copyfile(Path(folder) / name, FIGURES / name)
        fresh = TABLE.sub(lambda m: m[1] + (Path(folder) / f"{m[2]}.md").read_text(encoding="utf-8") + m[3], text)
    write_atomic(DOCUMENT, fresh.encode())
    print(f"{DOCUMENT.name}: {len(wanted)} tables and pictures")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
