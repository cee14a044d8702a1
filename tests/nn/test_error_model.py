import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from lpm import Spaces
from lpm.nn.dynamics import ErrorModel

SPACES = Spaces(Box(-np.inf, np.inf, (3,)), Discrete(2))


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(5, 3, generator=generator), torch.eye(2)[torch.tensor([0, 1, 0, 1, 1])]


def trained() -> ErrorModel:
    """Any model: random last layer, mean -3, scale 2."""
    model = ErrorModel(SPACES)
    with torch.no_grad():
        for parameter in model.body[-1].parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(1))
        model.mean.fill_(-3.0)
        model.scale.fill_(2.0)
    return model


def test_starts_at_the_mean_of_the_first_errors() -> None:
    model = ErrorModel(SPACES)
    model.calibrate(torch.tensor([-4.0, -2.0]), model(*inputs())[:2, 0])
    torch.testing.assert_close(model(*inputs()), torch.full((5, 1), -3.0))


def test_the_mix_of_a_queue_does_not_move_the_predictions() -> None:
    """Errors equal to the predictions, easy ones only: nothing moves but the units of h."""
    model = trained()
    before = model(*inputs())
    easy = before[:2, 0]
    model.calibrate(easy, easy)
    torch.testing.assert_close(model(*inputs()), before)
    assert model.scale.item() == pytest.approx(easy.std(correction=0).item(), rel=1e-5)


def test_a_fall_of_all_errors_is_followed_at_once() -> None:
    model = trained()
    before = model(*inputs())
    model.calibrate(before[:, 0] - 6.0, before[:, 0])
    torch.testing.assert_close(model(*inputs()), before - 6.0)


def test_equal_errors_keep_the_scale_away_from_zero() -> None:
    model = trained()
    model.calibrate(torch.full((5,), -4.0), model(*inputs())[:, 0])
    assert model.scale.item() == pytest.approx(1e-3)
    assert torch.isfinite(model(*inputs())).all()


def test_every_output_is_regressed_on_the_same_error() -> None:
    model = ErrorModel(SPACES, outputs=4, affine=False)
    x, action = inputs()
    target = torch.arange(5.0)
    expected = (model(x, action) - target.unsqueeze(1)).square().mean()
    assert model.loss(x, action, target).item() == pytest.approx(expected.item())
