from __future__ import annotations

import json
import sys
import tomllib
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from run_cases import config_of, silent

from lpm.agents import A2CConfig, MixerConfig, PPOConfig
from lpm.core.registry import configure, names
from lpm.runs import RunConfig, TrainOptions, make_envs, train
from lpm.runs.metrics import read_metrics
from lpm.storage.files import to_toml
from lpm.storage.state_file import from_bytes, to_bytes
from lpm.utils.versions import pip_install


def test_the_folder_holds_what_the_docs_say(tmp_path: Path) -> None:
    train(config_of(), tmp_path, log=silent)
    expected = {"config.toml", "machine.json", "metrics.jsonl", "checkpoints", "result.json", "tensorboard"}
    assert {path.name for path in tmp_path.iterdir()} == expected
    rows = read_metrics(tmp_path / "metrics.jsonl")
    assert {"step", "return", "coverage", "noise_share", "bonus/raw_mean", "learn/entropy"} <= set(rows[-1])
    machine = json.loads((tmp_path / "machine.json").read_text())
    assert machine[0]["packages"]["torch"] == torch.__version__.split("+")[0] or machine[0]["packages"]["torch"]
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["status"] == "finished"
    assert set(result["time_shares"]) == {"env", "policy", "bonus", "learn"}
    assert sum(result["time_shares"].values()) == pytest.approx(1, abs=0.01)


def test_metrics_can_be_read_while_a_line_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n{"step": 2}\n{"st')
    assert [row["step"] for row in read_metrics(path)] == [1, 2]


def test_every_bonus_config_survives_toml() -> None:
    for name in names():
        config = RunConfig("CartPole-v1", bonus=name)
        assert RunConfig.from_toml(config.to_toml()) == config, name


def test_none_where_the_default_is_not_none_survives_toml() -> None:
    config = RunConfig(
        "CartPole-v1",
        bonus="lpm_release",
        bonus_settings=configure("lpm_release", clamp=(-20.0, 5.0), queue_size=7),
        mixer=MixerConfig(clip=None),
        agent=PPOConfig(target_kl=0.1),
        env={"sutton_barto_reward": True, "list": [1, 2]},
    )
    assert RunConfig.from_toml(config.to_toml()) == config


TOML = st.recursive(
    st.one_of(st.booleans(), st.integers(-(2**62), 2**62), st.floats(allow_nan=False), st.text()),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.text(min_size=1), st.one_of(TOML, st.dictionaries(st.text(min_size=1), TOML, max_size=3))))
def test_toml_reads_back(table: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(table)) == table


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"unknown bonus 'lmp'; did you mean lpm"):
        RunConfig("CartPole-v1", bonus="lmp")
    with pytest.raises(ValueError, match=r"algo: expected 'ppo' or 'a2c', got 'poo'"):
        RunConfig("CartPole-v1", algo="poo")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"unknown environment 'CartPol-v1'; did you mean CartPole-v1"):
        make_envs(RunConfig("CartPol-v1", bonus="none"))
    with pytest.raises(ValueError, match=r"lpm/MountainCar-v0 has no argument 'noisy'; did you mean noise"):
        make_envs(RunConfig("lpm/MountainCar-v0", bonus="none", env={"noisy": True}))


def test_settings_of_another_class_are_refused() -> None:
    with pytest.raises(ValueError, match="expected PPOConfig for ppo"):
        RunConfig("CartPole-v1", agent=A2CConfig())
    with pytest.raises(ValueError, match="expected the Config of 'rnd'"):
        RunConfig("CartPole-v1", bonus="rnd", bonus_settings=configure("lpm"))


def test_values_of_every_kind_survive_a_file() -> None:
    tree = {
        "a": np.arange(6, dtype=np.uint64).reshape(2, 3),
        "b": [np.zeros(0, dtype=np.float64), np.array(True), np.array(["x", "yz"])],
        "c": (b"bytes", b"", 1, 2.5, None, "text", np.float32(0.5)),
        "t": torch.arange(3),
    }
    back = from_bytes(to_bytes(tree, "test"), "test", "tree")
    np.testing.assert_array_equal(back["a"], tree["a"])
    assert back["a"].dtype == np.uint64
    assert [x.dtype.kind for x in back["b"]] == ["f", "b", "U"]
    assert back["c"] == (b"bytes", b"", 1, 2.5, None, "text", 0.5)
    with pytest.raises(ValueError, match="dtype object"):
        to_bytes(np.array([None]), "test")


def test_without_tensorboard_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpm.runs.metrics.find_spec", lambda name: None)
    said: list[str] = []
    train(config_of(), tmp_path, log=said.append)
    assert [line for line in said if "TensorBoard" in line] == [
        f"No TensorBoard events: {pip_install('tensorboard')} to have them."
    ]
    assert not (tmp_path / "tensorboard").exists()


def test_a_service_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lpm.runs.metrics.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="--log wandb: the package is not installed"):
        train(config_of(), tmp_path, TrainOptions(log="wandb"), log=silent)


class Fake:
    """Takes the place of a service: records the calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any, Any]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Fake:
            self.calls.append((name, args, kwargs))
            return self

        return call


def fake_service(name: str, monkeypatch: pytest.MonkeyPatch) -> Fake:
    fake, module = Fake(), types.ModuleType(name)
    module.__getattr__ = lambda attribute: getattr(fake, attribute)  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr("lpm.runs.metrics.find_spec", lambda wanted: wanted == name)
    return fake


@pytest.mark.parametrize(
    ("service", "start", "log", "end"),
    [("wandb", "init", "log", "finish"), ("mlflow", "start_run", "log_metrics", "end_run")],
)
def test_services_receive_every_line(
    service: Any, start: str, log: str, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = fake_service(service, monkeypatch)
    train(config_of(), tmp_path, TrainOptions(log=service), log=silent)
    called = [name for name, _, _ in fake.calls]
    assert called[-1] == end
    assert start in called
    assert [kwargs["step"] for name, _, kwargs in fake.calls if name == log] == [48 * (i + 1) for i in range(8)]


def test_a_page_belongs_to_one_run_and_survives_its_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in folders of the same name shared one page."""
    fake, options = fake_service("wandb", monkeypatch), TrainOptions(log="wandb")
    for folder, resume in (("a", False), ("b", False), ("a", True)):
        train(config_of(), tmp_path / folder / "run", options, resume=resume, log=silent)
    first, other, resumed = (kwargs for name, _, kwargs in fake.calls if name == "init")
    assert first["name"] == other["name"] == "run"
    assert first["id"] == resumed["id"] != other["id"]
