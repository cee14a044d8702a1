"""A run that is stopped and resumed equals one that was not, bit for bit."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from run_cases import assert_equal_runs, assert_same, config_of, final_state, silent

from lpm.agents import Agent
from lpm.runs import CheckpointError, RunConfig, RunFolder, TrainOptions, train
from lpm.runs.build import build
from lpm.runs.checkpoint import checkpoints
from lpm.runs.metrics import read_metrics
from lpm.storage.lock import BusyError

ALWAYS = TrainOptions(checkpoint_seconds=0.0)

CHILD = """
import sys
from pathlib import Path
from lpm.runs import RunConfig, TrainOptions, train
out = Path(sys.argv[1])
config = RunConfig.from_toml(Path(sys.argv[2]).read_text())
train(config, out, TrainOptions(checkpoint_seconds=0.0), resume=(out / "config.toml").exists(), log=lambda line: None)
"""


class Killed(BaseException):
    """Stands for a process that ends without warning."""


def die_after(cycles: int) -> Any:
    count = 0

    def on_cycle(agent: Agent, metrics: dict[str, float]) -> None:
        nonlocal count
        count += 1
        if count == cycles:
            raise Killed

    return on_cycle


@pytest.mark.parametrize("env", ["car", "maze"])
@pytest.mark.parametrize("bonus", ["lpm", "rnd", "ngu", "etd"])
@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_resumed_equals_uninterrupted(algo: str, bonus: str, env: str, tmp_path: Path) -> None:
    config = config_of(algo, bonus, env, cycles=6)
    train(config, tmp_path / "whole", log=silent)
    # the third update is written to the metrics but not to a checkpoint: the file must be cut back
    with pytest.raises(Killed):
        train(config, tmp_path / "broken", ALWAYS, log=silent, on_cycle=die_after(3))
    train(config, tmp_path / "broken", ALWAYS, resume=True, log=silent)
    assert_equal_runs(tmp_path / "whole", tmp_path / "broken")


def kill_and_resume(config: RunConfig, folder: Path, seed: int, kills: int) -> int:
    """Kill the run at random moments, then let it end here; how many kills hit a running process."""
    rng, out, hits = random.Random(seed), folder / "killed", 0
    text = folder / "config.toml"
    text.write_text(config.to_toml())
    for _ in range(kills):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(out), str(text)], env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        lines = out / "metrics.jsonl"
        before = lines.stat().st_size if lines.exists() else 0
        while child.poll() is None and (not lines.exists() or lines.stat().st_size <= before):
            time.sleep(0.002)
        time.sleep(rng.uniform(0.0, 0.3))
        if child.poll() is None:
            hits += 1
            child.send_signal(signal.SIGKILL)
        child.wait(timeout=120)
    train(config, out, resume=True, log=silent)
    return hits


def test_killed_for_real(tmp_path: Path) -> None:
    config = config_of("ppo", "lpm", "car", cycles=60)
    hits = kill_and_resume(config, tmp_path, seed=0, kills=1)
    assert hits > 0, "no kill hit a running process: this test showed nothing"
    train(config, tmp_path / "whole", log=silent)
    assert_equal_runs(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.slow
@pytest.mark.parametrize("env", ["car", "maze"])
@pytest.mark.parametrize("bonus", ["lpm", "rnd", "ngu", "etd"])
@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_killed_for_real_everywhere(algo: str, bonus: str, env: str, tmp_path: Path) -> None:
    config = config_of(algo, bonus, env, cycles=60)
    hits = kill_and_resume(config, tmp_path, seed=len(algo + bonus + env), kills=1)
    assert hits > 0
    train(config, tmp_path / "whole", log=silent)
    assert_equal_runs(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.parametrize("algo", ["ppo", "a2c"])
def test_two_runs_with_one_seed_write_equal_metrics(algo: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        train(config_of(algo, cycles=4), tmp_path / name, log=silent)
    assert_equal_runs(tmp_path / "a", tmp_path / "b")
    train(config_of(algo, cycles=4, seed=1), tmp_path / "c", log=silent)
    assert (tmp_path / "a/metrics.jsonl").read_bytes() != (tmp_path / "c/metrics.jsonl").read_bytes()


def test_averages_between_lines_survive_a_resume(tmp_path: Path) -> None:
    config = config_of("a2c", cycles=10, log_every=4 * 48)
    train(config, tmp_path / "whole", log=silent)
    with pytest.raises(Killed):
        train(config, tmp_path / "broken", ALWAYS, log=silent, on_cycle=die_after(7))
    train(config, tmp_path / "broken", ALWAYS, resume=True, log=silent)
    assert_equal_runs(tmp_path / "whole", tmp_path / "broken")
    assert [row["step"] for row in read_metrics(tmp_path / "whole/metrics.jsonl")] == [192, 384, 480]


def test_checkpointing_does_not_change_the_numbers(tmp_path: Path) -> None:
    train(config_of(), tmp_path / "often", ALWAYS, log=silent)
    train(config_of(), tmp_path / "once", log=silent)
    assert_equal_runs(tmp_path / "often", tmp_path / "once")
    assert len(checkpoints(tmp_path / "often/checkpoints")) == 2


def damage(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    if how == "truncated":
        del data[len(data) // 2 :]
    elif how == "flipped":
        data[len(data) // 3] ^= 1
    else:
        data.clear()
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("how", ["truncated", "flipped", "emptied"])
def test_a_damaged_checkpoint_is_reported_and_the_previous_one_used(how: str, tmp_path: Path) -> None:
    config = config_of()
    train(config, tmp_path / "whole", ALWAYS, log=silent)
    with pytest.raises(Killed):
        train(config, tmp_path / "broken", ALWAYS, log=silent, on_cycle=die_after(5))
    newest, _ = checkpoints(tmp_path / "broken/checkpoints")
    damage(newest, how)
    said: list[str] = []
    train(config, tmp_path / "broken", ALWAYS, resume=True, log=said.append)
    assert any(newest.name in line and "damaged" in line and "using step-" in line for line in said)
    assert_equal_runs(tmp_path / "whole", tmp_path / "broken")


def test_all_checkpoints_damaged_is_an_error(tmp_path: Path) -> None:
    train(config_of(), tmp_path, ALWAYS, log=silent)
    for path in checkpoints(tmp_path / "checkpoints"):
        damage(path, "flipped")
    with pytest.raises(CheckpointError, match="no checkpoint can be used"):
        train(config_of(), tmp_path, resume=True, log=silent)


def test_killed_before_the_first_checkpoint_starts_again(tmp_path: Path) -> None:
    config = config_of()
    with pytest.raises(Killed):
        train(config, tmp_path / "broken", log=silent, on_cycle=die_after(2))
    said: list[str] = []
    train(config, tmp_path / "broken", resume=True, log=said.append)
    assert any("starting from the beginning" in line for line in said)
    train(config, tmp_path / "whole", log=silent)
    assert_equal_runs(tmp_path / "whole", tmp_path / "broken")


def test_resume_of_a_finished_run_changes_nothing(tmp_path: Path) -> None:
    train(config_of(), tmp_path, log=silent)
    before = (tmp_path / "metrics.jsonl").read_bytes(), final_state(tmp_path)
    assert train(config_of(), tmp_path, resume=True, log=silent).status == "finished"
    assert (tmp_path / "metrics.jsonl").read_bytes() == before[0]
    assert_same(final_state(tmp_path), before[1])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_with_a_checkpoint(number: signal.Signals, tmp_path: Path) -> None:
    config = config_of()

    def interrupt(agent: Agent, metrics: dict[str, float]) -> None:
        if agent.steps == 3 * 48:
            signal.raise_signal(number)

    outcome = train(config, tmp_path / "broken", log=silent, on_cycle=interrupt)
    assert (outcome.status, outcome.steps) == ("interrupted", 3 * 48)
    assert json.loads((tmp_path / "broken/result.json").read_text())["status"] == "interrupted"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    train(config, tmp_path / "broken", resume=True, log=silent)
    train(config, tmp_path / "whole", log=silent)
    assert_equal_runs(tmp_path / "whole", tmp_path / "broken")


def test_a_resume_with_other_settings_is_refused_with_the_difference(tmp_path: Path) -> None:
    train(config_of(), tmp_path, log=silent)
    with pytest.raises(ValueError, match=r"run.seed: 0 -> 7") as caught:
        train(config_of(seed=7, bonus="rnd"), tmp_path, resume=True, log=silent)
    assert "run.bonus: 'lpm' -> 'rnd'" in str(caught.value)


def test_a_resume_with_another_number_of_environments_is_refused(tmp_path: Path) -> None:
    config = config_of(bonus="rnd")
    train(config, tmp_path, ALWAYS, log=silent)
    agent = dataclasses.replace(config.learner, num_envs=6)
    with pytest.raises(ValueError, match=r"ppo.num_envs: 3 -> 6"):
        train(dataclasses.replace(config, agent=agent), tmp_path, resume=True, log=silent)


def test_a_folder_with_a_run_is_not_overwritten(tmp_path: Path) -> None:
    train(config_of(), tmp_path, log=silent)
    with pytest.raises(ValueError, match="already holds a run"):
        train(config_of(), tmp_path, log=silent)
    with pytest.raises(ValueError, match="holds no run"):
        train(config_of(), tmp_path / "elsewhere", resume=True, log=silent)


def test_environments_that_cannot_be_saved_resume_at_a_new_episode_and_say_so(tmp_path: Path) -> None:
    config = dataclasses.replace(config_of(), env_id="CartPole-v1", env={})
    with pytest.raises(Killed):
        train(config, tmp_path, ALWAYS, log=silent, on_cycle=die_after(4))
    said: list[str] = []
    outcome = train(config, tmp_path, resume=True, log=said.append)
    assert outcome.steps == config.steps
    assert any("cannot save its state: new episodes begin" in line for line in said)
    assert json.loads((tmp_path / "result.json").read_text())["exact_resume"] is False
    assert [row["step"] for row in read_metrics(tmp_path / "metrics.jsonl")] == [48 * (i + 1) for i in range(8)]


@pytest.mark.parametrize("second", ["resume", "new", "extend"])
def test_a_second_process_in_the_same_folder_is_refused(
    second: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both cut the metrics back, appended to them and removed each other's checkpoints."""
    monkeypatch.setattr("lpm.runs.folder.WAIT_SECONDS", 0.0)
    config, out = config_of(cycles=4), tmp_path / "run"
    busy = rf"another run is writing there: .*run/\.run\.lock is held by process {os.getpid()} on "

    def again() -> None:
        more = dataclasses.replace(config, steps=config.steps + (second == "extend"))
        train(more, out, TrainOptions(extend=True), resume=second != "new", log=silent)

    def meanwhile(agent: Agent, metrics: dict[str, float]) -> None:
        before = sorted((path, path.stat().st_mtime_ns) for path in out.rglob("*"))
        if second == "new":  # as if it had looked before the first one wrote its config
            monkeypatch.setattr(RunFolder, "unused", RunFolder)
        with pytest.raises(BusyError, match=busy):
            again()
        assert sorted((path, path.stat().st_mtime_ns) for path in out.rglob("*")) == before

    train(config, out, TrainOptions(0.0, tensorboard=False), log=silent, on_cycle=meanwhile)
    assert not (out / ".run.lock").exists()
    train(config, tmp_path / "whole", log=silent)
    assert_equal_runs(tmp_path / "whole", out)


def test_of_two_new_runs_the_slower_finds_the_folder_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, module = config_of(cycles=1), sys.modules[train.__module__]

    def slowly(*args: Any) -> Agent:
        monkeypatch.undo()
        train(config, tmp_path / "run", log=silent)
        return build(*args)

    monkeypatch.setattr(module, "build", slowly)
    with pytest.raises(ValueError, match="already holds a run"):
        train(config, tmp_path / "run", log=silent)


def test_the_lock_of_a_killed_process_is_no_obstacle(tmp_path: Path) -> None:
    config, out = config_of(cycles=400), tmp_path / "run"
    (tmp_path / "config.toml").write_text(config.to_toml())
    words = [sys.executable, "-c", CHILD, str(out), str(tmp_path / "config.toml")]
    process = subprocess.Popen(words)
    while not checkpoints(out / "checkpoints"):
        assert process.poll() is None
        time.sleep(0.01)
    with pytest.raises(BusyError, match=f"process {process.pid} on"), RunFolder(out).locked():
        pass
    process.kill()
    process.wait()
    assert (out / ".run.lock").exists()
    with RunFolder.open(out).locked():
        pass
