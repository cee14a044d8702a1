"""The arithmetic of LPM: every number of the specification that concerns it (L1 to L14 and the tables)."""

import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from scipy.special import polygamma, psi

from lpm import Spaces, Transitions, make
from lpm.bonuses._progress import log_error
from lpm.bonuses.lpm import LPM, reward
from lpm_paper import lpm_release


def vector_spaces(dim: int) -> Spaces:
    return Spaces(Box(-np.inf, np.inf, (dim,)), Discrete(1))


def block(obs: torch.Tensor, next_obs: torch.Tensor, **flags: torch.Tensor) -> Transitions:
    return Transitions.build(obs, torch.zeros(obs.shape[:2], dtype=torch.int64), next_obs, **flags)


def exact_g(dim: int, **fields: object) -> LPM:
    """LPM on a single cell with an error model that is exactly the mean of the queue: affine, and never trained."""
    settings: dict[str, object] = {"normalise": "none", "error_lr": 0.0, "dynamics_steps": 1, "error_steps": 1}
    envs, steps = int(fields.pop("envs", 4)), int(fields.pop("steps", 8))  # type: ignore[call-overload]
    bonus = make("lpm", vector_spaces(dim), num_envs=envs, rollout_steps=steps, **{**settings, **fields})
    assert isinstance(bonus, LPM)
    return bonus


def refit(bonus: LPM) -> None:
    """Fit that error model to the queue, without touching f."""
    predicted = bonus.experience.at(bonus.queue.slots, lambda rows: bonus.error_model(rows.x, rows.code).mean(1))
    bonus.error_model.calibrate(bonus.queue.errors, predicted)
    bonus.fits += 1


def noise_block(bonus: LPM, sigma: float, seed: int) -> Transitions:
    """o' = f(o) + sigma z, with o always 0."""
    dim = bonus.spaces.input_shape[0]
    obs = torch.zeros(bonus.rollout_steps, bonus.num_envs, dim)
    mean = bonus.dynamics(torch.zeros(1, dim), torch.zeros(1, 0)).detach()
    z = torch.randn(obs.shape, generator=torch.Generator().manual_seed(seed))
    return block(obs, mean + sigma * z)


# ---- equations ------------------------------------------------------------------------------------------------
def test_error_is_log_of_mean_square_plus_floor() -> None:
    assert log_error(torch.tensor(0.25), 1e-6).item() == pytest.approx(math.log(0.250001), rel=1e-6)
    assert log_error(torch.tensor(0.0), 1e-6).item() == pytest.approx(math.log(1e-6), rel=1e-6)


@pytest.mark.parametrize(
    ("form", "weight", "expected"),
    [
        ("exp", 1.0, math.exp(-1.0) - 0.3001),
        ("exp", 0.4, 0.4 * math.exp(-1.0) - 0.3001),
        ("linear", 1.0, -1.0 - 0.3),
        ("rnd", 0.1, 0.3),
    ],
)
def test_reward_forms_of_the_release(form: str, weight: float, expected: float) -> None:
    value = lpm_release.reward(form, torch.tensor([-1.0]), torch.tensor(0.3), 1e-4, weight=weight)  # type: ignore[arg-type]
    assert value.item() == pytest.approx(expected, rel=1e-5)


def test_the_papers_reward() -> None:
    value = reward(torch.tensor([-1.0]), torch.tensor(0.3), 1e-4)
    assert value.item() == pytest.approx(-1.0 - math.log(0.3 + 1e-4), rel=1e-5)


def test_rnd_form_subtracts_a_tenth_of_a_positive_prediction() -> None:
    value = lpm_release.reward("rnd", torch.tensor([2.0]), torch.tensor(0.3), 0.0, weight=0.1)
    assert value.item() == pytest.approx(0.1)


def test_same_floor_in_reward_and_target() -> None:
    mse = torch.tensor([0.0, 1e-7, 0.5])
    torch.testing.assert_close(reward(log_error(mse, 1e-6).unsqueeze(1), mse, 1e-6), torch.zeros(3), atol=1e-6, rtol=0)
    for form in ("exp", "linear"):
        perfect = lpm_release.target(form, mse, 1e-6).unsqueeze(1)  # type: ignore[arg-type]
        paid = lpm_release.reward(form, perfect, mse, 1e-6)  # type: ignore[arg-type]
        torch.testing.assert_close(paid, torch.zeros(3), atol=1e-6, rtol=0)


