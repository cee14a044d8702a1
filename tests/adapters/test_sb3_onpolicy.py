"""Stable-Baselines3, on-policy: exact returns, true successors, effect."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from adapter_envs import TASK, Constant, Paying, assert_true_successors
from gymnasium.spaces import Box, Discrete
from sb3_cases import ON_POLICY, ROWS, STEPS, envs, keep_log, off_policy, on_policy, parameters, same
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, EveryNTimesteps
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecMonitor, VecNormalize

from lpm.adapters.sb3 import IntrinsicCallback, MixerConfig, make_bonus, spaces_of
from lpm.adapters.sb3_onpolicy import check_on_policy

PLAIN = MixerConfig(weight=1.0, scale="none")


class Watch(BaseCallback):
    """Keeps what the rollout buffer held after each rollout."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[dict[str, np.ndarray]] = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        names = ("rewards", "advantages", "returns", "values", "episode_starts")
        buffer: Any = self.model.rollout_buffer  # type: ignore[attr-defined]
        self.kept.append({name: getattr(buffer, name).copy() for name in names})


class Picture(gym.Env[Any, Any]):
    """Images that show the step; episodes of three."""

    observation_space = Box(0, 255, (40, 40, 3), np.uint8)
    action_space = Discrete(2)
    t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.t = 0
        return np.zeros((40, 40, 3), np.uint8), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return np.full((40, 40, 3), self.t, np.uint8), 1.0, self.t == 3, False, {}


def bonus_for(model: Any, kind: type[Paying] = Paying, **settings: Any) -> Paying:
    return kind(spaces_of(model, **settings), num_envs=model.n_envs, rollout_steps=STEPS)


def learn(model: Any, *callbacks: BaseCallback, rollouts: int = 2) -> Any:
    model.set_random_seed(0)  # models share the global generators
    return model.learn(rollouts * STEPS * model.n_envs, callback=list(callbacks))


@pytest.mark.parametrize("name", ON_POLICY)
def test_a_zero_bonus_leaves_the_buffer_and_the_parameters_exactly_as_they_were(name: str) -> None:
    alone, with_zero, watch, watch_zero = on_policy(name, envs()), on_policy(name, envs()), Watch(), Watch()
    learn(alone, watch)
    learn(with_zero, IntrinsicCallback(make_bonus("none", with_zero), mixer=PLAIN), watch_zero)
    for before, after in zip(watch.kept, watch_zero.kept, strict=True):
        assert all(np.array_equal(before[key], after[key]) for key in before)
    assert same(parameters(alone), parameters(with_zero))


@pytest.mark.parametrize("name", ON_POLICY)
def test_training_equals_that_on_an_environment_that_pays_the_bonus_itself(name: str) -> None:
    paid, mixed = on_policy(name, envs(pays=True)), on_policy(name, envs())
    learn(paid, rollouts=3)
    learn(mixed, IntrinsicCallback(bonus_for(mixed), mixer=PLAIN), rollouts=3)
    assert same(parameters(paid), parameters(mixed))


def test_the_same_with_continuous_actions_and_normalised_observations() -> None:
    normalise = {"norm_reward": False}
    paid = on_policy("PPO", VecNormalize(envs(pays=True, continuous=True), **normalise))
    mixed = on_policy("PPO", VecNormalize(envs(continuous=True), **normalise))
    bonus = bonus_for(mixed)
    learn(paid)
    learn(mixed, IntrinsicCallback(bonus, mixer=PLAIN))
    assert same(parameters(paid), parameters(mixed))


