"""What the README and the pages print runs as printed, and their numbers are those of `results/`."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import gymnasium
import pytest

from lpm.cli import main

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="an installed package has no README")
DATA = "docs/data.md"
"""Needs files that are not here: tests/test_data.py runs it with its own."""
PAGES = [path.relative_to(ROOT).as_posix() for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]]
STEPS = re.compile(r"(?<=learn\()\d+_000|(?<=steps=)\d+_000")  # how long a run takes
SEEDS = re.compile(r"(?<=seeds=)\d+")
CUT = {"--steps": "1024", "--trials": "1", "--seeds": "1"}  # the same, on the command line
SHORTER = {
    "reproduce": ["--scale", "smoke"],
    "tune": ["--fresh-seeds", "1", "--steps", "4096"],
    "watch": ["--steps", "4"],
}  # some episodes must end
NOT_OURS = ("pip", "python3")  # installs


def blocks(page: str, *languages: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [code for kind, code in re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL) if kind in languages]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where a reader of a page is; what the page registers is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for package in ("minigrid", "ale_py"):  # what is imported once registers once
        with suppress(ImportError):
            import_module(package)
    sys.modules.pop("corridor", None)  # another test's module of the page's name
    gymnasium.registry.pop("Corridor-v0", None)
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


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of TorchRL's own parts
@pytest.mark.parametrize("page", [page for page in PAGES if page != DATA and blocks(page, "python")])
def test_the_python_of_a_page_runs(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From top to bottom, in one namespace; a file with a main part is run as a program."""
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # dataclasses look it up
    for code in code_of(page, folder):
        exec(compile(SEEDS.sub("2", STEPS.sub("1024", code)), page, "exec"), vars(module))
    for path in folder.glob("*.py"):
        if "__main__" in path.read_text():
            subprocess.run([sys.executable, path], check=True, cwd=folder, timeout=120)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "bash")])
def test_the_commands_of_a_page_run(page: str, folder: Path) -> None:
    pytest.importorskip("pygame")
    code_of(page, folder)
    for code in blocks(page, "bash"):
        for line in code.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if not words or words[0] in NOT_OURS:
                continue
            assert words[0] == "lpm", f"{line}: expected a command of lpm; others are text"
            words = [CUT.get(before, word) for before, word in zip(["", *words], words, strict=False)]
            if "120000" in line:  # extends a run
                words[-1] = "2048"
            assert main([*words[1:], *SHORTER.get(words[1], [])]) == 0, line


NOT_WHOLE = re.compile(r"…|--help|--resume|my_package|reproduce mnist|\b[A-Z]{3,}\b(?!=)")
"""Commands of which a reader has to fill something in, or that need a folder, a bonus or data of the reader's."""


class Reached(Exception):
    """A command would have begun its work."""


def commands_of(page: str) -> list[str]:
    """Commands that are too long to run: lines of `text`, and code within sentences, if whole."""
    lines = [line for code in blocks(page, "text") for line in code.replace("\\\n", " ").splitlines()]
    prose = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    spans = [" ".join(span.split()) for span in re.findall(r"(?<!`)`((?:lpm|python) [^`]+ [^`]+)`", prose)]
    return [line for line in lines + spans if not NOT_WHOLE.search(line.partition("#")[0])]


