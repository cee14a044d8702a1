"""What the README and the pages print runs as printed, and their numbers are those of `results/`."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import gymnasium
import pytest

from lpm.cli import main

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="an installed package has no README")
PAGES = ["README.md", "docs/first_run.md", "docs/own_environment.md", "docs/resume.md"]
STEPS = re.compile(r"\b(\d+_000|60000|120000)\b")  # the only thing that is cut: how long a run takes


def blocks(page: str, *languages: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [code for kind, code in re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL) if kind in languages]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where a reader of a page is; what the page registers is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    registered, modules = set(gymnasium.registry), set(sys.modules)
    yield tmp_path
    for name in set(gymnasium.registry) - registered:
        if not name.startswith("lpm/"):
            del gymnasium.registry[name]
    for name in set(sys.modules) - modules:
        if (tmp_path / f"{name}.py").exists():
            del sys.modules[name]


def code_of(page: str, folder: Path) -> list[str]:
    """The Python of a page; a block that begins with the name of a file is written to it."""
    code = blocks(page, "python")
    files = {name[1]: block for block in code if (name := re.match(r"# (\w+\.py)\n", block))}
    for name, block in files.items():
        (folder / name).write_text(block)
    return [block for block in code if block not in files.values()]


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs(page: str, folder: Path) -> None:
    for code in code_of(page, folder):
        exec(compile(STEPS.sub("2048", code), page, "exec"), {"__name__": "page"})


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(page: str, folder: Path) -> None:
    pytest.importorskip("pygame")
    code_of(page, folder)
    longer = {"60000": "2048", "120000": "4096"}
    for code in blocks(page, "bash"):
        for line in code.replace("\\\n", " ").splitlines():
            words = [longer.get(word, word) for word in shlex.split(line, comments=True)]
            if words[:1] == ["lpm"]:
                assert main(words[1:]) == 0, line


def refresh_tool() -> ModuleType:
    return importlib.import_module("lpm_paper.refresh")


def test_every_number_is_that_of_the_results(capsys: pytest.CaptureFixture[str]) -> None:
    assert refresh_tool().main(["--check"]) == 0, capsys.readouterr().out


def test_no_line_begins_with_a_number() -> None:
    """A line that begins with a comment ends the paragraph, on GitHub as on the site."""
    for page in refresh_tool().documents():
        for line in page.read_text(encoding="utf-8").splitlines():
            assert not re.match(r"\s*<!-- (number|sb3 (?!table)|verdicts sentence)", line), f"{page.name}: {line}"


def sb3_file(folder: Path, algorithm: str, bonus: str, seed: int, cells: float, **settings: float) -> None:
    run = {
        "settings": {"algorithm": algorithm, "bonus": bonus, "seed": seed, "steps": 100},
        "bonus_settings": settings,
        "curve": [[50, cells / 2, 0.5], [100, cells, 0.25]],
        "returns": [1.0, 2.0],
    }
    (folder / f"{algorithm}-{bonus}-{seed}.json".lower()).write_text(json.dumps(run))


def test_the_tool_reads_runs_of_stable_baselines3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = refresh_tool()
    monkeypatch.setattr(tool, "SB3", tmp_path)
    sb3_file(tmp_path, "PPO", "lgn", 0, 0.9, gate=1)
    sb3_file(tmp_path, "PPO", "lgn", 1, 0.7, gate=1, newer=2)
    sb3_file(tmp_path, "PPO", "none", 0, 0.5)
    sb3_file(tmp_path, "SAC", "lgn_lifelong", 0, 0.25)
    places = ("table -->old", "PPO lgn cells -->1", "SAC lgn_lifelong noise -->")
    page = " ".join(f"<!-- sb3 {place}<!-- end -->" for place in places)
    table, *numbers = re.findall(r"-->(.*?)<!-- end -->", tool.refreshed(page, {}), re.DOTALL)
    rows = [[cell.strip(" *`") for cell in row.split("|")[1:-1]] for row in table.strip().splitlines()[2:]]
    assert rows == [
        ["PPO", "none", "1", "50.0 [50–50]", "25", "1.50"],
        ["PPO", "lgn", "2", "80.0 [70–90]", "25", "1.50"],
        ["SAC", "lgn_lifelong", "1", "25.0 [25–25]", "25", "1.50"],
    ]
    assert numbers == ["80", "25"]
    tool.draw_sb3(tmp_path / "figure.png")
    assert tool.drawn_from(tmp_path / "figure.png") == tool.sb3_curves()
    sb3_file(tmp_path, "PPO", "lgn", 1, 0.7, gate=2)
    assert tool.drawn_from(tmp_path / "figure.png") is not None
    with pytest.raises(SystemExit, match="runs of PPO lgn differ in gate"):
        tool.sb3_runs()


def test_a_measured_table_is_as_it_was_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = refresh_tool()
    monkeypatch.setattr(tool, "BENCHMARKS", tool.ROOT / "nowhere")
    with pytest.raises(SystemExit, match=r"no nowhere/speed\.json"):
        tool.stored("speed")
    monkeypatch.setattr(tool, "BENCHMARKS", tmp_path)
    (tmp_path / "speed.json").write_text(json.dumps({"columns": ["a", "b"], "rows": [["x", "1.5"]]}))
    assert "| x | 1.5 |" in tool.refreshed("<!-- stored speed --><!-- end -->", {})


@pytest.mark.parametrize(
    ("marker", "problem"),
    [
        ("number lave-desk s9n1 success lpm", "no results of lave-desk"),
        ("table lava-desk-nothing", "no results"),
        ("means lava-desk success lpm", "no results of lava-desk"),
        ("stored nothing", "no results/benchmarks/nothing.json"),
        ("kills results/nothing.json", "no results/nothing.json"),
        ("sb3 PPO nothing cells", "no results of PPO with nothing"),
        ("two-arms results/nothing", "no files in results/nothing"),
        ("bonus nothing", "results/noise_table has no 'nothing'"),
        ("suite nothing", "expected one of picture"),
        ("verdicts mazes", "expected summary, cost or one of mnist, maze"),
    ],
)
def test_a_marker_without_results_is_named_with_its_page(marker: str, problem: str) -> None:
    tool = refresh_tool()
    with pytest.raises(SystemExit) as caught:
        tool.refreshed(f"x\n<!-- {marker} -->old<!-- end -->", {}, "docs/page.md")
    assert str(caught.value).startswith(f"docs/page.md: <!-- {marker} -->: ")
    assert problem in str(caught.value)


def test_verdicts_need_no_runs() -> None:
    assert "claims, 0 hold" in refresh_tool().refreshed("<!-- verdicts summary --><!-- end -->", {})


def test_figures_that_no_page_shows_are_not_kept() -> None:
    tool = refresh_tool()
    shown = {picture for page in tool.documents() for picture in tool.pictures_of(page)}
    assert shown == set(tool.FIGURES.glob("*.png"))


def test_links_to_files_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"