def test_a_constant_bonus_adds_its_closed_form_to_returns() -> None:
    model, watch = on_policy("PPO", envs(), gamma=0.9, gae_lambda=0.8), Watch()
    alone, watch_alone = on_policy("PPO", envs(), gamma=0.9, gae_lambda=0.8), Watch()
    learn(alone, watch_alone, rollouts=1)
    learn(
        model,
        IntrinsicCallback(bonus_for(model, Constant), mixer=MixerConfig(weight=0.5, scale="none")),
        watch,
        rollouts=1,
    )
    extra = watch.kept[0]["returns"] - watch_alone.kept[0]["returns"]
    starts = watch.kept[0]["episode_starts"]
    for row in range(ROWS):
        left = 0
        for t in reversed(range(STEPS)):
            # steps to the end of the episode or of the rollout, this one included
            left = 1 if t < STEPS - 1 and starts[t + 1, row] else left + 1
            assert extra[t, row] == pytest.approx(0.5 * (1 - 0.72**left) / (1 - 0.72), rel=1e-5)


@pytest.mark.parametrize("name", ON_POLICY)
def test_the_bonus_sees_final_observations_and_every_transition_once(name: str) -> None:
    model = on_policy(name, envs())
    bonus = bonus_for(model)
    learn(model, IntrinsicCallback(bonus, mixer=PLAIN), rollouts=3)
    assert sum(map(assert_true_successors, bonus.seen)) > 20
    whole = torch.cat([block.obs for block in bonus.seen])
    assert len(torch.unique(whole.flatten(0, 1), dim=0)) == whole[..., 0].numel() == 3 * STEPS * ROWS


def test_under_vecnormalize_the_bonus_sees_raw_observations_and_rewards() -> None:
    model = on_policy("PPO", VecNormalize(envs()))
    bonus = bonus_for(model)
    learn(model, IntrinsicCallback(bonus, mixer=PLAIN))
    for block in bonus.seen:
        rounded = block.next_obs.round()
        assert torch.allclose(block.next_obs, rounded, atol=1e-4)  # a final one comes back through the statistics
        assert torch.equal(block.obs, block.obs.round())
        assert block.reward is not None
        assert torch.isin(block.reward, torch.from_numpy(TASK)).all()


def test_images_are_seen_as_the_model_sees_them_even_if_vecnormalize_scales_their_rewards() -> None:
    pictures = VecNormalize(DummyVecEnv([Picture]), norm_obs=False)
    model = PPO("CnnPolicy", pictures, n_steps=8, batch_size=8, n_epochs=1, device="cpu")
    bonus = Constant(spaces_of(model), num_envs=1, rollout_steps=8)
    model.learn(8, callback=IntrinsicCallback(bonus, mixer=PLAIN))
    (block,) = bonus.seen
    assert block.obs.shape == (8, 1, 3, 40, 40)
    assert block.obs[:, 0, 0, 0, 0].tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert block.next_obs[:, 0, 0, 0, 0].tolist() == [1, 2, 3, 1, 2, 3, 1, 2]


def test_dict_observations_with_a_chosen_key() -> None:
    paid = on_policy("PPO", envs(pays=True, keyed=True), policy="MultiInputPolicy")
    mixed = on_policy("PPO", envs(keyed=True), policy="MultiInputPolicy")
    bonus = bonus_for(mixed, obs_key="here")
    learn(paid)
    learn(mixed, IntrinsicCallback(bonus, mixer=PLAIN, obs_key="here"))
    assert sum(map(assert_true_successors, bonus.seen)) > 10
    assert same(parameters(paid), parameters(mixed))


@pytest.mark.parametrize(("name", "bonus"), [("PPO", "lpm"), ("A2C", "lpm"), ("PPO", "lgn")])
def test_weight_one_changes_the_policy_and_weight_zero_does_not(name: str, bonus: str) -> None:
    trained = {}
    for weight in (None, 0.0, 1.0):
        model = on_policy(name, envs())
        made = make_bonus(bonus, model, warmup=16)  # it pays within these few rollouts
        callback = None if weight is None else IntrinsicCallback(made, weight)
        learn(model, *([] if callback is None else [callback]), rollouts=3)
        trained[weight] = parameters(model)
    assert same(trained[None], trained[0.0])
    assert not same(trained[None], trained[1.0])


