from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from lpm.commands.train import INTERRUPTED, _take_env, run
from lpm.runs import RunFolder
from lpm.runs.checkpoint import checkpoints

SMALL = [
    *("lpm/MountainCar-v0", "--steps", "96", "--ppo.num-envs", "3", "--ppo.rollout-steps", "16"),
    *("--bonus", "lpm", "--bonus.dynamics-steps", "2", "--bonus.error-steps", "2", "--device", "cpu"),
    *("--env.noise", "true", "--env.max-episode-steps=20"),
]


def test_options_reach_the_config_and_the_run_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = run([*SMALL, "--weight", "0.25", "--seed", "3", "--ppo.value-heads", "2", "--out", str(tmp_path / "r")])
    assert status == 0
    config = RunFolder.open(tmp_path / "r").config
    assert (config.env, config.seed, config.mixer.weight, config.learner.value_heads) == (
        {"noise": True, "max_episode_steps": 20}, 3, 0.25, 2,
    )  # fmt: skip
    assert config.bonus_settings.dynamics_steps == 2
    assert config.learner.num_envs == 3
    assert json.loads((tmp_path / "r/result.json").read_text())["status"] == "finished"
    assert "coverage" in capsys.readouterr().out


def test_presets_and_variants_are_defaults_that_options_override(tmp_path: Path) -> None:
    words = ["lpm/MountainCar-v0", "--algo", "a2c", "--preset", "paper-maze", "--a2c.rollout-steps", "8"]
    run([*words, "--bonus", "lpm", "--variant", "paper", "--steps", "8", "--out", str(tmp_path)])
    config = RunFolder.open(tmp_path).config
    assert (config.learner.num_envs, config.learner.rollout_steps, config.learner.entropy) == (1, 8, 0.03)
    assert config.bonus_settings.affine is False


@pytest.mark.parametrize("algo", ["ppo", "a2c"])
@pytest.mark.parametrize("env", ["lpm/MountainCar-v0", "lpm/NMaze-v0"])
def test_the_noisy_preset_and_the_bonus_to_use(tmp_path: Path, algo: str, env: str) -> None:
    words = [env, "--algo", algo, "--preset", "noisy", f"--{algo}.rollout-steps", "4", f"--{algo}.num-envs", "2"]
    run([*words, "--steps", "8", "--device", "cpu", "--out", str(tmp_path)])
    config = RunFolder.open(tmp_path).config
    assert config.bonus == "lgn"
    assert (config.learner.network.normalise, config.learner.learning_rate_schedule) == ("robust", "constant")


