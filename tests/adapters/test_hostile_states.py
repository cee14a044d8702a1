"""Every adapter against the states that strangers might send: refused with a sentence, and nothing is changed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from gymnasium.spaces import Box, Discrete
from hostile import ATTACKS, attacks

import lpm
from lpm import Spaces
from lpm.storage import state_file

ROWS = 3
SPACES = Spaces(Box(-1, 1, (3,)), Discrete(2))


@dataclass
class Reader:
    """An adapter: its state, a good one as the content of a file, and how such a content is read."""

    state: Callable[[], Any]
    good: bytes
    read: Callable[[bytes], None]


def sb3(kind: str, folder: Path) -> Reader:
    pytest.importorskip("stable_baselines3")
    from sb3_cases import envs, off_policy, on_policy

    from lpm.adapters.sb3 import IntrinsicCallback, IntrinsicReplayBuffer, companion, load_bonus, make_bonus, save

    model = on_policy("PPO", envs()) if kind == "on" else off_policy("DQN", envs())
    bonus = make_bonus("rnd", model, rollout_steps=16, seed=3)
    intrinsic: Any = IntrinsicCallback(bonus) if kind == "on" else IntrinsicReplayBuffer.attach(model, bonus)
    model.learn(60, callback=intrinsic if kind == "on" else None)
    save(model, intrinsic, folder / "model")
    file = companion(folder / "model")
    bonus.load_state_dict(make_bonus("rnd", model, rollout_steps=16, seed=4).state_dict())  # other than in the file

    def read(content: bytes) -> None:
        file.write_bytes(content)
        load_bonus(model, intrinsic, folder / "model")

    return Reader(intrinsic.state_dict, file.read_bytes(), read)


def torchrl(folder: Path) -> Reader:
    pytest.importorskip("torchrl")
    from lpm.adapters.torchrl import IntrinsicTransform

    good, transform = (
        IntrinsicTransform(lpm.make("rnd", SPACES, num_envs=ROWS, rollout_steps=4, seed=seed)) for seed in (1, 2)
    )
    file = folder / "transform.safetensors"
    lpm.save_state(good.state_dict(), file)

    def read(content: bytes) -> None:
        file.write_bytes(content)
        transform.load_state_dict(lpm.load_state(file))

    return Reader(transform.state_dict, file.read_bytes(), read)


def rllib(folder: Path) -> Reader:
    pytest.importorskip("ray.rllib")
    from lpm.adapters.rllib import IntrinsicConnector

    good, connector = (
        IntrinsicConnector(lpm.make("rnd", SPACES, num_envs=ROWS, rollout_steps=4, seed=seed), mixer=lpm.MixerConfig())
        for seed in (1, 2)
    )
    return Reader(connector._state, good.get_state()["bytes"], lambda content: connector.set_state({"bytes": content}))


KINDS: dict[str, Callable[[Path], Reader]] = {
    "sb3 on-policy": lambda folder: sb3("on", folder),
    "sb3 off-policy": lambda folder: sb3("off", folder),
    "torchrl": torchrl,
    "rllib": rllib,
}


@pytest.fixture(scope="module", params=KINDS)
def reader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    return KINDS[request.param](tmp_path_factory.mktemp("adapter"))


def content(state: Any) -> bytes:
    return state_file.to_bytes(state, "compared")


@pytest.mark.parametrize("attack", ATTACKS)
def test_bad_ones(attack: str, reader: Reader, tmp_path: Path) -> None:
    mark, before = tmp_path / "it ran", content(copy.deepcopy(reader.state()))
    with pytest.raises(ValueError, match=r"expected|instead of|damaged|fit|cut short") as caught:
        reader.read(attacks(mark)[attack](reader.good))
    assert not mark.exists()
    assert content(reader.state()) == before
    assert len(str(caught.value)) < 3000


def test_what_is_no_state(reader: Reader) -> None:
    before = content(copy.deepcopy(reader.state()))
    for tree in ({}, [], None, {"bonus": None}, {"x": torch.ones(2)}):
        for kind in ("state", "adapter", "lpm_intrinsic"):
            with pytest.raises(ValueError, match="expected"):
                reader.read(state_file.to_bytes(tree, kind))
    assert content(reader.state()) == before


def test_a_good_one_is_read(reader: Reader) -> None:
    """Last: until here the state was another."""
    before = content(copy.deepcopy(reader.state()))
    reader.read(reader.good)
    assert content(reader.state()) != before
