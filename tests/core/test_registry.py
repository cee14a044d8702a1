"""Bonuses by name: ours, registered ones, and those of other packages."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from tiny_bonus import Tiny, TinyConfig

import lpm
from lpm import Spaces
from lpm.cli import main
from lpm.core import registry

SPACES = Spaces(Box(-1, 1, (3,)), Discrete(2))


@dataclass
class Point:
    """An entry point of an installed package."""

    name: str
    target: Any
    value: str = "their_package:Their"
    loads: int = 0

    def load(self) -> Any:
        self.loads += 1
        return self.target() if callable(self.target) and not isinstance(self.target, type) else self.target


@pytest.fixture(autouse=True)
def _own_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten after it."""
    lpm.names()
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))


def install(monkeypatch: pytest.MonkeyPatch, *points: Point) -> None:
    def found(*, group: str, name: str | None = None) -> list[Point]:
        assert group == "lpm.bonuses"
        return [point for point in points if name in (None, point.name)]

    monkeypatch.setattr(registry, "entry_points", found)


# ---- other packages -------------------------------------------------------------------------------------------
def test_entry_points_are_named_without_being_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    point = Point("theirs", Tiny)
    install(monkeypatch, point)
    assert "theirs" in lpm.names()
    assert point.loads == 0
    bonus = lpm.make("theirs", SPACES, num_envs=2, lr=0.5)
    assert isinstance(bonus, Tiny)
    assert bonus.config == TinyConfig(lr=0.5)
    assert bonus.num_envs == 2
    lpm.make("theirs", SPACES)
    assert point.loads == 1


def test_an_entry_point_whose_module_registers_itself_keeps_its_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Point("theirs", lambda: lpm.register("theirs", lr=0.25)(Tiny)))
    assert lpm.make("theirs", SPACES).config.lr == 0.25  # type: ignore[union-attr]


def test_two_packages_with_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(Tiny):
        pass

    install(monkeypatch, Point("theirs", Tiny), Point("theirs", Other))
    with pytest.raises(ValueError, match=r"register\('theirs'\) for .*Other: the name is taken by .*Tiny"):
        lpm.make("theirs", SPACES)


@pytest.mark.parametrize("value", [3, dict, TinyConfig()])
def test_an_entry_point_that_is_no_bonus(monkeypatch: pytest.MonkeyPatch, value: object) -> None:
    install(monkeypatch, Point("theirs", value))
    with pytest.raises(ValueError, match=r"register\('theirs'\): expected a subclass of IntrinsicReward, got"):
        lpm.make("theirs", SPACES)


def test_an_entry_point_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ModuleNotFoundError("No module named 'theirs'")

    install(monkeypatch, Point("theirs", missing))
    with pytest.raises(ValueError, match=r"bonus 'theirs': .*'lpm.bonuses' cannot be loaded: ModuleNotFoundError: No"):
        lpm.make("theirs", SPACES)


def test_the_list_goes_on_after_a_broken_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    undocumented = type("Undocumented", (Tiny,), {"__doc__": None})
    install(monkeypatch, Point("a-broken-one", 3), Point("undocumented", undocumented))
    assert main(["bonuses"]) == 1
    shown = capsys.readouterr().out
    assert "expected a subclass of IntrinsicReward, got 3" in " ".join(shown.split())
    assert "undocumented" in shown
    assert "rnd" in shown


def test_our_names_are_not_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    point = Point("lpm", Tiny)
    install(monkeypatch, point)
    assert lpm.names().count("lpm") == 1
    assert not isinstance(lpm.make("lpm", SPACES), Tiny)
    assert point.loads == 0


# ---- registering ----------------------------------------------------------------------------------------------
def test_register_twice_is_fine_for_the_same_class_only() -> None:
    lpm.register("tiny")(Tiny)
    lpm.register("tiny")(Tiny)
    namesake = type("Tiny", (Tiny,), {"__module__": "another.package", "__qualname__": Tiny.__qualname__})
    with pytest.raises(ValueError, match=r"for another.package.Tiny: the name is taken by .*tiny_bonus.Tiny"):
        lpm.register("tiny")(namesake)
    with pytest.raises(ValueError, match=r"register\('lpm'\) .*: the name is taken by lpm.bonuses.lpm.LPM"):
        lpm.register("lpm")(Tiny)


def test_config_must_be_a_dataclass() -> None:
    bad = type("Bad", (Tiny,), {"Config": dict})
    with pytest.raises(ValueError, match=r"Bad.Config must be a \(frozen\) dataclass"):
        lpm.register("bad")(bad)


