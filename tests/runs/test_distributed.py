"""One run on two processes: the numbers of one process, one checkpoint, and an end when one of them is lost."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from distributed_worker import CASES, FEWER, finished
from torch import distributed as dist

from lpm.cli import main
from lpm.core.group import NO_ANSWER, SINGLE_PROCESS, ProcessGroup, WorkerLost, join_rows, split_rows
from lpm.runs import RunFolder, distributed, load_checkpoint, read_metrics, train
from lpm.runs.build import shard
from lpm.runs.distributed import joined

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="pairs of processes are forked")


@pytest.fixture(scope="module")
def single() -> dict[str, Any]:
    found: dict[str, Any] = {name: finished(name) for name in CASES}
    found["before"] = finished("lgn in continuous actions", updates=FEWER - 2)
    return found


@pytest.fixture(scope="module")
def pairs(single: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    torch.save(single["before"][0], folder / "single.pt")
    script = Path(__file__).with_name("distributed_worker.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environment["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # what torch notes when the other process has gone first is not ours
    subprocess.run([sys.executable, str(script), str(folder)], check=True, env=environment, timeout=900)
    return folder


@pytest.fixture(scope="module")
def pair(pairs: Path) -> dict[str, Any]:
    assert json.loads((pairs / "ended.json").read_text())["equality"]["codes"] == [0, 0]
    found: dict[str, Any] = torch.load(pairs / "pair.pt", weights_only=False)
    return found


def ended(pairs: Path, scenario: str) -> Any:
    return json.loads((pairs / "ended.json").read_text())[scenario]


def gap(a: Any, b: Any) -> float:
    """The largest difference of two nested states of the same layout."""
    if isinstance(a, dict):
        assert set(a) == set(b)
        return max((gap(a[key], b[key]) for key in a), default=0.0)
    if isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        return max((gap(x, y) for x, y in zip(a, b, strict=True)), default=0.0)
    if a is None or isinstance(a, str):
        assert a == b
        return 0.0
    x, y = (torch.as_tensor(value).double() for value in (a, b))
    assert x.shape == y.shape
    return float((x - y).abs().max()) if x.numel() else 0.0


# ---- two processes are one with the doubled batch -------------------------------------------------------------
@pytest.mark.parametrize("name", CASES)
def test_two_processes_equal_one(name: str, single: dict[str, Any], pair: dict[str, Any]) -> None:
    (state, metrics, (parameters,)), (state_of_two, metrics_of_two, replicas) = single[name], pair[name]
    assert gap(parameters, replicas[0]) < 1e-5
    assert gap(replicas[0], replicas[1]) == 0.0  # in both processes the same, bit for bit
    assert gap(state["policy"], state_of_two["policy"]) < 1e-3  # sums over all observations among them
    assert set(metrics) == set(metrics_of_two)
    assert metrics["episodes"] == metrics_of_two["episodes"]
    assert gap(metrics, metrics_of_two) < 1e-2


def test_the_state_of_two_is_that_of_one(single: dict[str, Any], pair: dict[str, Any]) -> None:
    state, state_of_two = single["lpm"][0]["bonus"], pair["lpm"][0]["bonus"]
    assert sorted(state) == sorted(state_of_two)
    for name in ("experience.buffer.rows_obs", "experience.buffer.rows_action", "experience.buffer.pushed"):
        assert gap(state[name], state_of_two[name]) < 1e-5
    a, b = single["lgn in continuous actions"][0], pair["lgn in continuous actions"][0]
    assert gap(a["bonus"]["episode.rows"], b["bonus"]["episode.rows"]) < 1e-4
    assert gap(a["collector"]["obs"], b["collector"]["obs"]) < 1e-4
    assert gap(a["collector"]["envs"]["points"], b["collector"]["envs"]["points"]) == 0.0
    assert gap(a["mixer"]["bonus.rows"], b["mixer"]["bonus.rows"]) < 1e-3
    assert gap(a["mixer"]["task.rows"], b["mixer"]["task.rows"]) < 1e-3


def test_a_run_of_one_goes_on_with_two_and_back(single: dict[str, Any], pair: dict[str, Any]) -> None:
    name = "lgn in continuous actions"
    assert gap(single[name][2][0], pair["resumed"][2][0]) < 1e-5
    one = finished(name, start=pair["resumed"][0], updates=1)
    assert one[0]["collector"]["counters"][0] == (FEWER + 1) * 4 * 32


def test_a_shorter_block_ends_in_filler(pair: dict[str, Any]) -> None:
    obs, valid = pair["uneven"]
    assert obs == [[0, 0, 1, 1]] * 3
    assert valid == [[True] * 4, [True] * 4, [False, False, True, True]]


# ---- what goes wrong ------------------------------------------------------------------------------------------
def test_a_killed_process_ends_the_run_which_goes_on_from_its_checkpoint(pairs: Path) -> None:
    found, folder = ended(pairs, "killed"), RunFolder(pairs / "killed")
    assert found["codes"] == [1, -9]
    said = " ".join(found["texts"][0].split())
    assert "the connection to another process was lost: it died or was killed" in said
    assert "the last checkpoint is step-000000000128-" in said
    assert f"lpm train --out {folder.path} --resume" in said.replace("\n", "")
    result = json.loads(folder.result_file.read_text())
    assert result["status"] == "failed"
    assert "it died or was killed" in result["error"]
    lines: list[str] = []
    outcome = train(folder.config, folder.path, resume=True, log=lines.append)
    assert lines[0] == "Resuming at step 128 of 1,280."
    assert outcome.status == "finished"
    assert [row["step"] for row in read_metrics(folder.metrics_file)] == [128 * (i + 1) for i in range(10)]


def test_a_signal_to_one_process_ends_all_and_another_number_goes_on(pairs: Path, tmp_path: Path) -> None:
    """Two processes, one killed; two again, one sent SIGTERM; then one to the end: as one that never ended."""
    found, folder = ended(pairs, "interrupted"), RunFolder(pairs / "interrupted")
    assert found["codes"] == [130, 130]
    said = " ".join(found["texts"][0].split())
    assert "Resuming at step 128 of 1,280." in said
    assert "Interrupted at step 512, and saved." in said
    assert found["texts"][1] == ""
    outcome = train(folder.config, folder.path, resume=True, log=lambda line: None)
    assert outcome.status == "finished"
    train(folder.config, tmp_path / "one", log=lambda line: None)
    states = [load_checkpoint(path / "checkpoints") for path in (folder.path, tmp_path / "one")]
    a, b = (state.state["agent"]["policy"] for state in states if state is not None)
    weights = [name for name in a if "weight" in name]
    assert gap([a[name] for name in weights], [b[name] for name in weights]) < 1e-4


def test_a_process_that_fails_is_quoted_by_the_first(pairs: Path) -> None:
    found = ended(pairs, "failing")
    assert found["codes"] == [1, 1]
    assert "process 1 on" in found["texts"][0]
    assert "stopped: its disk is full" in found["texts"][0]
    assert found["texts"][1] == ""


def test_a_process_that_never_answers_ends_the_wait(pairs: Path) -> None:
    assert (pairs / "silent").read_text().startswith("another process did not answer in time")


def test_different_versions_are_refused(pairs: Path) -> None:
    found = ended(pairs, "differing")
    assert found["codes"] == [1, 1]
    said = " ".join(found["texts"][0].split())
    assert "lpm train: the processes differ: the version of " in said
    assert "in process 1 on" in said
    assert found["texts"][1] == ""
    assert not (pairs / "differing").exists()


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        ("told", "'none' in process 0 on .*, 'rnd' in process 1 on "),
        ("told_in_a_script", "run.seed is 0 in process 0 on .*, 1 in process 1 on "),
    ],
)
def test_processes_that_were_told_different_things_are_refused(scenario: str, words: str, pairs: Path) -> None:
    found = ended(pairs, scenario)
    assert 0 not in found["codes"]
    assert re.search(words, " ".join(found["texts"][0].split()))
    assert not (pairs / scenario).exists()


def test_shares_must_be_even(pairs: Path) -> None:
    found = ended(pairs, "refused")
    assert found["codes"] == [1, 1]
    assert "expected a multiple of the 2 processes" in found["texts"][0]
    assert "4 or 6 would do" in found["texts"][0]
    assert found["texts"][1] == ""
    assert not (pairs / "refused").exists()
    assert shard(6, 2) == 3
    with pytest.raises(ValueError, match=r"expected a multiple of the 2 processes.* got 1; 2 or 4 would do"):
        shard(1, 2)


def started_as(monkeypatch: pytest.MonkeyPatch, rank: int, port: int = 0) -> None:
    """As torchrun starts process `rank` of three."""
    for name, value in {"RANK": rank, "WORLD_SIZE": 3, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, str(value))


def test_processes_that_never_come_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started_as(monkeypatch, rank=0)
    assert main(["train", "lpm/MountainCar-v0", "--timeout_seconds", "0.5"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("lpm train: of 3 processes number 1, 2 never answered within 0.5 s: is every machine")
    assert said.count("\n") == 1


def test_a_first_process_that_never_comes_is_named_by_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stores: Any = dist
    store = stores.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    started_as(monkeypatch, rank=1, port=store.port)
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    with pytest.raises(SystemExit), joined(0.5):
        pass
    assert capsys.readouterr().err.startswith("process 1: of 3 processes number 0 never answered within 0.5 s")


def test_of_three_processes_the_first_hears_that_one_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    # the second may give up waiting for the third a moment before the first does, and is not the one that is lost
    stores: Any = dist
    store = stores.HashStore()
    monkeypatch.setattr(dist, "destroy_process_group", lambda: None)
    distributed._mark_reported(store)
    distributed._leave(store, 1, WorkerLost("the connection to another process was lost: it died or was killed"))
    assert distributed._reason(store) is None
    distributed._leave(store, 1, WorkerLost(NO_ANSWER))
    assert str(distributed._reason(store)).endswith(f" stopped: {NO_ANSWER}")


def test_half_of_torchruns_variables_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started_as(monkeypatch, rank=0)
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("MASTER_PORT")
    assert main(["train", "lpm/MountainCar-v0"]) == 1
    assert "WORLD_SIZE is 3: expected torchrun's RANK, " in (said := capsys.readouterr().err)
    assert "got no RANK, MASTER_PORT; start with torchrun" in said


@pytest.mark.parametrize("timeout", ["0", "-1", "nan", "inf", "1e12"])
def test_a_timeout_is_a_time(timeout: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "lpm/MountainCar-v0", f"--timeout-seconds={timeout}"]) == 1
    assert "--timeout-seconds: expected a number above 0 and at most 1,000,000, got" in capsys.readouterr().err


def test_without_torchrun_a_process_is_alone() -> None:
    with joined() as group:
        assert group is SINGLE_PROCESS


# ---- parts and wholes -----------------------------------------------------------------------------------------
def test_environments_beside_each_other() -> None:
    parts = [{"env.x": torch.tensor([i]).numpy(), "env.points": torch.tensor([7, 8]).numpy()} for i in range(2)]
    whole = join_rows(parts, ("points",))
    assert whole["env.x"].tolist() == [0, 1]
    assert whole["env.points"].tolist() == [7, 8]
    assert split_rows(whole, slice(1, 2), ("points",))["env.x"].tolist() == [1]
    assert join_rows([{"x": "text"}, {"x": "text"}], ()) is None


def test_every_process_has_rows_of_a_minibatch() -> None:
    groups = [ProcessGroup(rank, 2) for rank in range(2)]
    assert [group.share(torch.arange(5)).tolist() for group in groups] == [[0, 2, 4], [1, 3]]
    assert [group.share(torch.arange(1)).tolist() for group in groups] == [[0], [0]]
