"""RLlib (new API stack): a learner connector that puts a bonus into the rewards before advantages are computed.

    config = PPOConfig().environment("MountainCar-v0").env_runners(num_envs_per_env_runner=8)
    add_intrinsic(config, "lgn")
    algorithm = config.build_algo()

`algorithm.train()` reports both: "env_runners" the task's return, "learners" the bonus. `save_to_path` and
`from_checkpoint` keep the bonus with everything else.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpm.adapters._common import log, make_block, make_mixer, missing, mix_block
from lpm.adapters._episodes import Chunk, fill_block, flags, lay_out
from lpm.core.bonus import IntrinsicReward
from lpm.core.group import SINGLE_PROCESS, ProcessGroup
from lpm.core.mixer import MixerConfig
from lpm.core.monitor import BonusMonitor
from lpm.core.registry import configure, make
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.storage.state_file import from_bytes, to_bytes
from lpm.storage.state_tree import check_like

try:
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
    from ray.rllib.connectors.connector_v2 import ConnectorV2
    from ray.rllib.connectors.learner import (
        AddNextObservationsFromEpisodesToTrainBatch,
        AddObservationsFromEpisodesToBatch,
    )
    from ray.rllib.core import DEFAULT_MODULE_ID
    from ray.rllib.core.columns import Columns
    from ray.rllib.evaluation.postprocessing import Postprocessing
    from ray.rllib.utils.spaces.space_utils import clip_action, unsquash_action
except ImportError as error:
    raise missing("ray[rllib]", "rllib") from error

__all__ = ["IntrinsicConnector", "IntrinsicPPOLearner", "IntrinsicSettings", "NoteEpisodes", "add_intrinsic"]

KEY = "lpm_intrinsic"
"""Where the settings are in `learner_config_dict`, and the state in a learner's state."""


@dataclass(frozen=True)
class IntrinsicSettings:
    """What the learner builds the bonus from."""

    bonus: str = "lgn"
    """A name known to `lpm.make`."""
    weight: float | None = None
    """How much the bonus counts beside the task; 0.3 if left out."""
    mixer: MixerConfig | None = None
    """All settings of the mixing, in place of the weight."""
    seed: int = 0
    """Of the bonus."""
    variant: str | None = None
    """Named settings of the bonus."""
    fields: dict[str, Any] = field(default_factory=dict)
    """Fields of the bonus's config."""

    def __post_init__(self) -> None:
        make_mixer(1, self.weight, self.mixer)
        configure(self.bonus, self.variant, **self.fields)


def add_intrinsic(
    config: PPOConfig,
    bonus: str = "lgn",
    weight: float | None = None,
    *,
    mixer: MixerConfig | None = None,
    seed: int = 0,
    variant: str | None = None,
    **fields: Any,
) -> PPOConfig:
    """Let this PPO learn from its rewards plus a bonus; changes and returns `config`, as RLlib's own methods do."""
    if not isinstance(config, PPOConfig):
        raise ValueError(
            f"add_intrinsic: expected a PPOConfig, got {type(config).__name__}; for off-policy algorithms use "
            "lpm.adapters.sb3"
        )
    if config._learner_class not in (None, IntrinsicPPOLearner):
        raise ValueError(
            f"add_intrinsic: the config already has the learner {config._learner_class.__name__}; derive it from "
            "lpm.adapters.rllib.IntrinsicPPOLearner and set it after this call"
        )
    _check_config(config)
    settings = IntrinsicSettings(bonus, weight, mixer, seed, variant, fields)
    config.learners(learner_class=IntrinsicPPOLearner, learner_config_dict={KEY: settings})
    return config


def _check_config(config: Any) -> None:
    if not (config.enable_rl_module_and_learner and config.enable_env_runner_and_connector_v2):
        raise ValueError(
            "add_intrinsic: expected RLlib's new API stack, since the old one has no learner to put a bonus into; "
            "leave api_stack() at its defaults"
        )
    if config.is_multi_agent:
        raise ValueError("add_intrinsic: expected one agent; with several, wrap each agent's environment by itself")
    if not config.add_default_connectors_to_learner_pipeline:
        raise ValueError("add_intrinsic: expected RLlib's default learner connectors; leave them in the pipeline")


class NoteEpisodes(ConnectorV2):  # type: ignore[misc]
    """Notes how long the chunks are and how they ended, before RLlib appends a step and truncates them."""

    def __call__(self, *, batch: Any, episodes: list[Any], shared_data: dict[str, Any] | None = None, **_: Any) -> Any:
        """Leave the note in `shared_data`."""
        if shared_data is not None:
            shared_data[KEY] = [
                Chunk(e.id_, int(e.t_started), len(e), bool(e.is_terminated), bool(e.is_truncated)) for e in episodes
            ]
        return batch


