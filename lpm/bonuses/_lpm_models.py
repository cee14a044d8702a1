"""The networks behind LPM, as its settings want them. Build inside `seeded`, f before g."""

from __future__ import annotations

import copy
import math

from torch import nn

from lpm.bonuses.lpm_config import LPMConfig
from lpm.core.spaces import Spaces
from lpm.nn.anchored import AnchoredErrorModel
from lpm.nn.dynamics import DynamicsModel, ErrorModel
from lpm.nn.networks import Encoder
from lpm.nn.random_target import RandomTargetErrorModel, RandomTargetModel, random_encoder

ANCHOR_WIDTH = 128  # of the frozen random encoder under an anchored g
ErrorModels = ErrorModel | RandomTargetErrorModel | AnchoredErrorModel | DynamicsModel


def build_dynamics(config: LPMConfig, spaces: Spaces, squash: bool) -> DynamicsModel | RandomTargetModel:
    """f. `squash`: whether its targets lie in [0, 1]."""
    if config.form == "rnd":
        return RandomTargetModel(spaces, act=config.activation)
    model = DynamicsModel(
        spaces,
        hidden=config.dynamics_hidden,
        features=config.features,
        act=config.activation if spaces.kind != "vector" else "relu",
        skip=config.dynamics_skip,
        delta=config.predict == "delta",
        squash=squash if config.sigmoid is None else config.sigmoid,
    )
    if config.shared_encoder and model.encoder is None:
        raise ValueError(f"shared_encoder: expected an image observation, got {spaces.observation}")
    return model


def build_encoder(config: LPMConfig, spaces: Spaces) -> Encoder | None:
    """The frozen encoder of images that an anchored g reads, unless it reads f's."""
    if config.error_model != "anchored" or config.shared_encoder or spaces.kind == "vector":
        return None
    return random_encoder(spaces.input_shape, ANCHOR_WIDTH)


def build_error_model(
    config: LPMConfig, spaces: Spaces, dynamics: DynamicsModel | RandomTargetModel, encoder: nn.Module | None
) -> ErrorModels:
    """g, or what stands in its place."""
    if isinstance(dynamics, RandomTargetModel):
        hidden = (512, 512) if config.error_hidden is None else config.error_hidden
        return RandomTargetErrorModel(dynamics, spaces, hidden=hidden)
    shared = shared_encoder(config, dynamics)
    if config.error_model == "slow_copy":
        return copy.deepcopy(dynamics).requires_grad_(False)
    if config.error_model == "anchored":
        width = math.prod(spaces.input_shape)
        if shared is not None:
            width = shared.features
        elif encoder is not None:
            width = ANCHOR_WIDTH
        return AnchoredErrorModel(
            width + spaces.action_width,
            features=config.anchor_features,
            length_scale=config.anchor_scale,
            forgetting=config.anchor_forgetting,
            ridge=config.anchor_ridge,
        )
    return ErrorModel(
        spaces,
        hidden=config.error_hidden,
        features=config.features,
        act=config.activation,
        outputs=config.error_outputs,
        affine=config.affine,
        encoder=shared,
    )


def shared_encoder(config: LPMConfig, dynamics: DynamicsModel | RandomTargetModel) -> Encoder | None:
    """f's own image encoder, if g reads it."""
    return dynamics.encoder if config.shared_encoder and isinstance(dynamics, DynamicsModel) else None