def test_extrinsic_weight_zero_keeps_the_bootstrap_at_time_limits() -> None:
    watch, model = Watch(), on_policy("PPO", envs())
    learn(
        model, IntrinsicCallback(make_bonus("none", model), mixer=MixerConfig(extrinsic_weight=0.0)), watch, rollouts=1
    )
    rewards = watch.kept[0]["rewards"]
    cut = np.zeros_like(rewards, dtype=bool)
    for row, length in enumerate((3, 5, 4)):
        cut[2 * length - 1 :: 2 * length, row] = True
    assert (rewards[cut] != 0).all()
    assert (rewards[~cut] == 0).all()


def test_the_bonus_updates_as_often_as_asked_and_both_returns_are_logged() -> None:
    model = on_policy("PPO", envs())
    bonus = Paying(spaces_of(model), num_envs=model.n_envs, rollout_steps=2 * STEPS)
    callback = IntrinsicCallback(bonus, mixer=PLAIN)
    dumps = keep_log(model)
    learn(model, callback, rollouts=5)
    assert (callback.rollouts, bonus.updates) == (5, 2)
    returns = callback.returns.means()
    assert dumps[-1]["intrinsic/shaped_return"] == returns["shaped_return"]
    assert dumps[-1]["intrinsic/task_return"] == returns["task_return"] != returns["shaped_return"]
    assert [dump.get("intrinsic/updates") for dump in dumps] == [None, 1, None, 2, None]


def test_an_episode_that_a_new_call_of_learn_breaks_off_is_in_no_return() -> None:
    model = on_policy("PPO", envs())
    callback = IntrinsicCallback(bonus_for(model, Constant), mixer=PLAIN)
    for _ in range(3):
        learn(model, callback, rollouts=1)
    task, shaped = np.array(callback.returns._sums.recent).T
    assert set(np.round(shaped - task)) == {3, 4, 5}


def test_under_vecnormalize_both_returns_are_in_one_unit() -> None:
    """Task's return and shaped return are compared: at weight 0 they are the same number."""
    model = on_policy("PPO", VecNormalize(VecMonitor(envs())))
    dumps, callback = keep_log(model), IntrinsicCallback(bonus_for(model, Constant), 0.0)
    learn(model, callback, rollouts=4)
    returns = callback.returns.means()
    assert returns["task_return"] == pytest.approx(returns["shaped_return"], rel=1e-6)
    assert returns["task_return"] == pytest.approx(
        np.mean([episode["r"] for episode in model.ep_info_buffer]), rel=1e-5
    )
    assert dumps[-1]["intrinsic/task_return"] == returns["task_return"]


def test_the_bonus_counts_in_the_shaped_return_as_much_as_the_model_sees() -> None:
    """A bonus of 1 beside normalised rewards is worth as many raw rewards as VecNormalize divides by."""
    env = VecNormalize(VecMonitor(envs()))
    model = on_policy("PPO", env)
    callback = IntrinsicCallback(bonus_for(model, Constant), mixer=PLAIN)
    learn(model, callback, rollouts=1)
    task, shaped = np.array(callback.returns._sums.recent).T
    assert env.normalize_reward(np.ones(1))[0] != pytest.approx(1, abs=0.05)
    steps = (shaped - task) * env.normalize_reward(np.ones(1))
    assert set(np.round(steps, 4)) <= {3, 4, 5}


def test_a_name_that_is_not_known_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="unknown bonus 'lng'"):
        IntrinsicCallback("lng")
    with pytest.raises(ValueError, match="epoch"):
        IntrinsicCallback("rnd", epochz=2, rollout_steps=8)
    with pytest.raises(ValueError, match="bonus: expected no num_envs, which the environments say"):
        IntrinsicCallback("rnd", num_envs=2)
    for kind in (None, Paying):
        with pytest.raises(ValueError, match=r"bonus: expected a name, see `lpm bonuses`, or an lpm\.IntrinsicReward"):
            IntrinsicCallback(kind)  # type: ignore[arg-type]