def test_a_reader_that_has_seen_enough_is_nothing_to_mend(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`lpm train ... | head`: the command line ends silently on a BrokenPipeError."""

    def gone(*_: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("lpm.commands.train._Display.show", gone)
    with pytest.raises(BrokenPipeError):
        run([*SMALL, "--out", str(tmp_path / "r")])
    assert "mended" not in capsys.readouterr().err


def test_interrupt_then_resume(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = str(tmp_path / "r")
    monkeypatch.setattr("lpm.commands.train._Display.show", lambda *_: signal.raise_signal(signal.SIGINT))
    assert run([*SMALL, "--out", out]) == INTERRUPTED
    assert f"Go on with: lpm train --out {out} --resume" in " ".join(capsys.readouterr().out.split())
    monkeypatch.undo()
    assert run(["--out", out, "--resume"]) == 0
    assert json.loads((tmp_path / "r/result.json").read_text())["steps"] == 96


def test_resume_with_the_same_command_is_accepted_with_another_refused(tmp_path: Path) -> None:
    out = ["--out", str(tmp_path)]
    run([*SMALL, *out])
    assert run([*SMALL, *out, "--resume"]) == 0
    with pytest.raises(ValueError, match=r"ppo.epochs: 10 -> 9"):
        run([*SMALL, *out, "--resume", "--ppo.epochs", "9"])
    with pytest.raises(ValueError, match=r"run.bonus: 'lpm' -> 'rnd'"):
        run(["--resume", *out, "--bonus", "rnd"])
    with pytest.raises(ValueError, match=r"env.noise: True -> False"):
        run(["--resume", *out, "--env.noise", "false"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["CartPole-v1", "--bonus", "random"], "unknown bonus 'random'"),
        (["CartPole-v1", "--bonus", "lmp"], "unknown bonus 'lmp'; did you mean lpm"),
        (["CartPole-v1", "--algo", "a2cc"], "unknown algorithm 'a2cc'; did you mean a2c"),
        (["CartPole-v1", "--preset", "paper-atary"], "unknown preset of ppo 'paper-atary'; did you mean paper-atari"),
        (["CartPole-v0x", "--bonus", "none"], "unknown environment 'CartPole-v0x'; did you mean CartPole-v"),
        (["--bonus", "none"], "say which environment"),
        (["CartPole-v1", "--resume"], "--resume: say which run.*; CartPole-v1 holds none"),
        (["--resume"], "--resume: say which run"),
        *((["CartPole-v1", "--steps", n], "--steps: expected a whole number, got") for n in ("1.5", "inf", "nan")),
        (["CartPole-v1", "--env.x"], "expected --env.NAME VALUE"),
    ],
)
def test_wrong_words_are_answered(words: list[str], message: str, tmp_path: Path) -> None:
    out = [] if "--resume" in words else ["--out", str(tmp_path / "r")]
    with pytest.raises(ValueError, match=message):
        run([*words, *out])
    assert not (tmp_path / "r").exists()


def test_a_wrong_option_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(["CartPole-v1", "--ppo.epoch", "3"])
    assert caught.value.code == 2
    assert "--ppo.epochs" in capsys.readouterr().err


def test_help_explains_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(["--bonus", "lpm", "--help"])
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for option in ("--ppo.network.hidden", "--mixer.clip", "--bonus.queue-size", "--env.NAME", "--resume", "--weight"):
        assert option in text
    assert "Bound on the absolute value of the divided bonus" in text


def test_a_finished_run_can_be_extended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "r")
    run([*SMALL, "--out", out])
    assert run([out, "--resume", "--steps", "192"]) == 0
    said = capsys.readouterr().out
    assert "Extended from 96 to 192 steps; schedules go on as shares of the new total." in said
    assert "Resuming at step 96 of 192." in said
    assert json.loads((tmp_path / "r/result.json").read_text())["steps"] == 192
    assert RunFolder.open(tmp_path / "r").config.steps == 192
    assert [start["steps"] for start in json.loads((tmp_path / "r/machine.json").read_text())] == [96, 192]
    steps = [json.loads(line)["step"] for line in (tmp_path / "r/metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(set(steps))
    assert steps[-1] == 192
    with pytest.raises(ValueError, match=r"--steps: .* has 192.*, expected at least as many, got 100"):
        run([out, "--resume", "--steps", "100"])
    with pytest.raises(ValueError, match=r"run.steps: 192 -> 300"):
        run([out, "--resume", "--steps", "300", "--seed", "5"])
    assert RunFolder.open(tmp_path / "r").config.steps == 192


def test_an_extension_is_announced_only_when_the_run_can_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "r"
    run([*SMALL, "--out", str(out)])
    for path in checkpoints(out / "checkpoints"):
        path.write_bytes(b"damaged")
    before = (out / "config.toml").read_bytes()
    assert run([str(out), "--resume", "--steps", "192"]) == 1
    assert "Extended" not in capsys.readouterr().out
    assert (out / "config.toml").read_bytes() == before


def test_a_run_before_there_was_a_choice_of_wrappers_is_read(tmp_path: Path) -> None:
    run([*SMALL, "--out", str(tmp_path / "r")])
    assert "wrap" not in (tmp_path / "r/config.toml").read_text()
    run([*SMALL, "--wrap", "flatten", "--out", str(tmp_path / "f"), "--steps", "48"])
    assert RunFolder.open(tmp_path / "f").config.wrap == "flatten"


def test_values_of_the_environment() -> None:
    words = ["--env.a", "none", "--env.b=FALSE", "--env.c", "(1, 2)", "--env.some-word", "text", "--env.e", "'none'"]
    assert _take_env(["CartPole-v1", *words]) == (
        ["CartPole-v1"],
        {"a": None, "b": False, "c": (1, 2), "some_word": "text", "e": "none"},
    )
