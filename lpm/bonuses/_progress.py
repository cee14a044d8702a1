"""What the four LPMs share: the dynamics model f, the floor under its error, and the replay buffer B."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from lpm.bonuses._learner import Learner
from lpm.core.settings import Count, NonNegative, Positive, Settings
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.dynamics import DynamicsModel
from lpm.nn.experience import Experience, Minibatches, Prepared, regression, successor
from lpm.nn.frozen import RandomTargetModel
from lpm.nn.inputs import Normalise
from lpm.nn.memory import Columns, TransitionBuffer, fixed_sample
from lpm.nn.networks import Activation

Form = Literal["log", "linear"]
FLOOR_ROWS = 512  # rows at most that the relative floor is measured on


@dataclass(frozen=True)
class ProgressConfig(Settings):
    """Settings of f, of its error and of B. Sections and appendices are the paper's."""

    error_floor: Positive | None = None
    """Added to the MSE before the logarithm, in reward and target alike. None: 1e-6 for images, 1e-4 for vectors.
    Paper: none stated; release: 1e-6, in the target only."""
    normalise: Normalise | Literal["auto"] = "auto"
    """Standardise observations with statistics that are frozen at the first update. "auto": vectors yes, images no.
    "standard" clips at ±10; "scalar" (release, Atari): mean per pixel, one common std; "robust" (vectors): by the
    densest half of the values, the rest squashed. Paper: none stated."""
    warmup: Count = 1
    """Transitions to observe before the first update, if it freezes statistics or measures a relative floor; errors
    from before are not queued. Release: 10,000."""
    buffer_size: Count | None = None
    """Capacity of the replay buffer B in transitions. None: 64 rollouts, but at least 2,048 (or what 16 MiB hold), at
    most 65,536 or what 512 MiB hold, and never less than the queue or a rollout. Paper: unbounded."""
    dynamics_hidden: tuple[int, ...] | None = None
    """Hidden layers of f. None: (128, 128) for vectors, (512,) after the encoder for images (App. C.2, C.3)."""
    dynamics_skip: bool = False
    """Let f's last layer see its input (App. C.1: MNIST). Vectors only."""
    predict: Literal["next", "delta"] = "next"
    """What f predicts: the next observation (Sec. 3) or its change. "delta" is for vectors only."""
    features: Count | None = 512
    """Linear layer after the convolutions (App. C.3: 512). None: none, as in MiniWorld (App. C.2)."""
    activation: Activation = "leaky_relu"
    """Activation of the convolutional encoder: "leaky_relu" for Atari (App. C.3), "relu" for MiniWorld (App. C.2)."""
    dynamics_lr: NonNegative = 1e-3
    """Adam learning rate of f (App. C.1, C.2; release Atari: 1e-4)."""
    dynamics_steps: Count = 16
    """Gradient steps of f per update. Paper: not stated beyond "update"; release: 1 to 24."""
    batch_size: Count = 256
    """Minibatch of f (App. C.1: 32)."""


def log_error(mse: Tensor, floor: float | Tensor) -> Tensor:
    """ε = log(MSE + floor) (Eq. 1)."""
    return torch.log(mse + floor)


def progress(old: Tensor, new: Tensor, form: Form = "log", floor: float | Tensor = 1e-4) -> Tensor:
    """How much smaller the mean squared error has become: a difference of logarithms, or of the errors."""
    return log_error(old, floor) - log_error(new, floor) if form == "log" else old - new


class LearningProgress(Learner):
    """f, trained on a replay buffer; a method says what its error was before; the reward is the difference."""

    config: ProgressConfig
    auto_normalise: ClassVar[Normalise] = "standard"
    """What `normalise="auto"` means for vectors."""

    dynamics: DynamicsModel | RandomTargetModel
    floor: Tensor  # added to the MSE before the logarithm
    versions: Tensor  # τ: updates of f so far

    def _build_progress(self, columns: Columns | None = None, least_capacity: int = 1) -> None:
        """f, B and the floor; `columns` are kept in B beside the transitions."""
        c, spaces = self.config, self.spaces
        self.least_floor = error_floor(spaces, c.error_floor)
        self.register_buffer("floor", torch.tensor(self.least_floor))
        normalise = c.normalise
        if normalise == "auto":
            normalise = self.auto_normalise if spaces.kind == "vector" else "none"
        capacity = replay_capacity(spaces, self.rollout, c.buffer_size)
        self.experience = Experience(spaces, max(capacity, least_capacity), normalise, warmup=c.warmup, columns=columns)
        self.dynamics = self._build_dynamics()
        self._build_error_model()
        trained = [parameter for parameter in self.dynamics.parameters() if parameter.requires_grad]
        self.add_optimizer("dynamics", trained, c.dynamics_lr)
        self.register_buffer("versions", torch.zeros((), dtype=torch.int64))

    def _build_dynamics(self) -> DynamicsModel | RandomTargetModel:
        """f."""
        return self._dynamics_network()

    def _dynamics_network(self, sigmoid: bool | None = None) -> DynamicsModel:
        """f as the paper has it; with a sigmoid where the targets are pixels in [0, 1], unless told otherwise."""
        c, spaces = self.config, self.spaces
        pixels = self.experience.input.moments is None and spaces.bounded_image
        return DynamicsModel(
            spaces,
            hidden=c.dynamics_hidden,
            features=c.features,
            act=c.activation,
            skip=c.dynamics_skip,
            delta=c.predict == "delta",
            squash=pixels if sigmoid is None else sigmoid,
        )

    def _build_error_model(self) -> None:
        """The model of how large the error was, after f and from the same random stream."""
        raise NotImplementedError

    @property
    def buffer(self) -> TransitionBuffer:
        """B."""
        return self.experience.buffer

    def mse(self, batch: Transitions) -> Tensor:
        """Error of the present f on every transition, (T, N); 0 until it has its final scale."""
        return self.experience.each(self._errors, batch)

    def _errors(self, rows: Prepared) -> Tensor:
        return self.dynamics.errors(*successor(rows))

    def _fit_dynamics(self, batches: Minibatches) -> Tensor:
        """f on B by MSE."""
        loss = self.experience.fit(regression(self.dynamics, successor), self.optimizer("dynamics"), batches)
        self.versions += 1
        return loss

    @torch.no_grad()
    def _raise_floor(self, share: float) -> None:
        """To `error_floor` add a share of the median error of predicting the mean of what came so far."""
        slots = self.buffer.last(len(self.buffer))
        slots = slots[fixed_sample(len(slots), FLOOR_ROWS).to(slots.device)]
        seen = self.experience.at(slots, lambda rows: rows.x_next).flatten(1)
        self.floor.fill_(self.least_floor).add_(share * (seen - seen.mean(0)).square().mean(1).median())


def error_floor(spaces: Spaces, given: float | None) -> float:
    """What is added to an MSE before the logarithm, unless `given`: pixels of a known image err far less than 1e-4."""
    return (1e-4 if spaces.kind == "vector" else 1e-6) if given is None else given


def replay_capacity(spaces: Spaces, rollout: int, given: int | None) -> int:
    """Unless `given`: 64 rollouts, at least 2,048 transitions or 16 MiB, at most 65,536 or 512 MiB, and a rollout."""
    if given is not None:
        return given
    row = 2 * math.prod(spaces.obs_shape) * spaces.obs_dtype.itemsize + 64
    least = min(2048, 16 * 2**20 // row)  # of a few steps a rollout, 64 rollouts would be next to nothing
    return max(rollout, min(max(64 * rollout, least), 65_536, 512 * 2**20 // row))
