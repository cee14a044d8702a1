"""Noise of sensors: what the lag-1 product measures, the gain that follows, and what is no noise."""

import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

import lpm
from lpm.core.transitions import Transitions
from lpm.nn.memory import episode_starts
from lpm.nn.sensor import Readings, SensorNoise, action_code, code_width, last, previous, steady_gain


def measured(readings: np.ndarray, blocks: int = 4) -> tuple[SensorNoise, Readings, torch.Tensor]:
    """What is measured of readings (T + 1, N, W) after one and the same action; and the filtered states, at the end."""
    width, envs = readings.shape[2], readings.shape[1]
    noise, state = SensorNoise(1, width), Readings(envs, 1, width)
    line = torch.as_tensor(readings, dtype=torch.float32)
    steps = (len(line) - 1) // blocks
    running = torch.zeros(envs, dtype=torch.bool)
    filtered = []
    for start in range(0, steps * blocks, steps):
        phi, following = line[start : start + steps], line[start + 1 : start + steps + 1]
        code = torch.ones(steps, envs, 1)
        batch = Transitions.build(phi, torch.zeros(steps, envs, dtype=torch.int64), following)
        starts = episode_starts(batch, running)
        states = state.filtered(starts, batch.valid, phi, following, code, noise)
        found = state.observe(batch, starts, phi, following, states, code, noise)
        noise.add(found, batch.valid)
        noise.solve(1.0, torch.ones(1, 1))
        running |= True
        filtered.append(states[1])
    return noise, state, torch.cat(filtered)


def test_steady_gain_golden_and_is_the_limit_of_kalmans_filter() -> None:
    q = torch.tensor([0.01, 0.1, 1.0, 10.0], dtype=torch.float64)
    variance = torch.ones_like(q)
    for _ in range(2000):  # the Riccati recursion with R = 1
        predicted = variance + q
        gain = predicted / (predicted + 1)
        variance = (1 - gain) * predicted
    torch.testing.assert_close(steady_gain(1 / (q + 2)), gain)
    assert steady_gain(torch.tensor([-1.0, 0.0, 0.5, 2.0])).tolist() == [1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(("change", "sigma"), [(0.0, 1.0), (0.3, 1.0), (1.0, 0.3)])
def test_the_lag_product_is_minus_the_variance_of_the_noise(change: float, sigma: float) -> None:
    """E[e²] = Q + 2R and E[e_t · e_{t+1}] = −R, for white noise on a random walk."""
    generator = np.random.default_rng(0)
    place = (change * generator.normal(size=(4001, 16, 1))).cumsum(0)
    noise, *_ = measured(place + sigma * generator.normal(size=place.shape))
    # surprises are cut at 2.7 standard deviations
    assert float(noise.noise) == pytest.approx(sigma**2, rel=0.12, abs=0.02)
    assert float(noise.power) == pytest.approx(change**2 + 2 * sigma**2, rel=0.12)


def test_the_filtered_state_is_nearer_to_the_truth() -> None:
    generator = np.random.default_rng(1)
    place = (0.1 * generator.normal(size=(2001, 16, 1))).cumsum(0)
    readings = place + generator.normal(size=place.shape)
    noise, _, states = measured(readings)
    assert noise.noisy.all()
    late = slice(1000, None)
    error = (states[late].numpy() - place[1:][late]).std()
    assert error < 0.5 * (readings[1:][late] - place[1:][late]).std()


def test_the_picture_of_the_docs_shows_what_the_filter_does() -> None:
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "lgn_filter.py"))
    truth, readings = example["sensors"](1)
    states, gains = example["filtered"](readings)
    error = (states - truth[1:])[1000:].square().mean((0, 1)).sqrt()
    assert gains[0] == gains[3] == 1  # no noise, and a code
    assert error[[0, 3]].max() < 1e-3
    assert 0.1 < gains[1] < 0.4
    assert error[1] < 0.6 * (readings - truth)[1000:, :, 1].std()
    assert error[2] < 0.1


def test_noise_alone_has_no_signal() -> None:
    noise, *_ = measured(np.random.default_rng(0).normal(size=(2001, 8, 2)))
    assert noise.signal.max() < 0.05
    change, gain = noise.gain(torch.ones(1, 1))
    assert gain.max() < 0.3
    assert not change.any()  # nothing that an action changes for good
    shrunk = noise.shrunk(torch.full((1, 2), 3.0))
    torch.testing.assert_close(shrunk, noise.centre.unsqueeze(0), atol=0.2, rtol=0)


def test_of_noise_alone_nothing_is_left_after_few_readings() -> None:
    """What may be noise, by as much as chance allows, is no signal."""
    noise, *_ = measured(np.random.default_rng(0).normal(size=(101, 4, 64)))
    assert noise.signal.mean() < 0.02


def test_steps_of_two_episodes_are_no_pair() -> None:
    line = torch.randn(9, 4, 1, generator=torch.Generator().manual_seed(0))
    noise, state, code = SensorNoise(1, 1), Readings(4, 1, 1), torch.ones(8, 4, 1)
    batch = Transitions.build(line[:-1], torch.zeros(8, 4, dtype=torch.int64), line[1:])
    starts = torch.zeros(8, 4, dtype=torch.bool)
    starts[::2] = True
    states = state.filtered(starts, batch.valid, batch.obs, batch.next_obs, code, noise)
    found = state.observe(batch, starts, batch.obs, batch.next_obs, states, code, noise)
    assert torch.equal(found.paired, ~starts)


