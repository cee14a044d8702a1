"""Encoders, decoders and the models built of them, for every size and layout of observation."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

from lpm import Spaces
from lpm.nn.dynamics import DynamicsModel, ErrorModel, mean_square
from lpm.nn.inputs import ObservationInput
from lpm.nn.networks import Decoder, Encoder, SkipMLP, activation, conv_sizes, mlp

SIZES = [
    (36, 36),
    (37, 41),
    (42, 42),
    (36, 210),
    (60, 80),
    (64, 64),
    (84, 84),
    (96, 96),
    (120, 160),
    (160, 120),
    (210, 160),
]


# ---- shapes ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("height", "width"), SIZES)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_images_there_and_back(channels: int, height: int, width: int) -> None:
    encoder = Encoder((channels, height, width), 16)
    features = encoder(torch.rand(2, channels, height, width))
    assert features.shape == (2, 16)
    image = Decoder(16, (channels, height, width))(features)
    assert image.shape == (2, channels, height, width)
    assert ((image > 0) & (image < 1)).all()


@pytest.mark.parametrize("size", range(36, 211, 7))
def test_every_size_from_36_fits(size: int) -> None:
    assert min(conv_sizes(size, size)[-1]) >= 1
    image = Decoder(4, (1, size, size))(torch.zeros(1, 4))
    assert image.shape == (1, 1, size, size)


def test_the_papers_sizes() -> None:
    """84 pixels give 7×7 (3,136 features), MiniWorld's 60×80 gives 4×6 (1,536): the counts of the authors' code."""
    assert Encoder((4, 84, 84), None).features == 3136
    assert Encoder((3, 60, 80), None).features == 1536
    kernels = [
        (m.out_channels, m.kernel_size[0], m.stride[0]) for m in Encoder((4, 84, 84)).body if isinstance(m, nn.Conv2d)
    ]
    assert kernels == [(32, 8, 4), (64, 4, 2), (64, 3, 1)]
    assert conv_sizes(36, 36)[-1] == (1, 1)
    assert min(conv_sizes(35, 35)[-1]) < 1


def test_frames_of_42_pixels_have_icms_convolutions() -> None:
    encoder = Encoder((4, 42, 42), None)
    kernels = [(m.out_channels, m.kernel_size[0], m.stride[0]) for m in encoder.body if isinstance(m, nn.Conv2d)]
    assert kernels == [(32, 3, 2)] * 4
    assert encoder.features == 288  # 3 × 3 places, as in Pathak et al. 2017
    assert encoder(torch.zeros(2, 4, 42, 42)).shape == (2, 288)
    raw = Decoder(8, (4, 42, 42)).body(torch.zeros(1, 32, 3, 3))
    assert raw.shape == (1, 4, 42, 42)  # nothing has to be resized


@pytest.mark.parametrize(("height", "width"), [(1, 1), (3, 5), (7, 7), (35, 36), (20, 60)])
def test_small_grids_keep_their_size(height: int, width: int) -> None:
    encoder = Encoder((3, height, width), 8)
    image = Decoder(8, (3, height, width))(encoder(torch.rand(2, 3, height, width)))
    assert image.shape == (2, 3, height, width)
    assert ((image > 0) & (image < 1)).all()


@pytest.mark.parametrize(
    ("hidden", "features", "width"), [((8, 4), 6, 6), ((8, 4), None, 4), ((), None, 5), ((), 3, 3)]
)
def test_vectors(hidden: tuple[int, ...], features: int | None, width: int) -> None:
    encoder = Encoder((5,), features, hidden=hidden)
    assert encoder.features == width
    assert encoder(torch.rand(2, 5)).shape == (2, width)


def test_empty_batches() -> None:
    assert Encoder((3, 36, 36), 8)(torch.zeros(0, 3, 36, 36)).shape == (0, 8)
    assert Decoder(8, (3, 40, 37))(torch.zeros(0, 8)).shape == (0, 3, 40, 37)


# ---- parts ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "value"), [("relu", 0.0), ("leaky_relu", -0.01), ("elu", -0.6321), ("tanh", -0.7616)])
def test_activations(name: str, value: float) -> None:
    assert activation(name)(torch.tensor(-1.0)).item() == pytest.approx(value, abs=1e-4)  # type: ignore[arg-type]


def test_mlp_ends_where_told() -> None:
    assert [type(m).__name__ for m in mlp(2, (3, 4), 5)] == ["Linear", "ReLU", "Linear", "ReLU", "Linear"]
    assert [type(m).__name__ for m in mlp(2, (3,))] == ["Linear", "ReLU"]
    assert len(mlp(2, ())) == 0


def test_skip_mlp_sees_its_input_twice() -> None:
    assert SkipMLP(4, (8,), 3).head.in_features == 12
    assert SkipMLP(4, (), 3).head.in_features == 4
    model = SkipMLP(2, (4,), 2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.head.weight[:, :2] = torch.eye(2)
    x = torch.rand(3, 2)
    assert torch.equal(model(x), x)


def test_final_activation_can_be_left_out() -> None:
    x = torch.randn(50, 5, generator=torch.Generator().manual_seed(0))
    assert (Encoder((5,), 8)(x) >= 0).all()
    assert (Encoder((5,), 8, final_activation=False)(x) < 0).any()


# ---- dynamics and error models --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "box",
    [
        Box(-1, 1, (5,)),
        Box(-1, 1, (2, 3)),
        Box(0, 255, (84, 84, 1), np.uint8),
        Box(0, 255, (4, 84, 84), np.uint8),
        Box(0, 255, (120, 160, 3), np.uint8),
        Box(0, 255, (50, 40), np.uint8),
        Box(0, 255, (7, 7, 3), np.uint8),
    ],
    ids=str,
)
def test_models_fit_every_observation(box: Box) -> None:
    spaces = Spaces(box, Discrete(3))
    obs = torch.as_tensor(np.random.default_rng(0).integers(0, 2, (2, *box.shape))).to(spaces.obs_dtype)
    x = ObservationInput(spaces)(obs)
    action = spaces.encode_action(torch.tensor([0, 2]))
    model = DynamicsModel(spaces, features=16, hidden=(16,))
    assert model(x, action).shape == x.shape == (2, *spaces.input_shape)
    assert model.errors(x, action, x).shape == (2,)
    assert ErrorModel(spaces, features=16, hidden=(8,), outputs=4)(x, action).shape == (2, 4)


def test_mean_square_is_per_row() -> None:
    a, b = torch.zeros(2, 3, 2), torch.tensor([1.0, 2.0]).view(2, 1, 1).expand(2, 3, 2)
    assert mean_square(a, b).tolist() == [1.0, 4.0]


def test_actions_matter() -> None:
    spaces = Spaces(Box(0, 255, (3, 36, 36), np.uint8), Discrete(2))
    x, actions = torch.rand(1, 3, 36, 36).expand(2, -1, -1, -1), torch.eye(2)
    for model in (DynamicsModel(spaces, features=8), ErrorModel(spaces, features=8, affine=False)):
        out = model(x, actions)
        assert not torch.equal(out[0], out[1])


def test_a_shared_encoder_is_read_and_not_owned() -> None:
    spaces = Spaces(Box(0, 255, (3, 36, 36), np.uint8), Discrete(2))
    dynamics = DynamicsModel(spaces, features=8)
    model = ErrorModel(spaces, encoder=dynamics.encoder)
    assert not any(name.startswith("encoder") for name in model.state_dict())
    owned = {id(p) for p in dynamics.parameters()}
    assert not owned & {id(p) for p in model.parameters()}
