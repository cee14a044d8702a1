"""TorchRL: a transform that puts a bonus into the reward, and the loss that lets the bonus learn.

The keys are those of TorchRL's own RNDTransform: the bonus is written to ("next", "intrinsic_reward"). The
environment's own reward is kept in ("next", "extrinsic_reward"), and ("next", "reward") becomes the sum, so that GAE,
computed after it, discounts the bonus like any reward.

    transform = IntrinsicTransform.of(env, "lgn", rollout_steps=128)
    collector = Collector(env, policy, frames_per_batch=1024, total_frames=100_000, postproc=transform)
    learn = IntrinsicLoss(transform)
    for batch in collector:
        advantage(batch)      # GAE, on the sum
        ...                   # the epochs of ClipPPOLoss
        learn(batch)          # once per batch
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from torch import Tensor

from lpm.adapters._common import log, make_block, make_mixer, make_or_check, missing, mix_block
from lpm.core.bonus import IntrinsicReward
from lpm.core.mixer import MixerConfig
from lpm.core.monitor import BonusMonitor
from lpm.core.spaces import Spaces
from lpm.storage.state_tree import check_like

try:
    from tensordict import TensorDict, TensorDictBase
    from tensordict.utils import NestedKey
    from torchrl.data import tensor_specs
    from torchrl.envs import Compose, EnvBase, Transform
    from torchrl.objectives.common import LossModule

except ImportError as error:
    raise missing("torchrl", "torchrl") from error

__all__ = ["IntrinsicLoss", "IntrinsicTransform", "spaces_of"]

Shaped = Callable[[Tensor], Tensor]
_ADVANTAGES = ("advantage", "value_target")


class IntrinsicTransform(Transform):  # type: ignore[misc]
    """Scores transitions with a bonus and mixes it into the reward.

    As `Collector(postproc=...)`, or called on a collected batch before GAE, it scores a whole block at once: the fast
    way. Appended to an environment, as RNDTransform is, it scores every step, those of `check_env_specs` too; it comes
    after everything that changes observations or rewards, and an environment for evaluation does without it.

    `state_dict()` holds all there is to continue: bonus, mixer and step counts.
    """

    def __init__(
        self,
        bonus: IntrinsicReward,
        weight: float | None = None,
        *,
        mixer: MixerConfig | None = None,
        in_keys: Sequence[NestedKey] = ("observation", "action"),
        out_keys: Sequence[NestedKey] = ("intrinsic_reward", "extrinsic_reward"),
        reward_key: NestedKey = "reward",
    ) -> None:
        """Reads observation and action, writes bonus and extrinsic reward, changes the reward.

        `weight`: how much the bonus counts beside the task, 0.3 if left out; `mixer`: all settings of the mixing in its
        place.
        """
        meanings = {"in_keys": "observation and action", "out_keys": "bonus and extrinsic reward"}
        for (name, meaning), keys in zip(meanings.items(), (in_keys, out_keys), strict=True):
            if isinstance(keys, str) or len(keys) != 2:
                raise ValueError(f"{name}: expected two keys ({meaning}), got {keys!r}")
        if not isinstance(bonus, IntrinsicReward):
            raise ValueError(
                f"bonus: expected an lpm.IntrinsicReward, got {bonus!r}; by name: IntrinsicTransform.of(env)"
            )
        made = make_mixer(bonus.num_envs, weight, mixer)
        super().__init__(in_keys=list(in_keys), out_keys=list(out_keys))
        self.bonus, self.mixer = bonus, made
        self.monitor = BonusMonitor()
        self.reward_key = reward_key
        self.steps = 0
        """Environment steps scored so far."""
        self.learnt = 0
        """Steps scored when the bonus last learnt."""
        self._placed = False
        self._last: Tensor | None = None  # the trajectory each environment was in when the last batch ended

    @classmethod
    def of(
        cls,
        env: EnvBase,
        bonus: str | IntrinsicReward = "lgn",
        weight: float | None = None,
        *,
        rollout_steps: int = 128,
        mixer: MixerConfig | None = None,
        **settings: Any,
    ) -> Self:
        """For a TorchRL environment: a bonus by name with its `settings`, or one that `lpm.make` made."""
        num_envs = max(env.batch_size.numel(), 1)
        made = make_or_check(bonus, spaces_of(env), num_envs, {"rollout_steps": rollout_steps, **settings})
        return cls(made, weight, mixer=mixer)

    # ---- the two ways in ----------------------------------------------------------------------------------
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """A collected batch (*environments, T) with the bonus in its reward; the batch given stays as it was."""
        after = tensordict.get("next", None)
        if after is None or tensordict.ndim < 1:
            raise ValueError(
                "IntrinsicTransform: expected a batch with a time dimension and a 'next' entry, as a Collector gives, "
                f"got batch size {tuple(tensordict.batch_size)} and keys {sorted(map(str, tensordict.keys()))}"
            )
        if self.out_keys[0] in after.keys(True):
            raise ValueError(
                f"IntrinsicTransform: the batch already has ('next', {self.out_keys[0]!r}); use the transform once, in "
                "the environment or as postproc"
            )
        if not self.training:  # as TorchRL leaves what it appends
            raise ValueError(
                "IntrinsicTransform: a replay buffer shows transitions again and out of order; use "
                "Collector(postproc=transform), or append it to the environment"
            )
        for key in _ADVANTAGES:
            if tensordict.get(key, None) is not None:
                raise ValueError(
                    f"IntrinsicTransform: the batch already has {key!r}; add the bonus first, compute GAE after it"
                )
        if ("collector", "mask") in tensordict.keys(True):
            raise ValueError(
                "IntrinsicTransform: expected rows of environments, got padded trajectories; use split_trajs=False"
            )
        rewarded = tensordict.clone(recurse=False)  # a Collector goes on writing into the batch it gave
        block, after = (td.reshape(-1, td.batch_size[-1]).transpose(0, 1) for td in (tensordict, after))
        self._check_rows(block, after)
        self._mix(block, after, rewarded.get("next"), lambda mixed: mixed.T.reshape(*tensordict.batch_size, 1))
        return rewarded

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        """Score one step of an environment."""
        if not self._placed:
            self._check_placement()
        block, after = (td.reshape(1, -1) for td in (tensordict, next_tensordict))
        self._mix(block, after, next_tensordict, lambda mixed: mixed.reshape(*next_tensordict.batch_size, 1))
        return next_tensordict

    def transform_reward_spec(self, reward_spec: tensor_specs.TensorSpec) -> tensor_specs.TensorSpec:
        """Bonus and extrinsic reward are shaped like the reward."""
        rewarded = reward_spec[self.reward_key]
        for key in self.out_keys:
            reward_spec[key] = tensor_specs.Unbounded(shape=rewarded.shape, device=rewarded.device, dtype=torch.float32)
        return reward_spec

    # ---- scoring ------------------------------------------------------------------------------------------
    def _mix(self, block: TensorDictBase, after: TensorDictBase, target: TensorDictBase, shaped: Shaped) -> None:
        """Score a (T, N) block and write the rewards into `target`, brought into its shape."""
        length, envs = block.batch_size
        if envs != self.bonus.num_envs:
            raise ValueError(f"IntrinsicTransform: expected {self.bonus.num_envs} environments, got {envs}")
        observation_key, action_key = self.in_keys
        extrinsic = _column(after, self.reward_key)[..., 0].float()
        terminated = after.get("terminated", after.get("done"))
        truncated = after.get("truncated", torch.zeros_like(terminated))
        stepped = block.get("_step", None)  # TorchRL's mark of environments that were not stepped
        transitions = make_block(
            self.bonus,
            _column(block, observation_key),
            plain_action(_column(block, action_key), self.bonus.spaces, 2),
            _column(after, observation_key),
            terminated=terminated[..., 0],
            truncated=truncated[..., 0],
            valid=None if stepped is None else stepped.reshape(length, envs),
            reward=extrinsic,
            policy=_policy(block) if "policy" in self.bonus.needs else None,
        )
        if length > self.bonus.rollout_steps:  # it would forget the first of them before it learns
            raise ValueError(f"expected at most rollout_steps={self.bonus.rollout_steps} steps a batch, got {length}")
        _, mixed = mix_block(self.bonus, self.mixer, transitions, extrinsic.cpu().numpy(), self.steps)
        self.steps += int(transitions.valid.sum())
        device = extrinsic.device
        target.set(self.out_keys[1], target.get(self.reward_key).clone())
        target.set(self.out_keys[0], shaped(torch.from_numpy(mixed.bonus).to(device)))
        target.set(self.reward_key, shaped(torch.from_numpy(mixed.total).to(device)))

    def _check_rows(self, block: TensorDictBase, after: TensorDictBase) -> None:
        """Time runs down a row: from one trajectory to the next only where the first has ended."""
        trajectory = block.get(("collector", "traj_ids"), None)
        if trajectory is None:
            return
        ended = after.get("done")[..., 0]
        if bool(((trajectory[1:] != trajectory[:-1]) & ~ended[:-1]).any()):
            raise ValueError(
                "IntrinsicTransform: a row of the batch jumps between trajectories that have not ended; with several "
                "workers stack their batches (cat_results='stack')"
            )
        last, self._last = self._last, torch.where(ended[-1], -1, trajectory[-1])
        if self.bonus.episodic and last is not None and bool(((last >= 0) & (last != trajectory[0])).any()):
            raise ValueError(
                f"IntrinsicTransform: {type(self.bonus).__name__} remembers episodes, but some were dropped between "
                "batches; use reset_at_each_iter=False"
            )

    def _check_placement(self) -> None:
        """Within a step later transforms have changed the last observation but not yet the next one."""
        container = self.__dict__.get("_container")
        compose = None if container is None else container()
        every = list(compose.transforms) if isinstance(compose, Compose) else [self]
        for transform in every[next(i for i, transform in enumerate(every) if transform is self) + 1 :]:
            changed = {*self.in_keys[:1], self.reward_key} & set(transform.out_keys or ())
            if changed:
                raise ValueError(
                    f"IntrinsicTransform: {type(transform).__name__} comes after it and changes "
                    f"{sorted(map(str, changed))}; append IntrinsicTransform after {type(transform).__name__}"
                )
        self._placed = True

    # ---- state --------------------------------------------------------------------------------------------
    def get_extra_state(self) -> dict[str, Any]:
        """Mixer and counts; the bonus is a module of its own."""
        return {"mixer": self.mixer.state_dict(), "steps": self.steps, "learnt": self.learnt}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Continue from a `state_dict`; one that does not fit is refused untouched."""
        check_like({}, state_dict, "IntrinsicTransform")
        part = {name.removeprefix("bonus."): value for name, value in state_dict.items() if name.startswith("bonus.")}
        check_like({"_extra_state": self.get_extra_state()}, {"_extra_state": state_dict.get("_extra_state")})
        self.bonus.check_state(part)
        return super().load_state_dict(state_dict, strict, assign)

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.mixer.load_state_dict(state["mixer"])
        self.steps, self.learnt = state["steps"], state["learnt"]


