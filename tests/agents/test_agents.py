"""PPO and A2C: the bonus has an effect, weight 0 is no bonus, runs repeat, state is complete."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import lpm
import lpm.envs
from lpm.agents import A2C, PPO, A2CConfig, Agent, MixerConfig, NetworkConfig, NonFiniteError, PPOConfig
from lpm.agents.ppo import PRESETS as PPO_PRESETS
from lpm.core.bonus import IntrinsicReward
from lpm.core.spaces import Spaces
from lpm.storage.state_file import to_bytes

ENVS, STEPS = 4, 16
ALGORITHMS = ["ppo", "a2c"]


def mountain_cars(**settings: Any) -> Any:
    return gymnasium.make_vec(
        "lpm/MountainCar-v0", num_envs=ENVS, **{"noise": True, "max_episode_steps": 25, **settings}
    )


def bonus_for(envs: Any, name: str = "lpm", **settings: Any) -> IntrinsicReward:
    if name == "lpm":
        settings = {"dynamics_steps": 2, "error_steps": 2, **settings}
    return lpm.make(name, Spaces.of(envs), num_envs=ENVS, rollout_steps=STEPS, seed=5, **settings)


def agent_of(
    algorithm: str, bonus: str | None = "lpm", *, envs: Any = None, mixer: MixerConfig | None = None, **settings: Any
) -> Agent:
    envs = mountain_cars() if envs is None else envs
    made = None if bonus is None else bonus_for(envs, bonus)
    common: dict[str, Any] = {"total_steps": 10_000, "seed": settings.pop("seed", 0)}
    common["policy"] = settings.pop("policy", "learnt")
    sizes = {"num_envs": ENVS, "rollout_steps": STEPS, **settings}
    if algorithm == "ppo":
        return PPO(envs, made, PPOConfig(**{"epochs": 2, "minibatches": 2, **sizes}), mixer, **common)
    return A2C(envs, made, A2CConfig(**sizes), mixer, **common)


def parameters(agent: Agent) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in agent.policy.parameters()])


def run(agent: Agent, cycles: int) -> list[dict[str, float]]:
    return [agent.cycle() for _ in range(cycles)]


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_bonus_has_an_effect_and_weight_zero_has_none(algorithm: str, heads: Any) -> None:
    """A count bonus pays from the first block on, so one update must tell the weights apart."""
    ends = {}
    for label, bonus, weight in (
        ("one", "count", 1.0),
        ("zero", "count", 0.0),
        ("none", "none", 1.0),
        ("no", None, 1.0),
    ):
        agent = agent_of(algorithm, bonus, mixer=MixerConfig(weight=weight), value_heads=heads)
        agent.cycle()
        ends[label] = parameters(agent)
    assert not torch.equal(ends["one"], ends["zero"])
    assert torch.equal(ends["zero"], ends["none"])
    assert torch.equal(ends["zero"], ends["no"])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_lpm_at_weight_zero_stays_equal_to_no_bonus(algorithm: str) -> None:
    ends, rewards = {}, {}
    for label, bonus, weight in (("lpm", "lpm", 1.0), ("zero", "lpm", 0.0), ("none", "none", 1.0)):
        agent = agent_of(algorithm, bonus, mixer=MixerConfig(weight=weight))
        rewards[label] = [m["bonus/raw_std"] for m in run(agent, 4)]
        ends[label] = parameters(agent)
    assert max(rewards["lpm"]) > 0, "the gate has opened, otherwise this test shows nothing"
    assert torch.equal(ends["zero"], ends["none"])
    assert not torch.equal(ends["lpm"], ends["none"])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_block_is_scored_before_the_models_learn_from_it(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = agent_of(algorithm)
    assert agent.bonus is not None
    order: list[str] = []
    bonus = agent.bonus
    step, update = bonus.step, bonus.update
    monkeypatch.setattr(bonus, "step", lambda batch: order.append("step") or step(batch))
    monkeypatch.setattr(bonus, "update", lambda: order.append("update") or update())
    run(agent, 2)
    assert order == ["step", "update", "step", "update"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_two_runs_with_one_seed_are_equal_and_seeds_differ(algorithm: str) -> None:
    first, second, other = (agent_of(algorithm, seed=seed) for seed in (1, 1, 2))
    assert run(first, 3) == run(second, 3)
    assert torch.equal(parameters(first), parameters(second))
    run(other, 3)
    assert not torch.equal(parameters(first), parameters(other))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_block_without_a_transition_teaches_nothing(algorithm: str) -> None:
    """One environment and blocks of one step: after the end of an episode there is filler alone."""
    envs = gymnasium.make_vec("CartPole-v1", num_envs=1)
    sizes: dict[str, Any] = {"num_envs": 1, "rollout_steps": 1}
    bonus = lpm.make("lgn", Spaces.of(envs), **sizes, warmup=8)
    agent: Agent = A2C(envs, bonus, A2CConfig(**sizes), total_steps=100)
    if algorithm == "ppo":
        agent = PPO(envs, bonus, PPOConfig(**sizes, epochs=1, minibatches=1), total_steps=100)
    learnt = []
    for _ in range(100):
        before = parameters(agent)
        metrics = agent.cycle()
        assert all(np.isfinite(value) for value in metrics.values())
        learnt.append(not torch.equal(before, parameters(agent)))
    assert learnt.count(False) == agent.collector.sums.ended - agent.collector._ended.sum() > 0


def test_the_global_random_state_is_left_alone() -> None:
    torch.manual_seed(0)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    run(agent_of("ppo"), 2)
    assert torch.equal(before, torch.get_rng_state())
    assert (numpy_before == np.random.get_state()[1]).all()  # type: ignore[index]  # noqa: NPY002


@pytest.mark.parametrize("name", ["lpm", "rnd", "ngu", "etd"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_state_dict_holds_everything(algorithm: str, name: str) -> None:
    agent = agent_of(algorithm, name, value_heads=2, episodic_bonus=False)
    run(agent, 3)
    state = copy.deepcopy(agent.state_dict())
    expected = run(agent, 2)
    other = agent_of(algorithm, name, value_heads=2, episodic_bonus=False, seed=9)
    other.load_state_dict(state)
    assert run(other, 2) == expected
    assert torch.equal(parameters(agent), parameters(other))


def test_a_state_of_another_agent_is_refused() -> None:
    ppo, a2c = agent_of("ppo"), agent_of("a2c")
    with pytest.raises(ValueError, match="expected the state of ppo, got that of a2c"):
        ppo.load_state_dict(a2c.state_dict())
    with pytest.raises(ValueError, match="bonus"):
        agent_of("ppo", None).load_state_dict(ppo.state_dict())


def test_a_state_with_an_impossible_bonus_changes_nothing() -> None:
    """The bonus refused its count only after policy and collector had been overwritten."""
    trained, fresh = agent_of("ppo", "ngu"), agent_of("ppo", "ngu", seed=9)
    run(trained, 2)
    state, before = copy.deepcopy(trained.state_dict()), copy.deepcopy(fresh.state_dict())
    state["bonus"]["memory.count"].fill_(-5)
    with pytest.raises(ValueError, match=r"NGU .*memory.count: counts, got numbers from -5 to -5"):
        fresh.load_state_dict(state)
    assert fresh.steps == 0
    assert to_bytes(fresh.state_dict(), "compared") == to_bytes(before, "compared")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_uniform_policy_acts_uniformly_and_learns_nothing(algorithm: str) -> None:
    agent = agent_of(algorithm, "none", policy="uniform")
    before = parameters(agent)
    metrics = run(agent, 3)[-1]
    assert torch.equal(before, parameters(agent))
    assert metrics["coverage"] > 0
    assert 0.3 < metrics["noise_share"] < 0.7


class Toy(gymnasium.Env[Any, Any]):
    """Any pair of spaces; rewards are random, episodes short."""

    def __init__(self, observation: Space[Any], action: Space[Any]) -> None:
        self.observation_space, self.action_space, self.t = observation, action, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.t = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.t += 1
        return self.observation_space.sample(), float(self.np_random.normal()), self.t == 5, False, {}


VECTOR, IMAGE = Box(-1, 1, (3,), np.float32), Box(0, 255, (3, 36, 36), np.uint8)
SPACES: list[tuple[Space[Any], Space[Any]]] = [
    (VECTOR, Discrete(3)),
    (VECTOR, Discrete(3, start=4)),
    (VECTOR, MultiDiscrete([2, 3, 4])),
    (VECTOR, MultiBinary(3)),
    (VECTOR, Box(-2, 5, (2,), np.float32)),
    (VECTOR, Box(-np.inf, np.inf, (2, 2), np.float32)),
    (Box(-1, 1, (2, 2), np.float64), Box(np.array([-1, 0], np.float32), np.array([1, 9], np.float32))),
    (IMAGE, Discrete(2)),
    (Box(0, 1, (7, 7, 2), np.float32), MultiDiscrete([2, 2])),
    (IMAGE, Box(-1, 1, (2,), np.float32)),
]


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize(("observation", "action"), SPACES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_all_spaces_and_modes(algorithm: str, observation: Any, action: Any, mode: AutoresetMode) -> None:
    # a copy for each environment: spaces carry random state of their own
    def make() -> gymnasium.Env[Any, Any]:
        return Toy(copy.deepcopy(observation), copy.deepcopy(action))

    makers: list[Callable[[], gymnasium.Env[Any, Any]]] = [make] * ENVS
    envs = SyncVectorEnv(makers, autoreset_mode=mode)
    network = NetworkConfig(features=16)
    agent = agent_of(algorithm, "none", envs=envs, network=network, rollout_steps=8)
    before = parameters(agent)
    metrics = agent.cycle()
    assert all(np.isfinite(list(metrics.values())))
    assert not torch.equal(before, parameters(agent))


def test_nan_loss_names_the_module_and_leaves_the_parameters_finite() -> None:
    agent = agent_of("ppo")
    agent.cycle()
    with torch.no_grad():
        agent.policy.critic[-1].bias.fill_(float("nan"))  # type: ignore[union-attr, operator]
    before = {k: v.clone() for k, v in agent.policy.actor.state_dict().items()}
    with pytest.raises(NonFiniteError, match=r"policy \(critic\) is nan at step 128"):
        agent.cycle()
    assert all(torch.equal(v, before[k]) for k, v in agent.policy.actor.state_dict().items())


def test_a_nan_loss_stops_before_the_optimiser_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = agent_of("a2c")
    nan = torch.tensor(float("nan"))
    monkeypatch.setattr(
        agent.policy.actions, "log_prob", lambda policy, raw_action: (policy.sum(-1) * nan, policy.sum(-1))
    )
    before = parameters(agent)
    with pytest.raises(NonFiniteError, match=r"policy \(policy loss\) is nan at step 64"):
        agent.cycle()
    assert torch.equal(before, parameters(agent))


def test_nan_in_the_bonus_is_named() -> None:
    agent = agent_of("a2c", "rnd")
    assert agent.bonus is not None
    with torch.no_grad():
        for p in agent.bonus.parameters():
            p.fill_(float("nan"))
    with pytest.raises(NonFiniteError, match=r"bonus RND"):
        run(agent, 3)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_schedules_move_the_learning_rate(algorithm: str) -> None:
    envs = mountain_cars()
    kind: Any = PPO if algorithm == "ppo" else A2C
    config: Any = PPOConfig if algorithm == "ppo" else A2CConfig
    settings = config(
        num_envs=ENVS,
        rollout_steps=STEPS,
        learning_rate=1.0e-3,
        learning_rate_schedule="linear",
        entropy_schedule="linear",
    )
    agent = kind(envs, None, settings, total_steps=2 * ENVS * STEPS)
    assert [m["learn/learning_rate"] for m in run(agent, 3)] == pytest.approx([1e-3, 5e-4, 0.0])


def test_target_kl_stops_the_passes() -> None:
    free = agent_of("ppo", None, epochs=8, learning_rate=0.05).cycle()
    held = agent_of("ppo", None, epochs=8, learning_rate=0.05, target_kl=1e-6).cycle()
    assert free["learn/passes"] == 8
    assert held["learn/passes"] == 1


def test_observation_statistics_are_renewed_between_blocks_only() -> None:
    agent = agent_of("ppo", None)
    moments = agent.policy.input.moments
    assert moments is not None
    assert moments.commits == 0
    agent.cycle()
    assert moments.commits == 1
    seen = agent.collector._obs[:-1][torch.from_numpy(agent.collector._valid)]
    torch.testing.assert_close(moments.mean, seen.double().mean(0).float())


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"PPOConfig.minibatches"):
        PPOConfig(num_envs=1, rollout_steps=2, minibatches=3)
    with pytest.raises(ValueError, match=r"A2CConfig.num_envs"):
        A2CConfig(num_envs=0)
    for field, value in (("gamma", 2.0), ("learning_rate", -1.0), ("learning_rate", np.nan), ("clip", 0.0),
                         ("gae_lambda", -0.1), ("entropy", -1.0), ("max_grad_norm", 0.0)):  # fmt: skip
        with pytest.raises(ValueError, match=rf"PPOConfig.{field}: expected float \(.*, got"):
            PPOConfig(**{field: float(value)})
    with pytest.raises(ValueError, match="expected 8 environments"):
        PPO(mountain_cars(), total_steps=1)
    with pytest.raises(ValueError, match=r"PPOConfig.amp: expected a CUDA device, got cpu"):
        agent_of("ppo", None, amp=True)


def test_the_papers_settings_are_a_preset() -> None:
    paper = PPO_PRESETS["paper-atari"]
    assert (paper.num_envs, paper.rollout_steps, paper.epochs, paper.minibatches) == (64, 128, 3, 8)
    assert (paper.learning_rate, paper.clip, paper.entropy) == (1e-4, 0.1, 0.001)
