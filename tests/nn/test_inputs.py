"""From raw observations to what networks see."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from lpm import Spaces
from lpm.nn.inputs import ObservationInput, in_chunks, same_rows


def spaces(box: Box, **kwargs: str) -> Spaces:
    return Spaces(box, Discrete(2), **kwargs)  # type: ignore[arg-type]


def test_uint8_images_become_floats_between_0_and_1() -> None:
    read = ObservationInput(spaces(Box(0, 255, (1, 36, 36), np.uint8)))
    obs = torch.arange(256, dtype=torch.uint8).repeat(6)[: 36 * 36].view(1, 1, 36, 36)
    x = read(obs)
    assert x.dtype == torch.float32
    torch.testing.assert_close(x, obs.float() / 255)


def test_bounds_of_the_space_decide_the_scale() -> None:
    grid = ObservationInput(spaces(Box(0, 10, (7, 7, 3), np.uint8)))
    assert grid(torch.full((1, 7, 7, 3), 5, dtype=torch.uint8)).unique().tolist() == [0.5]
    signed = ObservationInput(spaces(Box(-1, 1, (3, 36, 36))))
    assert signed(torch.zeros(1, 3, 36, 36)).unique().tolist() == [0.5]
    unbounded = ObservationInput(spaces(Box(-np.inf, np.inf, (3, 36, 36))))
    assert unbounded(torch.full((1, 3, 36, 36), 7.0)).unique().tolist() == [7.0]
    vector = ObservationInput(spaces(Box(0, 10, (3,))))
    assert vector(torch.full((1, 3), 5.0)).tolist() == [[5.0] * 3]


def test_channels_come_first() -> None:
    obs = torch.randint(0, 256, (2, 40, 50, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    last = ObservationInput(spaces(Box(0, 255, (40, 50, 3), np.uint8)))
    first = ObservationInput(spaces(Box(0, 255, (3, 40, 50), np.uint8)))
    assert torch.equal(last(obs), first(obs.permute(0, 3, 1, 2)))
    flat = ObservationInput(spaces(Box(0, 255, (40, 50), np.uint8)))
    assert flat(obs[..., 0]).shape == (2, 1, 40, 50)
    assert torch.equal(flat(obs[..., 0])[:, 0], last(obs)[:, 0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(3,), (3, 36, 36)])
def test_the_input_is_never_written_to(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    read = ObservationInput(spaces(Box(-2, 2, shape)), "standard", clip=1.0)
    obs = torch.full((2, *shape), 0.5, dtype=dtype)
    x = read(obs)
    read.observe(obs)
    assert x.dtype == torch.float32
    assert (obs == 0.5).all()


def test_statistics_see_scaled_observations_in_any_number_of_parts() -> None:
    space = spaces(Box(0, 255, (1, 4, 4), np.uint8))
    obs = torch.randint(0, 256, (600, 1, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    whole, parts = (ObservationInput(space, "scalar") for _ in range(2))
    whole.observe(obs)
    for part in (obs[:0], obs[:1], obs[1:257], obs[257:]):
        parts.observe(part)
    for read in (whole, parts):
        read.commit()
        assert read.moments is not None
        torch.testing.assert_close(read.moments.mean, (obs.double() / 255).mean(0).float())
    torch.testing.assert_close(whole(obs), parts(obs))
    assert whole(obs).std().item() == pytest.approx(1.0, abs=1e-3)


def test_clip() -> None:
    read = ObservationInput(spaces(Box(-1, 1, (1,))), "standard", clip=2.0)
    read.observe(torch.tensor([[-1.0], [1.0]]))
    read.commit()
    assert read(torch.tensor([[0.5], [9.0], [-9.0]])).flatten().tolist() == [0.5, 2.0, -2.0]


def test_none_keeps_no_statistics() -> None:
    read = ObservationInput(spaces(Box(-1, 1, (2,))))
    read.observe(torch.rand(3, 2))
    read.commit()
    assert read.moments is None
    assert dict(read.state_dict()) == {}


def test_empty_batches() -> None:
    for box in (Box(-1, 1, (2,)), Box(-1, 1, ()), Box(0, 255, (7, 7, 3), np.uint8), Box(0, 255, (9, 9), np.uint8)):
        space = spaces(box)
        assert ObservationInput(space)(torch.zeros(0, *box.shape, dtype=space.obs_dtype)).shape == (
            0,
            *space.input_shape,
        )


def test_unknown_normalisation() -> None:
    with pytest.raises(ValueError, match="normalise: expected one of none, standard, scalar, robust, got 'batch'"):
        ObservationInput(spaces(Box(-1, 1, (2,))), "batch")  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", [0, 1, 1023, 1024, 1025, 2048, 2049])
def test_chunks_cover_every_row_once(rows: int) -> None:
    sizes = []

    def double(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        sizes.append(len(x))
        return x + y

    x = torch.arange(rows)
    assert torch.equal(in_chunks(double, x, x), 2 * x)
    assert sum(sizes) == rows
    assert max(sizes) <= 1024


def test_the_memory_layout_of_an_image_changes_no_number() -> None:
    read = ObservationInput(spaces(Box(0, 255, (3, 5, 6), np.uint8)))
    obs = torch.randint(256, (4, 3, 5, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    laid_out = obs.to(memory_format=torch.channels_last)
    x = read(laid_out)
    assert x.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(x, read(obs))
    assert torch.equal(x, obs / 255)


def test_images_have_no_robust_scale() -> None:
    with pytest.raises(ValueError, match="'robust' expects vector observations"):
        ObservationInput(spaces(Box(0, 255, (3, 36, 36), np.uint8)), "robust")


def test_rows_are_the_same_if_every_number_is() -> None:
    for width in (16, 17):
        rows = torch.randint(0, 256, (6, width), dtype=torch.uint8)
        other = rows.clone()
        other[2, -1] ^= 1
        other[4, 0] ^= 128
        expected = [True, True, False, True, False, True]
        assert same_rows(rows, other).tolist() == expected
        assert same_rows(rows[1:], other[1:]).tolist() == expected[1:]  # an offset that may not be a whole word's
        assert same_rows(rows.T.contiguous().T, other).tolist() == expected
    zeros = torch.tensor([[0.0, 1.0], [float("nan"), 1.0]])
    assert same_rows(zeros, torch.tensor([[-0.0, 1.0], [float("nan"), 1.0]])).tolist() == [True, False]
