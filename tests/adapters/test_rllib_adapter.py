"""RLlib: true successors, the bonus in the rewards before GAE, exact equality where it is promised."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from adapter_envs import LENGTHS, Constant, Paying, Tracing, assert_true_successors
from gymnasium.spaces import Box, Dict, Discrete
from hypothesis import given
from hypothesis import strategies as st

from lpm import MixerConfig
from lpm.adapters._episodes import Chunk, fill_block, flags, lay_out
from lpm.core import registry
from lpm.core.spaces import Spaces

ray = pytest.importorskip("ray")
pytest.importorskip("ray.rllib")
from ray.rllib.algorithms.algorithm import Algorithm  # noqa: E402
from ray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from ray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule  # noqa: E402
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner  # noqa: E402
from ray.rllib.connectors.env_to_module import FlattenObservations  # noqa: E402
from ray.rllib.connectors.learner import (  # noqa: E402
    AddNextObservationsFromEpisodesToTrainBatch,
    AddOneTsToEpisodesAndTruncate,
)
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig  # noqa: E402
from ray.rllib.core.rl_module.rl_module import RLModuleSpec  # noqa: E402
from ray.rllib.env.single_agent_episode import SingleAgentEpisode  # noqa: E402

from lpm.adapters.rllib import IntrinsicConnector, IntrinsicPPOLearner, NoteEpisodes, add_intrinsic  # noqa: E402
from lpm.utils.versions import pip_install  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*rllib-single-agent-env"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

SPACES = Spaces(Box(-1, 1e6, (3,), np.float32), Discrete(2))
RAW = MixerConfig(weight=1.0, scale="none")
ROWS = len(LENGTHS)
_rows = itertools.count()


class RayTracing(Tracing):
    """Rows are numbered as they are made."""

    def __init__(self, config: Any) -> None:
        super().__init__(next(_rows) % ROWS, **config)


class Echo(gym.Env[Any, Any]):
    """Shows the action it was given."""

    def __init__(self, config: Any) -> None:
        self.observation_space, self.action_space = Box(-9, 9, (2,), np.float32), Box(1.0, 3.0, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.array(action, np.float32), 0.0, False, False, {}


@pytest.fixture(autouse=True, scope="module")
def _ray() -> Iterator[None]:
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.fixture(autouse=True)
def _known_bonuses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, bonus in (("paying", Paying), ("constant", Constant)):
        monkeypatch.setitem(registry._ENTRIES, name, registry.Entry(name, bonus))


def config(env: Any = RayTracing, batch: int = 36, **env_config: Any) -> Any:
    global _rows
    _rows = itertools.count()
    return (
        PPOConfig()
        .api_stack(enable_rl_module_and_learner=True, enable_env_runner_and_connector_v2=True)
        .environment(env, env_config=env_config)
        .env_runners(num_env_runners=0, num_envs_per_env_runner=ROWS)
        .learners(num_learners=0)
        .training(train_batch_size_per_learner=batch, minibatch_size=batch, num_epochs=2, lr=0.01, gamma=0.9)
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[8]))
        .debugging(seed=0)
    )


def trained(settings: Any, iterations: int = 2) -> tuple[Any, dict[str, Any]]:
    algorithm, result = settings.build_algo(), {}
    for _ in range(iterations):
        result = algorithm.train()
    return algorithm, result


def parameters(settings: Any) -> dict[str, torch.Tensor]:
    algorithm, _ = trained(settings)
    found = {name: value.clone() for name, value in algorithm.get_module().state_dict().items()}
    algorithm.stop()
    return found


def gap(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    return max(float((a[name] - b[name]).abs().max()) for name in a)


def intrinsic(algorithm: Any) -> Any:
    return algorithm.learner_group._learner.intrinsic


# ---- what the bonus sees ----------------------------------------------------------------------------------
@pytest.mark.parametrize("lstm", [False, True])
def test_the_successor_at_an_end_is_the_terminal_observation(lstm: bool) -> None:
    settings = config()
    if lstm:  # then RLlib pads the batch with zeros
        settings.rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[8], use_lstm=True, max_seq_len=4))
    algorithm, result = trained(add_intrinsic(settings, "paying", mixer=RAW), iterations=3)
    connector = intrinsic(algorithm)
    ends = sum(assert_true_successors(block) for block in connector.bonus.seen)
    steps = sum(int(block.valid.sum()) for block in connector.bonus.seen)
    assert steps == connector.steps == result["env_runners"]["num_env_steps_sampled_lifetime"]
    assert ends == result["env_runners"]["num_episodes_lifetime"]
    assert connector.bonus.updates == len(connector.bonus.seen) == 3
    algorithm.stop()


def test_an_episode_keeps_its_row_from_batch_to_batch() -> None:
    algorithm, _ = trained(add_intrinsic(config(batch=15), "paying", mixer=RAW), iterations=4)
    seen = intrinsic(algorithm).bonus.seen
    obs, after, valid, done = (
        torch.cat([getattr(block, name) for block in seen]) for name in ("obs", "next_obs", "valid", "done")
    )
    for row in range(ROWS):
        keep = valid[:, row]
        before, following = after[keep, row][:-1], obs[keep, row][1:]
        runs_on = ~done[keep, row][:-1]
        assert torch.equal(before[runs_on], following[runs_on])
        assert (following[~runs_on][:, 2] == 0).all()
    algorithm.stop()


@pytest.mark.parametrize("normalize", [True, False])
def test_the_bonus_sees_the_action_that_was_executed(normalize: bool) -> None:
    settings = config(Echo, batch=30).environment(normalize_actions=normalize, clip_actions=not normalize)
    algorithm, _ = trained(add_intrinsic(settings, "constant", mixer=RAW), iterations=1)
    (block,) = intrinsic(algorithm).bonus.seen
    assert torch.equal(block.action[block.valid], block.next_obs[block.valid])
    algorithm.stop()


def test_a_dict_observation_is_flattened_by_rllib() -> None:
    settings = config(keyed=True).env_runners(env_to_module_connector=lambda *_, **__: FlattenObservations())
    algorithm, _ = trained(add_intrinsic(settings, "paying", mixer=RAW), iterations=2)
    blocks = intrinsic(algorithm).bonus.seen
    assert blocks[0].obs.shape[-1] == 4
    assert sum(assert_true_successors(block) for block in blocks) > 10
    algorithm.stop()


def test_a_bonus_that_needs_the_policy_gets_it() -> None:
    algorithm, result = trained(add_intrinsic(config(), "eme", mixer=RAW), iterations=1)
    assert np.isfinite(result["learners"]["default_policy"]["intrinsic_raw_mean"])
    algorithm.stop()


# ---- what the agent sees ----------------------------------------------------------------------------------
def test_weight_0_is_no_adapter_and_weight_1_is_not() -> None:
    bare = parameters(config())
    assert gap(bare, parameters(config())) == 0.0
    assert gap(bare, parameters(add_intrinsic(config(), "rnd", 0.0))) == 0.0
    assert gap(bare, parameters(add_intrinsic(config(), "rnd", 1.0))) > 1e-6


def test_ppo_with_a_known_bonus_is_ppo_on_an_environment_that_pays_it() -> None:
    paid_by_env = parameters(config(pays=True))
    assert gap(paid_by_env, parameters(add_intrinsic(config(), "paying", mixer=RAW))) == 0.0
    assert gap(paid_by_env, parameters(config())) > 1e-6


def test_task_return_and_bonus_are_reported_apart() -> None:
    bare, plain = trained(config())
    algorithm, result = trained(add_intrinsic(config(), "constant", mixer=MixerConfig(weight=1000.0, scale="none")), 2)
    learner = result["learners"]["default_policy"]
    assert learner["intrinsic_raw_mean"] == 1.0
    assert learner["intrinsic_mixed_mean"] == 1000.0
    assert abs(result["env_runners"]["episode_return_mean"]) < 100.0
    assert abs(plain["env_runners"]["episode_return_mean"]) < 100.0
    algorithm.stop()
    bare.stop()


# ---- episodes by hand -------------------------------------------------------------------------------------
def episode(
    start: int, length: int, *, number: int = 0, id_: str = "e", terminated: bool = False, truncated: bool = False
) -> Any:
    observations = [np.array([0, number, start + i], np.float32) for i in range(length + 1)]
    return SingleAgentEpisode(
        id_=id_,
        observations=observations,
        actions=[np.int64(i % 2) for i in range(length)],
        rewards=[float(start + i) for i in range(length)],
        extra_model_outputs={},
        terminated=terminated,
        truncated=truncated,
        observation_space=SPACES.observation,
        action_space=SPACES.action,
        len_lookback_buffer=0,
    ).to_numpy()


def shown(connector: IntrinsicConnector, episodes: list[Any]) -> dict[tuple[str], np.ndarray[Any, Any]]:
    """What the pipeline makes of episodes up to the connector: their rewards."""
    batch: dict[str, Any] = {}
    shared: dict[str, Any] = {}
    pieces = (
        NoteEpisodes(),
        AddOneTsToEpisodesAndTruncate(),
        AddNextObservationsFromEpisodesToTrainBatch(),
        connector,
    )
    for piece in pieces:
        batch = piece(rl_module=None, batch=batch, episodes=episodes, shared_data=shared, explore=None)
    assert "new_obs" not in batch
    return {key: np.concatenate(parts) for key, parts in batch["rewards"].items()}


def test_appended_steps_are_paid_nothing_and_cut_chunks_do_not_end() -> None:
    bonus = Constant(SPACES, num_envs=2)
    rewards = shown(
        IntrinsicConnector(bonus, mixer=RAW), [episode(0, 3, id_="a"), episode(0, 2, number=1, id_="b", truncated=True)]
    )
    assert [values.tolist() for values in rewards.values()] == [[1.0, 2.0, 3.0, 0.0], [1.0, 2.0, 0.0]]
    (block,) = bonus.seen
    assert block.shape == (3, 2)
    assert block.valid.tolist() == [[True, True], [True, True], [False, True]]
    assert block.truncated.tolist() == [[False, False], [True, False], [False, False]]
    assert not block.terminated.any()


@pytest.mark.parametrize("name", ["lpm", "ngu", "lgn"])
def test_save_load_continue_is_as_if_uninterrupted(name: str, tmp_path: Path) -> None:
    algorithm, _ = trained(add_intrinsic(config(), name, mixer=MixerConfig(clip=3.0), seed=5))
    saved = algorithm.save_to_path(str(tmp_path / "checkpoint"))
    restored = Algorithm.from_checkpoint(saved)
    connectors = intrinsic(algorithm), intrinsic(restored)
    assert connectors[0].running == connectors[1].running
    rng = np.random.default_rng(0)
    for round_ in range(3):
        episodes = [
            episode(int(rng.integers(5)), 4 + i, number=i, id_=f"{round_}{i}", terminated=True) for i in range(ROWS)
        ]
        outcomes = [shown(connector, copy.deepcopy(episodes)) for connector in connectors]
        for key in outcomes[0]:
            assert np.array_equal(outcomes[0][key], outcomes[1][key])
    assert connectors[0].steps == connectors[1].steps > 72
    algorithm.stop()
    restored.stop()


# ---- the layout -------------------------------------------------------------------------------------------
@given(st.data())
def test_every_step_has_a_place_and_episodes_stay_in_their_rows(data: st.DataObject) -> None:
    num_envs = data.draw(st.integers(1, 4))
    names = map(str, itertools.count())
    live: list[tuple[str, int] | None] = [None] * num_envs  # episode and steps so far
    rows: list[str | None] = [None] * num_envs
    home: dict[str, int] = {}

    def go_on(env: int, *, end: bool) -> Chunk:
        name, start = live[env] or (next(names), 0)
        length = data.draw(st.integers(1, 5))
        live[env] = None if end else (name, start + length)
        return Chunk(name, start, length, end, False)

    for _ in range(data.draw(st.integers(1, 4))):
        chunks = []
        for env in range(num_envs):
            for end in data.draw(st.lists(st.booleans(), max_size=4)):
                chunks.append(go_on(env, end=end))
            if live[env] and live[env][0] not in {chunk.episode for chunk in chunks}:  # type: ignore[index]
                chunks.append(go_on(env, end=False))
        chunks = data.draw(st.permutations(chunks))
        if not chunks:
            continue
        places, rows = lay_out(chunks, rows)
        taken = [(p.row, t) for p, c in zip(places, chunks, strict=True) for t in range(p.start, p.start + c.length)]
        assert len(set(taken)) == len(taken)
        for chunk, place in zip(chunks, places, strict=True):
            assert home.setdefault(chunk.episode, place.row) == place.row
        spans: dict[str, list[tuple[int, int, int]]] = {}
        for chunk, place in zip(chunks, places, strict=True):
            spans.setdefault(chunk.episode, []).append((chunk.start, place.start, chunk.length))
        for found in spans.values():  # the chunks of an episode follow one another, in its own order
            for (_, at, length), (_, following, _) in itertools.pairwise(sorted(found)):
                assert following == at + length
        assert {r for r in rows if r} == {e[0] for e in live if e}
        shape = (max(t for _, t in taken) + 1, num_envs)
        assert int(flags(chunks, places, shape)[2].sum()) == len(taken)


def test_a_lost_episode_gives_its_row_back() -> None:
    places, rows = lay_out([Chunk("new", 0, 2, False, False)], ["lost"])
    assert (places[0].row, rows) == (0, ["new"])
    with pytest.raises(ValueError, match="at most 1 unfinished episodes"):
        lay_out([Chunk("a", 0, 1, False, False), Chunk("b", 0, 1, False, False)], [None])


def test_filler_repeats_a_real_entry() -> None:
    places, _ = lay_out([Chunk("a", 0, 2, True, False), Chunk("b", 0, 1, True, False)], [None, None])
    block = fill_block([np.array([5, 6]), np.array([7])], places, (2, 2))
    assert block.tolist() == [[5, 7], [6, 5]]


# ---- what is refused --------------------------------------------------------------------------------------
class DictModule(DefaultPPOTorchRLModule):
    """Says that its observations are a Dict."""

    def setup(self) -> None:
        super().setup()
        self.observation_space = Dict({"here": self.observation_space})


class OtherLearner(PPOTorchLearner):
    """Somebody's own."""


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: add_intrinsic(DQNConfig()), "expected a PPOConfig, got DQNConfig; for off-policy algorithms use"),
        (
            lambda: add_intrinsic(
                config().api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False)
            ),
            "expected RLlib's new API stack",
        ),
        (lambda: add_intrinsic(config().learners(learner_class=OtherLearner)), "derive it from .*IntrinsicPPOLearner"),
        (
            lambda: add_intrinsic(config().learners(add_default_connectors_to_learner_pipeline=False)),
            "leave them in the pipeline",
        ),
        (
            lambda: add_intrinsic(
                config().multi_agent(policies={"a", "b"}, policy_mapping_fn=lambda *_, **__: "a"), "rnd"
            ),
            "expected one agent",
        ),
        (lambda: add_intrinsic(config(), "rdn"), "unknown bonus 'rdn'; did you mean rnd"),
        (
            lambda: add_intrinsic(config(), "rnd", RAW),
            "weight: expected a number, got a MixerConfig; pass it as mixer=",
        ),
        (lambda: add_intrinsic(config(), "rnd", -1.0), "MixerConfig.weight: expected a finite number of at least 0"),
        (lambda: config().learners(learner_class=IntrinsicPPOLearner).build_algo(), r"use add_intrinsic\(config\)"),
    ],
)
def test_bad_input_says_what_to_use(act: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        act()


def test_wrong_placement_is_refused() -> None:
    connector = IntrinsicConnector(Constant(SPACES), mixer=RAW)
    note = {"lpm_intrinsic": [Chunk("a", 0, 1, False, False)]}
    for batch, shared, message in (
        ({}, {}, r"AddNextObservationsFromEpisodesToTrainBatch before it; use add_intrinsic\(config\)"),
        ({"advantages": []}, note, "advantages are already computed"),
        ({"default_policy": {"advantages": []}}, note, "advantages are already computed"),
        ({"new_obs": {}, "rewards": {}}, note, "change them in an environment wrapper instead"),
    ):
        with pytest.raises(ValueError, match=message):
            connector(batch=batch, episodes=[], shared_data=shared)


def test_spaces_that_no_bonus_knows_are_refused() -> None:
    settings = add_intrinsic(config(Echo, batch=30), "constant", mixer=RAW)
    settings.rl_module(rl_module_spec=RLModuleSpec(module_class=DictModule))
    with pytest.raises(ValueError, match=r"expected a gymnasium Box, got Dict.*; choose keys with"):
        settings.build_algo()


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray.rllib.algorithms.ppo", None)
    monkeypatch.delitem(sys.modules, "lpm.adapters.rllib")
    with pytest.raises(ImportError, match=re.escape(pip_install("rllib"))):
        importlib.import_module("lpm.adapters.rllib")


# ---- the example ------------------------------------------------------------------------------------------
def test_the_example_runs_and_says_what_it_reached(capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(__file__).parents[2] / "examples" / "rllib_ppo.py"
    spec = importlib.util.spec_from_file_location("example_rllib_ppo", path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = example
    spec.loader.exec_module(example)
    metrics = example.train(example.Args(env_id="CartPole-v1", steps=64, num_envs=2, num_steps=16, bonus="lpm"))
    assert metrics["intrinsic_task_scale"] > 0
    assert "intrinsic_dynamics_loss" in metrics
    last = capsys.readouterr().out.splitlines()[-1]
    assert re.fullmatch(r"reached after 64 steps: task return [\d.]+, bonus -?[\d.]+ a step", last)
