"""What `lpm reproduce` says and refuses before anything runs."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from lpm.commands.reproduce import print_main_table, run
from lpm.experiments.evidence import Evidence, PaperNumber, Score
from lpm.report.analysis import analyse


@pytest.mark.parametrize("what", ["methods", "conditions"])
def test_an_empty_list_is_not_everything(what, tmp_path):
    with pytest.raises(ValueError, match=f"{what}: expected at least one name"):
        run(["mountain-car", "--scale", "smoke", f"--{what}", "--out", str(tmp_path)])
    assert list(tmp_path.iterdir()) == []


def test_a_name_given_twice_is_run_once(tmp_path, capsys, monkeypatch):
    planned = []

    def no_runs(jobs, function, **options):
        planned.extend(job.path.relative_to(tmp_path).as_posix() for job in jobs)
        return [], []

    monkeypatch.setattr("lpm.sweeps.run_jobs", no_runs)
    arguments = ["mountain-car", "--scale", "smoke", "--seeds", "1", "--conditions", "stochastic", "--methods"]
    assert run([*arguments, "none", "none", "--out", str(tmp_path)]) == 1
    assert planned == ["runs/stochastic/none/seed_0.json"]
    assert "1 method × 1 condition × 1 seed, into" in capsys.readouterr().out


def test_small_numbers_keep_their_digits():
    """As many as the page shows: a success rate of 0.85 is not 0.8."""
    rates = {"a": {0: 0.85, 1: 0.93}, "b": {0: 0.85}}
    scores = tuple(Score(c, "success", "lpm", v, PaperNumber(0.9) if c == "a" else None) for c, v in rates.items())
    evidence = Evidence(
        name="lava", title="Lava", place="", about=(), scale="short", methods={"lpm": "LPM"}, conditions={},
        metrics={"success": "success"}, scores=scores,
    )  # fmt: skip
    console = Console(file=StringIO(), width=200)
    print_main_table(console, analyse(evidence))
    (row,) = (line for line in console.file.getvalue().splitlines() if "LPM" in line)
    assert row.split("│")[2:4] == [" 0.890 ± 0.057 (0.9) ", " 0.850 (one seed) "]
