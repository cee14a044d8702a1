"""Another paper's package plugs in through its entry point; a broken one is named and skipped."""

import subprocess
import sys
from pathlib import Path

import pytest

from lpm.cli import main
from lpm.experiments import papers
from lpm.experiments.experiment import load_experiment

MODULE = """
from dataclasses import dataclass

from lpm.experiments.evidence import Claim, Score
from lpm.experiments.experiment import Experiment, Method
from lpm.experiments.papers import Paper

PAPER = Paper({"coin": "coin_paper:EXPERIMENT"}, {"heads": ("coin_paper", "say which side is up")})


def run(args):
    print("heads", *args)
    return 0


@dataclass(frozen=True)
class Size:
    seeds: int = 2
    methods: tuple[str, ...] = ("fair", "loaded")
    conditions: None = None


class Coin(Experiment):
    @property
    def conditions(self):
        return {"table": "on a table"}

    def describe(self, common, fields):
        return {**common, "fields": dict(fields)}, 1, None

    @staticmethod
    def run(task, tick, scratch):
        tick(1)
        return {"scores": {"heads": 5.0 + task["seed"] + 4 * (task["method"] == "loaded")}, "versions": {}}

    def evidence(self, results):
        scores = [
            Score(condition, "heads", method, {r["settings"]["seed"]: r["scores"]["heads"] for r in runs})
            for (condition, method), runs in self.found(results).items()
        ]
        return self.show(results, self.conditions, scores=tuple(scores))


EXPERIMENT = Coin(
    name="coin", title="Coins", place="Table 1", about=("Ten throws.",),
    methods={"fair": Method("Fair", "none"), "loaded": Method("Loaded", "none")},
    metrics={"heads": "heads of ten"}, sizes={"smoke": Size()},
    claims=(Claim("A loaded coin shows more heads", "Table 1", "table", "heads", "loaded", "fair"),),
)
"""


def install(folder: Path, name: str, module: str, attribute: str = "PAPER") -> None:
    """A distribution as pip leaves it."""
    (folder / f"{name}.py").write_text(module)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{papers.GROUP}]\n{name} = {name}:{attribute}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=":")
    for name in ("coin_paper", "broken_paper", "odd_paper"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder


def test_another_papers_experiment_is_reproduced_and_reported(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(site, "coin_paper", MODULE)
    out = tmp_path / "coin"
    assert main(["reproduce", "coin", "--scale", "smoke", "--workers", "1", "--out", str(out)]) == 0
    assert len(list(out.glob("runs/table/*/seed_*.json"))) == 4
    assert main(["report", str(out), "--out", str(tmp_path / "page.html")]) == 0
    assert "Coins" in (tmp_path / "page.html").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["heads", "up"]) == 0
    assert capsys.readouterr().out == "heads up\n"
    assert main([]) == 0
    assert "say which side is up" in capsys.readouterr().out


def test_a_plug_in_that_cannot_be_loaded_is_named_and_skipped(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(site, "broken_paper", "import nothing_of_that_name\n")
    install(site, "odd_paper", "PAPER = 3\n")
    found = papers.installed()
    assert "mountain-car" in found.experiments
    assert len(found.problems) == 2
    assert "broken_paper" in found.problems[0]
    assert "ModuleNotFoundError" in found.problems[0]
    assert "expected a Paper, got int" in found.problems[1]
    assert main(["--help"]) == 0
    assert "broken_paper" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"unknown experiment 'coin'.*broken_paper"):
        load_experiment("coin")


def test_of_two_papers_with_one_name_the_first_keeps_it(site: Path) -> None:
    taken = 'from lpm.experiments.papers import Paper\nPAPER = Paper({"maze": "odd_paper:X"})\n'
    install(site, "odd_paper", taken)
    found = papers.installed()
    assert found.experiments["maze"] == "lpm_paper.maze:EXPERIMENT"
    assert ["'maze'" in problem and "odd_paper" in problem for problem in found.problems] == [True]


def test_reporting_stored_results_loads_neither_torch_nor_a_bonus(tmp_path: Path) -> None:
    results = Path(__file__).resolve().parents[2] / "results" / "lava"
    if not results.is_dir():
        pytest.skip("an installed package has no results")
    code = (
        "import sys\nfrom lpm.cli import main\n"
        f"assert main(['report', {str(results)!r}, '--out', {str(tmp_path / 'page.html')!r}]) == 0\n"
        "print([name for name in sys.modules if name == 'torch' or name.startswith('lpm.bonuses')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
