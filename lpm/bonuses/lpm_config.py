"""Settings of LPM, and by name: the paper read literally, and what the authors' published code computes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from lpm.bonuses._settings import expect, expect_at_least, expect_choice
from lpm.nn.networks import Activation

Form = Literal["log", "linear", "exp", "rnd"]


@dataclass(frozen=True)
class LPMConfig:
    """Settings of LPM. Sections and appendices are the paper's; "release" is the authors' published code."""

    form: Form = "log"
    """Reward: "log" g − log(MSE + floor) (Eq. 3); "exp" η·exp(g) − (MSE + floor) (release, but for the floor);
    "linear" g − MSE with g regressed on the MSE (neither); "rnd" MSE − rnd_weight · max(g, 0) (release, Montezuma)."""
    error_model: Literal["network", "anchored", "slow_copy"] = "network"
    """g: "network" (Sec. 3); "anchored": Bayesian regression on random features, which goes back to the error of the
    untrained f where there is no data; "slow_copy": the error of a copy of f that follows f slowly, from the untrained
    f on. The last two are not in the paper (docs/beyond.md)."""
    error_floor: float | None = None
    """Added to the MSE before the logarithm, in reward and target alike. None: 1e-6 for images, 1e-4 for vectors.
    Paper: none stated; release: 1e-6, in the target only."""
    relative_floor: float | None = None
    """Added to `error_floor`, as a share of the median error of predicting the mean of the first observations: what is
    learnt better than this hardly pays. None: 0 for a network g (paper), 0.1 for an anchored one or a slow copy. For
    the log and exp forms; with a slow copy and `exp_weight` 1 it cancels in the exp form, which is the linear one."""
    queue_size: int | None = None
    """d, capacity of the error queue D in transitions (Sec. 3). None: one rollout, so that D holds the errors of one
    model version. Paper: 100 (MNIST, MiniWorld), 128 (Atari)."""
    queue: Literal["fifo", "reservoir"] = "fifo"
    """Which errors D keeps: the last d (Sec. 3), or a uniform sample of d from those since the last update."""
    gate_full: bool = True
    """Reward 0 until |D| = d (Algorithm 1, line 6). The release has no such gate."""
    gate_fitted: bool = True
    """Reward 0 until g has been fitted once; otherwise the first rewards show g's initial value. Not in the paper."""
    affine: bool = True
    """Before each fit, remove g's average residual on D, so that it starts at the mean error. Not in the paper."""
    normalise: Literal["auto", "none", "standard", "scalar", "robust"] = "auto"
    """Standardise observations with statistics that are frozen at the first update. "auto": vectors yes ("robust" where
    g is not a network), images no. "standard" clips at ±10; "scalar" (release, Atari): mean per pixel, one common std;
    "robust": by the densest half of the values, the rest squashed. Paper: none stated."""
    warmup: int = 1
    """Transitions to observe before the first update, if it freezes statistics or measures a relative floor; errors
    from before are not queued. Release: 10,000."""
    buffer_size: int | None = None
    """Capacity of the replay buffer B in transitions. None: 64 rollouts, but at most 65,536 or what 512 MiB
    hold, and never less than the queue or a rollout. Paper: unbounded."""
    replay: Literal["auto", "all", "latest", "mixed"] = "auto"
    """What f is trained on: "all" of B (Algorithm 1), only the "latest" since the last update (release), or "mixed",
    half of each minibatch from either (less of the latest, if there is less). "auto": mixed for a slow copy, all for
    the other error models."""
    dynamics_hidden: tuple[int, ...] | None = None
    """Hidden layers of f. None: (128, 128) for vectors, (512,) after the encoder for images (App. C.2, C.3)."""
    dynamics_skip: bool = False
    """Let f's last layer see its input (App. C.1: MNIST). Vectors only."""
    predict: Literal["next", "delta"] = "next"
    """What f predicts: the next observation (Sec. 3) or its change. "delta" is for vectors only."""
    error_hidden: tuple[int, ...] | None = None
    """Hidden layers of g. None: (128, 64) for vectors, (256, 128) for images (App. C.2, C.3; MNIST 256-128-64)."""
    error_outputs: int = 1
    """Outputs of g, each regressed on the same error (App. C: 1; release MNIST: 784)."""
    features: int | None = 512
    """Linear layer after the convolutions (App. C.3: 512). None: none, as in MiniWorld (App. C.2)."""
    activation: Activation = "leaky_relu"
    """Activation of the convolutional encoder: "leaky_relu" for Atari (App. C.3), "relu" for MiniWorld (App. C.2)."""
    sigmoid: bool | None = None
    """Sigmoid after f's image decoder (App. C.2, C.3). None: where the targets are pixels in [0, 1]. The release has it
    for Atari although its targets are standardised, which leaves an error that cannot be learnt away."""
    shared_encoder: bool = False
    """Let g read f's image encoder (without training it) instead of its own. Not in the paper."""
    anchor_features: int = 512
    """Random Fourier features of the anchored g."""
    anchor_scale: float = 0.25
    """Length scale of the anchored g, as a multiple of the median distance between the inputs of its first fit."""
    anchor_forgetting: float = 0.98
    """What the anchored g keeps of old data at each update: the counterpart of the queue's length."""
    anchor_ridge: float = 1.0
    """Noise of an error over the prior variance of the anchored g."""
    copy_decay: float = 0.9
    """What the slow copy keeps of its own parameters at each update of f."""
    dynamics_lr: float = 1e-3
    """Adam learning rate of f (App. C.1, C.2; release Atari: 1e-4)."""
    error_lr: float = 1e-3
    """Adam learning rate of g (App. C.1; release MiniWorld 1e-2, Atari 1e-4)."""
    dynamics_steps: int = 16
    """Gradient steps of f per update. Paper: not stated beyond "update"; release: 1 to 24."""
    error_steps: int = 16
    """Gradient steps of g per update. Paper: as f; release: 1 (MNIST, MiniWorld) or 24 (Atari)."""
    error_every: int = 1
    """Fit g at every n-th update only (release MNIST and MiniWorld: 5). A slow copy follows at every update."""
    batch_size: int = 256
    """Minibatch of f (App. C.1: 32)."""
    error_batch_size: int = 256
    """Minibatch of g (App. C.1: 32)."""
    clamp: tuple[float, float] | None = None
    """Bounds on g's output (release: (-10, 10)). With the log form the lower one must not exceed log(floor)."""
    exp_weight: float = 1.0
    """η in η·exp(g) − MSE (release Atari: 0.4)."""
    rnd_weight: float = 0.1
    """Weight of g in the "rnd" form (release Montezuma: 0.1)."""
    reward_scale: float = 1.0
    """Factor on the reward (release MNIST: 0.2)."""
    reward_cap: float | None = None
    """Upper bound on the reward (release MiniWorld: 0.5)."""

    def __post_init__(self) -> None:
        expect_choice(self, "form", "log", "linear", "exp", "rnd")
        expect_choice(self, "error_model", "network", "anchored", "slow_copy")
        expect_choice(self, "queue", "fifo", "reservoir")
        expect_choice(self, "replay", "auto", "all", "latest", "mixed")
        expect_choice(self, "predict", "next", "delta")
        expect_choice(self, "normalise", "auto", "none", "standard", "scalar", "robust")
        expect_choice(self, "activation", *get_args(Activation))
        for name in ("queue_size", "buffer_size", "features"):
            value = getattr(self, name)
            expect(self, name, value is None or value >= 1, "at least 1, or None")
        expect_at_least(self, 1, "warmup", "dynamics_steps", "error_steps", "error_every", "batch_size",
                        "error_batch_size", "error_outputs", "anchor_features")  # fmt: skip
        for name in ("dynamics_lr", "error_lr"):
            expect(self, name, 0 <= getattr(self, name) < math.inf, "at least 0 and finite")
        for name in ("exp_weight", "rnd_weight", "reward_scale"):
            expect(self, name, math.isfinite(getattr(self, name)), "a finite number")
        for name in ("anchor_scale", "anchor_ridge"):
            expect(self, name, 0 < getattr(self, name) < math.inf, "more than 0 and finite")
        expect(self, "anchor_forgetting", 0 < self.anchor_forgetting <= 1, "more than 0 and at most 1")
        expect(self, "copy_decay", 0 < self.copy_decay < 1, "more than 0 and less than 1")
        share = self.relative_floor
        expect(self, "relative_floor", share is None or 0 <= share < math.inf, "at least 0 and finite, or None")
        expect(self, "relative_floor", not share or self.form in ("log", "exp"), f"0 or None with form={self.form!r}")
        if self.error_model != "network":
            expect(self, "form", self.form != "rnd", f"'log', 'exp' or 'linear' with error_model={self.error_model!r}")
            expect(self, "error_outputs", self.error_outputs == 1, f"1 with error_model={self.error_model!r}")
        if self.error_model == "slow_copy":
            expect(self, "shared_encoder", not self.shared_encoder, "False with error_model='slow_copy', its own copy")
        cap, floor = self.reward_cap, self.error_floor
        expect(self, "reward_cap", cap is None or math.isfinite(cap), "a finite number, or None")
        expect(self, "error_floor", floor is None or 0 < floor < math.inf, "more than 0 and finite, or None")
        if self.buffer_size is not None and self.queue_size is not None:
            expect(self, "buffer_size", self.buffer_size >= self.queue_size,
                   f"at least queue_size = {self.queue_size} (the queue is a window of the buffer)")  # fmt: skip
        if self.clamp is not None:
            expect(self, "clamp", self.clamp[0] < self.clamp[1], "(low, high) with low < high")


