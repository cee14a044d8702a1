"""What a stranger's file can do to each reader: be refused with a sentence that names it, and nothing else."""

from __future__ import annotations

import copy
import gzip
import hashlib
import json
import os
import random
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from hostile import ATTACKS, FITTING_ONLY, attacks, mutated, put_together, taken_apart
from rich.console import Console

import lpm
import lpm.envs
from lpm.adapters.gymnasium import IntrinsicVectorReward
from lpm.agents import PPOConfig
from lpm.cli import main
from lpm.data import DataError
from lpm.data.download import read_content
from lpm.envs.noise_sources import folder_images
from lpm.runs import CheckpointError, RunConfig, TrainOptions, train
from lpm.runs.checkpoint import checkpoints, load_checkpoint, save_checkpoint
from lpm.storage import state_file
from lpm.storage.files import open_regular, parse_json, read_regular
from lpm.storage.state_tree import StateError, check_like
from lpm.suite.scorecard import read_scorecard
from lpm.sweeps import Job, load_result, run_jobs
from lpm.sweeps.job import attempt

CONFIG = RunConfig(
    "lpm/MountainCar-v0", bonus="rnd", steps=64, device="cpu", agent=PPOConfig(num_envs=2, rollout_steps=16)
)
REFUSED = (StateError, CheckpointError, ValueError)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that ended after 64 steps."""
    out = tmp_path_factory.mktemp("runs") / "run"
    train(CONFIG, out, TrainOptions(tensorboard=False), log=lambda line: None)
    return out


@pytest.fixture
def wrapped() -> Iterator[IntrinsicVectorReward]:
    envs = gymnasium.make_vec("lpm/MountainCar-v0", num_envs=2)
    bonus = lpm.make("rnd", lpm.Spaces.of(envs), num_envs=2, rollout_steps=4, seed=1)
    yield IntrinsicVectorReward(envs, bonus)
    envs.close()


# ---- readers: each takes a way to spoil a good file and reads what comes of it ------------------------------------
Spoil = Callable[[Path], Path]


def read_own_loop(spoil: Spoil, tmp_path: Path, wrapped: IntrinsicVectorReward, run: Path) -> None:
    bonus = wrapped.bonus
    lpm.save_state(bonus.state_dict(), tmp_path / "bonus.safetensors")
    state = lpm.load_state(spoil(tmp_path / "bonus.safetensors"))
    check_like(bonus.state_dict(), state, str(tmp_path / "bonus.safetensors"))


def read_adapter(spoil: Spoil, tmp_path: Path, wrapped: IntrinsicVectorReward, run: Path) -> None:
    wrapped.save(tmp_path / "bonus.safetensors")
    before = copy.deepcopy(wrapped.state_dict())
    try:
        wrapped.load(spoil(tmp_path / "bonus.safetensors"))
    finally:
        assert_equal(before, wrapped.state_dict())


def read_checkpoint(spoil: Spoil, tmp_path: Path, wrapped: IntrinsicVectorReward, run: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(run, out)
    (newest,) = checkpoints(out / "checkpoints")
    bad = spoil(newest)
    if bad.is_file() and not bad.is_symlink():
        # under the name that belongs to its content, so that the name gives nothing away
        with bad.open("rb") as stream:
            length = min(int.from_bytes(stream.read(8), "little"), 2**24)
            checksum = hashlib.sha256(stream.read(length)).hexdigest()[:16]
        bad.rename(newest.with_name(f"step-{64:012d}-{checksum}.safetensors"))
    train(CONFIG, out, TrainOptions(tensorboard=False), resume=True, log=lambda line: None)


READERS = {"own loop": read_own_loop, "adapter": read_adapter, "checkpoint": read_checkpoint}


def assert_equal(before: Any, after: Any) -> None:
    if isinstance(before, dict):
        assert before.keys() == after.keys()
        for key in before:
            assert_equal(before[key], after[key])
    elif isinstance(before, torch.Tensor):
        assert torch.equal(before, after)


@pytest.mark.parametrize("reader", READERS)
def test_a_good_file_is_read(reader: str, tmp_path: Path, wrapped: IntrinsicVectorReward, run: Path) -> None:
    READERS[reader](lambda path: path, tmp_path, wrapped, run)


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("reader", READERS)
def test_state_files(reader: str, attack: str, tmp_path: Path, wrapped: IntrinsicVectorReward, run: Path) -> None:
    mark = tmp_path / "it ran"
    change = attacks(mark)[attack]

    def spoil(path: Path) -> Path:
        path.write_bytes(change(path.read_bytes()))
        return path

    if attack == "a name that climbs out" and reader == "own loop":
        with pytest.raises(StateError, match="expected a tree of tensors"):
            READERS[reader](spoil, tmp_path, wrapped, run)
        return
    with pytest.raises(REFUSED, match=r"\.safetensors") as caught:
        READERS[reader](spoil, tmp_path, wrapped, run)
    assert len(str(caught.value)) < 1000
    assert not mark.exists()
    assert not list(tmp_path.rglob("climbed"))


def _link(path: Path) -> Path:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))
    return path


def _link_to_zeros(path: Path) -> Path:
    path.unlink()
    path.symlink_to("/dev/zero")
    return path


def _pipe(path: Path) -> Path:
    path.unlink()
    os.mkfifo(path)
    return path


def _folder(path: Path) -> Path:
    path.unlink()
    path.mkdir()
    return path


def _sparse(path: Path) -> Path:
    """Larger than any memory, on no disk."""
    entries, manifest, _ = taken_apart(path.read_bytes())
    size = 2**43
    name = next(iter(entries))
    manifest["tree"] = {"$tensor": name}
    content = put_together(
        {name: {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}, json.dumps(manifest), b""
    )
    path.write_bytes(content)
    os.truncate(path, len(content) + size)
    return path


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@pytest.mark.parametrize("spoil", [_link, _link_to_zeros, _pipe, _folder, _sparse])
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_file(reader: str, spoil: Spoil, tmp_path: Path, wrapped: IntrinsicVectorReward, run: Path) -> None:
    with pytest.raises((*REFUSED, OSError), match=r"\.safetensors"):
        READERS[reader](spoil, tmp_path, wrapped, run)


def test_the_optimiser_of_other_parameters_is_refused(tmp_path: Path, wrapped: IntrinsicVectorReward) -> None:
    """torch takes such a state and stumbles over it at the next step, or not at all if it can be broadcast."""
    wrapped.reset(seed=0)
    for _ in range(8):
        wrapped.step(np.zeros((2, 1), dtype=np.float32))
    wrapped.save(tmp_path / "bonus.safetensors")
    entries, manifest, data = taken_apart((tmp_path / "bonus.safetensors").read_bytes())
    name = next(name for name, entry in entries.items() if name.endswith("exp_avg") and len(entry["shape"]) > 1)
    entries[name]["shape"] = [*entries[name]["shape"], 1]
    (tmp_path / "bonus.safetensors").write_bytes(put_together(entries, manifest, data))
    fresh = IntrinsicVectorReward(
        wrapped.env, lpm.make("rnd", wrapped.bonus.spaces, num_envs=2, rollout_steps=4, seed=1)
    )
    with pytest.raises(ValueError, match=r"exp_avg: shape .* got a tensor float32 of shape"):
        fresh.load(tmp_path / "bonus.safetensors")


def test_bytes_as_rllib_keeps_them(tmp_path: Path) -> None:
    good = state_file.to_bytes({"x": torch.ones(2, 3), "y": [1, (2.0, b"z")]}, "test")
    assert state_file.from_bytes(good, "test", "here")["y"] == [1, (2.0, b"z")]
    for name, change in attacks(tmp_path / "it ran").items():
        if name in (*FITTING_ONLY, "tensors over each other"):
            continue
        with pytest.raises(StateError, match=r"^here: "):
            state_file.from_bytes(change(good), "test", "here")
    assert not (tmp_path / "it ran").exists()
    with pytest.raises(StateError, match="expected bytes, got str"):
        state_file.from_bytes("text", "test", "here")  # type: ignore[arg-type]


def test_booleans_are_zero_or_one() -> None:
    entries, manifest, _ = taken_apart(state_file.to_bytes({"x": torch.ones(4, dtype=torch.bool)}, "test"))
    with pytest.raises(StateError, match="expected booleans as 0 and 1"):
        state_file.from_bytes(put_together(entries, manifest, b"\1\0\1\7"), "test", "here")


def test_other_safetensors_readers_open_our_files(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    state = {"a": torch.arange(6.0).reshape(2, 3), "b": {"c": np.arange(3, dtype=np.uint8), "d": torch.ones(2).bool()}}
    lpm.save_state(state, tmp_path / "state.safetensors")
    theirs = safetensors.load_file(tmp_path / "state.safetensors")
    assert set(theirs) == {"a", "b/c", "b/d"}
    assert torch.equal(theirs["a"], state["a"])  # type: ignore[arg-type]
    safetensors.save_file(theirs, tmp_path / "theirs.safetensors")
    with pytest.raises(StateError, match="expected a file that lpm wrote"):
        lpm.load_state(tmp_path / "theirs.safetensors")


def test_memory_order_survives(tmp_path: Path) -> None:
    last = torch.rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    lpm.save_state([last, last[:, 1:], torch.tensor(3.0)], tmp_path / "state.safetensors")
    whole, part, number = lpm.load_state(tmp_path / "state.safetensors")
    assert torch.equal(whole, last)
    assert whole.stride() == last.stride()
    assert torch.equal(part, last[:, 1:])
    assert number.shape == ()


def test_other_versions_are_told_once(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    lpm.save_state({"x": torch.ones(1)}, path)
    entries, manifest, data = taken_apart(path.read_bytes())
    manifest["versions"]["torch"] = "1.2.3"
    path.write_bytes(put_together(entries, manifest, data))
    with pytest.warns(UserWarning, match=r"written with torch 1\.2\.3 \(here .*\); numbers may differ"):
        lpm.load_state(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lpm.load_state(path)


# ---- environments in a checkpoint -----------------------------------------------------------------------------
SIMULATED: dict[str, dict[str, Any]] = {
    "lpm/MountainCar-v0": {"noise": True},
    "lpm/NMaze-v0": {"noise": "action", "images": np.zeros((2, 8, 8, 3), np.uint8), "width": 16, "height": 12,
                     "sticky": 0.5},
    "lpm/NoisyMaze-v0": {"noise": "part", "width": 16, "height": 12},
    "lpm/Rooms-v0": {"noise": "video"},
    "lpm/LavaCrossing-v0": {"observation": "onehot"},
}  # fmt: skip


@pytest.mark.parametrize("env_id", SIMULATED)
def test_no_state_takes_an_environment_out_of_its_bounds(env_id: str) -> None:
    """An index out of bounds in compiled code reads other memory, or ends the process."""
    envs: Any = gymnasium.make_vec(env_id, num_envs=2, **SIMULATED[env_id])
    envs.reset(seed=0)
    good, refused = envs.get_state(), 0
    for name, array in good.items():
        kind = array.dtype.kind
        limits = np.finfo(array.dtype) if kind == "f" else None if kind == "b" else np.iinfo(array.dtype)
        bad = [] if limits is None else [limits.min, limits.max, 0, 50, *([np.nan, np.inf] if kind == "f" else [])]
        for value in bad:
            state = {**good, name: np.full_like(array, value)}
            try:
                envs.set_state(state)
            except ValueError:
                refused += 1
                continue
            for _ in range(3):
                seen, _, _, _, info = envs.step(envs.action_space.sample())
                assert np.isfinite(seen).all()
                assert (abs(info["cell"]) < 2 * envs.num_cells).all()
        without = {key: value for key, value in good.items() if key != name}
        for state in ({**good, name: array[:1]}, {**good, name: None} if name.startswith("info.") else without):
            with pytest.raises(ValueError, match="expected"):
                envs.set_state(state)
    assert refused > 4
    envs.set_state(good)
    envs.close()


# ---- runs -----------------------------------------------------------------------------------------------------
def resume(out: Path) -> list[str]:
    said: list[str] = []
    train(CONFIG, out, TrainOptions(tensorboard=False), resume=True, log=said.append)
    return said


def test_a_run_whose_metrics_are_a_link_is_refused(tmp_path: Path, run: Path) -> None:
    """Resuming cuts metrics.jsonl to a length that the checkpoint says."""
    out, victim = tmp_path / "run", tmp_path / "victim"
    shutil.copytree(run, out)
    victim.write_bytes((out / "metrics.jsonl").read_bytes() + b"precious")
    for name in ("metrics.jsonl", "machine.json", "checkpoints", "tensorboard"):
        kept = tmp_path / name
        if (out / name).exists():
            (out / name).rename(kept)
        (out / name).symlink_to(victim)
        with pytest.raises(ValueError, match=f"{name} is a symbolic link"):
            resume(out)
        (out / name).unlink()
        if kept.exists():
            kept.rename(out / name)
    assert victim.read_bytes().endswith(b"precious")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.jsonl", b'{"step": NaN}\n'),
        ("metrics.jsonl", b'{"step": 1, "step": 2}\n'),
        ("metrics.jsonl", b'{"step": "1"}\n'),
        ("metrics.jsonl", b"[" * 1000 + b"\n"),
        ("machine.json", b'{"a": 1, "a": 2}'),
        ("machine.json", b"{}"),
        ("config.toml", b"[run]\nseed = 0\nseed = 1\n"),
        ("config.toml", b"run = 3\n"),
        ("config.toml", b""),
        ("config.toml", b"\xff\xfe"),
        ("config.toml", b"a = " + b"[" * 10_000),
        ("config.toml", b"#" * 2**21),
    ],
)
def test_text_files_of_a_run(name: str, content: bytes, tmp_path: Path, run: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(run, out)
    size = (out / name).stat().st_size
    (out / name).write_bytes(
        content + (b" " * max(size - len(content) - 1, 0) + b"\n" if name != "config.toml" else b"")
    )
    with pytest.raises(REFUSED, match=name.replace(".", r"\.")):
        resume(out)


def spoil_metrics(run: Path) -> None:
    (run / "metrics.jsonl").write_bytes(b"")


def spoil_starts(run: Path) -> None:
    (run / "machine.json").write_text("{}")


def spoil_checkpoints(run: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").write_text("no folder")


@pytest.mark.parametrize("spoil", [spoil_metrics, spoil_starts, spoil_checkpoints])
def test_an_extension_that_is_refused_leaves_every_file_as_it_was(spoil: Spoil, tmp_path: Path, run: Path) -> None:
    """config.toml had the new number of steps, and machine.json another start, before a file was refused."""
    out = tmp_path / "run"
    shutil.copytree(run, out)
    spoil(out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(REFUSED, match="expected"):
        train(replace(CONFIG, steps=128), out, TrainOptions(tensorboard=False, extend=True), resume=True, log=str)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


# ---- results --------------------------------------------------------------------------------------------------
def result_of(seed: int) -> dict[str, Any]:
    settings = {
        "experiment": "mountain-car",
        "method": "lpm",
        "seed": seed,
        "condition": "stochastic",
        "scale": "smoke",
    }
    return {"format": 1, "settings": settings, "scores": {"coverage": 1.0}}


BAD_RESULTS: dict[str, bytes] = {
    "a pickle": b"\x80\x04K\x01.",
    "keys twice": b'{"format": 1, "format": 1}',
    "NaN": json.dumps(result_of(0)).replace("1.0", "NaN").encode(),
    "Infinity": json.dumps(result_of(0)).replace("1.0", "-Infinity").encode(),
    "nested without end": b"[" * 500_000,
    "cut short": json.dumps(result_of(0)).encode()[:-5],
    "a long number": json.dumps(result_of(0)).replace("1.0", "9" * 10_000).encode(),
    "an infinite number": json.dumps(result_of(0)).replace("1.0", "1e999").encode(),
    "text for a number": json.dumps(result_of(0)).replace("1.0", '"<script>alert(1)</script>"').encode(),
    "no result": b"[1, 2]",
}


@pytest.mark.parametrize("attack", BAD_RESULTS)
def test_report_leaves_out_bad_results(attack: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "runs" / "mountain-car"
    folder.mkdir(parents=True)
    (folder / "seed_0.json").write_bytes(BAD_RESULTS[attack])
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "page.html")]) == 1
    assert "seed_0.json" in capsys.readouterr().out.replace("\n", "")
    job = Job("job", folder / "seed_0.json", result_of(0)["settings"], 1)
    if attack not in ("text for a number", "an infinite number"):
        with pytest.raises(ValueError, match=r"seed_0\.json"):
            load_result(job)


@pytest.mark.parametrize("attack", [*BAD_RESULTS, "a link", "a pipe"])
def test_cards_of_the_suite(attack: str, tmp_path: Path) -> None:
    card = tmp_path / "card.json"
    if attack == "a link":
        card.symlink_to("/dev/zero")
    elif attack == "a pipe":
        os.mkfifo(card)
    else:
        card.write_bytes(BAD_RESULTS[attack])
    with pytest.raises(ValueError, match=r"card\.json: expected a scorecard"):
        read_scorecard(card)


def test_report_follows_no_link_out_of_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, secret = tmp_path / "runs" / "mountain-car", tmp_path / "secret.json"
    folder.mkdir(parents=True)
    secret.write_text(json.dumps(result_of(0)))
    (folder / "seed_0.json").symlink_to(secret)
    (folder / "seed_1.json").symlink_to("/dev/zero")
    os.mkfifo(folder / "seed_2.json")
    (tmp_path / "runs" / "up").symlink_to(tmp_path)
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "page.html")]) == 1
    said = capsys.readouterr().out.replace("\n", "")
    assert "is a symbolic link" in said
    with pytest.raises(ValueError, match="symbolic link"):
        load_result(Job("job", folder / "seed_0.json", result_of(0)["settings"], 1))


STORED = Path(__file__).parents[1] / "results"


def _report_on_mutations(folder: Path, seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Stored results of three methods, some with one thing changed: a page or a refusal, no traceback, no markup."""
    rng = random.Random(seed)
    experiment = rng.choice(["mountain_car", "maze", "mnist", "lava"])
    files = sorted((STORED / experiment).rglob("seed_[01].json"))
    for file in rng.sample(files, min(len(files), 5)):
        content = json.loads(file.read_text())
        to = folder / "runs" / file.relative_to(STORED)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(json.dumps(mutated(content, rng) if rng.random() < 0.6 else content))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numbers of any size overflow somewhere
        assert main(["report", str(folder / "runs"), "--out", str(folder / "page.html")]) in (0, 1)
    page = folder / "page.html"
    assert not page.exists() or "<script>alert" not in page.read_text()
    assert "\x1b[2J" not in capsys.readouterr().out


