"""Settings of LPM: variants, bad input, memory."""

import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from lpm import Spaces, Transitions, make
from lpm.bonuses.lpm import LPM, LPMConfig
from lpm_paper.lpm_release import LPMRelease

VECTOR = Spaces(Box(-np.inf, np.inf, (4,)), Discrete(2))
IMAGE = Spaces(Box(0, 255, (3, 36, 36), np.uint8), Discrete(2))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"queue_size": 0}, r"LPMConfig.queue_size: expected .*at least 1.* or None, got 0"),
        ({"queue": "lifo"}, r"LPMConfig.queue: expected 'fifo' or 'reservoir', got 'lifo'"),
        ({"error_floor": 0.0}, r"LPMConfig.error_floor: expected .*more than 0 and finite.* or None, got 0.0"),
        ({"error_floor": math.inf}, r"LPMConfig.error_floor: expected .*more than 0 and finite.* or None, got inf"),
        ({"error_lr": math.nan}, r"LPMConfig.error_lr: expected .*at least 0 and finite.*, got nan"),
        ({"features": 0}, r"LPMConfig.features: expected .*at least 1.* or None, got 0"),
        ({"activation": "gelu"}, r"LPMConfig.activation: expected .*'leaky_relu'.*, got 'gelu'"),
        ({"dynamics_steps": 0}, r"LPMConfig.dynamics_steps: expected .*at least 1.*, got 0"),
        ({"buffer_size": 5, "queue_size": 6}, r"expected at least queue_size = 6.*got 5"),
        ({"qeue_size": 3}, r"'lpm' has no field 'qeue_size'; did you mean queue_size"),
        ({"variant": "papr"}, r"unknown variant 'papr' of 'lpm'; did you mean paper"),
        ({"queue": "reservoir", "queue_size": 1000}, r"expected at most num_envs \* rollout_steps = 128, got 1000"),
        ({"shared_encoder": True}, r"shared_encoder: expected an image observation"),
    ],
)
def test_bad_settings(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make("lpm", VECTOR, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"form": "square"}, r"LPMReleaseConfig.form: expected 'exp' or 'linear' or 'rnd', got 'square'"),
        ({"reward_scale": math.nan}, r"LPMReleaseConfig.reward_scale: expected a finite number, got nan"),
        ({"reward_cap": math.nan}, r"LPMReleaseConfig.reward_cap: expected a finite number, or None, got nan"),
        ({"clamp": (1.0, -1.0)}, r"LPMReleaseConfig.clamp: expected \(low, high\) with low < high"),
        ({"replay": "mixed"}, r"LPMReleaseConfig.replay: expected 'all' or 'latest', got 'mixed'"),
        ({"form": "rnd", "features": 64}, r"LPMReleaseConfig.features: expected its default 512 with form='rnd'"),
        ({"form": "linear", "weight": 0.5}, r"LPMReleaseConfig.weight: expected its default 1.0 with form='linear'"),
    ],
)
def test_bad_settings_of_the_release(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make("lpm_release", VECTOR, **fields)  # type: ignore[arg-type]


def test_a_state_of_the_old_layout_is_refused_in_a_sentence() -> None:
    bonus = make("lpm", VECTOR)
    old = {name.removeprefix("experience."): value for name, value in bonus.state_dict().items()}
    with pytest.raises(ValueError, match=r"LPM cannot take this state: .*; it was written by .* another version"):
        bonus.load_state_dict(old)


def test_delta_and_skip_are_for_vectors() -> None:
    with pytest.raises(ValueError, match="delta: only for vector observations"):
        make("lpm", IMAGE, predict="delta")


def test_delta_predicts_the_change() -> None:
    bonus = make("lpm", VECTOR, predict="delta")
    assert isinstance(bonus, LPM)
    with torch.no_grad():
        for parameter in bonus.dynamics.parameters():
            parameter.zero_()
    x = torch.rand(3, 4)
    assert torch.equal(bonus.dynamics(x, torch.zeros(3, 2)), x)


@pytest.mark.parametrize("variant", sorted(LPMRelease.variants))
def test_every_variant_runs_and_is_what_it_says(variant: str) -> None:
    mnist = variant.endswith("mnist")
    spaces = Spaces(Box(0, 1, (784,)), Discrete(1)) if mnist else IMAGE
    name, settings = ("lpm", LPM.variants) if variant in LPM.variants else ("lpm_release", LPMRelease.variants)
    small = {"warmup": 1} if settings[variant].get("warmup", 1) > 1 else {}
    small |= {"buffer_size": 20_000 if "size" in variant else 16_384}
    bonus = make(name, spaces, num_envs=8, rollout_steps=4, variant=variant, dynamics_steps=1, error_steps=1, **small)
    assert isinstance(bonus, LPM)
    for field, value in settings[variant].items():
        if field not in ("warmup", "dynamics_steps", "error_steps"):
            assert getattr(bonus.config, field) == value
    rng = torch.Generator().manual_seed(0)
    for _ in range(5):
        if mnist:
            obs = torch.rand(4, 8, 784, generator=rng)
        else:
            obs = torch.randint(0, 256, (4, 8, 3, 36, 36), generator=rng, dtype=torch.uint8)
        reward = bonus.step(Transitions.build(obs, torch.zeros(4, 8, dtype=torch.int64), obs.flip(0)))
        bonus.update()
    assert torch.isfinite(reward).all()
    if variant.startswith("release"):
        assert (reward != 0).all()  # the release has no gate


def test_release_mnist_matches_the_notebook() -> None:
    """0.2 (mean over 784 outputs of exp(g) - MSE), g stepped at every fifth update only."""
    spaces = Spaces(Box(0, 1, (784,)), Discrete(1))
    bonus = make("lpm_release", spaces, num_envs=32, rollout_steps=1, variant="release-mnist")
    assert isinstance(bonus, LPM)
    obs = torch.rand(1, 32, 784, generator=torch.Generator().manual_seed(0))
    batch = Transitions.build(obs, torch.zeros(1, 32, dtype=torch.int64), obs)
    with torch.no_grad():
        flat = obs[0]
        mse = (bonus.dynamics(flat, torch.zeros(32, 0)) - flat).square().mean(1)
        expected = 0.2 * (bonus.error_model(flat, torch.zeros(32, 0)).exp().mean(1) - mse)
    torch.testing.assert_close(bonus.score(batch)[0], expected, atol=1e-6, rtol=1e-5)
    for _ in range(10):
        bonus.step(batch)
        bonus.update()
    assert (int(bonus.versions), int(bonus.fits)) == (10, 2)
    assert bonus.error_model(flat, torch.zeros(32, 0)).shape == (32, 784)


def test_paper_mnist_has_the_papers_layers() -> None:
    spaces = Spaces(Box(0, 1, (784,)), Discrete(1))
    bonus = make("lpm", spaces, variant="paper-mnist")
    assert isinstance(bonus, LPM)
    shapes = [tuple(p.shape) for n, p in bonus.named_parameters() if n.endswith("weight")]
    assert shapes == [(784, 784)] * 3 + [(784, 1568), (256, 784), (128, 256), (64, 128), (1, 64)]


def test_statistics_freeze_at_the_first_update_and_old_errors_leave_the_queue() -> None:
    bonus = make("lpm", VECTOR, num_envs=4, rollout_steps=8)
    assert isinstance(bonus, LPM)
    rng = torch.Generator().manual_seed(0)

    def cycle() -> torch.Tensor:
        obs = 50 + 10 * torch.randn(8, 4, 4, generator=rng)
        reward = bonus.step(Transitions.build(obs, torch.zeros(8, 4, dtype=torch.int64), obs))
        bonus.update()
        return reward

    assert (cycle() == 0).all()
    moments = bonus.experience.input.moments
    assert moments is not None
    frozen = moments.mean.clone()
    assert frozen.mean().item() == pytest.approx(50, abs=3)
    assert len(bonus.queue.slots) == 0
    assert (cycle() == 0).all()
    assert len(bonus.queue.slots) == 32
    assert (cycle() != 0).all()
    assert torch.equal(moments.mean, frozen)


def test_a_queue_of_16384_stacked_frames_adds_no_copy_of_them() -> None:
    """Images are stored once, as uint8, in the replay buffer; the queue is a window of it and adds 12 bytes a row."""
    spaces = Spaces(Box(0, 255, (4, 84, 84), np.uint8), Discrete(4))
    bonus = make("lpm", spaces, num_envs=16, rollout_steps=128, queue_size=16_384, buffer_size=16_384,
                 features=8, dynamics_hidden=(8,), error_hidden=(8,))  # fmt: skip
    assert isinstance(bonus, LPM)
    frame = 4 * 84 * 84
    assert bonus.buffer["obs"].dtype == torch.uint8
    assert bonus.buffer["obs"].nbytes == 16_384 * frame < 0.5e9
    assert bonus.buffer.nbytes - 2 * 16_384 * frame == 16_384 * (8 + 4 + 8)  # action, error, version


def test_config_is_frozen_and_hashable() -> None:
    assert hash(LPMConfig()) == hash(LPMConfig())
    with pytest.raises(AttributeError):
        LPMConfig().queue = "reservoir"  # type: ignore[misc]


def test_buffer_is_bounded() -> None:
    bonus = make("lpm", VECTOR, num_envs=2, rollout_steps=4, buffer_size=10, queue_size=6)
    assert isinstance(bonus, LPM)
    for value in range(5):
        obs = torch.full((4, 2, 4), float(value))
        bonus.step(Transitions.build(obs, torch.zeros(4, 2, dtype=torch.int64), obs))
    assert len(bonus.buffer) == 10
    assert bonus.buffer["obs"][bonus.buffer.last(10)][:, 0].tolist() == [3.0] * 2 + [4.0] * 8


@pytest.mark.parametrize(
    ("box", "fields", "squashed"),
    [
        (Box(0, 255, (3, 36, 36), np.uint8), {}, True),
        (Box(0, 255, (3, 36, 36), np.uint8), {"normalise": "standard"}, False),
        (Box(-np.inf, np.inf, (3, 36, 36)), {}, False),
        (Box(0, 255, (3, 36, 36), np.uint8), {"variant": "release-atari", "buffer_size": 16_384}, True),
    ],
)
def test_the_decoder_can_reach_its_targets(box: Box, fields: dict[str, object], squashed: bool) -> None:
    """A sigmoid in front of standardised or unbounded targets leaves an error for ever; only the release has that."""
    name = "lpm_release" if "variant" in fields else "lpm"
    bonus = make(name, Spaces(box, Discrete(2)), num_envs=1, rollout_steps=2, **fields)  # type: ignore[arg-type]
    assert isinstance(bonus, LPM)
    output = bonus.dynamics(
        100 * torch.randn(4, 3, 36, 36, generator=torch.Generator().manual_seed(0)), torch.ones(4, 2)
    )
    assert bool(((output >= 0) & (output <= 1)).all()) is squashed