class IntrinsicConnector(ConnectorV2):  # type: ignore[misc]
    """Writes the rewards column: the environment's reward plus the bonus.

    It stands after the connector that adds successors and before those that collect the other columns, and so before
    advantages. Scoring comes first, then the bonus learns, as in every trainer of this package.
    """

    def __init__(
        self,
        bonus: IntrinsicReward,
        weight: float | None = None,
        *,
        mixer: MixerConfig | None = None,
        executed: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray,
        group: ProcessGroup = SINGLE_PROCESS,
    ) -> None:
        """`executed` turns actions as the module sampled them into those that the environment was given. Of a `group`
        of learners each has the bonus for the environments of all, and gets some of their episodes.
        """
        super().__init__()
        self.bonus = bonus
        self.group = group
        self.mixer = make_mixer(bonus.num_envs, weight, mixer)
        self.monitor = BonusMonitor()
        self.executed = executed
        self.steps = 0
        self.rows = bonus.num_envs // group.size
        self.running: list[str | None] = [None] * self.rows
        """The episode each row of this learner's block is in."""

    def __call__(
        self, *, batch: dict[str, Any], episodes: list[Any], shared_data: Any = None, metrics: Any = None, **_: Any
    ) -> Any:
        """Score the chunks, write their rewards, let the bonus learn."""
        self._check_placement(batch, shared_data)
        notes: list[Chunk] = shared_data[KEY]
        kept = [(episode, note) for episode, note in zip(episodes, notes, strict=True) if note.length]
        if not kept:
            if not self.group.is_single:  # the other learners wait for this one
                self._mix(self._nothing(), metrics)
                self._learn(metrics)
            return batch
        mixed = self._score(batch, kept, metrics)
        for (episode, note), rewards in zip(kept, mixed, strict=True):
            # the steps that RLlib appended for bootstrapping get no reward
            padded = np.concatenate([rewards, np.zeros(len(episode) - note.length, dtype=rewards.dtype)])
            self.add_n_batch_items(batch, Columns.REWARDS, padded, len(padded), episode)
        del batch[Columns.NEXT_OBS]
        self._learn(metrics)
        return batch

    def _score(self, batch: dict[str, Any], kept: list[tuple[Any, Chunk]], metrics: Any) -> list[NDArray[np.float32]]:
        """The mixed rewards of every chunk."""
        chunks = [note for _, note in kept]
        places, self.running = lay_out(chunks, self.running)
        shape = (max(p.start + c.length for p, c in zip(places, chunks, strict=True)), self.rows)
        following = batch[Columns.NEXT_OBS]

        def block(read: Callable[[Any, slice], Any]) -> NDArray[Any]:
            parts = [np.asarray(read(episode, slice(0, note.length))) for episode, note in kept]
            return fill_block(parts, places, shape)

        terminated, truncated, valid = flags(chunks, places, shape)
        policy = None
        if "policy" in self.bonus.needs:
            policy = block(lambda e, steps: e.get_extra_model_outputs(Columns.ACTION_DIST_INPUTS, steps))
        transitions = make_block(
            self.bonus,
            block(lambda e, steps: e.get_observations(steps)),
            block(lambda e, steps: self.executed(np.asarray(e.get_actions(steps)))),
            block(lambda e, steps: np.concatenate(following[(e.id_,)])[steps]),
            terminated=terminated,
            truncated=truncated,
            valid=valid,
            reward=block(lambda e, steps: e.get_rewards(steps)),
            policy=policy,
        )
        total = self._mix(transitions, metrics)
        return [total[p.start : p.start + c.length, p.row] for p, c in zip(places, chunks, strict=True)]

    def _mix(self, transitions: Transitions, metrics: Any) -> NDArray[np.float32]:
        """The mixed rewards of this learner's block; bonus and mixer see those of all learners beside each other."""
        block = self.group.all_gather_block(transitions)
        assert block.reward is not None
        raw, mixed = mix_block(self.bonus, self.mixer, block, block.reward.cpu().numpy(), self.steps)
        valid = block.valid.cpu().numpy()
        self.steps += int(valid.sum())
        if valid.any():
            means = {"raw_mean": raw[valid].mean(), "mixed_mean": mixed.bonus[valid].mean()}
            self._log(metrics, {**means, **self.mixer.metrics()})
        return mixed.total[:, self.group.rank * self.rows :][:, : self.rows]

    def _nothing(self) -> Transitions:
        """A block of one step in which nothing happened."""
        spaces, lead = self.bonus.spaces, (1, self.rows)
        obs = np.zeros((*lead, *spaces.obs_shape))
        no, action = np.zeros(lead), np.zeros((*lead, *spaces.action_shape))
        policy = np.zeros((*lead, spaces.policy_width)) if "policy" in self.bonus.needs else None
        flags = {"terminated": no, "truncated": no, "valid": no}
        return make_block(self.bonus, obs, action, obs, **flags, reward=no, policy=policy)

    def _check_placement(self, batch: dict[str, Any], shared_data: dict[str, Any] | None) -> None:
        if Postprocessing.ADVANTAGES in batch.get(DEFAULT_MODULE_ID, batch):
            raise ValueError(
                "IntrinsicConnector: advantages are already computed; use add_intrinsic(config), which puts it before "
                "them"
            )
        if shared_data is None or KEY not in shared_data or Columns.NEXT_OBS not in batch:
            raise ValueError(
                "IntrinsicConnector: expected NoteEpisodes at the start of the pipeline and "
                "AddNextObservationsFromEpisodesToTrainBatch before it; use add_intrinsic(config), which places them"
            )
        if Columns.REWARDS in batch:
            raise ValueError(
                "IntrinsicConnector: another connector has written the rewards; change them in an environment wrapper "
                "instead"
            )

    def _learn(self, metrics: Any) -> None:
        learnt = {name: float(value) for name, value in self.bonus.update().items()}
        self._log(metrics, learnt)
        for message in self.monitor.observe(self.mixer, learnt):
            log.warning(message)

    def _log(self, metrics: Any, values: dict[str, Any]) -> None:
        if metrics is not None:
            for name, value in values.items():
                metrics.log_value((DEFAULT_MODULE_ID, f"intrinsic_{name}"), float(value), window=1)

    # ---- state --------------------------------------------------------------------------------------------
    def get_state(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Everything to continue from: bonus, mixer, steps and running episodes, as the bytes of a state file."""
        return {"bytes": to_bytes(self._state(), KEY)}

    def _state(self) -> dict[str, Any]:
        states = {"bonus": self.bonus.state_dict(), "mixer": self.mixer.state_dict()}
        return {**states, "steps": self.steps, "running": self.running}

    def set_state(self, state: dict[str, Any]) -> None:
        saved = from_bytes(state["bytes"], KEY, "IntrinsicConnector")
        check_like({**self._state(), "bonus": {}, "running": []}, saved, "IntrinsicConnector")
        self.bonus.check_state(saved["bonus"])
        self.bonus.load_state_dict(saved["bonus"])
        self.mixer.load_state_dict(saved["mixer"])
        self.steps, self.running = saved["steps"], list(saved["running"])


class IntrinsicPPOLearner(PPOTorchLearner):  # type: ignore[misc]
    """RLlib's PPO learner with the bonus in its connector pipeline and in its checkpoints."""

    intrinsic: IntrinsicConnector

    def build(self) -> None:
        """Build the learner, then the bonus from the spaces of its module, then place the connectors."""
        super().build()
        settings = self.config.learner_config_dict.get(KEY)
        if not isinstance(settings, IntrinsicSettings):
            raise ValueError("IntrinsicPPOLearner: expected settings in the config; use add_intrinsic(config)")
        _check_config(self.config)
        module = self.module[DEFAULT_MODULE_ID]
        spaces = Spaces(module.observation_space, module.action_space)
        group = ProcessGroup.of_torch() if self.config.num_learners > 1 else SINGLE_PROCESS
        # any learner may get episodes of any environment
        num_envs = self.config.num_envs_per_env_runner * max(1, self.config.num_env_runners) * group.size
        bonus = make(
            settings.bonus,
            spaces,
            num_envs=num_envs,
            rollout_steps=max(1, math.ceil(self.config.total_train_batch_size / num_envs)),
            seed=settings.seed,
            device=self._device,
            variant=settings.variant,
            **settings.fields,
        )
        if bonus.episodic and not group.is_single:
            raise ValueError(
                f"add_intrinsic: expected one learner, got {group.size}: {settings.bonus!r} keeps a memory of each "
                "episode, and RLlib deals the pieces of an episode to any learner; collect faster with num_env_runners"
            )
        executed = _executed(module.action_space, self.config)
        self.intrinsic = IntrinsicConnector(
            bonus, settings.weight, mixer=settings.mixer, executed=executed, group=group
        )
        pipeline = self._learner_connector
        pipeline.prepend(NoteEpisodes())
        pipeline.insert_before(AddObservationsFromEpisodesToBatch, AddNextObservationsFromEpisodesToTrainBatch())
        pipeline.insert_after(AddNextObservationsFromEpisodesToTrainBatch, self.intrinsic)

    def get_state(self, components: Any = None, *, not_components: Any = None, **kwargs: Any) -> dict[str, Any]:
        state: dict[str, Any] = super().get_state(components, not_components=not_components, **kwargs)
        if self._check_component(KEY, components, not_components):
            state[KEY] = self.intrinsic.get_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        if KEY in state:
            self.intrinsic.set_state(state[KEY])


def _executed(space: Any, config: Any) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """What RLlib's own connector does to actions on their way to the environment; episodes keep them as sampled."""

    def executed(actions: NDArray[Any]) -> NDArray[Any]:
        if config.normalize_actions:
            return np.asarray(unsquash_action(actions, space))
        return np.asarray(clip_action(actions, space)) if config.clip_actions else actions

    return executed
