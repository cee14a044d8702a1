"""LPM as the authors' published code computes it: other forms of the reward, and what is done to g and to the reward.

The defaults and the paper's variants are those of `lpm` with the release's exponential form; the release's
variants have the rest of each script.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from lpm.bonuses._progress import log_error
from lpm.bonuses.lpm import ATARI, LITERAL, LPM, MINIWORLD, MNIST, LPMConfig
from lpm.core.registry import register
from lpm.core.settings import Count, expect, reject_unused
from lpm.nn.dynamics import DynamicsModel
from lpm.nn.experience import Minibatches, Prepared
from lpm.nn.frozen import RandomTargetErrorModel, RandomTargetModel

Form = Literal["exp", "linear", "rnd"]
NOT_RND = ("dynamics_hidden", "dynamics_skip", "predict", "features", "affine", "shared_encoder", "sigmoid",
           "error_outputs", "error_floor")  # fmt: skip


@dataclass(frozen=True)
class LPMReleaseConfig(LPMConfig):
    """Settings of the published code's LPM: those of `lpm`, and what the code does besides."""

    form: Form = "exp"
    """Reward: "exp" weight·exp(g) − (MSE + floor) (release, but for the floor); "rnd" MSE − weight·max(g, 0), both of
    a random network's features (release, Montezuma); "linear" g − MSE with g regressed on the MSE (neither)."""
    weight: float = 1.0
    """Of g in the "exp" form (release Atari: 0.4) and in the "rnd" form (release Montezuma: 0.1)."""
    gate_full: bool = True
    """Reward 0 until |D| = d (Algorithm 1). The release has no such gate."""
    replay: Literal["all", "latest"] = "all"
    """What f is trained on: "all" of B (Algorithm 1), or only the "latest" since the last update (release)."""
    error_outputs: Count = 1
    """Outputs of g, each regressed on the same error (App. C: 1; release MNIST: 784)."""
    error_every: Count = 1
    """Fit g at every n-th update only (release MNIST and MiniWorld: 5)."""
    sigmoid: bool | None = None
    """Sigmoid after f's image decoder (App. C.2, C.3). None: where the targets are pixels in [0, 1]. The release has it
    for Atari although its targets are standardised, which leaves an error that cannot be learnt away."""
    clamp: tuple[float, float] | None = None
    """Bounds on g's output (release: (-10, 10))."""
    reward_scale: float = 1.0
    """Factor on the reward (release MNIST: 0.2)."""
    reward_cap: float | None = None
    """Upper bound on the reward (release MiniWorld: 0.5)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("weight", "reward_scale"):
            expect(self, name, math.isfinite(getattr(self, name)), "a finite number")
        cap = self.reward_cap
        expect(self, "reward_cap", cap is None or math.isfinite(cap), "a finite number, or None")
        if self.clamp is not None:
            expect(self, "clamp", self.clamp[0] < self.clamp[1], "(low, high) with low < high")
        idle = {"exp": (), "linear": ("weight",), "rnd": NOT_RND}[self.form]
        reject_unused(self, f"with form={self.form!r}", *idle)


# The release: linear space, no gate, f trained on the current rollout only.
RELEASE: Mapping[str, Any] = {**LITERAL, "gate_full": False, "replay": "latest"}
LONG_RUNS: Mapping[str, Any] = {
    "normalise": "scalar", "warmup": 10_000, "dynamics_lr": 1e-4, "error_lr": 1e-4, "dynamics_steps": 24,
    "error_steps": 24,
}  # fmt: skip


def target(form: Form, mse: Tensor, floor: float | Tensor) -> Tensor:
    """What g is regressed on: ε for the exp form, the MSE itself for the others."""
    return log_error(mse, floor) if form == "exp" else mse


def reward(form: Form, g: Tensor, mse: Tensor, floor: float | Tensor, *, weight: float = 1.0) -> Tensor:
    """The reward from g's outputs (..., K), averaged over them, and the current MSE (...)."""
    if form == "exp":
        return weight * g.exp().mean(-1) - (mse + floor)
    if form == "linear":
        return g.mean(-1) - mse
    return mse - weight * g.mean(-1).clamp_min(0)


@register("lpm_release")
class LPMRelease(LPM):
    """Learning progress as the authors' code computes it: exp(g) minus the error, or RND minus a tenth of g."""

    label = "LPM, authors' code"
    family = "progress"
    use = "LPM as the authors' code computes it."
    Config = LPMReleaseConfig
    config: LPMReleaseConfig
    reference = "Hou, An & Du 2026, the code published with Beyond Noisy-TVs"
    variants = {
        **LPM.variants,
        "release-mnist": {**RELEASE, **MNIST, "reward_scale": 0.2, "error_outputs": 784, "error_every": 5},
        "release-miniworld": {
            **RELEASE, **MINIWORLD, "error_floor": 1e-6, "reward_cap": 0.5, "clamp": (-10.0, 10.0), "error_lr": 1e-2,
            "error_every": 5,
        },
        "release-atari": {
            **RELEASE, **ATARI, **LONG_RUNS, "error_floor": 1e-6, "weight": 0.4, "clamp": (-10.0, 10.0),
            "sigmoid": True, "queue_size": 16_384, "batch_size": 1024, "error_batch_size": 32,
        },
        "release-montezuma": {
            "form": "rnd", "weight": 0.1, "gate_fitted": False, "gate_full": False, "replay": "latest", **LONG_RUNS,
            "error_hidden": (512, 512), "queue_size": 10_000, "batch_size": 2048, "error_batch_size": 128,
        },
    }  # fmt: skip

    def _build_dynamics(self) -> DynamicsModel | RandomTargetModel:
        if self.config.form == "rnd":
            return RandomTargetModel(self.spaces, act=self.config.activation)
        return self._dynamics_network(self.config.sigmoid)

    def _build_error_model(self) -> None:
        if not isinstance(self.dynamics, RandomTargetModel):
            self._build_network(self.config.error_outputs)
            return
        hidden = (512, 512) if self.config.error_hidden is None else self.config.error_hidden
        self.error_model = RandomTargetErrorModel(self.dynamics, self.spaces, hidden=hidden)

    def _error_inputs(self, rows: Prepared) -> tuple[Tensor, Tensor]:
        # (o, a), except in the Montezuma code, which shows g the next observation
        return (rows.x_next if self.config.form == "rnd" else rows.x), rows.code

    def _gate(self, valid: Tensor) -> Tensor:
        return valid if self._has_scale and not self.config.gate_full else super()._gate(valid)

    def _target(self, mse: Tensor) -> Tensor:
        return target(self.config.form, mse, self.floor)

    def _progress(self, g: Tensor, mse: Tensor) -> Tensor:
        c = self.config
        g = g if c.clamp is None else g.clamp(*c.clamp)
        value = c.reward_scale * reward(c.form, g, mse, self.floor, weight=c.weight)
        return value if c.reward_cap is None else value.clamp_max(c.reward_cap)

    def _dynamics_batches(self, generator: torch.Generator) -> Minibatches:
        c = self.config
        new = c.batch_size if c.replay == "latest" else 0
        return self.experience.replayed(c.batch_size, c.dynamics_steps, generator, new=new)

    def _fit_error_model(self, slots: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        due = int(self.versions) % self.config.error_every == 0
        return super()._fit_error_model(slots, generator) if due else {}