def test_the_releases_clamp_would_pay_3_816_for_ever_in_the_log_form() -> None:
    """It clamps g to [-10, 10], where a perfect prediction is log(1e-6): only the release's forms have a clamp."""
    learnt = torch.tensor(0.0)
    perfect = log_error(learnt, 1e-6).clamp(-10, 10).unsqueeze(0)
    assert reward(perfect, learnt, 1e-6).item() == pytest.approx(3.8155, abs=1e-3)
    with pytest.raises(ValueError, match="'lpm' has no field 'clamp'"):
        make("lpm", vector_spaces(2), clamp=(-10.0, 10.0))


# ---- gates and the queue --------------------------------------------------------------------------------------
def test_l1_the_dth_pushed_transition_is_the_first_paid() -> None:
    bonus = make("lpm", vector_spaces(3), num_envs=2, rollout_steps=4, variant="paper", queue_size=11)
    rewards = [bonus.step(noise_block(bonus, 1.0, seed)) for seed in range(3)]  # type: ignore[arg-type]
    flat = torch.cat(rewards).flatten()
    assert (flat[:10] == 0).all()
    assert (flat[10:] != 0).all()


def test_second_gate_waits_for_the_first_fit() -> None:
    bonus = exact_g(3, envs=2, steps=4, queue_size=3)
    assert (bonus.step(noise_block(bonus, 1.0, 0)) == 0).all()
    bonus.update()
    assert (bonus.step(noise_block(bonus, 1.0, 1)) != 0).all()


@pytest.mark.parametrize(("queue_size", "versions"), [(8, [2]), (5, [2]), (9, [1, 2]), (24, [0, 1, 2])])
def test_l2_versions_in_the_queue(queue_size: int, versions: list[int]) -> None:
    bonus = exact_g(2, envs=2, steps=4, queue_size=queue_size)
    for seed in range(3):
        bonus.step(noise_block(bonus, 1.0, seed))
        if seed < 2:
            bonus.update()
    assert bonus.queue.versions == versions


def test_l3_stored_errors_do_not_follow_f() -> None:
    bonus = exact_g(2)
    bonus.step(noise_block(bonus, 1.0, 0))
    before = bonus.queue.errors.clone()
    with torch.no_grad():
        for parameter in bonus.dynamics.parameters():
            parameter.add_(1.0)
    assert torch.equal(before, bonus.queue.errors)


def test_l10_parallel_environments_are_an_interleaved_stream() -> None:
    wide = make("lpm", vector_spaces(3), num_envs=8, rollout_steps=16, variant="paper", queue_size=50)
    long = make("lpm", vector_spaces(3), num_envs=1, rollout_steps=128, variant="paper", queue_size=50)
    for cycle in range(3):
        generator = torch.Generator().manual_seed(cycle)
        obs, next_obs = (torch.rand(16, 8, 3, generator=generator) for _ in range(2))
        a = wide.step(block(obs, next_obs))
        b = long.step(block(obs.reshape(128, 1, 3), next_obs.reshape(128, 1, 3)))
        torch.testing.assert_close(a.flatten(), b.flatten())
        assert isinstance(wide, LPM)
        assert isinstance(long, LPM)
        for column in ("obs", "error", "version"):
            torch.testing.assert_close(wide.buffer[column][wide.queue.slots], long.buffer[column][long.queue.slots])
        wide.update()
        long.update()


def test_l13_invalid_transitions_change_nothing() -> None:
    bonus = exact_g(2)
    batch = noise_block(bonus, 1.0, 0)
    nothing = block(batch.obs, batch.next_obs, valid=torch.zeros_like(batch.valid))
    assert (bonus.step(nothing) == 0).all()
    assert bonus.buffer.total == 0
    assert bonus.update() == {}


def test_reservoir_is_a_uniform_sample_of_the_latest_cycle() -> None:
    counts = torch.zeros(32)
    for seed in range(300):
        bonus = make("lpm", vector_spaces(1), num_envs=4, rollout_steps=8, queue="reservoir", queue_size=8, seed=seed,
                     normalise="none", dynamics_hidden=(2,), error_hidden=(2,), buffer_size=64)  # fmt: skip
        assert isinstance(bonus, LPM)
        bonus.step(noise_block(bonus, 1.0, 0))
        bonus.buffer.mark()
        bonus.step(noise_block(bonus, 1.0, 1))
        slots = bonus.queue.slots
        assert len(slots) == len(set(slots.tolist())) == 8
        counts[slots - 32] += 1
    share = counts / 300  # each entry is kept with probability 1/4; 5 standard deviations
    assert ((share - 0.25).abs() < 5 * math.sqrt(0.25 * 0.75 / 300)).all()


# ---- behaviour on noise ---------------------------------------------------------------------------------------
TABLE = [  # D, E[log MSE / sigma^2], std in log form, mean in exp form / sigma^2
    (1, -1.270363, 2.221441, -0.719270),
    (2, -0.577216, 1.282550, -0.438541),
    (3, -0.368975, 0.966852, -0.308557),
    (4, -0.270363, 0.803078, -0.236897),
    (8, -0.130177, 0.532750, -0.122060),
    (64, -0.015706, 0.178167, -0.015584),
    (784, -0.001276, 0.050540, -0.001275),
]