# Algorithm 1 and nothing else: one gate, g's raw output, no standardisation.
_LITERAL: dict[str, Any] = {"gate_fitted": False, "affine": False, "normalise": "none"}

_MNIST: dict[str, Any] = {
    "dynamics_hidden": (784, 784, 784),
    "dynamics_skip": True,
    "error_hidden": (256, 128, 64),
    "error_floor": 1e-6,
    "queue_size": 100,
    "batch_size": 32,
    "error_batch_size": 32,
    "dynamics_steps": 1,
    "error_steps": 1,
}
_MINIWORLD: dict[str, Any] = {
    "activation": "relu",
    "features": None,
    "dynamics_hidden": (512,),
    "error_hidden": (256, 128),
    "queue_size": 100,
    "batch_size": 64,
    "error_batch_size": 32,
    "dynamics_steps": 1,
    "error_steps": 1,
}
_ATARI: dict[str, Any] = {
    "activation": "leaky_relu",
    "features": 512,
    "dynamics_hidden": (512,),
    "error_hidden": (256, 128),
}
# The release: linear space, no gate, f trained on the current rollout only.
_RELEASE: dict[str, Any] = {
    **_LITERAL,
    "form": "exp",
    "gate_full": False,
    "error_floor": 1e-6,
    "replay": "latest",
}

VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "paper": {**_LITERAL, "queue_size": 100, "error_hidden": (256, 128)},
    "paper-mnist": {**_LITERAL, **_MNIST},
    "paper-miniworld": {**_LITERAL, **_MINIWORLD},
    "paper-atari": {**_LITERAL, **_ATARI, "queue_size": 128},
    "release-mnist": {
        **_RELEASE,
        **_MNIST,
        "reward_scale": 0.2,
        "error_outputs": 784,
        "error_every": 5,
    },
    "release-miniworld": {
        **_RELEASE,
        **_MINIWORLD,
        "reward_cap": 0.5,
        "clamp": (-10.0, 10.0),
        "error_lr": 1e-2,
        "error_every": 5,
    },
    "release-atari": {
        **_RELEASE,
        **_ATARI,
        "exp_weight": 0.4,
        "clamp": (-10.0, 10.0),
        "normalise": "scalar",
        "sigmoid": True,
        "warmup": 10_000,
        "dynamics_lr": 1e-4,
        "error_lr": 1e-4,
        "queue_size": 16_384,
        "batch_size": 1024,
        "error_batch_size": 32,
        "dynamics_steps": 24,
        "error_steps": 24,
    },
    "release-montezuma": {
        **_LITERAL,
        "form": "rnd",
        "gate_full": False,
        "replay": "latest",
        "normalise": "scalar",
        "warmup": 10_000,
        "rnd_weight": 0.1,
        "dynamics_lr": 1e-4,
        "error_lr": 1e-4,
        "error_hidden": (512, 512),
        "queue_size": 10_000,
        "batch_size": 2048,
        "error_batch_size": 128,
        "dynamics_steps": 24,
        "error_steps": 24,
    },
}
