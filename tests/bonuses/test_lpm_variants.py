"""The constants of the named variants, written out from the paper's appendix and from the authors' published code.

What a source does not say, and a variant therefore chooses, is listed as unsaid.
"""

import dataclasses

import pytest

from lpm.bonuses.lpm import LPM, LPMConfig
from lpm.core.registry import configure
from lpm_paper.lpm_release import LPMRelease

VARIANTS = {**LPM.variants, **LPMRelease.variants}

PAPER = {
    "gate_fitted": False,
    "affine": False,
    "normalise": "none",
    "queue": "fifo",
}
RELEASE = {
    "form": "exp",
    "gate_full": False,
    "gate_fitted": False,
    "affine": False,
    "queue": "fifo",
    "replay": "latest",
    "error_floor": 1e-6,
    "normalise": "none",
}
MNIST = {
    "dynamics_hidden": (784, 784, 784),
    "dynamics_skip": True,
    "error_hidden": (256, 128, 64),
    "dynamics_lr": 1e-3,
    "error_lr": 1e-3,
    "queue_size": 100,
    "batch_size": 32,
    "error_batch_size": 32,
    "dynamics_steps": 1,
    "error_steps": 1,
}
MINIWORLD = {
    "activation": "relu",
    "features": None,
    "dynamics_hidden": (512,),
    "error_hidden": (256, 128),
    "dynamics_lr": 1e-3,
    "queue_size": 100,
}
ATARI = {"activation": "leaky_relu", "features": 512, "dynamics_hidden": (512,), "error_hidden": (256, 128)}

EXPECTED: dict[str, dict[str, object]] = {
    "paper": PAPER | {"error_hidden": (256, 128)},
    "paper-mnist": PAPER | MNIST,
    "paper-miniworld": PAPER | MINIWORLD,
    "paper-atari": PAPER | ATARI | {"queue_size": 128},
    "release-mnist": RELEASE
    | MNIST
    | {"reward_scale": 0.2, "weight": 1.0, "error_outputs": 784, "error_every": 5, "clamp": None},
    "release-miniworld": RELEASE
    | MINIWORLD
    | {
        "weight": 1.0,
        "reward_scale": 1.0,
        "reward_cap": 0.5,
        "clamp": (-10.0, 10.0),
        "error_lr": 1e-2,
        "error_every": 5,
        "error_outputs": 1,
        "batch_size": 64,
        "error_batch_size": 32,
        "dynamics_steps": 1,
        "error_steps": 1,
    },
    "release-atari": RELEASE
    | ATARI
    | {
        "weight": 0.4,
        "reward_scale": 1.0,
        "reward_cap": None,
        "clamp": (-10.0, 10.0),
        "normalise": "scalar",
        "warmup": 10_000,
        "sigmoid": True,
        "dynamics_lr": 1e-4,
        "error_lr": 1e-4,
        "queue_size": 16_384,
        "batch_size": 1024,
        "error_batch_size": 32,
        "dynamics_steps": 24,
        "error_steps": 24,
        "error_every": 1,
    },
    "release-montezuma": {
        "form": "rnd",
        "weight": 0.1,
        "gate_full": False,
        "gate_fitted": False,
        "replay": "latest",
        "normalise": "scalar",
        "warmup": 10_000,
        "error_hidden": (512, 512),
        "dynamics_lr": 1e-4,
        "error_lr": 1e-4,
        "queue_size": 10_000,
        "batch_size": 2048,
        "error_batch_size": 128,
        "dynamics_steps": 24,
        "error_steps": 24,
        "error_every": 1,
        "reward_cap": None,
    },
}


def test_every_variant_is_written_out() -> None:
    assert set(EXPECTED) == set(VARIANTS)


@pytest.mark.parametrize("variant", sorted(EXPECTED))
def test_constants(variant: str) -> None:
    name = "lpm" if variant in LPM.variants else "lpm_release"
    settings = dataclasses.asdict(configure(name, variant))
    assert {name: settings[name] for name in EXPECTED[variant]} == EXPECTED[variant]
    beyond = {name for name in VARIANTS[variant] if name not in EXPECTED[variant]}
    unsaid = {
        "paper": {"queue_size"},
        "paper-mnist": {"error_floor"},
        "paper-miniworld": {"batch_size", "error_batch_size", "dynamics_steps", "error_steps"},
    }
    assert beyond == unsaid.get(variant, set())


def test_the_release_has_the_papers_variants_in_its_own_form() -> None:
    for variant, settings in LPM.variants.items():
        assert LPMRelease.variants[variant] == settings
        assert configure("lpm_release", variant).form == "exp"


def test_the_default_is_the_papers_reward_with_the_second_gate_and_scaled_outputs() -> None:
    default = LPMConfig()
    assert (default.gate_fitted, default.affine) == (True, True)
    assert (default.queue_size, default.queue) == (None, "fifo")