def test_defaults_belong_to_the_name_then_the_variant_then_the_caller() -> None:
    lpm.register("slow-tiny", lr=0.001, power=1.0)(Tiny)
    lpm.register("tiny")(Tiny)
    assert registry.configure("tiny") == TinyConfig()
    assert registry.configure("slow-tiny") == TinyConfig(lr=0.001, power=1.0)
    assert registry.configure("slow-tiny", "cube") == TinyConfig(lr=0.001, power=3.0)
    assert registry.configure("slow-tiny", "cube", power=4.0) == TinyConfig(lr=0.001, power=4.0)


# ---- unknown names --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "tny"}, "unknown bonus 'tny'; did you mean tiny"),
        ({"name": "zzzzzz"}, "unknown bonus 'zzzzzz'; known: .*lpm.*tiny"),
        ({"name": "tiny", "variant": "sqare"}, r"unknown variant 'sqare' of 'tiny'; did you mean square\?"),
        ({"name": "tiny", "variant": "zzz"}, "unknown variant 'zzz' of 'tiny'; known: cube, square"),
        ({"name": "tiny", "pwer": 1.0}, r"'tiny' has no field 'pwer'; did you mean power\?"),
        ({"name": "tiny", "power": "2"}, r"TinyConfig\.power: expected float, got '2'"),
        ({"name": "rnd", "features": 1.5}, r"RNDConfig\.features: expected int \(at least 1\) or None, got 1\.5"),
        ({"name": "lgn", "memory": "short"}, r"LGNConfig\.memory: expected 'episodic' or .* or 'both', got 'short'"),
        ({"name": "lpm", "normalise": ["auto"]}, r"\.normalise: expected 'none' or .* or 'auto', got \['auto'\]"),
        ({"name": "rnd", "hidden": 64}, r"RNDConfig\.hidden: expected tuple\[int, \.\.\.\], got 64"),
        ({"name": "rnd", "hidden": (64, 0)}, r"hidden: expected widths of at least 1, got \(64, 0\)"),
        ({"name": "icm", "hidden": (-2,)}, r"hidden: expected widths of at least 1, got \(-2,\)"),
        ({"name": "tiny", "num_envs": 1.5}, r"num_envs: expected an integer of at least 1, got 1\.5"),
        ({"name": "tiny", "num_envs": 0}, "num_envs: expected an integer of at least 1, got 0"),
        ({"name": "tiny", "rollout_steps": -1}, "rollout_steps: expected an integer of at least 1, got -1"),
        ({"name": "lgn", "memory_size": 10**13}, "expected settings that fit into memory"),
        ({"name": "lgn", "num_envs": 10**13}, "expected settings that fit into memory"),
        ({"name": "tiny", "seed": "x"}, "seed: expected an integer of 64 bits, got 'x'"),
        ({"name": "tiny", "seed": 1.5}, r"seed: expected an integer of 64 bits, got 1\.5"),
        ({"name": "tiny", "seed": 2**63}, "seed: expected an integer of 64 bits, got 9223372036854775808"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    lpm.register("tiny")(Tiny)
    with pytest.raises(ValueError, match=message):
        lpm.make(spaces=SPACES, **arguments)


def test_an_environment_is_not_spaces() -> None:
    with pytest.raises(ValueError, match=r"spaces: expected lpm.Spaces, got Box; see Spaces.of\(env\)"):
        lpm.make("lpm", Box(-1, 1, (3,)))  # type: ignore[arg-type]


# ---- devices --------------------------------------------------------------------------------------------------
def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    lpm.register("tiny")(Tiny)
    assert lpm.make("tiny", SPACES, device="meta").device.type == "meta"
    with pytest.raises(ValueError, match="device: expected 'auto' or the name of a torch device, got 'gpu'"):
        lpm.make("tiny", SPACES, device="gpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert registry.resolve_device("auto").type == "cpu"
    with pytest.raises(ValueError, match="device: expected one that this machine has, got 'cuda:1'; 'auto' picks"):
        lpm.make("tiny", SPACES, device="cuda:1")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert registry.resolve_device("auto").type == "mps"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert registry.resolve_device("auto").type == "cuda"
    assert registry.resolve_device(torch.device("cuda:1")) == torch.device("cuda", 1)


def test_seed_decides_the_weights_and_the_global_state_stays() -> None:
    lpm.register("tiny")(Tiny)
    before = torch.get_rng_state()
    weights = [lpm.make("tiny", SPACES, seed=seed).head.weight for seed in (1, 1, 2)]  # type: ignore[union-attr]
    assert torch.equal(weights[0], weights[1])  # type: ignore[arg-type]
    assert not torch.equal(weights[0], weights[2])  # type: ignore[arg-type]
    numpys: Any = lpm.make("tiny", SPACES, seed=np.int64(1))  # type: ignore[arg-type]
    assert torch.equal(weights[0], numpys.head.weight)  # type: ignore[arg-type]
    assert torch.equal(before, torch.get_rng_state())