@pytest.mark.parametrize("page", [page for page in PAGES if commands_of(page)])
def test_the_commands_that_a_page_only_names_are_understood(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of lpm are parsed to where they would begin; a script exists and knows the options."""

    def reached(*_: object, **__: object) -> None:
        raise Reached

    monkeypatch.setattr("lpm.sweeps.run_jobs", reached)
    for check in ("lpm.experiments.training.TrainingExperiment.preflight", "lpm.suite.jobs.check"):
        monkeypatch.setattr(check, lambda *_: None)
    monkeypatch.setattr("lpm.commands.train._train", reached)
    monkeypatch.setattr("lpm_paper.theory_command.run", reached)
    for name in ("bonuses", "doctor", "envs", "report", "tune", "watch"):
        module = import_module(f"lpm.commands.{name}")
        monkeypatch.setattr(module, "parse", lambda *given, parse=module.parse: reached(parse(*given)))
    for line in commands_of(page):
        words = shlex.split(line, comments=True)
        if "lpm" in words and words[0] in ("lpm", "torchrun"):
            given = words[words.index("lpm") + 1 :]
            if given[0] == "train" and given[1].startswith("--"):  # options alone, within a sentence
                given.insert(1, "CartPole-v1")
            with pytest.raises(Reached):
                assert main(given) == 0, line
        elif words[:1] == ["python"] and words[1] != "-m":
            source = (ROOT / words[1]).read_text(encoding="utf-8")
            own = words[2 : words.index("--") if "--" in words else None]
            options = [word[2:].replace("-", "_") for word in own if word.startswith("--")]
            assert not [name for name in options if name not in source.replace("-", "_")], line
        elif words[:1] == ["python"]:
            assert find_spec(words[2]), line


@pytest.mark.parametrize("page", PAGES)
def test_every_block_says_what_it_is(page: str) -> None:
    """Python and bash are run; text, such as what needs a cluster, is parsed."""
    text = (ROOT / page).read_text(encoding="utf-8")
    kinds = re.findall(r"^ *```(.*)\n.*?^ *```$", text, re.DOTALL | re.MULTILINE)
    assert set(re.findall(r"^ *```(\S+)", text, re.MULTILINE)) <= {"python", "bash", "text", "toml"}
    assert all(kinds)


def test_prose_stays_within_its_budget() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        tool = importlib.import_module("docs_words")
    finally:
        sys.path.pop(0)
    counted = tool.counted()
    for shelf, budget in tool.BUDGETS.items():
        assert 0 < sum(counted[shelf].values()) <= budget, shelf
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^\|", glossary, re.MULTILINE)) <= 25 + 2


def refresh_tool() -> ModuleType:
    return importlib.import_module("lpm_paper.refresh")


def test_every_number_is_that_of_the_results(capsys: pytest.CaptureFixture[str]) -> None:
    assert refresh_tool().main(["--check"]) == 0, capsys.readouterr().out


def test_no_line_begins_with_a_number() -> None:
    """A line that begins with a comment ends the paragraph, on GitHub as on the site."""
    for page in refresh_tool().documents():
        for line in page.read_text(encoding="utf-8").splitlines():
            assert not re.match(r"\s*<!-- (number|verdicts sentence)", line), f"{page.name}: {line}"


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
    sb3 = importlib.import_module("lpm_paper.benchmark_results")
    monkeypatch.setattr(sb3, "SB3_FOLDER", tmp_path)
    sb3_file(tmp_path, "PPO", "lgn", 0, 0.9, gate=1)
    sb3_file(tmp_path, "PPO", "lgn", 1, 0.7, gate=1, newer=2)
    sb3_file(tmp_path, "PPO", "none", 0, 0.5)
    sb3_file(tmp_path, "SAC", "lgn_lifelong", 0, 0.25)
    table = tool.refreshed("<!-- sb3 table -->old<!-- end -->", {})
    rows = [[cell.strip(" *`") for cell in row.split("|")[1:-1]] for row in re.findall(r"^\|.*", table, re.M)[2:]]
    assert rows == [
        ["PPO", "none", "1", "50.0 [50–50]", "25", "1.50"],
        ["PPO", "lgn", "2", "80.0 [70–90]", "25", "1.50"],
        ["SAC", "lgn_lifelong", "1", "25.0 [25–25]", "25", "1.50"],
    ]
    sb3.draw_sb3(tmp_path / "figure.png")
    assert tool.drawn_from(tmp_path / "figure.png") == sb3.sb3_picture_data()
    sb3_file(tmp_path, "PPO", "lgn", 1, 0.7, gate=2)
    assert tool.drawn_from(tmp_path / "figure.png") is not None
    with pytest.raises(SystemExit, match="runs of PPO lgn differ in gate"):
        sb3.sb3_runs()


def test_a_measured_table_is_as_it_was_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = refresh_tool()
    monkeypatch.setattr(tool, "BENCHMARKS", tool.ROOT / "nowhere")
    with pytest.raises(SystemExit, match=r"no nowhere/speed\.json"):
        tool.stored({}, "speed")
    monkeypatch.setattr(tool, "BENCHMARKS", tmp_path)
    (tmp_path / "speed.json").write_text(json.dumps({"columns": ["a", "b"], "rows": [["x", "1.5"]]}))
    assert "| x | 1.5 |" in tool.refreshed("<!-- stored speed --><!-- end -->", {})


@pytest.mark.parametrize(
    ("marker", "problem"),
    [
        ("number lave-short s9n1 success lpm", "no results of lave-short"),
        ("table lava-short-nothing", "no results"),
        ("means lava-short success lpm", "no results of lava-short"),
        ("stored nothing", "no results/benchmarks/nothing.json"),
        ("kills results/nothing.json", "no results/nothing.json"),
        ("two-arms results/nothing", "no files in results/nothing"),
        ("bonus nothing", "results/noise_table has no 'nothing'"),
        ("settings nothing", "unknown bonus 'nothing'"),
        ("suite nothing", "expected one of picture"),
        ("verdicts mazes", "expected summary, cost or one of mnist, maze"),
        ("tabel lava-short-success", "expected one of table, means"),
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


def test_the_overview_lists_our_bonuses_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's bonus that is registered, by a plug-in or a test, does not change our pages."""
    from lpm.bonuses.none import NoBonus
    from lpm.core import registry

    class Theirs(NoBonus):
        """Of another package."""

    before = refresh_tool().overview({}, "use")
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    registry.register("theirs")(Theirs)
    registry.register("lpm_tuned")(registry.lookup("lpm").bonus)
    assert "theirs" in registry.names()
    assert refresh_tool().overview({}, "use") == before


def test_every_bonus_has_a_page() -> None:
    modules = {path.stem for path in (ROOT / "lpm" / "bonuses").glob("[!_]*.py")}
    assert modules <= {path.stem for path in (ROOT / "docs" / "bonuses").glob("*.md")}
