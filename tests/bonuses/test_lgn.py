"""Learnability-gated novelty: formulas, what it pays for noise, and what it survives."""

import io
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from hypothesis import given, settings
from hypothesis import strategies as st

import lpm
from lpm.bonuses.lgn import LEAST, LGN, REACH, LGNConfig, beyond_noise, bounded_novelty, predictable_share
from lpm.core.mixer import MixerConfig, RewardMixer
from lpm.core.transitions import Transitions
from lpm.nn.closed_form import FadingCovariance, influence, inverse_root, noise_floor, typical_square
from lpm.nn.memory import WindowMemory, nearest_weighted
from lpm_paper.lgn_parts import LGNWithoutFloor

SPACES = {
    "vector, discrete": lpm.Spaces(Box(-1, 1, (3,)), Discrete(3)),
    "vector, continuous": lpm.Spaces(Box(-np.inf, np.inf, (3,)), Box(-1, 1, (2,))),
    "vector, multi-discrete": lpm.Spaces(Box(-1, 1, (3,)), MultiDiscrete([2, 3])),
    "vector, many actions": lpm.Spaces(Box(-1, 1, (3,)), MultiBinary(6)),
    "wide vector": lpm.Spaces(Box(-1, 1, (100,)), Discrete(2)),
    "image": lpm.Spaces(Box(0, 255, (40, 40, 3), np.uint8), Discrete(3)),
    "grid": lpm.Spaces(Box(0, 255, (7, 7, 3), np.uint8), Discrete(3)),
    "one-hot grid": lpm.Spaces(Box(0, 1, (7, 7, 20)), Discrete(3)),
    "one action": lpm.Spaces(Box(-1, 1, (3,)), Discrete(1)),
}


def make(spaces: lpm.Spaces, **fields: Any) -> LGN:
    options = {"num_envs": 2, "rollout_steps": 32, "warmup": 16, **fields}
    bonus = lpm.make("lgn", spaces, **options)
    assert isinstance(bonus, LGN)
    return bonus


def walk(spaces: lpm.Spaces, steps: int = 32, envs: int = 2, seed: int = 0, scale: float = 1.0) -> Transitions:
    """Random observations, each the successor of the one before, and actions of the space."""
    generator = np.random.default_rng(seed)
    box: Any = spaces.observation
    shape = (steps + 1, envs, *spaces.obs_shape)
    if spaces.obs_dtype == torch.uint8:
        line = torch.as_tensor(generator.integers(0, 256, shape), dtype=torch.uint8)
    else:
        line = torch.as_tensor(scale * generator.normal(size=shape), dtype=torch.float32).clamp(
            torch.as_tensor(box.low), torch.as_tensor(box.high)
        )
    spaces.action.seed(seed)
    sampled = np.stack([np.stack([spaces.action.sample() for _ in range(envs)]) for _ in range(steps)])
    return Transitions.build(line[:-1], torch.as_tensor(sampled), line[1:])


# ---- formulas ---------------------------------------------------------------------------------------------------
def test_predictable_share_golden() -> None:
    share = predictable_share(torch.tensor([0.0, 0.25, 1.0, 4.0, -1.0]), torch.tensor(1.0))
    assert share.tolist() == [1.0, 0.75, 0.0, 0.0, 1.0]