def test_a_bonus_made_for_shorter_rollouts_is_refused() -> None:
    model = on_policy("PPO", envs())
    short = Paying(spaces_of(model), num_envs=model.n_envs, rollout_steps=STEPS - 1)
    for callback in (IntrinsicCallback(short), IntrinsicCallback("rnd", rollout_steps=STEPS - 1)):
        with pytest.raises(
            ValueError, match=f"rollout_steps of at least {STEPS}, the model's n_steps, got {STEPS - 1}"
        ):
            learn(model, callback)


def test_a_second_call_of_learn_ends_the_episodes_for_the_bonus() -> None:
    model = on_policy("PPO", envs())
    callback = IntrinsicCallback("lgn", warmup=16)
    learn(model, callback, rollouts=3)
    ended: list[Any] = []
    callback.bonus.end_episodes = lambda rows: ended.append(rows.tolist())  # type: ignore[method-assign]
    learn(model, callback, rollouts=2)
    assert ended[0] == [True] * ROWS


def test_a_name_is_all_it_needs() -> None:
    alone, named, made = (on_policy("PPO", envs()) for _ in range(3))
    callback = IntrinsicCallback("lgn", warmup=16)
    learn(alone, rollouts=3)
    learn(named, callback, rollouts=3)
    learn(made, IntrinsicCallback(make_bonus("lgn", made, warmup=16)), rollouts=3)
    assert callback.mixer.config == MixerConfig(scale="task")
    assert (callback.bonus.num_envs, callback.bonus.rollout_steps) == (ROWS, STEPS)
    assert same(parameters(named), parameters(made))
    assert not same(parameters(named), parameters(alone))


def test_scales_and_share_are_logged() -> None:
    model = on_policy("PPO", envs())
    dumps = keep_log(model)
    learn(model, IntrinsicCallback("rnd"))
    assert {f"intrinsic/{name}" for name in ("task_scale", "bonus_scale", "share", "bonus_mean")} <= dumps[-1].keys()
    assert 0 < dumps[-1]["intrinsic/share"] < 1


def test_monitor_keeps_the_true_return() -> None:
    model = on_policy("PPO", VecMonitor(envs()))
    callback = IntrinsicCallback(bonus_for(model, Constant), mixer=MixerConfig(weight=100.0, scale="none"))
    learn(model, callback)
    true = np.mean([episode["r"] for episode in model.ep_info_buffer])
    returns = callback.returns.means()
    assert returns["task_return"] == pytest.approx(true, abs=1e-4)
    assert returns["shaped_return"] > true + 100


# ---- bad input --------------------------------------------------------------------------------------------
def test_an_off_policy_algorithm_is_told_what_to_use() -> None:
    model = off_policy("DQN", envs())
    with pytest.raises(ValueError, match=r"got DQN, which keeps no rollouts.*use IntrinsicReplayBuffer\.attach"):
        model.learn(10, callback=IntrinsicCallback(make_bonus("rnd", model)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mixer": {"weight": 1.0}}, "expected an lpm.MixerConfig, got dict"),
        ({"weight": 0.5, "mixer": PLAIN}, "weight: expected it in the MixerConfig"),
        ({"weight": PLAIN}, "weight: expected a number, got a MixerConfig; pass it as mixer="),
        ({"weight": -1.0}, "MixerConfig.weight: expected a finite number of at least 0, got -1.0"),
    ],
)
def test_settings_that_cannot_be_followed_are_refused(settings: Any, message: str) -> None:
    model = on_policy("PPO", envs())
    with pytest.raises(ValueError, match=message):
        IntrinsicCallback(make_bonus("none", model), **settings)


def test_settings_of_a_bonus_that_is_made_already_are_refused() -> None:
    model = on_policy("PPO", envs())
    with pytest.raises(ValueError, match=r"settings \['beta'\] are for a bonus given by its name"):
        learn(model, IntrinsicCallback(make_bonus("rnd", model), beta=2))


