"""What stops a run, and what is left of it."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest
import torch
from run_cases import assert_equal_runs, config_of, silent

from lpm.agents import Agent, NonFiniteError
from lpm.runs import CheckpointError, TrainOptions, load_checkpoint, train
from lpm.runs.checkpoint import checkpoints, save_checkpoint
from lpm.storage.state_file import load

ALWAYS = TrainOptions(checkpoint_seconds=0.0)


def test_a_full_disk_is_reported_and_the_last_good_checkpoint_kept(tmp_path: Path) -> None:
    """From the second update on, files of more than 20 kB cannot be written, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(agent: Agent, metrics: dict[str, float]) -> None:
        if agent.steps == 96:
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))

    out, config = tmp_path / "run", config_of()
    try:
        with pytest.raises(CheckpointError, match="cannot write the checkpoint of step 96") as caught:
            train(config, out, ALWAYS, log=silent, on_cycle=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "the last good checkpoint is step-000000000048-" in str(caught.value)
    assert [path.name[:17] for path in (out / "checkpoints").iterdir()] == ["step-000000000048"]
    assert json.loads((out / "result.json").read_text())["status"] == "failed"
    train(config, out, resume=True, log=silent)
    train(config, tmp_path / "whole", log=silent)
    assert_equal_runs(tmp_path / "whole", out)


def test_metrics_on_a_full_disk_end_the_run_like_a_checkpoint(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(agent: Agent, metrics: dict[str, float]) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))

    try:
        with pytest.raises(CheckpointError, match="File too large"):
            train(config_of(), tmp_path, TrainOptions(tensorboard=False), log=silent, on_cycle=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("problem", [ConnectionError("the tracker is away"), KeyError("a defect")])
def test_what_others_raise_stays_what_it_is_and_is_recorded(problem: Exception, tmp_path: Path) -> None:
    """Every OSError was taken for a full disk, and everything else left no result.json."""

    def fail(agent: Agent, metrics: dict[str, float]) -> None:
        if agent.steps == 96:
            raise problem

    with pytest.raises(type(problem)) as caught:
        train(config_of(), tmp_path / "run", ALWAYS, log=silent, on_cycle=fail)
    assert caught.value is problem
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (result["status"], result["steps"]) == ("failed", 96)
    assert result["error"] == f"{type(problem).__name__}: {problem}"
    train(config_of(), tmp_path / "run", resume=True, log=silent)
    train(config_of(), tmp_path / "whole", log=silent)
    assert_equal_runs(tmp_path / "whole", tmp_path / "run")


def test_a_logger_that_cannot_be_opened_leaves_the_result_of_an_ended_run(tmp_path: Path) -> None:
    train(config_of(), tmp_path, log=silent)
    before = (tmp_path / "result.json").read_bytes()
    with pytest.raises(ValueError, match="log: expected none, wandb or mlflow, got 'paper'"):
        train(config_of(), tmp_path, TrainOptions(log="paper"), resume=True, log=silent)  # type: ignore[arg-type]
    assert (tmp_path / "result.json").read_bytes() == before


def test_a_failed_write_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint(tmp_path, 1, {"x": torch.ones(3)})

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lpm.storage.files.os.fsync", full)
    with pytest.raises(CheckpointError, match="No space left on device; the last good checkpoint is step-000000000001"):
        save_checkpoint(tmp_path, 2, {"x": torch.ones(3)})
    assert len(list(tmp_path.iterdir())) == 1
    loaded = load_checkpoint(tmp_path)
    assert loaded is not None
    assert loaded.steps == 1


def test_only_the_last_two_checkpoints_are_kept(tmp_path: Path) -> None:
    for step in range(5):
        save_checkpoint(tmp_path, step, {"step": step})
    assert [path.name[:17] for path in checkpoints(tmp_path)] == ["step-000000000004", "step-000000000003"]


def test_objects_cannot_go_into_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"state/x/1: expected tensors, arrays, .* got PosixPath"):
        save_checkpoint(tmp_path, 1, {"x": [1, Path("/")]})
    assert not list(tmp_path.iterdir())


def test_nan_names_module_and_step_and_keeps_what_was_good(tmp_path: Path) -> None:
    def poison(agent: Agent, metrics: dict[str, float]) -> None:
        if agent.steps == 3 * 48:
            with torch.no_grad():
                agent.policy.critic[-1].bias.fill_(float("nan"))  # type: ignore[union-attr, operator]

    with pytest.raises(NonFiniteError, match=r"policy \(critic\) is nan at step 192"):
        train(config_of(), tmp_path, ALWAYS, log=silent, on_cycle=poison)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["status"] == "failed"
    assert "policy (critic)" in result["error"]
    models = load(tmp_path / "models-before-failure.safetensors", "models")
    assert torch.isfinite(models["policy"]["actor.0.weight"]).all()


def test_unfinished_files_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    train(config_of(), tmp_path, log=silent)
    left = tmp_path / "checkpoints" / ".99-1.unfinished"
    left.write_bytes(b"half")
    train(config_of(), tmp_path, resume=True, log=silent)
    assert not left.exists()


def test_a_shortened_metrics_file_is_refused(tmp_path: Path) -> None:
    train(config_of(), tmp_path, log=silent)
    (tmp_path / "metrics.jsonl").write_bytes(b"")
    with pytest.raises(ValueError, match="the file was changed"):
        train(config_of(), tmp_path, resume=True, log=silent)