class IntrinsicLoss(LossModule):  # type: ignore[misc]
    """Where the bonus learns: called once per collected batch, as RNDLoss is for RND.

    A bonus owns its optimisers, so the call takes the gradient steps itself. What it returns are numbers to log,
    named "intrinsic_...", that carry no gradient; it has no parameters for another optimiser to move.
    """

    @dataclass
    class _AcceptedKeys:
        """Keys that `set_keys` may change."""

        intrinsic_reward: NestedKey = ("next", "intrinsic_reward")

    default_keys = _AcceptedKeys
    tensor_keys: _AcceptedKeys
    out_keys: Sequence[str] = ()

    def __init__(self, transform: IntrinsicTransform) -> None:
        super().__init__()
        if not isinstance(transform, IntrinsicTransform):
            raise ValueError(f"IntrinsicLoss: expected an IntrinsicTransform, got {type(transform).__name__}")
        # past nn.Module's registration: the transform alone owns the bonus's parameters and state
        self.__dict__["transform"] = transform

    def _forward_value_estimator_keys(self, **kwargs: Any) -> None:
        """There is no value estimator."""

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Let the bonus learn from what the transform has shown it."""
        transform: IntrinsicTransform = self.__dict__["transform"]
        key = self.tensor_keys.intrinsic_reward
        if tensordict.get(key, None) is None:
            raise ValueError(
                f"IntrinsicLoss: the batch has no {key!r}; use its IntrinsicTransform as Collector(postproc=...) or in "
                "the environment"
            )
        if transform.steps == transform.learnt:
            raise ValueError(
                "IntrinsicLoss: its transform has seen nothing new; call it once per collected batch, not per "
                "minibatch, and with environments in other processes use Collector(postproc=transform)"
            )
        metrics = transform.bonus.update()
        transform.learnt = transform.steps
        for message in transform.monitor.observe(transform.mixer, {name: float(x) for name, x in metrics.items()}):
            log.warning(message)
        metrics |= {name: torch.tensor(value) for name, value in transform.mixer.metrics().items()}
        return TensorDict({f"intrinsic_{name}": value for name, value in metrics.items()}, batch_size=[])


def _column(tensordict: TensorDictBase, key: NestedKey) -> Tensor:
    value = tensordict.get(key, None)
    if not isinstance(value, Tensor):
        known = sorted(str(k) for k in tensordict.keys(True, True))
        raise ValueError(f"IntrinsicTransform: expected a tensor under {key!r}, found {known}; see in_keys, reward_key")
    return value


def _policy(block: TensorDictBase) -> Tensor:
    """The policy's parameters as a ProbabilisticActor leaves them: logits, or loc and scale."""
    logits: Tensor | None
    logits, loc, scale = (block.get(key, None) for key in ("logits", "loc", "scale"))
    if logits is not None:
        return logits.flatten(2)
    if loc is None or scale is None:
        raise ValueError("IntrinsicTransform: the bonus needs the policy: expected 'logits', or 'loc' and 'scale'")
    return torch.cat([loc.flatten(2), scale.flatten(2).log()], dim=-1)