@pytest.mark.parametrize(("dim", "mean", "std", "exp_mean"), TABLE)
def test_table_of_pure_noise_from_the_digamma_function(dim: int, mean: float, std: float, exp_mean: float) -> None:
    expected = psi(dim / 2) - math.log(dim / 2)
    assert expected == pytest.approx(mean, abs=1e-6)
    assert math.sqrt(polygamma(1, dim / 2)) == pytest.approx(std, abs=1e-6)
    assert math.exp(expected) - 1 == pytest.approx(exp_mean, abs=1e-6)


@pytest.mark.parametrize(("dim", "std"), [(row[0], row[2]) for row in TABLE if row[0] <= 64])
def test_l4_log_form_is_neutral_on_noise(dim: int, std: float) -> None:
    bonus = exact_g(dim, envs=64, steps=256, dynamics_lr=0.0, error_floor=1e-12, buffer_size=64 * 256)
    bonus.step(noise_block(bonus, 0.5, 0))
    bonus.update()
    rewards = bonus.step(noise_block(bonus, 0.5, 1))
    count = rewards.numel()
    assert rewards.mean().abs() < 4 * std * math.sqrt(2 / count)
    assert rewards.std().item() == pytest.approx(std, rel=0.03)


@pytest.mark.parametrize(("dim", "exp_mean"), [(row[0], row[3]) for row in TABLE if row[0] <= 8])
def test_l5_exp_form_penalises_noise(dim: int, exp_mean: float) -> None:
    sigma2, generator = 0.25, torch.Generator().manual_seed(dim)
    draws = [torch.randn(1_000_000, dim, generator=generator).square().mean(1) * sigma2 for _ in range(2)]
    g = lpm_release.target("exp", draws[0], 1e-12).mean().view(1)
    measured = lpm_release.reward("exp", g, draws[1], 1e-12).mean().item() / sigma2
    assert measured == pytest.approx(exp_mean, rel=0.03)


def test_mountain_car_noise() -> None:
    """U[-1, 1]^2 against a prediction of 0: mean log MSE -1.429, std 1.023, exp bias -0.0938."""
    draws = torch.rand(2_000_000, 2, generator=torch.Generator().manual_seed(0)) * 2 - 1
    mse = draws.square().mean(1)
    assert mse.log().mean().item() == pytest.approx(-1.429, abs=3e-3)
    assert mse.log().std().item() == pytest.approx(1.023, abs=3e-3)
    assert (mse.log().mean().exp() - mse.mean()).item() == pytest.approx(-0.0938, abs=1e-3)


def test_std_counts_the_queue() -> None:
    """With n entries in D the reward's std over queues and samples is sqrt(psi1(D/2) (1 + 1/n))."""
    dim, entries, generator = 4, 4, torch.Generator().manual_seed(1)
    log_mse = torch.randn(200_000, entries + 1, dim, generator=generator).square().mean(2).log()
    rewards = reward(log_mse[:, :entries].mean(1, keepdim=True), log_mse[:, entries].exp(), 0.0)
    assert rewards.std().item() == pytest.approx(0.803078 * math.sqrt(1 + 1 / entries), rel=0.01)


# ---- behaviour while learning ---------------------------------------------------------------------------------
def test_l6_rewards_telescope_on_a_learnable_cell() -> None:
    bonus = exact_g(3, dynamics_steps=20, error_floor=1e-6)
    batch = block(torch.zeros(8, 4, 3), torch.full((8, 4, 3), 0.7))
    total, errors = 0.0, []
    for _ in range(40):
        total += bonus.step(batch).mean().item()
        errors.append(bonus.queue.errors[-1].item())
        bonus.update()
    assert total == pytest.approx(errors[0] - errors[-1], abs=1e-3)
    assert errors[-1] < math.log(1e-5)


def test_telescoping_of_a_perfectly_learnt_cell_pays_the_floor() -> None:
    """From MSE 1 to 0 with floor 1e-6: log(1 + 1e-6) - log(1e-6) = 13.8155."""
    bonus = exact_g(1, error_floor=1e-6)
    levels = iter([1.0, 0.1, 1e-3, 0.0])
    total = 0.0
    for level in levels:
        bonus.dynamics.errors = lambda x, a, y, level=level: x.new_full((len(x),), level)  # type: ignore[method-assign,misc]
        total += bonus.step(block(torch.zeros(8, 4, 1), torch.zeros(8, 4, 1))).mean().item()
        refit(bonus)
        bonus.buffer.mark()
    assert total == pytest.approx(13.8155, abs=1e-3)


