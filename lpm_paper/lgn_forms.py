"""LGN with networks for f and g, and LGN on trained features: for its ablations, not bonuses to use."""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
from torch import Tensor, nn

from lpm.bonuses.etd import ETD
from lpm.bonuses.forward_error import ForwardError
from lpm.bonuses.icm import ICM
from lpm.core.bonus import IntrinsicReward
from lpm.core.group import SINGLE_PROCESS, ProcessGroup
from lpm.core.registry import make
from lpm.core.settings import expect_at_least, expect_choice, reject_unused
from lpm.core.transitions import Transitions
from lpm.nn.buffers import minibatches
from lpm.nn.networks import mlp
from lpm.nn.seeding import seeded
from lpm_paper.lgn_first import LGNFirst, LGNFirstConfig


# ---- f and g as networks --------------------------------------------------------------------------------------
class NetworkByAction(nn.Module):
    """A network with the verbs of `RidgeByAction`: it sees the same columns and the action, and `fit` descends.

    Its output starts at 0 and is in units of the largest spread that targets have had. With `persistence` it is added
    to the first columns, which is what comes if nothing changes.
    """

    shift: Tensor
    scale: Tensor
    fits: Tensor

    def __init__(self, actions: int, columns: int, outputs: int, *, persistence: bool = False) -> None:
        super().__init__()
        self.actions, self.outputs, self.persistence = actions, outputs, persistence
        self.body = mlp(columns + actions, (128, 128), outputs)
        for parameter in self.body[-1].parameters():
            nn.init.zeros_(parameter)
        self.register_buffer("shift", torch.zeros(outputs))
        self.register_buffer("scale", torch.ones(outputs))
        self.register_buffer("fits", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor, action: Tensor) -> Tensor:
        """Rows (B, K) and their actions (B,) to predictions (B, D)."""
        value = self.shift + self.scale * self._inside(x, action)
        return x[:, : self.outputs] + value if self.persistence else value

    def add(
        self, x: Tensor, action: Tensor, y: Tensor, keep: float = 1.0, group: ProcessGroup = SINGLE_PROCESS
    ) -> None:
        """The rows that `fit` will learn from; a network forgets by itself, whatever `keep` is."""
        self.rows = x, action, y - x[:, : self.outputs] if self.persistence else y

    def solve(self) -> None:
        """Nothing: there is no closed form."""

    @torch.enable_grad()
    def fit(self, optimizer: torch.optim.Optimizer, steps: int, batch_size: int, generator: torch.Generator) -> None:
        """Gradient steps on random minibatches of the rows that were added last."""
        x, action, y = self.rows
        del self.rows
        spread = y.std(0, correction=0).clamp_min(1e-6)
        if self.fits == 0:
            self.shift.copy_(y.mean(0))
            self.scale.copy_(spread)
        self.scale.copy_(torch.maximum(self.scale, spread))  # what stood still at first may move later
        self.fits += 1
        target = (y - self.shift) / self.scale
        for drawn in minibatches(len(x), batch_size, steps, generator):
            rows = drawn.to(x.device)
            loss = (self._inside(x[rows], action[rows]) - target[rows]).square().mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()

    def _inside(self, x: Tensor, action: Tensor) -> Tensor:
        code = nn.functional.one_hot(action, self.actions).to(x.dtype)
        return self.body(torch.cat([x, code], 1))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class NetworksConfig(LGNFirstConfig):
    """LGN's settings, of which `ridge` has no effect, and how its networks are trained."""

    steps: int = 16
    """Gradient steps of f, and of g, per update (LPM's default: 16)."""
    batch_size: int = 256
    """Minibatch, from what came since the last update."""
    lr: float = 1e-3
    """Adam learning rate of both."""

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_at_least(self, 1, "steps", "batch_size")
        expect_at_least(self, 0, "lr")
        reject_unused(self, "with networks", "ridge")


class LGNWithNetworks(LGNFirst):
    """LGN whose f and g are networks, trained by gradient steps on each block."""

    Config = NetworksConfig
    config: NetworksConfig
    distributed = False
    reference = "Ablation of LGN: the gate from networks"

    def _build(self) -> None:
        super()._build()
        sizes = (self.design.actions, self.design.columns, self.state.width)
        with seeded(self.generator):
            self.dynamics = NetworkByAction(*sizes, persistence=self.config.prior == "persistence")  # type: ignore[assignment]
            self.error_model = NetworkByAction(*sizes)  # type: ignore[assignment]
        for name in ("dynamics", "error_model"):
            self.add_optimizer(name, self.get_submodule(name).parameters(), self.config.lr)

    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        metrics = super()._update(generator)
        if metrics:
            for name in ("dynamics", "error_model"):
                model = self.get_submodule(name)
                assert isinstance(model, NetworkByAction)
                model.fit(self.optimizer(name), self.config.steps, self.config.batch_size, generator)
        return metrics  # of the gate before the fit