# ---- spaces -----------------------------------------------------------------------------------------------
def spaces_of(env: EnvBase, observation_key: NestedKey = "observation", action_key: NestedKey = "action") -> Spaces:
    """The spaces of one environment of a TorchRL environment, its transforms included."""
    if not isinstance(env, EnvBase):
        raise ValueError(f"spaces_of: expected a TorchRL environment, got {type(env).__name__}; wrap it in GymWrapper")
    lead = len(env.batch_size)
    found: list[gymnasium.Space[Any]] = []
    for name, specs, key in (
        ("observation", env.full_observation_spec, observation_key),
        ("action", env.full_action_spec, action_key),
    ):
        known = list(specs.keys(True, True))
        if key not in known:
            raise ValueError(f"{name}_key: expected one of {known}, got {key!r}")
        found.append(_space(name, specs[key], lead))
    return Spaces(found[0], found[1])


def plain_action(action: Tensor, spaces: Spaces, lead: int) -> Tensor:
    """Actions behind `lead` leading dimensions as the spaces have them: one-hot ones become numbers."""
    if spaces.action_kind == "continuous":
        return action
    factors, shape = spaces.factors, action.shape[lead:]
    if tuple(shape) != spaces.action_shape and math.prod(shape) == sum(factors):
        parts = torch.split(action.flatten(lead).long(), list(factors), dim=-1)
        action = torch.stack([part.argmax(-1) for part in parts], dim=-1)
    return action