def test_inverse_root_golden_and_units() -> None:
    matrix = torch.tensor([[4.0, 0.0], [0.0, 0.25]], dtype=torch.float64)
    torch.testing.assert_close(inverse_root(matrix, 0.0), torch.diag(torch.tensor([0.5, 2.0], dtype=torch.float64)))
    rotated = torch.tensor([[2.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
    root = inverse_root(rotated, 0.0)
    torch.testing.assert_close(root @ rotated @ root.T, torch.eye(2, dtype=torch.float64))
    assert inverse_root(torch.zeros(3, 3, dtype=torch.float64), 0.1).isfinite().all()


def test_fading_covariance_is_the_covariance_and_fades() -> None:
    rows = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    kept = FadingCovariance(3, math.inf)
    kept.add(rows[:20], torch.ones(20))
    kept.add(rows[20:], torch.ones(30))
    torch.testing.assert_close(kept.matrix(), torch.cov(rows.double().T, correction=0))
    moment = FadingCovariance(3, math.inf)
    moment.add(rows, torch.ones(50), centred=False)
    torch.testing.assert_close(moment.matrix(), rows.double().T @ rows.double() / 50)
    short = FadingCovariance(1, 10.0)
    short.add(torch.zeros(10, 1), torch.ones(10))
    short.add(torch.ones(10, 1), torch.ones(10))
    assert short.total == pytest.approx(10 * (1 + math.exp(-1)))
    before = short.matrix()
    short.add(torch.full((1000, 1), 9.0), torch.zeros(1000))  # what has no weight fades nothing
    torch.testing.assert_close(short.matrix(), before)


def test_novelty_is_bounded_golden() -> None:
    found = bounded_novelty(torch.tensor([0.004, (REACH + LEAST) * 0.5, 1e30]), torch.tensor(0.5))
    torch.testing.assert_close(found, torch.tensor([0.0, 1 - math.exp(-1), 1.0]))


def test_beyond_noise_golden() -> None:
    assert beyond_noise(torch.tensor([5.0, 3.0, 1.0]), torch.tensor(9.0)).tolist() == [4.0, 0.0, 0.0]


def test_influence_and_typical_size_golden() -> None:
    rows = torch.tensor([[0.0, 0.0], [0.0, 0.0], [3.0, 4.0], [3.0, 4.0], [300.0, 400.0]])
    assert float(typical_square(rows)) == 25.0  # of those that move
    torch.testing.assert_close(influence(rows, torch.tensor(25.0)), torch.tensor([1.0, 1, 1, 1, 9 / 10_000]))


def test_nearest_weighted_golden() -> None:
    query = torch.tensor([[[0.0, 0.0], [3.0, 4.0]]])
    rows = torch.tensor([[[3.0, 4.0], [1.0, 0.0], [0.0, 2.0]]])
    weight = torch.tensor([[[1.0, 1.0], [1.0, 0.25]]])
    live = torch.tensor([[[True, True, True], [False, True, True]]])
    found = nearest_weighted(query, rows, weight, live)
    torch.testing.assert_close(found, torch.tensor([[1.0, math.sqrt(4 + 0.25 * 16)]]))
    assert nearest_weighted(query, rows, weight, torch.zeros_like(live)).tolist() == [[0.0, 0.0]]
    torch.testing.assert_close(nearest_weighted(query, rows, None, None), torch.tensor([[1.0, 0.0]]))
    assert nearest_weighted(query, rows[:, :0], None, None).tolist() == [[0.0, 0.0]]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 9))
def test_window_equals_a_list_per_environment(seed: int, capacity: int) -> None:
    """Against a plain loop: filler, ends of episodes and blocks of any length included."""
    generator = torch.Generator().manual_seed(seed)
    envs, width = 3, 2
    memory, plain = WindowMemory(envs, capacity, (width,)), [[] for _ in range(envs)]
    last = torch.randn(envs, width, generator=generator)
    for steps in (1, 5, 3):
        obs, following = torch.zeros(steps, envs, width), torch.randn(steps, envs, width, generator=generator)
        valid = torch.rand(steps, envs, generator=generator) < 0.8
        done = torch.rand(steps, envs, generator=generator) < 0.2
        weight = torch.rand(steps, envs, width, generator=generator)
        expected = torch.zeros(steps, envs)
        for t in range(steps):
            for n in range(envs):
                if not valid[t, n]:
                    continue
                if not plain[n]:
                    last[n] = torch.randn(width, generator=generator)
                    plain[n].append(last[n].clone())
                obs[t, n] = last[n]
                seen = torch.stack(plain[n][-capacity:])
                expected[t, n] = (weight[t, n] * (seen - following[t, n]).square()).sum(1).sqrt().min()
                plain[n].append(following[t, n].clone())
                last[n] = following[t, n]
                if done[t, n]:
                    plain[n].clear()
        action = torch.zeros(steps, envs, dtype=torch.int64)
        batch = Transitions.build(obs, action, following, terminated=done, valid=valid)
        line = memory.timeline(batch, obs, following)
        found = line.nearest(line.rows, weight)
        torch.testing.assert_close(found[valid], expected[valid], rtol=1e-4, atol=1e-5)
        memory.keep(batch, line)
        assert memory.count.tolist() == [min(len(rows), capacity) for rows in plain]
        for n in range(envs):
            if plain[n]:
                torch.testing.assert_close(memory.rows[n, -int(memory.count[n]) :], torch.stack(plain[n][-capacity:]))


# ---- the reward -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("memory", ["episodic", "lifelong", "both"])
@pytest.mark.parametrize("space", SPACES)
def test_contract_and_resume_on_every_space(space: str, memory: str) -> None:
    small = partial(lpm.make, "lgn", warmup=4, memory_size=16, fourier=8, features=8, memory=memory)
    lpm.check_intrinsic(small, SPACES[space])


def test_equals_the_formula_by_hand() -> None:
    """One environment, no gate, no filter, features as they are: the distance to the nearest state of the episode."""
    spaces = lpm.Spaces(Box(-np.inf, np.inf, (2,)), Discrete(2))
    bonus = make(spaces, num_envs=1, gate=False, filter=False, units=False, memory="episodic")
    for seed in range(3):
        bonus.step(walk(spaces, envs=1, seed=seed))
        bonus.update()
    block = walk(spaces, steps=5, envs=1, seed=9)
    remembered = bonus.episode.rows[0, -int(bonus.episode.count[0]) :]
    rewards = bonus.score(block)
    for t in range(5):
        new = bonus.state.scaled(block.next_obs[t])
        distance = torch.cdist(new, remembered).min()
        expected = -math.expm1(-max(float(distance / bonus.step_size) - LEAST, 0) / REACH)
        assert float(rewards[t, 0]) == pytest.approx(expected, rel=1e-4)
        remembered = torch.cat([remembered, new])


@pytest.mark.parametrize("space", ["vector, discrete", "image"])
def test_gate_by_hand(space: str) -> None:
    bonus, spaces = make(SPACES[space]), SPACES[space]
    for seed in range(3):
        bonus.step(walk(spaces, seed=seed))
        bonus.update()
    block = walk(spaces, seed=7)
    phi = bonus.state.projected(bonus.state.scaled(bonus.state.encoded(block.obs.flatten(0, 1))))
    errors = bonus.models(*bonus.design(phi, block.action.flatten(0, 1)))[:, bonus.state.width :]
    v = bonus.variance
    share = (1 - errors / v).clamp(0, 1)
    torch.testing.assert_close(bonus._gate(phi, block.action.flatten(0, 1)), (share * v).sum(1) / v.sum())


def _noisy_world(bonus: LGN, cycles: int, *, noise: str, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """A point on a circle (action 0: on, 1: back); `noise`: a TV action, or dimensions that are always noise.

    The last rewards, and whether each step showed the TV.
    """
    generator = np.random.default_rng(seed)
    envs, steps = bonus.num_envs, bonus.rollout_steps
    angle = generator.uniform(0, 6, envs)
    extra = 3

    def see(tv: Any) -> Any:
        seen = np.concatenate([np.stack([np.cos(angle), np.sin(angle)], 1), np.zeros((envs, extra))], 1)
        if noise == "always":
            seen[:, 2:] = generator.normal(size=(envs, extra))
        seen[tv] = generator.normal(size=(int(tv.sum()), 2 + extra))
        return seen

    obs = see(np.zeros(envs, dtype=bool))
    for _ in range(cycles):
        rows: list[list[Any]] = [[], [], [], []]
        for _ in range(steps):
            action = generator.integers(3 if noise == "tv" else 2, size=envs)
            angle = angle + np.where(action == 0, 0.1, np.where(action == 1, -0.1, 0))
            tv = action == 2
            following = see(tv)
            for column, value in zip(rows, (obs, action, following, tv), strict=True):
                column.append(value)
            obs = following
        seen, action, following, tv = (torch.as_tensor(np.stack(column)) for column in rows)
        block = Transitions.build(seen.float(), action, following.float())
        reward = bonus.step(block)
        bonus.update()
    return reward, tv


@pytest.mark.parametrize("memory", ["episodic", "lifelong", "both"])
def test_a_tv_pays_nothing_and_a_place_does(memory: str) -> None:
    spaces = lpm.Spaces(Box(-np.inf, np.inf, (5,)), Discrete(3))
    bonus = make(spaces, num_envs=4, rollout_steps=64, memory=memory, memory_size=256)
    reward, tv = _noisy_world(bonus, 12, noise="tv")
    assert reward[tv].mean() < 0.1 * reward[~tv].mean() + 1e-3
    without = {"gate": False} if memory == "lifelong" else {"gate": False, "filter": False}
    plain = make(spaces, num_envs=4, rollout_steps=64, memory=memory, memory_size=256, **without)
    reward, tv = _noisy_world(plain, 12, noise="tv")
    assert reward[tv].mean() > 5 * reward[~tv].mean()  # what the gate is for


def test_dimensions_that_are_always_noise_are_not_looked_at() -> None:
    spaces = lpm.Spaces(Box(-np.inf, np.inf, (5,)), Discrete(2))
    bonus = make(spaces, num_envs=4, rollout_steps=64)
    _noisy_world(bonus, 12, noise="always")
    assert bonus.noise.noisy[2:].all()
    assert bonus.noise.signal[:2].min() > 0.9
    assert bonus.noise.signal[2:].max() < 0.15


@settings(max_examples=12, deadline=None)
@given(st.sampled_from([1e-3, 0.1, 1.0, 30.0, 1e3, 1e6]), st.integers(0, 100))
def test_the_scale_of_observations_does_not_matter(scale: float, seed: int) -> None:
    plain, scaled = (make(PLANE, num_envs=4, rollout_steps=32, memory="episodic") for _ in range(2))
    for cycle in range(4):
        block = _line_from_a_corner(32, 4, seed + cycle)
        other = Transitions.build(block.obs * scale, block.action, block.next_obs * scale)
        first, second = plain.step(block), scaled.step(other)
        torch.testing.assert_close(first, second, rtol=0.02, atol=0.02)
        plain.update()
        scaled.update()
    assert first.max() > 0


@pytest.mark.parametrize("space", ["vector, discrete", "vector, continuous", "image"])
def test_resumes_exactly(space: str) -> None:
    spaces = SPACES[space]
    bonus, loaded = make(spaces), make(spaces, seed=7)
    blocks = [walk(spaces, seed=seed) for seed in range(6)]
    for block in blocks[:3]:
        bonus.step(block)
        bonus.update()
    bonus.step(blocks[3][:10])
    stream = io.BytesIO()
    torch.save(bonus.state_dict(), stream)
    stream.seek(0)
    loaded.load_state_dict(torch.load(stream, weights_only=True))
    for block in (blocks[3][10:], *blocks[4:]):
        assert torch.equal(bonus.step(block), loaded.step(block))
        bonus.update()
        loaded.update()


def _line_from_a_corner(steps: int, envs: int, seed: int = 0, still: float = 0.0, noise: float = 0.0) -> Transitions:
    """Random steps on a plane from a corner, a share of which stay `still`; noise grows with the first number."""
    generator = np.random.default_rng(seed)
    place = np.zeros((steps + 1, envs, 2))
    action = generator.integers(0, 4, (steps, envs))
    moves = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
    for t in range(steps):
        moved = np.clip(place[t] + moves[action[t]], 0, 40)
        place[t + 1] = np.where(generator.random((envs, 1)) < still, place[t], moved)
    seen = torch.as_tensor(place, dtype=torch.float32)
    if noise:
        extra = torch.as_tensor(generator.normal(size=seen.shape), dtype=torch.float32) * seen[..., :1] * noise
        seen = torch.cat([seen, extra], 2)
    return Transitions.build(seen[:-1], torch.as_tensor(action), seen[1:])


PLANE = lpm.Spaces(Box(-np.inf, np.inf, (2,)), Discrete(4))


def test_observations_without_a_shape() -> None:
    spaces = lpm.Spaces(Box(-np.inf, np.inf, ()), Discrete(4))
    bonus = make(spaces, num_envs=8, rollout_steps=64, memory="episodic")
    most = 0.0
    for seed in range(3):
        block = _line_from_a_corner(64, 8, seed)
        most = max(
            most, float(bonus.step(Transitions.build(block.obs[..., 0], block.action, block.next_obs[..., 0])).max())
        )
        bonus.update()
    assert most > 0


def test_the_first_errors_do_not_shut_the_gate_on_the_frontier() -> None:
    """f expects at first that nothing changes; expecting the mean, it errs most where the start is far."""
    bonus = make(PLANE, num_envs=8, rollout_steps=64)
    block = _line_from_a_corner(64, 8)
    bonus.step(block)
    bonus.update()
    phi = bonus.state.scaled(block.obs.flatten(0, 1))
    gate = bonus._gate(phi, block.action.flatten())
    far = phi.norm(dim=1) >= phi.norm(dim=1).quantile(0.9)
    assert gate[far].mean() > 0.8


def test_standing_still_does_not_change_the_unit_of_steps() -> None:
    """Whether most of the steps move, or one of ten, must not matter."""
    sizes = []
    for still in (0.3, 0.9):
        bonus = make(PLANE, num_envs=8, rollout_steps=128, horizon=2000.0)
        for seed in range(8):
            bonus.step(_line_from_a_corner(128, 8, seed, still))
            bonus.update()
        sizes.append(float((bonus.unit / bonus.state.input.moments.std).diagonal().mean()))  # type: ignore[union-attr, operator]
    assert max(sizes) < 1.1 * min(sizes)


def test_noise_that_grows_with_the_place_does_not_close_it() -> None:
    bonus = make(lpm.Spaces(Box(-np.inf, np.inf, (4,)), Discrete(4)), num_envs=8, rollout_steps=128)
    for seed in range(6):
        bonus.step(_line_from_a_corner(128, 8, seed, noise=0.5))
        bonus.update()
    block = _line_from_a_corner(128, 8, 9, noise=0.5)
    gate = bonus._gate(bonus.noise.shrunk(bonus.state.scaled(block.obs.flatten(0, 1))), block.action.flatten())
    x = block.obs.flatten(0, 1)[:, 0]
    assert gate[x >= x.quantile(0.95)].mean() > 0.8
    assert bonus.noise.noisy[2:].all()
    assert bonus.noise.signal[2:].max() < 0.15


# ---- leftovers, spikes, change ----------------------------------------------------------------------------------
def _corridor(
    bonus: LGN, rollouts: int, watch: float = 1 / 3, sigma: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Forty cells and a screen that shows noise when watched (docs/own_environment.md); last rewards and actions.

    The noise is uniform in [-1, 1], or Gaussian with a deviation of `sigma`.
    """
    generator, envs = np.random.default_rng(0), bonus.num_envs
    place, age = np.zeros(envs, dtype=int), 0
    obs = np.tile([-1.0, 0.0], (envs, 1))
    for _ in range(rollouts):
        rows: list[list[Any]] = [[], [], [], []]
        heading = generator.random(envs) < 0.7
        for _ in range(bonus.rollout_steps):
            moves = generator.random(envs) < np.where(heading, 0.8, 0.2)
            action = np.where(generator.random(envs) < watch, 2, moves)
            place = np.clip(place + np.array([-1, 1, 0])[action], 0, 39)
            screen = generator.uniform(-1, 1, envs) if sigma is None else generator.normal(0, sigma, envs)
            following = np.stack([place / 20 - 1, (action == 2) * screen], 1)
            age += 1
            done = np.full(envs, age % 200 == 0)
            for column, value in zip(rows, (obs, action, following, done), strict=True):
                column.append(value)
            place = np.where(done, 0, place)
            obs = np.where(done[:, None], [-1.0, 0.0], following)
        seen, taken, came, over = (torch.as_tensor(np.stack(column)) for column in rows)
        reward = bonus.step(Transitions.build(seen.float(), taken, came.float(), truncated=over))
        bonus.update()
    return reward, taken


@pytest.mark.parametrize("sigma", [None, 0.1, 0.3, 1.0])
def test_in_a_known_corridor_watching_noise_is_worth_nothing(sigma: float | None) -> None:
    """A faint screen too: what is left in a known world is worth little, but a learner finds it."""
    bonus = make(lpm.Spaces(Box(-np.inf, np.inf, (2,)), Discrete(3)), num_envs=8, rollout_steps=128, warmup=256)
    reward, action = _corridor(bonus, 24, sigma=sigma)
    assert reward[action == 2].max() == 0
    assert reward[action != 2].mean() >= 0
    assert reward.max() < 0.05


def _plane_of_eight(rollouts: int, bonus: LGN, glitch: float = 0.0, size: float = 0.0) -> tuple[float, float]:
    """Steps of 0.2 in eight numbers, a share of the readings with a spike; bonus of spikes (and after), and of all."""
    generator, envs = np.random.default_rng(0), bonus.num_envs
    place, moves, paid = np.zeros((envs, 8)), 0.2 * np.concatenate([np.eye(8)[:4], -np.eye(8)[:4]]), np.zeros(2)
    seen = place
    for cycle in range(rollouts):
        rows: list[list[Any]] = [[], [], [], []]
        for _ in range(bonus.rollout_steps):
            action = generator.integers(8, size=envs)
            place = np.clip(place + moves[action], -5, 5)
            spike = generator.random(envs) < glitch
            following = place + size * spike[:, None] * generator.choice([-1, 1], (envs, 8))
            for column, value in zip(rows, (seen, action, following, spike), strict=True):
                column.append(value)
            seen = following
        block = [torch.as_tensor(np.stack(column)) for column in rows]
        reward = bonus.step(Transitions.build(block[0].float(), block[1], block[2].float()))
        bonus.update()
        spikes = block[3].clone()
        spikes[1:] |= block[3][:-1]
        if cycle > 5:
            paid += [float(reward[spikes].sum()), float(reward.sum())]
    return paid[0], paid[1]


@pytest.mark.parametrize("size", [10.0, 1000.0])
def test_glitches_draw_a_twentieth_of_the_bonus_at_most(size: float) -> None:
    spaces = lpm.Spaces(Box(-np.inf, np.inf, (8,)), Discrete(8))
    _, plain = _plane_of_eight(20, make(spaces, num_envs=8, rollout_steps=128))
    spikes, total = _plane_of_eight(20, make(spaces, num_envs=8, rollout_steps=128), 0.01, size)
    assert spikes < 0.05 * total
    assert total > 0.5 * plain  # and ordinary steps go on to be rewarded


def _after_a_rest(rollouts: int, steps: int, envs: int, jitter: float) -> Iterator[Transitions]:
    """Blocks on a line, the first of them constant but for the jitter."""
    quiet = jitter * torch.randn(steps + 1, envs, 2, generator=torch.Generator().manual_seed(0))
    for seed in range(rollouts):
        block = _line_from_a_corner(steps, envs, seed)
        yield block if seed else Transitions.build(quiet[:-1], block.action, quiet[1:])


@pytest.mark.parametrize("jitter", [0.0, 1e-6])
def test_a_quiet_start_spoils_nothing(jitter: float) -> None:
    """A first rollout that is constant, or nearly so: rewards stay bounded and come back."""
    bonus = make(PLANE, num_envs=8, rollout_steps=128)
    means = []
    for block in _after_a_rest(6, 128, 8, jitter):
        reward = bonus.step(block)
        bonus.update()
        assert reward.max() <= 1
        means.append(float(reward.mean()))
    usual = make(PLANE, num_envs=8, rollout_steps=128)
    for seed in range(6):
        expected = usual.step(_line_from_a_corner(128, 8, seed)).mean()
        usual.update()
    assert means[-1] > 0.5 * expected


def test_black_frames_at_the_start_spoil_nothing() -> None:
    """A loading screen: the grey pictures of a bright square that walks are rewarded as without it."""
    spaces = lpm.Spaces(Box(0, 255, (40, 40, 3), np.uint8), Discrete(4))

    def rollouts(black: int) -> list[float]:
        bonus, means = make(spaces, num_envs=4, rollout_steps=64), []
        for seed in range(black + 4):
            block = _line_from_a_corner(64, 4, max(seed - black, 0))
            obs = torch.zeros(65, 4, 40, 40, 3, dtype=torch.uint8)
            for t, row in enumerate(torch.cat([block.obs, block.next_obs[-1:]]).long().tolist()):
                for env, (x, y) in enumerate(row):
                    obs[t, env, x : x + 12, y : y + 12] = 0 if seed < black else 255
            reward = bonus.step(Transitions.build(obs[:-1], block.action, obs[1:]))
            bonus.update()
            assert 0 <= reward.min() <= reward.max() <= 1
            means.append(float(reward.mean()))
        return means[black:]

    assert rollouts(2)[-1] > 0.5 * rollouts(0)[-1] > 0


def test_after_a_hundred_rollouts_at_rest_a_walk_is_rewarded_as_without() -> None:
    """A robot that was stuck: one reward of 1,070 once set the scale of the mixer for good."""

    def walked(rest: int) -> float:
        bonus, mixer, shares = make(PLANE, num_envs=4, rollout_steps=64), RewardMixer(MixerConfig(), 4), []
        for seed in [*range(10), *[10] * rest, *range(11, 31)]:
            block = _line_from_a_corner(64, 4, seed, still=float(seed == 10))
            reward = bonus.step(block).numpy()
            bonus.update()
            assert reward.max() <= 1
            mixed = mixer.mix(np.zeros_like(reward), reward, np.ones(reward.shape, np.bool_))
            shares.append(float(mixed.bonus.mean()))
        return float(np.mean(shares[-20:]))

    assert walked(100) > 0.5 * walked(0)


def test_one_hot_grids_are_rewarded_within_a_short_run() -> None:
    """One object that walks over a blank grid of 7 x 7 cells: six rollouts of seven paid nothing at all."""
    bonus = make(lpm.Spaces(Box(0, 1, (7, 7, 20), np.uint8), Discrete(4)), num_envs=8, rollout_steps=64, warmup=256)
    paid = []
    for seed in range(8):
        block = _line_from_a_corner(64, 8, seed)
        x, y = (torch.cat([block.obs, block.next_obs[-1:]]).long() % 7).unbind(-1)
        cells = torch.zeros(65, 8, 7, 7, dtype=torch.int64)
        cells.view(65, 8, 49).scatter_(2, (7 * x + y).unsqueeze(2), 10)
        codes = torch.nn.functional.one_hot(cells, 20).to(torch.uint8)
        paid.append(bool((bonus.step(Transitions.build(codes[:-1], block.action, codes[1:])) > 0).any()))
        bonus.update()
    assert sum(paid) >= 5


def test_the_bonus_comes_back_when_the_dynamics_change() -> None:
    """States that follow each other by a table for each action, which is drawn anew after 50,000 steps."""
    generator, envs, states = np.random.default_rng(0), 8, 30
    places = generator.normal(size=(states, 4))
    bonus = make(
        lpm.Spaces(Box(-np.inf, np.inf, (4,)), Discrete(3)),
        num_envs=envs,
        rollout_steps=128,
        memory="episodic",
        fourier=256,
    )
    means, state, age = [], np.zeros(envs, dtype=int), 0
    for cycle in range(70):
        if cycle in (0, 50):
            tables = np.stack([generator.permutation(states) for _ in range(3)])
        rows: list[list[Any]] = [[], [], [], []]
        for _ in range(128):
            action, seen, age = generator.integers(3, size=envs), places[state], age + 1
            state = tables[action, state]
            done = np.full(envs, age % 20 == 0)
            for column, value in zip(rows, (seen, action, places[state], done), strict=True):
                column.append(value)
            state = np.where(done, 0, state)
        seen, action, came, over = (torch.as_tensor(np.stack(column)) for column in rows)
        means.append(float(bonus.step(Transitions.build(seen.float(), action, came.float(), truncated=over)).mean()))
        bonus.update()
    assert np.mean(means[55:60]) < 0.7 * np.mean(means[45:50])  # what was learnt is wrong
    assert np.mean(means[66:]) > 0.5 * np.mean(means[45:50])


# ---- what it survives -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1e6, 1e30])
def test_any_scale_gives_finite_rewards(scale: float) -> None:
    spaces = SPACES["vector, continuous"]
    bonus = make(spaces)
    for cycle in range(4):
        assert bonus.step(walk(spaces, seed=cycle, scale=scale)).isfinite().all()
        assert all(value.isfinite() for value in bonus.update().values())


@pytest.mark.parametrize("space", SPACES)
def test_constant_observations_pay_nothing(space: str) -> None:
    spaces = SPACES[space]
    bonus, block = make(spaces), walk(SPACES[space])
    still = Transitions.build(block.obs[:1].expand_as(block.obs), block.action, block.obs[:1].expand_as(block.obs))
    for _ in range(4):
        reward = bonus.step(still)
        bonus.update()
    assert not reward.any()


def test_episodes_of_one_step() -> None:
    spaces = SPACES["vector, discrete"]
    bonus = make(spaces, memory="episodic")
    for cycle in range(3):
        block = walk(spaces, seed=cycle)
        short = Transitions.build(
            block.obs, block.action, block.next_obs, terminated=torch.ones(block.shape, dtype=torch.bool)
        )
        reward = bonus.step(short)
        bonus.update()
    assert reward.isfinite().all()
    assert reward.max() > 0  # how far a step led from where the episode began
    assert not bonus.episode.count.any()


@pytest.mark.parametrize("kind", ["late", "cauchy", "TV", "still"])
def test_bad_noise_gives_finite_rewards(kind: str) -> None:
    """Noise that switches on in mid-run, without a variance, or instead of all; numbers that never change."""
    bonus, generator = make(PLANE, num_envs=8, rollout_steps=64), np.random.default_rng(0)
    paid = []
    for seed in range(8):
        block = _line_from_a_corner(64, 8, seed)
        seen = torch.cat([block.obs, block.next_obs[-1:]])
        noise = torch.as_tensor(generator.standard_cauchy(seen.shape), dtype=torch.float32)
        if kind == "cauchy" or (kind == "late" and seed > 3):
            seen = seen + noise
        elif kind == "TV":
            seen = noise.clamp(-3, 3)
        elif kind == "still":
            seen[..., 1] = 7.0
        reward = bonus.step(Transitions.build(seen[:-1], block.action, seen[1:]))
        assert all(value.isfinite() for value in bonus.update().values())
        assert reward.isfinite().all()
        assert 0 <= reward.min() <= reward.max() <= 1
        paid.append(float(reward.mean()))
    assert paid[-1] < 0.02 if kind == "TV" else max(paid) > 0


def test_images_are_small_grey_pictures() -> None:
    """White noise in single pixels hardly moves the features; a change of the scene does."""
    state = make(SPACES["image"]).state
    scene = torch.zeros(1, 40, 40, 3, dtype=torch.uint8)
    scene[:, :20] = 200
    noisy = (scene + torch.randint(0, 40, scene.shape, dtype=torch.uint8)).expand_as(scene)
    plain, turned, jittered = (state.encoded(part) for part in (scene, scene.flip(1), noisy))
    torch.testing.assert_close(plain.view(4, 4), torch.tensor([200 / 255] * 2 + [0.0] * 2).unsqueeze(1).expand(4, 4))
    assert (jittered - plain - 19.5 / 255).norm() < 0.02 * (turned - plain).norm()


def test_memory_is_bounded_however_long_the_episode() -> None:
    spaces = SPACES["vector, discrete"]
    bonus = make(spaces, memory_size=20)
    size = sum(buffer.numel() for buffer in bonus.buffers())
    for cycle in range(20):
        bonus.step(walk(spaces, seed=cycle))
        bonus.update()
    assert bonus.episode.count.tolist() == [20, 20]
    assert len(bonus.run.rows) <= 20
    assert sum(buffer.numel() for buffer in bonus.buffers()) == size


def test_images_are_kept_as_features_only() -> None:
    spaces = lpm.Spaces(Box(0, 255, (4, 84, 84), np.uint8), Discrete(6))
    bonus = lpm.make("lgn", spaces, num_envs=16, rollout_steps=128)
    assert not any(buffer.dtype == torch.uint8 for buffer in bonus.buffers())
    assert sum(buffer.nbytes for buffer in bonus.state_dict().values() if isinstance(buffer, torch.Tensor)) < 64 * 2**20


def test_nothing_is_paid_before_scales_are_known() -> None:
    spaces = SPACES["vector, discrete"]
    bonus = make(spaces, warmup=100)
    assert not bonus.step(walk(spaces, seed=0)).any()
    assert bonus.update() == {}  # 64 transitions are too few
    assert not bonus.step(walk(spaces, seed=1)).any()
    assert bonus.update()
    assert bonus.step(walk(spaces, seed=2)).any()


def test_a_frame_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    spaces = SPACES["image"]
    bonus, rows = make(spaces), []
    encoded = bonus.state.encoded
    monkeypatch.setattr(bonus.state, "encoded", lambda obs: (rows.append(len(obs)), encoded(obs))[1])
    bonus.step(walk(spaces, steps=10))
    assert sum(rows) == 2 * (10 + 1)


def test_refuses_bad_settings_and_actions() -> None:
    with pytest.raises(ValueError, match=r"LGNConfig.memory: expected 'episodic' or 'lifelong' or 'both', got 'none'"):
        LGNConfig(memory="none")  # type: ignore[arg-type]
    for name in ("memory_size", "features", "horizon", "warmup"):
        with pytest.raises(ValueError, match=f"LGNConfig.{name}: expected"):
            LGNConfig(**{name: 0})
    spaces = SPACES["vector, discrete"]
    block = walk(spaces)
    with pytest.raises(ValueError, match=r"expected an action in Discrete\(3\), got 7"):
        make(spaces).step(Transitions.build(block.obs, block.action * 0 + 7, block.next_obs))


def test_only_the_lifelong_form_takes_blocks_of_any_width() -> None:
    spaces = SPACES["vector, discrete"]
    block = walk(spaces, envs=5)
    with pytest.raises(ValueError, match="expected blocks of 2 environments, got 5"):
        make(spaces, memory="both").score(block)
    lifelong = lpm.make("lgn_lifelong", spaces, num_envs=2)
    assert not lifelong.episodic
    assert lifelong.score(block).shape == (32, 5)


def _rooms_of_codes(bonus: LGN, rollouts: int) -> tuple[float, float]:
    """Mean reward of first and of later visits to 40 places, each a view of 100 codes, all read with noise; at the end.

    In an episode the agent walks back and forth along a line.
    """
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(0, 11, (1, 100), generator=generator).float().repeat(40, 1)
    for number in range(1, 40):  # from place to place ten codes differ
        codes[number:, torch.randperm(100, generator=generator)[:10]] = (
            11 * torch.rand(10, generator=generator)
        ).floor()
    code_noise = lambda *shape: codes[shape[0]] + 0.1 * torch.randn(*shape[0].shape, 100, generator=generator)  # noqa: E731
    place, seen = torch.full((2,), 20), torch.zeros(2, 40, dtype=torch.bool)
    obs = code_noise(place)
    totals, counts = torch.zeros(2, dtype=torch.float64), torch.zeros(2)
    for rollout in range(rollouts):
        rows: list[tuple[torch.Tensor, ...]] = []
        for step in range(32):
            seen[[0, 1], place] = True
            action = torch.randint(0, 2, (2,), generator=generator)
            following = (place + 2 * action - 1).clamp(0, 39)
            first, next_obs = ~seen[[0, 1], following], code_noise(following)
            ended = torch.full((2,), rollout % 4 == 3 and step == 31)
            rows.append((obs, action, next_obs, ended, first))
            place, obs = following, next_obs
            if ended.all():
                place, seen = torch.full((2,), 20), torch.zeros(2, 40, dtype=torch.bool)
                obs = code_noise(place)
        o, a, n, over, new = (torch.stack(part) for part in zip(*rows, strict=True))
        reward = bonus.step(Transitions.build(o, a, n, terminated=over))
        bonus.update()
        if rollout >= rollouts // 2:
            for kind, chosen in enumerate((~new, new)):
                totals[kind] += reward[chosen].sum()
                counts[kind] += chosen.sum()
    later, first_visit = (totals / counts).tolist()
    return first_visit, later


def test_noise_on_many_codes_is_no_novelty() -> None:
    # noise on one of a hundred numbers is little, on all of them it is nearly as far as the next place
    spaces = lpm.Spaces(Box(-1, 11, (100,)), Discrete(2))
    first, later = _rooms_of_codes(make(spaces), 120)
    without = _rooms_of_codes(LGNWithoutFloor(spaces, LGNConfig(warmup=16), num_envs=2, rollout_steps=32), 120)
    assert later / first < 0.85 * without[1] / without[0]


def test_noise_floor_is_seldom_beyond_two_looks_at_one_state() -> None:
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(60, 60, generator=generator) / 8
    looks = torch.randn(2, 4000, 60, generator=generator) @ root.T
    squares = (looks[0] - looks[1]).square().sum(1)
    covariance = root @ root.T
    floor = noise_floor(covariance)
    assert 0.95 < (squares > floor).double().mean() < 1  # two deviations
    assert beyond_noise(squares.sqrt(), floor).mean() < 0.7 * squares.sqrt().mean()
    assert noise_floor(9 * covariance) == pytest.approx(9 * floor)
    assert noise_floor(torch.ones(200, 200)) == 0  # numbers that move together come as close as one does


def test_the_floor_of_noise_goes_with_the_noise() -> None:
    generator = torch.Generator().manual_seed(0)
    bonus = make(lpm.Spaces(Box(-np.inf, np.inf, (60,)), Discrete(2)))
    place, rest = torch.zeros(2, 60), torch.randn(2, 1, 60, generator=generator)
    for rollout in range(14):
        line = place + (0.3 * torch.randn(33, 2, 60, generator=generator)).cumsum(0)
        place, seen = line[-1], line + torch.randn(33, 2, 60, generator=generator)
        if rollout >= 12:  # back and forth between two readings, as noise never goes
            seen = rest.repeat(17, 2, 1)[:33]
        bonus.step(Transitions.build(seen[:-1], torch.zeros(32, 2, dtype=torch.int64), seen[1:]))
        bonus.update()
        assert rollout != 11 or bonus.floor > 0
    assert not bonus.noise.noisy.any()
    assert bonus.floor == 0


def test_steps_that_could_not_be_foreseen_count_less_in_the_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    spaces = lpm.Spaces(Box(-np.inf, np.inf, (5,)), Discrete(3))

    def unit() -> float:
        bonus = make(spaces, num_envs=4, rollout_steps=64, memory="episodic")
        _noisy_world(bonus, 12, noise="tv")
        return float(bonus.unit.diagonal()[:2].mean())

    weighted, measure = unit(), LGN._measure

    def all_count(self: LGN, change: torch.Tensor, state: torch.Tensor, ordinary: torch.Tensor) -> None:
        measure(self, change, state, torch.ones_like(ordinary))

    monkeypatch.setattr(LGN, "_measure", all_count)
    assert weighted > 1.2 * unit()


def test_what_was_measured_long_ago_is_forgotten() -> None:
    """Noise that is over after the horizon, and states that are far away after the window of the variance."""
    line = lpm.Spaces(Box(-np.inf, np.inf, (1,)), Discrete(2))
    bonus, generator = make(line, horizon=200.0), torch.Generator().manual_seed(0)
    gains = []
    for rollout in range(40):
        time = torch.arange(33.0).view(33, 1, 1) + 32 * rollout
        seen = torch.sin(0.05 * time + torch.tensor([0.0, 2.0]).view(1, 2, 1))
        seen = seen + (rollout < 10) * torch.randn(33, 2, 1, generator=generator)
        bonus.step(Transitions.build(seen[:-1], torch.zeros(32, 2, dtype=torch.int64), seen[1:]))
        bonus.update()
        gain = bonus.noise.gain(torch.eye(2))[1]
        gains.append(float(gain[0]) if gain.numel() else 1.0)
    assert gains[9] < 0.7 < 0.9 < gains[-1]

    plane = SPACES["vector, continuous"]
    bonus = make(plane, num_envs=8, rollout_steps=128, units=False, filter=False)
    sizes = []
    for seed in range(12):
        bonus.step(walk(plane, steps=128, envs=8, seed=seed, scale=1.0 if seed < 4 else 0.1))
        bonus.update()
        sizes.append(float(bonus.variance.sum()))
    assert sizes[-1] < 0.1 * sizes[3]


def test_a_restart_is_a_beginning() -> None:
    """Scales that were measured at rest are given up with all that was learnt in them."""
    bonus, fresh = (make(PLANE, num_envs=4, rollout_steps=64) for _ in range(2))
    for seed, block in enumerate(_after_a_rest(5, 64, 4, 1e-6)):
        reward = bonus.step(block)
        bonus.update()
        if seed > 1:  # the second rollout did not fit
            assert torch.equal(reward, fresh.step(block))
            fresh.update()


def test_an_episode_does_not_depend_on_those_before() -> None:
    spaces = lpm.Spaces(Box(-np.inf, np.inf, (3,)), Discrete(2))
    bonus, generator = make(spaces, memory="episodic"), torch.Generator().manual_seed(0)

    def episodes() -> Transitions:
        line = (0.3 * torch.randn(33, 2, 3, generator=generator)).cumsum(0)
        seen, over = line + torch.randn(33, 2, 3, generator=generator), torch.zeros(32, 2, dtype=torch.bool)
        over[15::16] = True
        return Transitions.build(seen[:-1], torch.zeros(32, 2, dtype=torch.int64), seen[1:], terminated=over)

    for _ in range(12):
        bonus.step(episodes())
        bonus.update()
    assert bonus.noise.noisy.all()
    both = episodes()
    torch.testing.assert_close(bonus.score(both)[16:], bonus.score(both[16:]))
