"""A bonus package outside the repository: checked, run at a tiny scale, and scored."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lpm.cli import main
from lpm.suite import axes, jobs, scorecard
from lpm.suite.environments import ENVIRONMENTS, SEEDS
from lpm.suite.scorecard import read_scorecard

PACKAGE = """
from dataclasses import dataclass

import torch
from lpm import IntrinsicReward


@dataclass(frozen=True)
class MyConfig:
    scale: float = 1.0


class MyBonus(IntrinsicReward):
    '''Pays the size of the change.'''

    Config = MyConfig

    def __init__(self, spaces, config=None, *, num_envs=1, rollout_steps=128, seed=0):
        super().__init__(spaces, num_envs=num_envs, rollout_steps=rollout_steps, seed=seed)
        self.config = config or MyConfig()
        self.register_buffer("seen", torch.zeros(()))

    def _score(self, batch):
        change = (batch.next_obs.float() - batch.obs.float()).flatten(2).clamp(-1e3, 1e3)
        return self.config.scale * change.square().mean(2)

    def _observe(self, batch):
        self.seen += batch.valid.sum()

    def _update(self, generator):
        return {}


class PaysNan(MyBonus):
    def _score(self, batch):
        return super()._score(batch) * float("nan")


class WrongShape(MyBonus):
    def _score(self, batch):
        return super()._score(batch).mean(0)


class LearnsFromResets(MyBonus):
    def _observe(self, batch):
        self.seen += batch.next_obs.float().sum()


class ChangesInScore(MyBonus):
    def _score(self, batch):
        self.seen += 1
        return super()._score(batch)
"""


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a package in it, as somebody's working directory; no packaged references."""
    (tmp_path / "somebodys_package").mkdir()
    (tmp_path / "somebodys_package" / "__init__.py").write_text(PACKAGE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(scorecard, "packaged", dict)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("PaysNan", "finite"),
        ("WrongShape", "shape"),
        ("LearnsFromResets", "valid"),
        ("ChangesInScore", "score"),
    ],
)
def test_a_bonus_that_breaks_the_contract_is_named_before_any_run(
    name: str, says: str, outside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["suite", f"somebodys_package:{name}", "--scale", "smoke", "--out", "out"]) != 0
    said = " ".join(capsys.readouterr().err.split())
    assert f"somebodys_package:{name} breaks the contract of bonuses" in said
    assert says in said
    assert not (outside / "out" / "runs").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["lgnn"], "unknown bonus 'lgnn'; did you mean lgn"),
        (["somebodys_package:Nothing"], "module 'somebodys_package' has no attribute 'Nothing'"),
        (["lgn:lrr=1"], "'lgn' has no field 'lrr'"),
        (["lgn", "--envs", "mazes"], "unknown environment 'mazes'; did you mean maze?"),
        (["lgn", "--seeds", "0"], "expected at least 1 seed, the first at least 0, got 0 from 0"),
    ],
)
def test_what_does_not_exist_is_named_and_is_no_breach(
    words: list[str], says: str, outside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["suite", *words, "--scale", "smoke", "--out", "out"]) != 0
    said = " ".join(capsys.readouterr().err.split())
    assert says in said
    assert "contract" not in said
    assert not (outside / "out").exists()


def test_a_package_outside_the_repository_gets_its_card(
    outside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = replace(ENVIRONMENTS["car"], smoke_steps=512)
    monkeypatch.setitem(ENVIRONMENTS, "car", small)  # type: ignore[arg-type]
    monkeypatch.setitem(SEEDS, "smoke", 1)
    monkeypatch.setitem(jobs.UPDATES, "smoke", 3)
    monkeypatch.setattr(axes, "RESAMPLES", 20)
    words = ["suite", "somebodys_package:MyBonus:scale=2.0", "--scale", "smoke", "--envs", "car"]
    words += ["--workers", "1", "--out", "out"]
    assert main(words) == 0
    stem = "somebodys_package_MyBonus_scale=2.0"
    card = read_scorecard(outside / "out" / "scorecards" / f"{stem}.json")
    assert card["bonus"] == "somebodys_package:MyBonus"
    assert card["fields"] == {"scale": 2.0}
    assert card["missing"] == ["rooms", "onehot", "maze", "task"]
    assert set(card["conditions"]) == {"car/clean", "car/action"}
    assert all(numbers["cells"][0] > 0 for numbers in card["conditions"].values())
    assert card["machine"]["lpm"]
    assert "MountainCar" in (outside / "out" / "scorecards" / f"{stem}.html").read_text(encoding="utf-8")
    assert "MyBonus, scale=2.0" in capsys.readouterr().out
    per_seed = json.loads((outside / "out" / "runs" / "car" / "clean" / stem / "seed_0.json").read_bytes())
    assert per_seed["versions"]["torch"]
    assert per_seed["machine"]["cores"]