def _space(name: str, spec: Any, lead: int) -> gymnasium.Space[Any]:
    shape = tuple(spec.shape[lead:])
    if isinstance(spec, tensor_specs.MultiOneHot):
        return MultiDiscrete([box.n for box in spec.space])
    if isinstance(spec, tensor_specs.OneHot):
        return Discrete(int(spec.space.n))
    if isinstance(spec, tensor_specs.Binary):
        return MultiBinary(shape[0] if len(shape) == 1 else shape)
    if isinstance(spec, tensor_specs.MultiCategorical):
        nvec = spec.nvec
        return MultiDiscrete(np.asarray(nvec[(0,) * lead].tolist() if nvec.ndim > lead else nvec.tolist()))
    if isinstance(spec, tensor_specs.Categorical) and shape in ((), (1,)):
        return Discrete(int(spec.space.n))
    if isinstance(spec, (tensor_specs.Bounded, tensor_specs.Unbounded)):
        dtype = np.dtype(str(spec.dtype).removeprefix("torch."))
        low, high = (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        if isinstance(spec, tensor_specs.Bounded):
            low, high = (bound[(0,) * lead].cpu().numpy().astype(dtype) for bound in (spec.space.low, spec.space.high))
        return Box(low, high, shape, dtype.type)
    raise ValueError(
        f"{name}: expected a Bounded or Unbounded tensor, or for actions also OneHot, Categorical, their Multi forms "
        f"or Binary, got {type(spec).__name__}; choose another key"
    )