def test_a_bonus_of_another_model_is_refused() -> None:
    model, other = on_policy("PPO", envs()), on_policy("PPO", envs(continuous=True))
    with pytest.raises(ValueError, match="built for the action space"):
        learn(model, IntrinsicCallback(make_bonus("rnd", other)))
    with pytest.raises(ValueError, match="num_envs=3, got num_envs=2"):
        learn(model, IntrinsicCallback(make_bonus("rnd", model, num_envs=2)))
    with pytest.raises(ValueError, match="needs the policy's parameters"):
        learn(model, IntrinsicCallback(make_bonus("eme", model)))
    with pytest.raises(ValueError, match=r"expected a name, .* or an lpm\.IntrinsicReward; got None"):
        learn(model, IntrinsicCallback(None))  # type: ignore[arg-type]


def test_dict_and_discrete_observations_are_refused_with_what_to_do() -> None:
    keyed = on_policy("PPO", envs(keyed=True), policy="MultiInputPolicy")
    with pytest.raises(ValueError, match=r"obs_key: the observations are a Dict.*one of \['here', 'junk'\]"):
        make_bonus("rnd", keyed)
    with pytest.raises(ValueError, match=r"obs_key: expected one of .* got 'there'"):
        make_bonus("rnd", keyed, obs_key="there")
    with pytest.raises(ValueError, match="obs_key: expected None"):
        make_bonus("rnd", on_policy("PPO", envs()), obs_key="here")
    taxi = PPO("MlpPolicy", "FrozenLake-v1", n_steps=8, batch_size=8)
    with pytest.raises(ValueError, match=r"expected a gymnasium Box, got Discrete.*wrappers.FlattenObservation"):
        make_bonus("rnd", taxi)


def test_a_missing_final_observation_is_refused() -> None:
    class Forgetful(VecNormalize):
        def step_wait(self) -> Any:
            *rest, infos = super().step_wait()
            return *rest, [{k: v for k, v in info.items() if k != "terminal_observation"} for info in infos]

    model = on_policy("PPO", Forgetful(envs()))
    with pytest.raises(ValueError, match=r"expected info\['terminal_observation'\]"):
        learn(model, IntrinsicCallback(bonus_for(model), mixer=PLAIN))


def test_a_bonus_that_is_not_a_number_stops_the_run() -> None:
    model = on_policy("PPO", envs())
    bonus = bonus_for(model, Constant)
    bonus.scale.fill_(float("nan"))
    with pytest.raises(ArithmeticError, match="bonus Constant is nan at step 48"):
        learn(model, IntrinsicCallback(bonus, mixer=PLAIN))


def test_a_callback_that_does_not_see_every_step_is_refused() -> None:
    model = on_policy("PPO", envs())
    seldom = EveryNTimesteps(6, IntrinsicCallback(bonus_for(model), mixer=PLAIN))
    seldom._on_rollout_end = seldom.callback.on_rollout_end  # type: ignore[method-assign, union-attr]
    with pytest.raises(ValueError, match="expected to see all 16 steps of a rollout, got 8"):
        learn(model, seldom)


def test_vecnormalize_inside_a_wrapper_that_changes_observations_is_refused() -> None:
    model = on_policy("PPO", VecFrameStack(VecNormalize(envs()), 2))
    with pytest.raises(ValueError, match="VecNormalize: expected it around all wrappers"):
        learn(model, IntrinsicCallback(make_bonus("rnd", model), mixer=PLAIN))


def test_algorithms_without_rollouts_are_sent_where_they_are_taken() -> None:
    """ARS was sent to a wrapper for Gymnasium's vector environments, which SB3 does not take."""
    contrib = pytest.importorskip("sb3_contrib")
    with pytest.raises(ValueError, match=r"got ARS.*use PPO, A2C") as caught:
        check_on_policy(contrib.ARS("LinearPolicy", "CartPole-v1", n_delta=1))
    assert "IntrinsicVectorReward" not in str(caught.value)