def test_what_noise_leaves_is_that_of_the_usual_action() -> None:
    """K·R of the action in the middle, shrunk: neither the rarest that shows a TV nor the rarest that is quiet."""
    noise = SensorNoise(2, 1)
    noise.noisy.fill_(True)
    noise.noise.copy_(torch.tensor([[1.0], [9.0]]))
    noise.power.copy_(torch.tensor([[4.0], [20.0]]))
    noise.spread.zero_()
    noise.rarity.zero_()
    noise.signal.fill_(0.5)
    quiet, loud = (float(steady_gain(torch.tensor(rho))) * r / 4 for rho, r in ((1 / 4, 1.0), (9 / 20, 9.0)))
    assert float(noise.left(torch.eye(2)[[0, 0, 1]])) == pytest.approx(quiet)
    assert float(noise.left(torch.eye(2)[[1, 1, 0]])) == pytest.approx(loud)


def test_an_agent_that_acts_on_noise_does_not_seem_to_move_the_state() -> None:
    """Watching shows noise. Who watches again when it is high sees it fall, though watching changes nothing."""
    generator, steps, envs = np.random.default_rng(0), 500, 8
    noise, state = SensorNoise(2, 1, discrete=True), Readings(envs, 2, 1)
    line, actions = np.zeros((steps + 1, envs, 1), np.float32), np.zeros((steps, envs), np.int64)
    for t in range(steps):
        actions[t] = generator.random(envs) < np.where(line[t, :, 0] > 0, 0.9, 0.1)
        line[t + 1, :, 0] = np.where(actions[t] == 1, generator.normal(size=envs), 0.0)
    readings, code = torch.from_numpy(line), torch.eye(2)[torch.from_numpy(actions)]
    for rows in torch.arange(steps).split(100):
        batch = Transitions.build(readings[rows], torch.from_numpy(actions)[rows], readings[rows + 1])
        starts = torch.zeros_like(batch.valid)
        states = state.filtered(starts, batch.valid, batch.obs, batch.next_obs, code[rows], noise)
        noise.add(state.observe(batch, starts, batch.obs, batch.next_obs, states, code[rows], noise), batch.valid)
        noise.solve(1.0, torch.eye(2))
    change, gain = noise.gain(torch.eye(2))
    assert gain[1] < 0.5  # what watching shows is noise
    assert noise.lasting[1].abs() > 0.1  # what the readings alone would say
    assert not change[1].any()


@pytest.mark.parametrize("kind", ["code", "grid", "smooth", "still", "jumps"])
def test_a_sensor_without_noise_is_believed(kind: str) -> None:
    """One-hot codes that flip, places on a grid, smooth curves, constants, and a state that jumps among a few."""
    generator = np.random.default_rng(0)
    shape = (1001, 8, 1)
    readings = {
        "code": generator.integers(0, 2, shape),
        "grid": generator.choice([-1, 0, 1], shape).cumsum(0),
        "smooth": np.sin(np.arange(1001)[:, None, None] / 20 + generator.uniform(0, 6, (1, 8, 1))),
        "still": np.zeros(shape),
        "jumps": generator.normal(size=5)[generator.integers(0, 5, shape)],
    }[kind]
    noise, _, states = measured(readings.astype(np.float64))
    _, gain = noise.gain(torch.ones(1, 1))
    assert (gain == 1).all()
    torch.testing.assert_close(states, torch.as_tensor(readings[1:], dtype=torch.float32), rtol=0, atol=0)


def test_noise_that_persists_is_no_noise_of_a_sensor() -> None:
    """A frame that stays until another one is drawn is not taken back: that is for the gate."""
    generator = np.random.default_rng(0)
    frames = generator.normal(size=(2001, 8, 1))
    for t in range(1, 2001):
        kept = generator.random(8) < 0.8
        frames[t, kept] = frames[t - 1, kept]
    noise, *_ = measured(frames)
    _, gain = noise.gain(torch.ones(1, 1))
    assert float(gain.mean() if gain.numel() else 1) > 0.8


def test_glitches_are_cut() -> None:
    generator = np.random.default_rng(0)
    place = np.sin(np.arange(4001)[:, None, None] / 20 + generator.uniform(0, 6, (1, 8, 1)))
    spikes = (generator.random(place.shape) < 0.01) * 1000.0
    noise, *_ = measured(place + spikes)
    _, gain = noise.gain(torch.ones(1, 1))
    assert float(gain.min() if gain.numel() else 1) > 0.5


def test_previous_and_last_skip_what_is_not_valid() -> None:
    values = torch.arange(4.0).view(4, 1) + 1
    valid = torch.tensor([[True], [False], [True], [False]])
    carry = torch.tensor([9.0])
    assert previous(values, carry, valid).flatten().tolist() == [9, 1, 1, 3]
    assert last(values, carry, valid).tolist() == [3]
    assert last(values, carry, torch.zeros_like(valid)).tolist() == [9]


def test_codes_of_actions() -> None:
    discrete = lpm.Spaces(Box(-1, 1, (2,)), Discrete(3))
    assert action_code(discrete, torch.tensor([[0, 2]])).tolist() == [[[1, 0, 0], [0, 0, 1]]]
    one = lpm.Spaces(Box(-1, 1, (2,)), Discrete(1))
    assert action_code(one, torch.tensor([[0]])).tolist() == [[[1]]]
    box = lpm.Spaces(Box(-1, 1, (2,)), Box(-1, 1, (1,)))
    assert action_code(box, torch.tensor([[[0.25]]])).tolist() == [[[0.25, 0, 0, 1, 0]]]
    for spaces, width in ((discrete, 3), (one, 1), (box, 5)):
        assert code_width(spaces) == width