# ---- trained features -----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class TrainedConfig(LGNFirstConfig):
    """LGN's settings, and who trains its features."""

    teacher: Literal["none", "forward_error", "idf", "etd"] = "idf"
    """The bonus whose encoder is taken: of a model of the next frame, of inverse dynamics, of temporal distances.
    "none": a random encoder; LGN begins anew all the same."""
    lesson: int = 1024
    """Transitions that the teacher learns from; LGN on random features rewards them."""
    passes: int = 16
    """Passes of the teacher over them, in minibatches of 64."""

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_choice(self, "teacher", "none", "forward_error", "idf", "etd")
        expect_at_least(self, 1, "lesson", "passes")
        if self.teacher == "none":
            reject_unused(self, "with teacher='none'", "passes")


class LGNOnTrainedFeatures(LGNFirst):
    """LGN on the features of an encoder that another bonus has trained on the first steps, frozen from then on.

    Until it has a reward, an LGN on random features gives it: with no reward at all for a tenth of the maze's budget,
    standardised advantages are pure noise, and the policy collapses onto one action.
    """

    Config = TrainedConfig
    config: TrainedConfig
    distributed = False
    reference = "Ablation of LGN: features that were trained"

    seen: Tensor  # transitions of the lesson so far
    taught: Tensor  # whether it is over

    def _build(self) -> None:
        super()._build()
        if self.state.encoder is None:
            raise ValueError(f"LGNOnTrainedFeatures: expected an image observation, got {self.spaces.observation}")
        c = self.config
        plain = {field.name: getattr(c, field.name) for field in fields(LGNFirstConfig)}
        self.stand_in = LGNFirst(
            self.spaces,
            LGNFirstConfig(**plain),
            num_envs=self.num_envs,
            rollout_steps=self.rollout_steps,
            seed=int(torch.randint(2**31, (), generator=self.generator)),
        )
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.register_buffer("taught", torch.zeros((), dtype=torch.bool))
        self.teacher: IntrinsicReward | None = None
        if c.teacher != "none":
            width: dict[str, Any] = {"embedding" if c.teacher == "etd" else "features": c.features}
            self.teacher = make(
                c.teacher,
                self.spaces,
                num_envs=self.num_envs,
                rollout_steps=-(-c.lesson // self.num_envs) + self.rollout_steps,
                seed=int(torch.randint(2**31, (), generator=self.generator)),
                epochs=c.passes,
                batch_size=64,
                **width,
            )
            self.state.encoder = copy.deepcopy(_features(self.teacher)).requires_grad_(False)
            self.state.halved = False

    def _run(self, batch: Transitions, *, keep: bool, score: bool = True) -> Tensor:
        if self.updates > 0:
            return super()._run(batch, keep=keep, score=score)
        if keep and self.taught:
            super()._run(batch, keep=True, score=False)
        elif keep:
            self.seen += batch.valid.sum()
            if self.teacher is not None:
                self.teacher.observe(batch)
        return self.stand_in._run(batch, keep=keep, score=score)

    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        if self.updates > 0:
            return super()._update(generator)
        metrics = self.stand_in.update(generator)
        if self.taught:
            return super()._update(generator) or metrics
        if self.seen >= self.config.lesson:
            self.taught.fill_(True)
            if self.teacher is not None:
                assert self.state.encoder is not None
                metrics = self.teacher.update(generator)
                self.state.encoder.load_state_dict(_features(self.teacher).state_dict())
                self.teacher.requires_grad_(False)
        return metrics


def _features(teacher: IntrinsicReward) -> nn.Module:
    """What the teacher turns images into."""
    if isinstance(teacher, ETD):
        return nn.Sequential(teacher.model.encoder, teacher.model.head)
    if isinstance(teacher, ForwardError):
        assert teacher.dynamics.encoder is not None
        return teacher.dynamics.encoder
    assert isinstance(teacher, ICM)
    return teacher.encoder
