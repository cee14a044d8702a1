"""What a newcomer types, and the one line that answers: no extras, other people's environments, foreign folders."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from lpm.cli import COMMANDS, main
from lpm.utils.versions import EXTRAS, FOREIGN, pip_install

SMALL = ["--steps", "64", "--ppo.num-envs", "2", "--ppo.rollout-steps", "16", "--bonus", "rnd"]
CORRIDOR = """
import gymnasium, numpy

class Corridor(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return numpy.zeros(2, numpy.float32), {}

    def step(self, action):
        return numpy.zeros(2, numpy.float32), 0.0, False, True, {}

gymnasium.register("FirstCorridor-v0", entry_point=Corridor)
"""
BARE = """
import contextlib, io, json, sys
for name in {blocked!r}:
    sys.modules[name] = None
from lpm.cli import main
answers = []
for words in {commands!r}:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(words)
        except SystemExit as stopped:
            status = stopped.code
    answers.append([status, out.getvalue(), err.getvalue()])
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Answers of an installation without a single extra: (status, stdout, stderr) by name."""
    folder = tmp_path_factory.mktemp("bare")
    commands = {
        **{f"{name} --help": [name, "--help"] for name in COMMANDS},
        "train": ["train", "CartPole-v1", *SMALL, "--out", str(folder / "cart")],
        "watch": ["watch", str(folder / "cart")],
        "minigrid": ["train", "MiniGrid-Empty-5x5-v0", *SMALL],
        "ale": ["train", "ALE/Pong-v5", *SMALL],
        "atari": ["train", "lpm/Atari-v0", *SMALL],
        "lander": ["train", "LunarLander-v3", *SMALL],
        "maze": ["reproduce", "maze", "--scale", "smoke", "--out", str(folder / "maze")],
        "tune": ["tune", "lava", "--method", "rnd", "--field", "lr=1e-4:1e-2:log", "--scale", "smoke"],
        "theory": ["theory", "--quick", "--out", str(folder / "theory")],
        "doctor": ["doctor"],
    }
    blocked = [module for modules in EXTRAS.values() for module in modules] + [*FOREIGN]
    script = BARE.format(blocked=blocked, commands=list(commands.values()))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=folder, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    answers = dict(zip(commands, json.loads(done.stdout.splitlines()[-1]), strict=True))
    return {"folder": folder, **answers}


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_never_needs_an_extra(bare: dict[str, Any], command: str) -> None:
    status, out, err = bare[f"{command} --help"]
    assert (status, err) == (0, "")
    assert f"lpm {command}" in out


def test_the_hint_about_tensorboard_is_printed_whole(bare: dict[str, Any]) -> None:
    status, out, _ = bare["train"]
    assert status == 0
    assert f"No TensorBoard events: {pip_install('tensorboard')} to have them." in " ".join(out.split())


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("watch", "lpm watch: needs the package 'pygame': pip install \"gymnasium[classic-control]\"\n"),
        (
            "minigrid",
            f"lpm train: MiniGrid-Empty-5x5-v0 needs the package 'minigrid': {pip_install('minigrid')}\n",
        ),
        ("ale", f"lpm train: ALE/Pong-v5 needs the package 'ale_py': {pip_install('atari')}\n"),
        ("lander", "lpm train: needs the package 'Box2D': pip install swig \"gymnasium[box2d]\"\n"),
        ("tune", f"lpm tune: needs the package 'optuna': {pip_install('tune')}\n"),
        ("maze", f"lpm reproduce: needs the package 'scipy': {pip_install('experiments')}\n"),
        ("theory", f"lpm theory: needs the package 'scipy': {pip_install('experiments')}\n"),
    ],
)
def test_a_missing_package_is_one_line_with_the_smallest_extra(bare: dict[str, Any], name: str, line: str) -> None:
    status, _, err = bare[name]
    assert (status, err) == (1, line)


def test_atari_without_ale_names_its_extra(bare: dict[str, Any]) -> None:
    status, _, err = bare["atari"]
    assert status == 1
    assert err.count("\n") == 1
    assert pip_install("atari") in err


def test_a_sweep_that_cannot_run_leaves_nothing_behind(bare: dict[str, Any]) -> None:
    _, out, _ = bare["maze"]
    assert "Page:" not in out
    assert not (bare["folder"] / "maze").exists()


def test_doctor_says_what_is_missing(bare: dict[str, Any]) -> None:
    status, out, _ = bare["doctor"]
    assert status == 0
    assert f"lacks numba: {pip_install('maze')}" in out
    for expected in ("torch ", "gymnasium", "threads", "devices", "cpu", "LPM_DATA", "cache"):
        assert expected in out


def test_doctor_names_the_small_wheel_of_torch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.version.cuda", "12.8")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["doctor"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    hint = "smaller: pip install torch --index-url https://download.pytorch.org/whl/cpu"
    assert f"torch was built for CUDA and there is no GPU; {hint}" in said


def test_the_demo_ends_with_a_ranking_and_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = Path(__file__).parents[1]
    (line,) = (line for line in (root / "Makefile").read_text().splitlines() if "lpm reproduce" in line)
    words = line.split("lpm ", 1)[1].replace("$(DEMO)", str(tmp_path)).split()
    for method in ("lgn", "lpm", "rnd", "none"):  # its runs, as they were stored: they are not made again
        for seed in (0, 1):
            run = Path("runs", "stochastic", method, f"seed_{seed}.json")
            (tmp_path / run).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / run).write_bytes((root / "results" / "mountain_car" / run).read_bytes())
    assert main(words) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(r"noise action, grid cells visited \(of 100\): 1\. LGN \d+\.\d, 2\. ", said)
    assert "LGN leads:" in said
    assert "claims" not in said
    page = (tmp_path / "index.html").read_text()
    assert page.index("LGN comes first") < page.index("The paper, run again")


def test_a_sweep_without_numba_fails_once_before_the_first_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any) -> None:
        raise ImportError(f"the maze needs numba: {pip_install('maze')}")

    monkeypatch.setattr("lpm.runs.make_envs", broken)
    assert main(["reproduce", "maze", "--scale", "smoke", "--out", str(tmp_path / "r")]) == 1
    said = capsys.readouterr()
    assert said.err == f"lpm reproduce: the maze needs numba: {pip_install('maze')}\n"
    assert "failed" not in said.out
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("env", ["FrozenLake-v1", "Taxi", "Blackjack-v1", "CliffWalking-v1"])
def test_discrete_observations_are_one_hot(env: str, tmp_path: Path) -> None:
    known = [name for name in gymnasium.registry if name.startswith(env)]
    assert main(["train", known[-1], *SMALL, "--out", str(tmp_path / "r")]) == 0


def test_minigrid_and_ale_ids_work_as_they_are(tmp_path: Path) -> None:
    pytest.importorskip("minigrid")
    assert main(["train", "MiniGrid-Empty-5x5-v0", *SMALL, "--out", str(tmp_path / "grid")]) == 0
    pytest.importorskip("ale_py")
    assert main(["train", "ALE/Pong-v5", *SMALL, "--steps", "32", "--out", str(tmp_path / "pong")]) == 0


def test_the_working_directory_is_importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "first_envs.py").write_text(CORRIDOR)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    assert main(["train", "first_envs:FirstCorridor-v0", *SMALL, "--out", "run"]) == 0


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["train", "not_there:X-v0"],
            "not_there:X-v0: no module 'not_there': expected an installed package or not_there.py in this folder",
        ),
        (["train", "CartPole-v7"], "unknown environment 'CartPole-v7'; did you mean CartPole-v"),
        (["train", "Nothing like it-v0"], "unknown environment 'Nothing like it-v0'; lpm envs lists ours"),
        (
            ["train", "CartPole-v1", "--wrap", "image"],
            "--wrap image: expected one picture in the observation, got Box(",
        ),
        (["train", "[red]x[/red]-v0"], "unknown environment '[red]x[/red]-v0'; "),
    ],
)
def test_wrong_environments_are_one_line(words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, *SMALL]) == 1
    said = capsys.readouterr()
    assert said.err.startswith(f"lpm train: {line}")
    assert said.err.count("\n") == 1


def test_what_a_user_types_is_no_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "[bold]mine[/bold]"
    assert main(["train", "CartPole-v1", *SMALL, "--out", str(out)]) == 0
    assert f"lpm watch {out}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["train", "CartPole-v1", *SMALL],
        ["reproduce", "mountain-car", "--scale", "smoke"],
        ["tune", "lava", "--method", "rnd", "--field", "lr=1e-4:1e-2:log", "--scale", "smoke"],
        ["bonuses", "none", "--noise-table"],
        ["theory", "--quick"],
    ],
)
def test_a_foreign_folder_is_refused(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.tex").write_text("ten years of work")
    assert main([*words, "--out", str(tmp_path)]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"lpm {words[0]}: {tmp_path} is not empty and holds no ")
    assert err.endswith("choose an empty or new folder as --out\n")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("command", ["train", "report"])
def test_ctrl_c_at_start_up_is_one_line(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lpm.cli.import_module", interrupted)
    assert main([command]) == 130
    assert capsys.readouterr().err == f"\nlpm {command}: interrupted\n"


@pytest.mark.parametrize(
    ("words", "unbuffered"), [([], ""), (["train", "--help"], ""), (["train", "--help"], "1"), (["bonuses"], "1")]
)
def test_a_reader_that_has_seen_enough_is_no_error(words: list[str], unbuffered: str) -> None:
    """`lpm train --help | head`."""
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    command = [sys.executable, "-m", "lpm", *words]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_another_broken_pipe_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken(_: str) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("lpm.cli.import_module", broken)
    with (tmp_path / "out").open("w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert main(["train"]) == 1
    assert capfd.readouterr().err == "lpm train: [Errno 32] Broken pipe\n"


def test_a_defect_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: str) -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr("lpm.cli.import_module", broken)
    with pytest.raises(RuntimeError, match="ours"):
        main(["train"])


def test_lines_of_lpm_envs_run_when_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs", "mountain_car_noise"]) == 0
    (line,) = (line.strip() for line in capsys.readouterr().out.splitlines() if "make_vec" in line)
    code = f"import gymnasium\nenvs = {line}\nprint(envs.num_envs)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "16\n", done.stderr