@pytest.mark.parametrize("seed", range(6))
def test_report_on_changed_results(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _report_on_mutations(tmp_path, seed, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 106))
def test_report_on_many_changed_results(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _report_on_mutations(tmp_path, seed, capsys)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("versions", "<script>"),
        ("versions", []),
        ("versions", {"torch": None}),
        ("visits", [12345678901234567890]),
        ("visited", {"of": 10, "cells": [2**70], "times": [1]}),
        ("curves", {"step": [10**400]}),
        ("scores", {"cells": 1e308}),
        ("bonus", [1]),
    ],
)
def test_results_whose_values_are_others(
    key: str, value: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(next((STORED / "mountain_car").rglob("lgn/seed_0.json")).read_text())
    table = content["settings"] if key == "bonus" else content
    table[key] = value
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "seed_0.json").write_text(json.dumps(content))
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "page.html")]) == 1
    assert "seed_0.json: skipped" in capsys.readouterr().out.replace("\n", "")


def test_looking_at_a_run_imports_nothing(
    tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bonus may be named as module:Class; the current folder, perhaps a stranger's, is on Python's path."""
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "stranger.py").write_text("import pathlib\npathlib.Path('it ran').touch()\nclass Bonus: pass\n")
    text = (tmp_path / "run" / "config.toml").read_text()
    (tmp_path / "run" / "config.toml").write_text(text.replace('bonus = "rnd"', 'bonus = "stranger:Bonus"'))
    monkeypatch.chdir(tmp_path)
    assert main(["report", "run", "--out", "page.html"]) == 0
    assert main(["watch", "run", "--steps", "2"]) == 0
    assert "stranger:Bonus" in (tmp_path / "page.html").read_text()
    assert not (tmp_path / "it ran").exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("max_grad_norm = 0.5", 'max_grad_norm = "much"'),
        ("seed = 0", "seed = 0.5"),
        ("steps = 64", "steps = true"),
        ('device = "cpu"', "device = 3"),
        ("num_envs = 2", 'num_envs = "2"'),
        ('activation = "tanh"', 'activation = "thin"'),
        ("hidden = [", 'hidden = ["8", '),
        ("threads = 1", "threads = 100000"),
        ("steps = 64", f"steps = {10**400}"),
        ("seed = 0", f"seed = {10**30}"),
        ("log_every = 0", f"log_every = {10**30}"),
        ("rollout_steps = ", "rollout_steps = 1000000000000"),
        ("batch_size = ", "batch_size = 1000000000000"),
        ("num_envs = 2", "num_envs = 99999999"),
        ("[mixer]", "[mixr]"),
        ("gamma = 0.99", "gamma = 7.0"),
        ("learning_rate = 0.001", "learning_rate = nan"),
    ],
)
def test_a_config_has_values_of_its_types(old: str, new: str, tmp_path: Path, run: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    text = (tmp_path / "run" / "config.toml").read_text()
    assert old in text
    (tmp_path / "run" / "config.toml").write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=r"config\.toml: expected the settings of a run: .*: expected .*, got"):
        resume(tmp_path / "run")


@pytest.mark.parametrize("attack", ["no policy", "other weights", "visits", "a damaged checkpoint"])
def test_watch_on_a_strangers_run(attack: str, tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    shutil.copytree(run, out)
    (path,) = checkpoints(out / "checkpoints")
    stored = load_checkpoint(out / "checkpoints")
    assert stored is not None
    agent = stored.state["agent"]
    if attack == "no policy":
        del agent["policy"]
    elif attack == "other weights":
        agent["policy"] = {"x": torch.ones(2)}
    elif attack == "visits":
        agent["collector"]["visits"] = [["x"]]
    path.unlink()
    path = save_checkpoint(out / "checkpoints", 64, stored.state)
    if attack == "a damaged checkpoint":
        path.write_bytes(path.read_bytes()[:-1])
    assert main(["watch", str(out), "--steps", "2"]) == 1
    assert "lpm watch: " in capsys.readouterr().err


BAD_PROGRESS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "negative steps": lambda state: state["agent"]["collector"]["counters"].__setitem__(0, -64),
    "a fraction of an episode": lambda state: state["agent"]["collector"]["counters"].__setitem__(1, 0.5),
    "text as returns": lambda state: state["agent"]["collector"].update(recent=[["much", 3.0]]),
    "a return alone": lambda state: state["agent"]["collector"].update(recent=[[1.0]]),
    "NaN returns": lambda state: state["agent"]["collector"].update(recent=[[float("nan"), 3.0]]),
    "NaN in a running episode": lambda state: state["agent"]["collector"]["returns"].fill(np.nan),
    "negative visits": lambda state: state["agent"]["collector"]["visits"].fill(-1),
    "negative size": lambda state: state.update(metrics_size=-1),
    "a line far away": lambda state: state.update(next_line=-(10**9)),
    "NaN seconds": lambda state: state.update(seconds=float("nan")),
    "no collector": lambda state: state["agent"].update(collector=3),
    "no agent": lambda state: state.update(agent={}),
}


@pytest.mark.parametrize("attack", BAD_PROGRESS)
def test_counters_and_returns_of_a_checkpoint(attack: str, tmp_path: Path, run: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(run, out)
    stored = load_checkpoint(out / "checkpoints")
    assert stored is not None
    BAD_PROGRESS[attack](stored.state)
    stored.path.unlink()
    save_checkpoint(out / "checkpoints", 64, stored.state)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(CheckpointError, match=r"does not fit this run: expected .*, got"):
        resume(out)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_settings_that_do_not_fit_into_memory_leave_no_folder(tmp_path: Path) -> None:
    agent = replace(CONFIG.learner, network=replace(CONFIG.learner.network, hidden=(10**8, 10**8)))
    with pytest.raises(ValueError, match="expected settings that fit into memory"):
        train(replace(CONFIG, agent=agent), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_generator_that_torch_refuses(tmp_path: Path, run: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(run, out)
    stored = load_checkpoint(out / "checkpoints")
    assert stored is not None
    stored.state["agent"]["generator"].fill_(255)
    stored.path.unlink()
    save_checkpoint(out / "checkpoints", 64, stored.state)
    with pytest.raises(CheckpointError, match="expected the state of a torch generator"):
        resume(out)


def test_report_on_a_strangers_runs(tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, file, content in (
        ("nan", "metrics.jsonl", b'{"step": NaN}\n'),
        ("deep", "metrics.jsonl", b"[" * 100_000 + b"\n"),
        ("list", "metrics.jsonl", b"[1]\n"),
        ("toml", "config.toml", b"a = " + b"[" * 10_000),
    ):
        shutil.copytree(run, tmp_path / "runs" / name)
        (tmp_path / "runs" / name / file).write_bytes(content)
    shutil.copytree(run, tmp_path / "runs" / "link")
    (tmp_path / "runs" / "link" / "metrics.jsonl").unlink()
    (tmp_path / "runs" / "link" / "metrics.jsonl").symlink_to(run / "metrics.jsonl")
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "page.html")]) == 1
    said = capsys.readouterr().out.replace("\n", "")
    assert said.count("skipped: not a readable run") == 5


# ---- searches -------------------------------------------------------------------------------------------------
def searched(out: Path, trials: int) -> list[Any]:
    pytest.importorskip("optuna")
    from lpm.sweeps.fields import parse_field
    from lpm.sweeps.search import search

    return search(
        out, [parse_field("lr=0.001:0.1")], {}, lambda ts: [t.fields["lr"] for t in ts], trials=trials, batch=1, seed=0
    )


def _edited(old: bytes, new: bytes) -> Spoil:
    def spoil(path: Path) -> Path:
        content = path.read_bytes()
        assert old in content
        path.write_bytes(content.replace(old, new))
        return path

    return spoil


def _replaced(content: bytes) -> Spoil:
    def spoil(path: Path) -> Path:
        path.write_bytes(content)
        return path

    return spoil


BAD_SEARCHES: dict[str, Spoil] = {
    "a link": _link,
    "a link to zeros": _link_to_zeros,
    "a pipe": _pipe,
    "a folder": _folder,
    "a pickle": _replaced(b"\x80\x04K\x01.\n"),
    "a list": _replaced(b"[1, 2]\n"),
    "no trials": _replaced(b'{"trials": []}\n'),
    "names twice": _replaced(b'{"settings": {}, "settings": {}}\n'),
    "nested without end": _replaced(b"[" * 100_000 + b"\n"),
    "another parameter": _edited(b'{"lr":', b'{"rl":'),
    "a value out of the range": _edited(b'{"lr": ', b'{"lr": 9'),
    "text for a score": _edited(b"}, 0", b'}, "x", 0'),
}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
@pytest.mark.parametrize("attack", BAD_SEARCHES)
def test_the_file_of_a_search(attack: str, tmp_path: Path) -> None:
    searched(tmp_path, 2)
    BAD_SEARCHES[attack](tmp_path / "search.json")
    with pytest.raises(ValueError, match=r"search\.json: expected the trials of a search"):
        searched(tmp_path, 3)


@pytest.mark.parametrize("name", [".tune.lock", ".seed_0", ".sweep.lock"])
def test_sweeps_write_through_no_link(name: str, tmp_path: Path) -> None:
    out, victim = tmp_path / "out", tmp_path / "victim"
    out.mkdir()
    victim.mkdir() if name == ".seed_0" else victim.write_text("precious")
    (out / name).symlink_to(victim)
    job = Job("job", out / "seed_0.json", {}, 1)
    writers: dict[str, Callable[[], object]] = {
        ".tune.lock": lambda: searched(out, 1),
        ".seed_0": lambda: attempt(job, lambda *_: {}, lambda *_: None),
        ".sweep.lock": lambda: run_jobs([job], lambda *_: {}, workers=1, console=Console(quiet=True)),
    }
    with pytest.raises(ValueError, match=rf"{name} is a symbolic link"):
        writers[name]()
    assert (list(victim.iterdir()) == []) if victim.is_dir() else (victim.read_text() == "precious")


# ---- pictures -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("attack", ["a program", "a bomb", "a link"])
def test_a_folder_of_images(attack: str, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    path = tmp_path / "noise.png"
    if attack == "a program":  # Pillow gives EPS to Ghostscript, whatever the file is called
        path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(%pipe%true) (w) file\n%%EOF\n")
    elif attack == "a bomb":
        image.new("L", (8000, 8000)).save(path)
        assert path.stat().st_size < 200_000
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises((ValueError, OSError), match=r"noise\.png|cannot identify"):
        folder_images(str(tmp_path), (8, 8))


def test_data_files_are_bounded(tmp_path: Path) -> None:
    bomb = tmp_path / "train-images-idx3-ubyte.gz"
    bomb.write_bytes(gzip.compress(bytes(65 * 2**20)))
    with pytest.raises(DataError, match="unpacks to more than"):
        read_content(bomb)
    sparse = tmp_path / "train-images-idx3-ubyte"
    sparse.touch()
    os.truncate(sparse, 2**42)
    with pytest.raises(DataError, match="expected at most"):
        read_content(sparse)


# ---- the tools they share -------------------------------------------------------------------------------------
def test_files_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 11)
    assert read_regular(path, 11) == b"x" * 11
    with pytest.raises(ValueError, match="expected at most 10 bytes, got 11"):
        read_regular(path, 10)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "none")


def test_json_is_strict() -> None:
    assert parse_json(b'{"a": [1, {"a": 2}]}') == {"a": [1, {"a": 2}]}
    for text in ('{"a": 1, "a": 1}', "NaN", "[Infinity]", "[-Infinity]", "[" * 100_000, ""):
        with pytest.raises(ValueError):
            parse_json(text)


def test_no_module_of_the_library_unpickles_files() -> None:
    """`torch.load` and `pickle` are for own memory and own pipes; the few places are listed here."""
    root = Path(lpm.__file__).parent
    found = {
        (str(path.relative_to(root)), word)
        for path in root.rglob("*.py")
        for word in ("torch.load", "pickle.load", "shelve", "marshal", "joblib", "dill", "yaml.load", "eval(", "exec(")
        if word in path.read_text().replace("literal_eval(", "").replace(".eval(", "").replace("_exec(", "")
    }
    assert found == {
        ("core/bonus.py", "torch.load"),  # of a bonus that is itself in a pickle, between processes
        ("core/check/_rules.py", "torch.load"),  # of what it has just saved to memory
        ("sweeps/local_workers.py", "pickle.load"),  # from the parent process
        ("sweeps/ray_workers.py", "pickle.load"),  # from the driver
    }
