"""TorchRL: true successors, the bonus in the reward before GAE, exact equality where it is promised."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from adapter_envs import LENGTHS, PAY, Constant, Paying, Tracing, assert_true_successors
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import lpm
from lpm import MixerConfig
from lpm.core.spaces import Spaces

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # TorchRL warns about itself when it is imported
    pytest.importorskip("torchrl")
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule
    from torchrl.collectors import Collector
    from torchrl.data import LazyTensorStorage, ReplayBuffer
    from torchrl.data.tensor_specs import Bounded, NonTensor
    from torchrl.envs import Compose, GymWrapper, ObservationNorm, SerialEnv, TransformedEnv
    from torchrl.modules import ProbabilisticActor, ValueOperator
    from torchrl.objectives import ClipPPOLoss
    from torchrl.objectives.value import GAE

from lpm.adapters.torchrl import IntrinsicLoss, IntrinsicTransform, _space, plain_action, spaces_of
from lpm.utils.versions import pip_install

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning:torchrl")

SPACES = Spaces(Box(-1, 1e6, (3,), np.float32), Discrete(2))
RAW = MixerConfig(weight=1.0, scale="none")
ROWS = len(LENGTHS)


def envs(**settings: Any) -> Any:
    return SerialEnv(ROWS, [lambda r=r: GymWrapper(Tracing(r, **settings)) for r in range(ROWS)])


def collect(env: Any, policy: Any = None, *, steps: int, batches: int = 1, **settings: Any) -> list[Any]:
    frames = steps * env.batch_size.numel()
    collector = Collector(
        env,
        policy,
        frames_per_batch=frames,
        total_frames=batches * frames,
        auto_register_policy_transforms=False,
        **settings,
    )
    found = [batch.clone() for batch in collector]
    collector.shutdown()
    return found


class Cloning(Paying):
    """A Collector goes on writing into its storage."""

    def _observe(self, batch: lpm.Transitions) -> None:
        self.seen.append(copy.deepcopy(batch))


# ---- what the bonus sees ----------------------------------------------------------------------------------
@pytest.mark.parametrize("where", ["postproc", "environment"])
def test_the_successor_at_an_end_is_the_terminal_observation(where: str) -> None:
    bonus = Cloning(SPACES, num_envs=ROWS)
    transform = IntrinsicTransform(bonus, mixer=RAW)
    if where == "postproc":
        collect(envs(), steps=13, batches=2, postproc=transform)
    else:
        collect(TransformedEnv(envs(), transform), steps=13, batches=2)
    ends = sum(assert_true_successors(block) for block in bonus.seen)
    steps = sum(int(block.valid.sum()) for block in bonus.seen)
    assert steps == transform.steps == 26 * ROWS
    assert ends == sum(26 // length for length in LENGTHS)


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
def test_a_gymnasium_vector_environment_gives_terminal_observations_too(mode: AutoresetMode) -> None:
    env = GymWrapper(SyncVectorEnv([lambda r=r: Tracing(r) for r in range(ROWS)], autoreset_mode=mode))
    bonus = Cloning(spaces_of(env), num_envs=ROWS)
    collect(env, steps=13, postproc=IntrinsicTransform(bonus, mixer=RAW))
    assert assert_true_successors(bonus.seen[0]) >= 8


def test_one_environment_without_a_batch_dimension() -> None:
    env = GymWrapper(Tracing(0))
    bonus = Cloning(spaces_of(env))
    (batch,) = collect(env, steps=7, postproc=IntrinsicTransform(bonus, mixer=RAW))
    assert batch["next", "intrinsic_reward"].shape == (7, 1)
    assert assert_true_successors(bonus.seen[0]) == 2


def test_environments_that_were_not_stepped_are_filler() -> None:
    bonus = Cloning(SPACES, num_envs=ROWS)
    transform = IntrinsicTransform(bonus, mixer=RAW)
    env = TransformedEnv(envs(), transform)
    env.rollout(5, break_when_any_done=False, break_when_all_done=True, auto_reset=True)
    assert sum(assert_true_successors(block) for block in bonus.seen) == ROWS
    assert transform.steps == sum(LENGTHS)
    assert any(not block.valid.all() for block in bonus.seen)


# ---- what the agent sees ----------------------------------------------------------------------------------
@pytest.mark.parametrize("where", ["postproc", "environment"])
def test_the_reward_is_the_sum_and_its_parts_are_kept(where: str) -> None:
    transform = IntrinsicTransform(Paying(SPACES, num_envs=ROWS), mixer=MixerConfig(weight=0.5, scale="none"))
    if where == "postproc":
        (batch,) = collect(envs(), steps=11, postproc=transform)
    else:
        (batch,) = collect(TransformedEnv(envs(), transform), steps=11)
    after = batch["next"]
    step, action = after["observation"][..., 2].long(), batch["action"].argmax(-1)
    paid = 0.5 * torch.from_numpy(PAY)[step, action].unsqueeze(-1)
    assert torch.equal(after["intrinsic_reward"], paid)
    assert torch.equal(after["reward"], after["extrinsic_reward"] + paid)


def test_scoring_steps_and_scoring_blocks_agree() -> None:
    """For a bonus with a memory of the episode, across the border of two batches."""
    rewards = []
    for where in ("postproc", "environment"):
        torch.manual_seed(0)
        bonus = lpm.make("e3b", SPACES, num_envs=ROWS, rollout_steps=16)
        transform = IntrinsicTransform(bonus, mixer=RAW)
        env = envs() if where == "postproc" else TransformedEnv(envs(), transform)
        settings = {"postproc": transform} if where == "postproc" else {}
        frames = 16 * ROWS
        collector = Collector(env, None, frames_per_batch=frames, total_frames=3 * frames, **settings)
        for batch in collector:
            rewards.append(batch["next", "intrinsic_reward"].clone())
            IntrinsicLoss(transform)(batch)
        collector.shutdown()
    for block, step in zip(rewards[:3], rewards[3:], strict=True):
        torch.testing.assert_close(block, step)
    assert rewards[2].abs().sum() > 0


def test_gae_discounts_the_bonus() -> None:
    transform = IntrinsicTransform(
        Constant(SPACES, num_envs=ROWS), mixer=MixerConfig(weight=1.0, extrinsic_weight=0.0, scale="none")
    )
    (batch,) = collect(envs(), steps=20, postproc=transform)
    value = ValueOperator(torch.nn.Linear(3, 1))
    for parameter in value.parameters():
        torch.nn.init.zeros_(parameter)
    GAE(gamma=0.5, lmbda=1.0, value_network=value)(batch)
    left = torch.tensor(LENGTHS).view(-1, 1) - batch["observation"][..., 2]
    expected = 2 * (1 - 0.5**left)
    finished = batch["next", "observation"][..., 1] < batch["next", "observation"][:, -1:, 1]
    torch.testing.assert_close(batch["advantage"].squeeze(-1)[finished], expected[finished])


def parts() -> tuple[Any, Any, Any, Any]:
    torch.manual_seed(3)
    logits = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    policy = ProbabilisticActor(
        TensorDictModule(logits, in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        distribution_class=torch.distributions.OneHotCategorical,
        return_log_prob=True,
    )
    value = ValueOperator(torch.nn.Linear(3, 1))
    loss = ClipPPOLoss(policy, value)
    return policy, GAE(gamma=0.9, lmbda=0.9, value_network=value), loss, torch.optim.Adam(loss.parameters(), lr=0.01)


def ppo(env: Any, transform: IntrinsicTransform | None, batches: int = 3) -> dict[str, torch.Tensor]:
    policy, advantage, loss, optimizer = parts()
    collector = Collector(
        env,
        policy,
        frames_per_batch=12 * ROWS,
        total_frames=12 * ROWS * batches,
        postproc=transform,
        auto_register_policy_transforms=False,
    )
    learn = None if transform is None else IntrinsicLoss(transform)
    for batch in collector:
        advantage(batch)
        for rows in torch.randperm(batch.numel()).chunk(2):
            losses = loss(batch.reshape(-1)[rows])
            total = losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]
            optimizer.zero_grad()
            total.backward()
            optimizer.step()
        if learn is not None:
            learn(batch)
    collector.shutdown()
    return {name: value.detach().clone() for name, value in policy.state_dict().items()}


def gap(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    return max(float((a[name] - b[name]).abs().max()) for name in a)


def test_weight_0_is_no_adapter_and_weight_1_is_not() -> None:
    bare = ppo(envs(), None)
    assert gap(bare, ppo(envs(), None)) == 0.0
    for weight, same in ((0.0, True), (1.0, False)):
        bonus = lpm.make("rnd", SPACES, num_envs=ROWS, rollout_steps=12)
        trained = ppo(envs(), IntrinsicTransform(bonus, weight))
        assert (gap(bare, trained) == 0.0) is same


def test_ppo_with_a_known_bonus_is_ppo_on_an_environment_that_pays_it() -> None:
    paid_by_env = ppo(envs(pays=True), None)
    paid_by_us = ppo(envs(), IntrinsicTransform(Paying(SPACES, num_envs=ROWS), mixer=RAW))
    assert gap(paid_by_env, paid_by_us) == 0.0
    assert gap(paid_by_env, ppo(envs(), None)) > 0.0


# ---- state ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["lpm", "ngu", "lgn"])
def test_save_load_continue_is_as_if_uninterrupted(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    batches = collect(envs(), steps=16, batches=5)

    def fresh() -> tuple[IntrinsicTransform, IntrinsicLoss]:
        bonus = lpm.make(name, SPACES, num_envs=ROWS, rollout_steps=16, seed=4)
        transform = IntrinsicTransform(bonus, mixer=MixerConfig(clip=3.0))
        return transform, IntrinsicLoss(transform)

    def run(transform: IntrinsicTransform, learn: IntrinsicLoss, some: list[Any]) -> list[torch.Tensor]:
        rewards = []
        for batch in some:
            paid = transform(batch)
            learn(paid)
            rewards.append(paid["next", "reward"])
        return rewards

    whole = run(*fresh(), batches)
    transform, learn = fresh()
    run(transform, learn, batches[:3])
    lpm.save_state(transform.state_dict(), tmp_path / "intrinsic.safetensors")
    transform, learn = fresh()
    transform.load_state_dict(lpm.load_state(tmp_path / "intrinsic.safetensors"))
    for continued, uninterrupted in zip(run(transform, learn, batches[3:]), whole[3:], strict=True):
        assert torch.equal(continued, uninterrupted)


def test_the_loss_learns_once_and_owns_no_parameters() -> None:
    bonus = lpm.make("rnd", SPACES, num_envs=ROWS, rollout_steps=16)
    transform = IntrinsicTransform(bonus)
    learn = IntrinsicLoss(transform)
    assert list(learn.parameters()) == []
    assert learn.state_dict() == {}
    (batch,) = collect(envs(), steps=16, postproc=transform)
    before = copy.deepcopy(bonus.state_dict())
    metrics = learn(batch)
    assert "intrinsic_predictor_loss" in metrics.keys()  # noqa: SIM118
    assert not any(value.requires_grad for value in metrics.values())
    assert any(
        not torch.equal(value, before[key])
        for key, value in bonus.state_dict().items()
        if isinstance(value, torch.Tensor)
    )
    with pytest.raises(ValueError, match="once per collected batch, not per minibatch"):
        learn(batch)


# ---- specs ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("space", "encoding"),
    [
        (Discrete(3), False),
        (Discrete(3), True),
        (MultiDiscrete([2, 3]), False),
        (MultiDiscrete([2, 3]), True),
        (MultiBinary(3), False),
        (Box(-2, 2, (2,), np.float32), False),
    ],
)
def test_actions_in_every_encoding_come_back_plain(space: Any, encoding: bool) -> None:
    from torchrl.envs.libs.gym import _gym_to_torchrl_spec_transform

    spec = _gym_to_torchrl_spec_transform(space, categorical_action_encoding=encoding)
    assert _space("action", spec, 0) == space
    spaces = Spaces(Box(-1, 1, (2,)), space)
    samples = spec.rand((4, 5))
    plain = plain_action(samples, spaces, 2).reshape(4, 5, *spaces.action_shape)
    for t in range(4):
        for n in range(5):
            assert np.array_equal(spec.to_numpy(samples[t, n]), plain[t, n].numpy())


def test_images_stay_uint8() -> None:
    low, high = torch.zeros(2, 4, 4, 3, dtype=torch.uint8), torch.full((2, 4, 4, 3), 255, dtype=torch.uint8)
    spec = Bounded(low=low, high=high, shape=low.shape, dtype=torch.uint8)
    assert _space("observation", spec, 1) == Box(0, 255, (4, 4, 3), np.uint8)


def test_a_dict_observation_is_read_by_its_key() -> None:
    env = SerialEnv(2, [lambda r=r: GymWrapper(Tracing(r, keyed=True)) for r in range(2)])
    bonus = Cloning(spaces_of(env, "here"), num_envs=2)
    collect(env, steps=9, postproc=IntrinsicTransform(bonus, mixer=RAW, in_keys=("here", "action")))
    assert assert_true_successors(bonus.seen[0]) == 4


def test_a_bonus_that_needs_the_policy_reads_what_the_actor_wrote() -> None:
    policy, *_ = parts()
    bonus = lpm.make("eme", SPACES, num_envs=ROWS, rollout_steps=12)
    (batch,) = collect(envs(), policy, steps=12, postproc=IntrinsicTransform(bonus, mixer=RAW))
    assert torch.isfinite(batch["next", "intrinsic_reward"]).all()


def test_by_name_it_takes_spaces_and_sizes_from_the_environment() -> None:
    env = envs()
    transform = IntrinsicTransform.of(env, "rnd", rollout_steps=12, seed=4)
    assert (transform.bonus.num_envs, transform.bonus.rollout_steps) == (ROWS, 12)
    assert transform.mixer.config == MixerConfig(scale="task")
    (batch,) = collect(env, steps=12, postproc=transform)
    learnt = IntrinsicLoss(transform)(batch)
    assert {"intrinsic_task_scale", "intrinsic_bonus_scale", "intrinsic_share"} <= set(learnt.keys())


# ---- what is refused --------------------------------------------------------------------------------------
def a_transform(**settings: Any) -> IntrinsicTransform:
    return IntrinsicTransform(Paying(SPACES, num_envs=ROWS), mixer=RAW, **settings)


def test_advantages_before_the_bonus_are_refused() -> None:
    _, advantage, *_ = parts()
    (batch,) = collect(envs(), steps=4)
    advantage(batch)
    with pytest.raises(ValueError, match="'advantage'; add the bonus first, compute GAE after it"):
        a_transform()(batch)


def test_a_replay_buffer_is_refused() -> None:
    buffer = ReplayBuffer(storage=LazyTensorStorage(100), batch_size=8)
    buffer.append_transform(a_transform())
    buffer.extend(collect(envs(), steps=4)[0].reshape(-1))
    with pytest.raises(ValueError, match=r"again and out of order; use Collector\(postproc=transform\)"):
        buffer.sample()


def test_a_transform_after_ours_that_changes_observations_is_refused() -> None:
    norm = ObservationNorm(loc=0.0, scale=2.0, in_keys=["observation"])
    env = TransformedEnv(envs(), Compose(a_transform(), norm))
    with pytest.raises(ValueError, match="append IntrinsicTransform after ObservationNorm"):
        env.rollout(2)
    norm = ObservationNorm(loc=0.0, scale=2.0, in_keys=["observation"])
    TransformedEnv(envs(), Compose(norm, a_transform())).rollout(2)


def test_scoring_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="once, in the environment or as postproc"):
        collect(TransformedEnv(envs(), a_transform()), steps=4, postproc=a_transform())


@pytest.mark.filterwarnings("ignore:split_trajs=True")
def test_split_trajectories_are_refused() -> None:
    with pytest.raises(ValueError, match="use split_trajs=False"):
        collect(envs(), steps=7, split_trajs=True, postproc=a_transform())


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: IntrinsicTransform("rnd"), r"expected an lpm.IntrinsicReward, got 'rnd'; by name: .*\.of\(env\)"),
        (lambda: IntrinsicTransform(Paying(SPACES), RAW), "weight: expected a number, got a MixerConfig"),
        (lambda: IntrinsicTransform(Paying(SPACES), in_keys=["observation"]), "expected two keys"),
        (lambda: IntrinsicTransform(Paying(SPACES), out_keys="intrinsic_reward"), "expected two keys"),
        (lambda: IntrinsicLoss(Paying(SPACES)), "expected an IntrinsicTransform, got Paying"),
        (lambda: spaces_of(Tracing(0)), "wrap it in GymWrapper"),
        (
            lambda: spaces_of(GymWrapper(Tracing(0)), "pixels"),
            "observation_key: expected one of .'observation'., got 'pixels'",
        ),
        (lambda: _space("observation", NonTensor(shape=()), 0), "got NonTensor; choose another key"),
        (lambda: IntrinsicTransform(Paying(SPACES))(TensorDict({}, [])), "a time dimension and a 'next' entry"),
    ],
)
def test_bad_input_says_what_to_use(act: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        act()


def test_rows_that_jump_between_trajectories_are_refused() -> None:
    (batch,) = collect(envs(), steps=4)
    joined = batch.reshape(-1)  # three environments, one after the other
    with pytest.raises(ValueError, match=r"jumps between trajectories .*cat_results='stack'"):
        IntrinsicTransform(Paying(SPACES), mixer=RAW)(joined)


def test_episodes_dropped_between_batches_are_refused_by_a_bonus_that_remembers() -> None:
    for name in ("rnd", "e3b"):
        transform = IntrinsicTransform(lpm.make(name, SPACES, num_envs=ROWS), mixer=RAW)
        if name == "rnd":
            collect(envs(), steps=7, batches=2, reset_at_each_iter=True, postproc=transform)
        else:
            with pytest.raises(ValueError, match="use reset_at_each_iter=False"):
                collect(envs(), steps=7, batches=2, reset_at_each_iter=True, postproc=transform)


def test_batches_that_do_not_fit_are_refused() -> None:
    (batch,) = collect(envs(), steps=4)
    with pytest.raises(ValueError, match="expected 2 environments, got 3"):
        IntrinsicTransform(Paying(SPACES, num_envs=2), mixer=RAW)(batch)
    with pytest.raises(ValueError, match=r"expected a tensor under 'pixels', found .*see in_keys"):
        a_transform(in_keys=("pixels", "action"))(batch)
    for other, message in (
        (
            Spaces(Box(0, 1, (2,)), SPACES.action),
            r"built for an observation of shape \(3,\), got .* \(2,\)",
        ),
        (Spaces(SPACES.observation, Box(0, 1, (5,))), r"built for an action of shape .* got .* \(5,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            IntrinsicTransform(Paying(other, num_envs=ROWS), mixer=RAW)(batch)
    with pytest.raises(ValueError, match=r"has no \('next', 'intrinsic_reward'\); use its IntrinsicTransform as"):
        IntrinsicLoss(a_transform())(batch)


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchrl.envs", None)
    monkeypatch.delitem(sys.modules, "lpm.adapters.torchrl")
    with pytest.raises(ImportError, match=re.escape(pip_install("torchrl"))):
        importlib.import_module("lpm.adapters.torchrl")


# ---- the example ------------------------------------------------------------------------------------------
def test_the_example_runs() -> None:
    path = Path(__file__).parents[2] / "examples" / "torchrl_ppo.py"
    spec = importlib.util.spec_from_file_location("example_torchrl_ppo", path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = example
    spec.loader.exec_module(example)
    args = example.Args(env_id="CartPole-v1", steps=64, num_envs=2, num_steps=16, epochs=1, minibatches=2)
    _, transform = example.train(args, example.make_env(args))
    assert transform.steps == transform.learnt == 64
