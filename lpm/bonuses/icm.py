"""Curiosity in features of the agent's own actions: ICM, and IDF, which trains them by inverse dynamics only."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lpm.bonuses._learner import Learner, LearnerConfig, feature_width
from lpm.core.registry import register
from lpm.core.settings import Count, Fraction, NonNegative, Size
from lpm.core.transitions import Transitions
from lpm.nn.dynamics import InverseModel, encode_both, mean_square
from lpm.nn.experience import Prepared
from lpm.nn.inputs import in_chunks
from lpm.nn.networks import Activation, Encoder, StackedForward


@dataclass(frozen=True)
class ICMConfig(LearnerConfig):
    """Settings of ICM (Pathak et al. 2017) and IDF (Burda et al. 2018)."""

    detach_features: bool = False
    """Keep the forward loss out of the features: False is ICM, True is IDF. Nothing else differs."""
    beta: Fraction = 0.2
    """β: the loss is (1 − β)·inverse + β·forward (ICM: 0.2). With detached features Adam makes it irrelevant."""
    features: Count | None = None
    """Width of φ. None: 512 for images (IDF code), 128 for vectors. ICM: 288."""
    encoder_hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of φ for vectors. Images have the convolutions of the other methods."""
    hidden: tuple[int, ...] = (256,)
    """Hidden layers of the forward model (ICM: (256,); IDF code: (512,))."""
    blocks: Size = 0
    """Residual blocks of the forward model, of two layers each (ICM: 0; IDF code: 4)."""
    inverse_hidden: tuple[int, ...] = (256,)
    """Hidden layers of the inverse model (ICM: (256,); IDF code: (512,))."""
    activation: Activation = "leaky_relu"
    """Activation of φ (ICM: ELU; IDF code: leaky ReLU)."""
    lr: NonNegative = 1e-3
    """Adam learning rate (ICM code: 1e-3 in effect; IDF code: 1e-4)."""


@register("idf", label="IDF", use="ICM whose features come from the inverse model alone.", detach_features=True)
@register("icm")
class ICM(Learner):
    """Prediction error in features of inverse dynamics (ICM trains them by both losses, IDF by the inverse only)."""

    label = "ICM"
    family = "error"
    use = "Prediction error in features of what the agent's actions change."
    Config = ICMConfig
    config: ICMConfig
    reference = (
        "Pathak et al. 2017, Curiosity-driven Exploration by Self-supervised Prediction (ICM); "
        "Burda et al. 2018, Large-Scale Study of Curiosity-Driven Learning (IDF)"
    )
    variants = {
        "icm-2017": {"features": 288, "activation": "elu", "normalise": "none"},
        "idf-2018": {
            "detach_features": True,
            "features": 512,
            "hidden": (512,),
            "blocks": 4,
            "inverse_hidden": (512,),
            "normalise": "scalar",
            "warmup": 10_000,
            "lr": 1e-4,
        },
    }

    def _build(self) -> None:
        spaces, config = self.spaces, self.config
        self.experience = config.experience(spaces, self.rollout)
        features = feature_width(spaces, config.features)
        self.encoder = Encoder(
            spaces.input_shape, features, hidden=config.encoder_hidden, act=config.activation, final_activation=False
        )
        self.inverse = InverseModel(spaces, features, config.inverse_hidden)
        self.forward_model = StackedForward(features, spaces.action_width, hidden=config.hidden, blocks=config.blocks)
        self.add_optimizer("model", self.parameters(), config.lr)

    def features(self, rows: Prepared) -> tuple[Tensor, Tensor]:
        """φ(o) and φ(o'), (B, F) each."""
        return encode_both(self.encoder, rows.x, rows.x_next)

    def losses(self, rows: Prepared) -> tuple[Tensor, Tensor]:
        """Inverse and forward loss of each row, (B,) each; the forward one is half the sum of squared differences."""
        phi, phi_next = self.features(rows)
        inverse = self.inverse.loss(phi, phi_next, rows.action)
        if self.config.detach_features:
            phi, phi_next = phi.detach(), phi_next.detach()
        return inverse, 0.5 * (self.forward_model(phi, rows.code)[0] - phi_next).square().sum(1)

    def _score(self, batch: Transitions) -> Tensor:
        if not self.experience.ready:
            return torch.zeros(batch.shape, device=batch.device)
        phi, phi_next = self.experience.encoded_block(self.encoder, batch)
        return in_chunks(self._errors, phi, batch.action.flatten(0, 1), phi_next).view(batch.shape)

    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        parts: list[Tensor] = []

        def loss(rows: Prepared) -> Tensor:
            inverse, forward = self.losses(rows)
            parts.append(torch.stack([inverse.detach().mean(), forward.detach().mean()]))
            return (1 - self.config.beta) * inverse + self.config.beta * forward

        self.fit("model", loss, generator)
        inverse_loss, forward_loss = torch.stack(parts).mean(0)
        return {"inverse_loss": inverse_loss, "forward_loss": forward_loss}

    @torch.no_grad()
    def _errors(self, phi: Tensor, action: Tensor, phi_next: Tensor) -> Tensor:
        return mean_square(self.forward_model(phi, self.spaces.encode_action(action))[0], phi_next)