@pytest.mark.parametrize(("spans", "expected"), [(0.25, 0.3567), (1, 0.3567), (2, 0.53505), (4, 0.89175)])
def test_l7_reward_of_a_longer_queue_lags(spans: float, expected: float) -> None:
    """An error falling by 0.3567 nats per update pays (K + 1) / 2 times that when D spans K versions."""
    bonus = exact_g(1, queue_size=int(32 * spans), error_floor=1e-30)
    for update in range(12):
        level = math.exp(-0.3567 * update)
        bonus.dynamics.errors = lambda x, a, y, level=level: x.new_full((len(x),), level)  # type: ignore[method-assign,misc]
        rewards = bonus.step(block(torch.zeros(8, 4, 1), torch.zeros(8, 4, 1)))
        refit(bonus)
    assert rewards.mean().item() == pytest.approx(expected, rel=1e-4)


def test_l8_a_perfect_prediction_is_finite_and_worth_nothing() -> None:
    bonus = exact_g(2, error_floor=1e-6)
    bonus.dynamics.errors = lambda x, a, y: x.new_zeros(len(x))  # type: ignore[method-assign,misc]
    batch = block(torch.zeros(8, 4, 2), torch.zeros(8, 4, 2))
    bonus.step(batch)
    refit(bonus)
    rewards = bonus.step(batch)
    assert bonus.buffer["error"][0].item() == pytest.approx(math.log(1e-6), rel=1e-6)
    torch.testing.assert_close(rewards, torch.zeros_like(rewards), atol=1e-5, rtol=0)


def test_l9_first_contact_is_punished_and_the_next_visit_paid() -> None:
    """In a place never seen, g extrapolates the small errors of familiar places: negative first, then positive."""
    cells, generator = torch.eye(8), torch.Generator().manual_seed(0)
    images = torch.rand(8, 8, generator=generator)
    bonus = make("lpm", vector_spaces(8), num_envs=8, rollout_steps=16, normalise="none", seed=0)

    def visit(low: int, high: int) -> Transitions:
        cell = torch.randint(low, high, (16, 8), generator=generator)
        return block(cells[cell], images[cell])

    for _ in range(25):
        bonus.step(visit(0, 7))
        bonus.update()
    first = bonus.step(visit(7, 8)).mean()
    bonus.update()
    second = bonus.step(visit(7, 8)).mean()
    assert first < -0.5
    assert second > 0.5


def test_l11_no_gradient_leaks() -> None:
    bonus = make("lpm", vector_spaces(3), num_envs=4, rollout_steps=8, normalise="none")
    assert isinstance(bonus, LPM)
    batch = noise_block(bonus, 1.0, 0)
    assert not bonus.step(batch).requires_grad
    loss = bonus.error_model.loss(batch.obs.flatten(0, 1), torch.zeros(32, 0), torch.zeros(32))
    loss.backward()
    assert all(p.grad is None for p in bonus.dynamics.parameters())
    images = Spaces(Box(0, 255, (3, 36, 36), np.uint8), Discrete(2))
    shared = make("lpm", images, shared_encoder=True, affine=False)
    assert isinstance(shared, LPM)
    shared.error_model.loss(torch.rand(2, 3, 36, 36), torch.zeros(2, 2), torch.ones(2)).backward()
    assert all(p.grad is None for p in shared.dynamics.parameters())
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in shared.error_model.parameters())


def test_l12_the_montezuma_reward_has_the_opposite_sign() -> None:
    """More error now means less progress in the paper's reward and more reward in the release's."""
    g, better, worse = torch.tensor([0.5]), torch.tensor(0.1), torch.tensor(0.2)
    assert reward(g, worse, 1e-6) < reward(g, better, 1e-6)
    assert lpm_release.reward("rnd", g, worse, 1e-6, weight=0.1) > lpm_release.reward(
        "rnd", g, better, 1e-6, weight=0.1
    )


def test_l14_a_checkpoint_in_mid_cycle_reproduces_rewards_bitwise() -> None:
    bonus, other = (make("lpm", vector_spaces(3), num_envs=4, rollout_steps=8, seed=s) for s in (0, 9))
    for seed in range(4):
        bonus.step(noise_block(bonus, 1.0, seed))  # type: ignore[arg-type]
        if seed < 3:
            bonus.update()
    other.load_state_dict(bonus.state_dict())
    batch = noise_block(bonus, 1.0, 5)  # type: ignore[arg-type]
    assert torch.equal(bonus.step(batch), other.step(batch))
    bonus.update()
    other.update()
    assert torch.equal(bonus.step(batch), other.step(batch))
