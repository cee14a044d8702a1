"""The whole run, small."""

import json
import math
from pathlib import Path

import pytest

from lpm.storage.files import write_atomic
from lpm_paper.theory import run
from lpm_paper.theory.check_all import results_page
from lpm_paper.theory.result import CheckResult, section
from lpm_paper.theory.stream import Correlation

ROOT = Path(__file__).resolve().parents[3]


def test_quick_run_writes_everything_and_every_check_holds(tmp_path: Path) -> None:
    checks = run(tmp_path, quick=True)
    assert [check.name for check in checks if not check.ok] == []
    assert len(checks) > 120
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {
        "theory_checks.json",
        "theory_streams.json",
        "theory_results.md",
        "theory_bound.png",
        "theory_identity.png",
        "theory_noise.png",
        "theory_queue.png",
        "theory_stream.png",
    }
    stored = json.loads((tmp_path / "theory_checks.json").read_text())
    assert len(stored) == len(checks)
    assert all(row["ok"] for row in stored)
    assert "| ✓ |" in (tmp_path / "theory_results.md").read_text()


def test_the_page_in_the_docs_is_that_of_the_stored_numbers() -> None:
    stored = ROOT / "results" / "theory"
    checks, rows = (json.loads((stored / f"theory_{name}.json").read_text()) for name in ("checks", "streams"))
    for check in checks:
        assert check.pop("ok")
    page = results_page([CheckResult(**check) for check in checks], [Correlation(**row) for row in rows])
    assert page == (ROOT / "docs" / "theory_results.md").read_bytes()
    # each line says its own number of streams: networks have fewer
    assert b"| VIME, true sigma | 30 |" in page
    assert b"| rnd (library) | 8 |" in page


@pytest.mark.parametrize(
    ("relation", "measured", "ok"),
    [
        ("equal", 1.05, True),
        ("equal", 1.2, False),
        ("at least", 0.95, True),
        ("at least", 0.8, False),
        ("at most", 1.05, True),
        ("at most", 1.2, False),
        ("equal", math.nan, False),
        ("at least", math.nan, False),
        ("at most", math.nan, False),
    ],
)
def test_verdicts(relation: str, measured: float, ok: bool) -> None:
    assert CheckResult("s", "n", relation, 1.0, measured, 0.1).ok is ok  # type: ignore[arg-type]


def test_sections_build_plain_floats() -> None:
    equal, _, _ = section("s")
    check = equal("n", 1, 2, 0)
    assert (check.section, check.expected, check.measured, check.ok) == ("s", 1.0, 2.0, False)


def test_atomic_write_replaces_and_leaves_nothing_behind(tmp_path: Path) -> None:
    target = tmp_path / "sub" / "file"
    write_atomic(target, b"old")
    write_atomic(target, b"new")
    assert target.read_bytes() == b"new"
    assert [p.name for p in target.parent.iterdir()] == ["file"]
    with pytest.raises(TypeError):
        write_atomic(target, "text")  # type: ignore[arg-type]
    assert [p.name for p in target.parent.iterdir()] == ["file"]
    assert target.read_bytes() == b"new"
