"""One run under Ray Train: the example, and the numbers of one process."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lpm.runs import RunFolder, load_checkpoint, train

ray = pytest.importorskip("ray")
pytest.importorskip("ray.train.torch")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def _ray() -> Iterator[None]:
    ray.init(address="local", num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.fixture
def example() -> Any:
    path = Path(__file__).parents[2] / "examples" / "ray_train.py"
    spec = importlib.util.spec_from_file_location("example_ray_train", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.usefixtures("_ray")
def test_the_example_equals_one_process(example: Any, tmp_path: Path) -> None:
    words = ["--steps", "4096", "--num-envs", "4", "--out", str(tmp_path / "two"), "--storage", str(tmp_path / "ray")]
    result = example.main([*words, "--workers", "2"])
    assert result.error is None
    config = RunFolder(tmp_path / "two").config
    train(config, tmp_path / "one", log=lambda line: None)
    states = [load_checkpoint(tmp_path / name / "checkpoints") for name in ("one", "two")]
    assert states[0] is not None
    assert states[1] is not None
    assert states[0].steps == states[1].steps == 4096
    one, two = (state.state["agent"]["policy"] for state in states if state is not None)
    weights = [name for name in one if "weight" in name]
    assert max(float((one[name] - two[name]).abs().max()) for name in weights) < 1e-5


@pytest.mark.usefixtures("_ray")
def test_workers_without_room_are_an_error(example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "5")  # Ray's minute
    words = ["--bonus", "none", "--num-envs", "4", "--out", str(tmp_path / "run"), "--storage", str(tmp_path / "ray")]
    with pytest.raises(ray.train.TrainingFailedError, match=r"timed out after 5.0 seconds waiting for 4 workers"):
        example.main([*words, "--workers", "4", "--timeout", "30"])
    assert not (tmp_path / "run").exists()
