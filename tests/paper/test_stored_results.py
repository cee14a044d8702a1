"""What is in `results/` counts as done, and none of it is left out of a table."""

import json
from pathlib import Path

import pytest

from lpm.experiments.experiment import load_experiment
from lpm.report.results import read_results as load_results
from lpm.sweeps import load_result
from lpm_paper import PAPER

RESULTS = Path(__file__).resolve().parents[2] / "results"
pytestmark = pytest.mark.skipif(not RESULTS.is_dir(), reason="an installed package has no results")
FOLDERS = sorted(folder.parent for folder in RESULTS.glob("*/runs"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_stored_run_is_recognised_as_done(folder: Path) -> None:
    checked = 0
    for path in sorted(folder.glob("runs/*/*/seed_*.json")):
        stored = json.loads(path.read_bytes())["settings"]
        if stored["experiment"] == "mnist":  # its settings name the digits, which must be there
            continue
        experiment = load_experiment(stored["experiment"])
        job = experiment.job(stored["scale"], stored["condition"], stored["method"], stored["seed"], folder)
        assert job.path == path
        result = load_result(job)
        assert result is not None
        assert result["settings"]["method"] == stored["method"]
        checked += 1
    assert checked or folder.name == "mnist"


def test_no_stored_run_is_left_out_of_the_report() -> None:
    loaded = load_results([RESULTS], PAPER.experiments)
    assert loaded.files == sum(len(group.runs) for group in loaded.groups)
    assert not [w for group in loaded.groups for w in group.warnings if "mixed" in w]
