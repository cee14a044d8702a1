"""Stable-Baselines3, off-policy: what the critic sees, true successors, effect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from adapter_envs import PAY, TASK, Constant, Paying, Tracing, assert_true_successors
from sb3_cases import CONTINUOUS, OFF_POLICY, ROWS, envs, keep_log, off_policy, on_policy, parameters, same
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from lpm.adapters.sb3 import IntrinsicReplayBuffer, MixerConfig, make_bonus, spaces_of

PLAIN = MixerConfig(weight=1.0, scale="none")
SIZE = 150


def environment(name: str, **settings: Any) -> DummyVecEnv:
    return envs(continuous=name in CONTINUOUS, **settings)


def bonus_for(model: Any, kind: type[Paying] = Paying, steps: int = 8, **settings: Any) -> Paying:
    return kind(spaces_of(model, **settings), num_envs=model.n_envs, rollout_steps=steps)


def learn(model: Any, steps: int = SIZE) -> Any:
    model.set_random_seed(0)  # models share the global generators
    return model.learn(steps)


def samples(buffer: Any, env: Any, count: int = 64) -> Any:
    np.random.seed(1)  # noqa: NPY002 (the generator that Stable-Baselines3 samples with)
    return buffer.sample(count, env=env)


@pytest.mark.parametrize("name", OFF_POLICY)
def test_training_equals_that_on_an_environment_that_pays_the_bonus_itself(name: str) -> None:
    paid, mixed = off_policy(name, environment(name, pays=True)), off_policy(name, environment(name))
    bonus = bonus_for(mixed)
    IntrinsicReplayBuffer.attach(mixed, bonus, mixer=PLAIN)
    learn(paid)
    learn(mixed)
    assert same(parameters(paid), parameters(mixed))
    assert sum(map(assert_true_successors, bonus.seen)) > 20


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("name", ["SAC", "DQN"])
def test_the_critic_sees_task_reward_plus_weighted_bonus_on_raw_observations(name: str, normalised: bool) -> None:
    env: Any = VecNormalize(environment(name)) if normalised else environment(name)
    model = off_policy(name, env)
    buffer = IntrinsicReplayBuffer.attach(
        model, bonus_for(model), mixer=MixerConfig(weight=0.5, scale="none", clip=1.0)
    )
    learn(model)
    normaliser = model.get_vec_normalize_env()
    assert (normaliser is not None) == normalised
    plain, mixed, raw = (
        samples(b, e) for b, e in ((buffer.inner, normaliser), (buffer, normaliser), (buffer.inner, None))
    )
    assert torch.equal(plain.observations, mixed.observations)
    assert torch.equal(plain.next_observations, mixed.next_observations)
    assert torch.equal(plain.actions, mixed.actions)
    assert torch.equal(plain.dones, mixed.dones)
    step = raw.next_observations[:, 2].round().long().numpy()
    choice = (raw.actions.flatten() > 0).long().numpy()
    bonus = 0.5 * PAY[step, choice].clip(-1, 1)
    assert torch.equal(mixed.rewards, plain.rewards + torch.from_numpy(bonus).view(-1, 1))
    assert normalised != np.array_equal(plain.rewards.numpy().ravel(), TASK[step, choice])


def test_samples_are_scored_with_the_bonus_as_it_is_now() -> None:
    model = off_policy("DQN", envs())
    buffer = IntrinsicReplayBuffer.attach(model, bonus_for(model, Constant), mixer=PLAIN)
    learn(model)
    before = samples(buffer, None).rewards
    buffer.bonus.scale.fill_(3.0)  # type: ignore[operator]
    assert torch.allclose(samples(buffer, None).rewards, before + 2.0)


def test_the_bonus_is_divided_by_its_scale_and_brought_to_that_of_the_task() -> None:
    model = off_policy("DQN", envs())
    buffer = IntrinsicReplayBuffer.attach(
        model, bonus_for(model), mixer=MixerConfig(1.5, scale="task", extrinsic_weight=0.0)
    )
    learn(model)
    raw, mixed = samples(buffer.inner, None), samples(buffer, None)
    step = raw.next_observations[:, 2].long().numpy()
    scale = buffer.mixer.task_scale.value / buffer.mixer.bonus_scale.value
    expected = 1.5 * PAY[step, raw.actions.flatten().numpy()] * scale
    assert 1.0 not in (buffer.mixer.task_scale.value, buffer.mixer.bonus_scale.value)
    assert np.allclose(mixed.rewards.numpy().ravel(), expected, rtol=1e-2)


def test_the_scale_of_the_bonus_is_known_from_the_first_sample_on() -> None:
    """Samples are drawn before the bonus has learnt for the first time."""
    model = off_policy("DQN", envs())
    buffer = IntrinsicReplayBuffer.attach(model, bonus_for(model, steps=1000), mixer=MixerConfig(1.0, scale="task"))
    learn(model)
    assert buffer.updates == 0
    assert buffer.mixer.bonus_scale.value != 1


def test_continuous_actions_reach_the_bonus_as_they_were_executed() -> None:
    executed = []

    class Note(DummyVecEnv):
        def step_async(self, actions: Any) -> None:
            executed.append(np.array(actions))
            super().step_async(actions)

    model = off_policy("SAC", Note([lambda: Tracing(continuous=True)]))
    bonus = bonus_for(model)
    IntrinsicReplayBuffer.attach(model, bonus, mixer=PLAIN)
    learn(model, 64)
    seen = torch.cat([block.action for block in bonus.seen]).numpy()
    assert np.array_equal(seen, np.stack(executed)[: len(seen)])
    assert np.abs(seen).max() > 1.0  # the space is [-2, 2], the stored actions are in [-1, 1]


def test_dict_observations_with_a_chosen_key() -> None:
    paid, mixed = (off_policy("DQN", envs(keyed=True, pays=pays), policy="MultiInputPolicy") for pays in (True, False))
    bonus = bonus_for(mixed, obs_key="here")
    IntrinsicReplayBuffer.attach(mixed, bonus, mixer=PLAIN, obs_key="here")
    learn(paid)
    learn(mixed)
    assert isinstance(paid.replay_buffer, DictReplayBuffer)
    assert same(parameters(paid), parameters(mixed))
    assert sum(map(assert_true_successors, bonus.seen)) > 20


def test_dict_observations_under_vecnormalize() -> None:
    env = VecNormalize(envs(keyed=True))
    model = off_policy("DQN", env, policy="MultiInputPolicy")
    buffer = IntrinsicReplayBuffer.attach(
        model, bonus_for(model, Constant, obs_key="here"), mixer=PLAIN, obs_key="here"
    )
    learn(model)
    plain, mixed = samples(buffer.inner, env), samples(buffer, env)
    assert all(torch.equal(plain.observations[key], mixed.observations[key]) for key in ("here", "junk"))
    assert torch.equal(mixed.rewards, plain.rewards + 1.0)


def test_a_buffer_that_saves_memory_pays_nothing_where_it_lost_the_final_observation() -> None:
    settings = {"optimize_memory_usage": True, "replay_buffer_kwargs": {"handle_timeout_termination": False}}
    model = off_policy("DQN", envs(), **settings)
    bonus = bonus_for(model, Constant)
    buffer = IntrinsicReplayBuffer.attach(model, bonus, mixer=PLAIN)
    learn(model)
    plain, mixed = samples(buffer.inner, None), samples(buffer, None)
    assert torch.equal(mixed.rewards - plain.rewards > 0.5, plain.dones == 0)
    assert plain.dones.sum() > 5
    assert sum(map(assert_true_successors, bonus.seen)) > 20


@pytest.mark.parametrize(("name", "bonus"), [("SAC", "lpm"), ("DQN", "lpm"), ("SAC", "lgn_lifelong")])
def test_weight_one_changes_the_policy_and_weight_zero_does_not(name: str, bonus: str) -> None:
    trained = {}
    for weight in (None, 0.0, 1.0):
        model = off_policy(name, environment(name))
        if weight is not None:
            made = make_bonus(bonus, model, rollout_steps=16, warmup=16)
            IntrinsicReplayBuffer.attach(model, made, weight)
        learn(model)
        trained[weight] = parameters(model)
    assert same(trained[None], trained[0.0])
    assert not same(trained[None], trained[1.0])


@pytest.mark.parametrize("name", ["SAC", "TQC"])
def test_the_entropy_coefficient_starts_on_the_common_scale_unless_it_was_chosen(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    def started(weight: float = 0.3, mixer: MixerConfig | None = None, steps: int = 0, **settings: Any) -> float:
        model = off_policy(name, environment(name), **{"gamma": 0.9, **settings})
        model.num_timesteps = steps
        IntrinsicReplayBuffer.attach(model, bonus_for(model), None if mixer else weight, mixer=mixer)
        return float(model.log_ent_coef.detach().exp())

    assert started() == pytest.approx(0.1)
    assert started(ent_coef="auto_0.5") == pytest.approx(0.5)
    caplog.clear()
    assert started(weight=0.0) == started(mixer=PLAIN) == started(steps=1) == started(gamma=1.0) == 1.0
    assert started(gamma=0.0) == 1.0
    assert "entropy coefficient" not in caplog.text  # nothing was changed, nothing is said


def test_updates_come_as_often_as_asked_and_both_returns_are_logged() -> None:
    model = off_policy("DQN", VecMonitor(envs()))
    bonus = bonus_for(model, Constant, 9)
    buffer = IntrinsicReplayBuffer.attach(model, bonus, mixer=MixerConfig(weight=100.0, scale="none"))
    dumps = keep_log(model)
    learn(model, 50 * ROWS)
    assert bonus.updates == buffer.updates == 5
    assert sum(block.shape[0] for block in bonus.seen) == 45
    logged = next(dump for dump in reversed(dumps) if "intrinsic/shaped_return" in dump)
    assert "intrinsic/task_return" in logged
    assert logged["intrinsic/shaped_return"] > 200 > logged["rollout/ep_rew_mean"]


def test_detach_gives_the_model_its_own_buffer_back_and_saving_saves_that_one(tmp_path: Any) -> None:
    model = off_policy("DQN", envs())
    own = model.replay_buffer
    buffer = IntrinsicReplayBuffer.attach(model, bonus_for(model), mixer=PLAIN)
    learn(model)
    model.save_replay_buffer(tmp_path / "replay")
    assert buffer.size() == own.size() == buffer.pos
    with pytest.raises(ValueError, match=r"has a bonus already; detach\(\) that one first"):
        IntrinsicReplayBuffer.attach(model, bonus_for(model), mixer=PLAIN)
    buffer.detach()
    assert model.replay_buffer is own
    model.load_replay_buffer(tmp_path / "replay.pkl")
    assert type(model.replay_buffer) is ReplayBuffer
    assert np.array_equal(model.replay_buffer.rewards, own.rewards)


def test_transitions_put_in_by_hand_before_learning_are_observed() -> None:
    model = off_policy("DQN", envs())
    bonus = bonus_for(model, steps=2)
    buffer = IntrinsicReplayBuffer.attach(model, bonus, mixer=PLAIN)
    obs = np.zeros((ROWS, 3), np.float32)
    for _ in range(4):
        buffer.add(obs, obs, np.zeros(ROWS, np.int64), np.ones(ROWS), np.zeros(ROWS, bool), [{}] * ROWS)
    assert (bonus.updates, buffer.inner.size()) == (2, 4)


def test_lgn_takes_its_form_for_replayed_transitions_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    model = off_policy("SAC", environment("SAC"))
    with caplog.at_level("WARNING", "lpm"):
        buffer = IntrinsicReplayBuffer.attach(model, "lgn", rollout_steps=16, warmup=16, seed=3)
    assert [record.getMessage() for record in caplog.records if "lgn_lifelong" in record.getMessage()]
    assert not buffer.bonus.episodic
    assert buffer.mixer.config == MixerConfig(scale="task")
    same_form = make_bonus("lgn_lifelong", model, rollout_steps=16, warmup=16, seed=3)
    assert type(buffer.bonus) is type(same_form)
    learn(model)
    assert buffer.updates == 3


@pytest.mark.parametrize("name", ["SAC", "DQN"])
def test_under_vecnormalize_both_returns_are_in_one_unit(name: str) -> None:
    model = off_policy(name, VecNormalize(environment(name)))
    buffer = IntrinsicReplayBuffer.attach(model, bonus_for(model, Constant), 0.0)
    learn(model)
    returns = buffer.returns.means()
    assert returns["task_return"] == pytest.approx(returns["shaped_return"], rel=1e-6)


# ---- bad input --------------------------------------------------------------------------------------------
def test_an_on_policy_algorithm_is_told_what_to_use() -> None:
    model = on_policy("PPO", envs())
    with pytest.raises(ValueError, match=r"got PPO; use model\.learn\(\.\.\., callback=IntrinsicCallback"):
        IntrinsicReplayBuffer.attach(model, make_bonus("rnd", model))


def test_buffers_and_bonuses_that_cannot_be_scored_at_sample_time_are_refused() -> None:
    model = off_policy("DQN", envs(), n_steps=3)
    with pytest.raises(ValueError, match="buffer with n_steps=1"):
        IntrinsicReplayBuffer.attach(model, make_bonus("rnd", model))
    model = off_policy("DQN", envs())
    with pytest.raises(ValueError, match="E3B keeps a memory per environment"):
        IntrinsicReplayBuffer.attach(model, make_bonus("e3b", model))
    with pytest.raises(ValueError, match="num_envs=3, got num_envs=1"):
        IntrinsicReplayBuffer.attach(model, make_bonus("rnd", model, num_envs=1))
    model.replay_buffer = HerReplayBuffer.__new__(HerReplayBuffer)
    with pytest.raises(ValueError, match="HerReplayBuffer are no stored transitions"):
        IntrinsicReplayBuffer.attach(model, make_bonus("rnd", model))
    bare = SAC("MlpPolicy", environment("SAC"), _init_setup_model=False)
    with pytest.raises(ValueError, match="not set up yet"):
        IntrinsicReplayBuffer.attach(bare, make_bonus("rnd", bare))


def test_an_episode_that_a_new_call_of_learn_breaks_off_is_in_no_return() -> None:
    model = off_policy("DQN", envs())
    intrinsic = IntrinsicReplayBuffer.attach(model, bonus_for(model, Constant, 7), mixer=PLAIN)
    for _ in range(4):
        learn(model, 14 * ROWS - ROWS)
    task, shaped = np.array(intrinsic.returns._sums.recent).T
    assert set(np.round(shaped - task)) == {3, 4, 5}


def test_the_ways_of_stable_baselines_to_pass_a_buffer_or_callback_are_told_what_to_use() -> None:
    with pytest.raises(ValueError, match=r"no replay_buffer_class; .*IntrinsicReplayBuffer\.attach"):
        off_policy("DQN", envs(), replay_buffer_class=IntrinsicReplayBuffer)
    model = off_policy("DQN", envs())
    intrinsic = IntrinsicReplayBuffer.attach(model, make_bonus("rnd", model))
    with pytest.raises(ValueError, match=r"it is no callback; .*call learn\(\) without it"):
        model.learn(10, callback=intrinsic)


def test_the_model_file_holds_nothing_of_the_bonus(tmp_path: Any) -> None:
    model = off_policy("DQN", envs())
    IntrinsicReplayBuffer.attach(model, make_bonus("rnd", model))
    learn(model)
    model.save(tmp_path / "model")
    loaded = DQN.load(tmp_path / "model", env=envs())
    assert type(loaded.replay_buffer) is ReplayBuffer
    assert same(parameters(model), parameters(loaded))
