"""The contract of every intrinsic reward."""

import copy
import io
import itertools
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from numbers import Integral
from types import MappingProxyType
from typing import Any, ClassVar, ParamSpec, Self, TypeVar

import torch
from torch import Tensor, nn

from lpm.core.seeding import seeded
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.storage.state_tree import StateError, check_generator, check_like, check_optimizer, require

P = ParamSpec("P")
R = TypeVar("R")


def default_torch_state(function: Callable[P, R]) -> Callable[P, R]:
    """The function in torch's initial state, whatever the caller's default dtype, device and inference mode are.

    While it runs, torch's default dtype is float32 for all threads.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        dtype = torch.get_default_dtype()
        with torch.inference_mode(False):
            if dtype == torch.float32 and torch.get_default_device().type == "cpu":
                return function(*args, **kwargs)
            torch.set_default_dtype(torch.float32)
            try:
                with torch.device("cpu"):
                    return function(*args, **kwargs)
            finally:
                torch.set_default_dtype(dtype)

    return call


class IntrinsicReward(nn.Module):
    """A bonus: built from spaces and a frozen config, never from an environment.

    In a training cycle the order is fixed: `step` on the block that was just collected (with the models as they
    were during collection), then `update`. A method implements `_score`, `_observe` and `_update`; it overrides
    `_step` where scoring and observing share work. Blocks come in time order and each transition is observed once.
    A method never sees a block of no transitions at all.

    Parameters, optimisers, queues, memories, statistics, counters and the random generator are all in
    `state_dict()`. `check_intrinsic` tests a class against this contract.

    A bonus keeps its own precision, which differs from tensor to tensor: `.double()` and `.half()` leave it as it is,
    as do default dtype, default device and inference mode of the caller.
    """

    Config: ClassVar[type]
    """The frozen dataclass that configures the method."""
    label: ClassVar[str] = ""
    """The name in tables and legends; empty: the registered name."""
    family: ClassVar[str] = "other"
    """What it rewards, a key of `lpm.report.families.FAMILIES`: it decides the colour in figures."""
    use: ClassVar[str] = ""
    """One sentence: what the method is for."""
    reference: ClassVar[str] = ""
    """The publication the method comes from."""
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Named settings: fields of the config that differ from its defaults."""
    episodic: bool = False
    """Whether the method keeps a memory per environment; then blocks must have `num_envs` environments."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Optional fields of `Transitions` that the method cannot do without: "reward", "policy"."""

    config: Any
    """An instance of `Config`."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.variants = MappingProxyType(dict(cls.variants))  # nobody changes them by mistake

    @default_torch_state
    def __init__(
        self, spaces: Spaces, config: Any = None, *, num_envs: int = 1, rollout_steps: int = 128, seed: Any = 0
    ) -> None:
        super().__init__()
        if not isinstance(spaces, Spaces):
            raise ValueError(f"spaces: expected lpm.Spaces, got {type(spaces).__name__}; see Spaces.of(env)")
        sizes: dict[str, Any] = {"num_envs": num_envs, "rollout_steps": rollout_steps}
        for name, value in sizes.items():
            if not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name}: expected an integer of at least 1, got {value!r}")
        if not isinstance(seed, Integral) or not -(2**63) <= int(seed) < 2**63:
            raise ValueError(f"seed: expected an integer of 64 bits, got {seed!r}")
        self.spaces = spaces
        self.num_envs = int(num_envs)
        self.rollout_steps = int(rollout_steps)
        self.generator = torch.Generator("cpu").manual_seed(int(seed))
        self._optimizers: dict[str, torch.optim.Optimizer] = {}
        self.config = config
        with seeded(self.generator):
            self._build()

    # ---- the four verbs -----------------------------------------------------------------------------------
    @default_torch_state
    @torch.no_grad()
    def score(self, batch: Transitions) -> Tensor:
        """The raw bonus of every transition, (T, N). Pure: no gradient, no state change, deterministic."""
        batch = self._checked(batch)
        return self._masked(batch, self._score(batch)) if batch.valid.numel() else batch.valid.float()

    @default_torch_state
    @torch.no_grad()
    def observe(self, batch: Transitions) -> None:
        """Take the transitions into queues, memories and statistics. Once per transition, in time order."""
        batch = self._checked(batch)
        if batch.valid.numel():
            self._observe(batch)

    @default_torch_state
    @torch.no_grad()
    def step(self, batch: Transitions) -> Tensor:
        """`score` and `observe` in one pass: what trainers call."""
        batch = self._checked(batch)
        return self._masked(batch, self._step(batch)) if batch.valid.numel() else batch.valid.float()

    @default_torch_state
    @torch.enable_grad()
    def update(self, generator: torch.Generator | None = None) -> dict[str, Tensor]:
        """Learn from what was observed. Minibatches are drawn from `generator`, or else the bonus's own.

        Returns metrics as 0-d tensors; nothing observed yet, nothing done, and the dict is empty.
        """
        metrics = self._update(self.generator if generator is None else generator)
        for name, value in metrics.items():
            if not isinstance(value, Tensor) or value.ndim != 0:
                came = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
                raise ValueError(f"{type(self).__name__}.update: expected metric {name!r} as a 0-d tensor, got {came}")
        return {name: value.detach() for name, value in metrics.items()}

    @default_torch_state
    def end_episodes(self, rows: Tensor) -> None:
        """The episodes of these environments (N,) are over without a last transition: they were reset from outside.

        Each part of the bonus that has a method of this name forgets them.
        """
        parts = (part for module in self.children() for part in module.modules()) if self.episodic else ()
        for forget in (getattr(part, "end_episodes", None) for part in parts):
            if forget is not None:
                forget(rows.to(self.device))

    # ---- what a method implements -------------------------------------------------------------------------
    def _build(self) -> None:
        """Make networks, optimisers and memories; spaces, config and sizes are set, and weights follow the seed."""

    def _score(self, batch: Transitions) -> Tensor:
        raise NotImplementedError

    def _observe(self, batch: Transitions) -> None:
        """Nothing to remember unless the method says otherwise."""

    def _step(self, batch: Transitions) -> Tensor:
        reward = self._score(batch)
        self._observe(batch)
        return reward

    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        return {}

    def add_optimizer(self, name: str, parameters: Iterable[nn.Parameter], lr: float, **options: Any) -> None:
        """Create an Adam optimiser whose state is saved with the bonus."""
        self._optimizers[name] = torch.optim.Adam(list(parameters), lr=lr, fused=True, **options)

    def descend(self, name: str, loss: Tensor) -> None:
        """One gradient step of the named optimiser on `loss`."""
        optimizer = self._optimizers[name]
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    def optimizer(self, name: str) -> torch.optim.Optimizer:
        return self._optimizers[name]

    # ---- state --------------------------------------------------------------------------------------------
    def get_extra_state(self) -> dict[str, Any]:
        """Optimisers and generator, which `nn.Module` does not save by itself."""
        return {
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self._optimizers.items()},
            "generator": self.generator.get_state(),
            "sizes": self._sizes,
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        for name, optimizer in self._optimizers.items():
            # load_state_dict keeps references to the tensors it is given; a copy keeps the two bonuses apart
            optimizer.load_state_dict(copy.deepcopy(state["optimizers"][name]))
        self.generator.set_state(state["generator"].cpu())

    @default_torch_state
    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Continue from a `state_dict` of the same bonus with the same settings; another one is refused untouched."""
        self.check_state(state_dict, strict)
        return super().load_state_dict(state_dict, strict, assign)

    @default_torch_state
    def check_state(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Raise what `load_state_dict` would, and load nothing: for those with other parts to load beside the bonus."""
        own, given = self.state_dict(), state
        try:
            require(isinstance(given, Mapping), "a state_dict", type(given).__name__)
            if not strict:
                own, given = ({name: side[name] for name in own if name in given} for side in (own, given))
            example = {name: {} if name == "_extra_state" else value for name, value in own.items()}
            check_like(example, given)
            for name in example:
                self._check_counts(name, given[name])
            self._check_extra(own.get("_extra_state", {}), given.get("_extra_state", {}))
        except StateError as problem:
            extra = given.get("_extra_state") if isinstance(given, Mapping) else None
            sizes = extra.get("sizes") if isinstance(extra, dict) else None
            there = "" if sizes in (None, self._sizes) else f"; it has {sizes!r:.200}, and this bonus {self._sizes}"
            raise ValueError(
                f"{type(self).__name__} cannot take this state: {problem}{there}; it was written by another bonus, "
                "with other settings, or by another version of lpm"
            ) from None

    def _check_counts(self, name: str, given: Any) -> None:
        """Integers are counts, but for what memories hold, keys and actions: a module lists those as `contents`."""
        owner, _, buffer = name.rpartition(".")
        contents = buffer in getattr(self.get_submodule(owner), "contents", ())
        if isinstance(given, Tensor) and given.dtype in (torch.int64, torch.int32) and given.numel() and not contents:
            least, most = int(given.min()), int(given.max())
            require(0 <= least <= most < 2**53, f"{name}: counts", f"numbers from {least} to {most}")

    def _check_extra(self, own: dict[str, Any], given: dict[str, Any]) -> None:
        """Whatever `set_extra_state` would fail on."""
        if optimizers := own.get("optimizers"):
            check_like({name: {} for name in optimizers}, given.get("optimizers"), "optimisers")
            for name in optimizers:
                check_optimizer(self._optimizers[name], given["optimizers"][name], f"optimiser {name!r}")
        if "generator" in own:
            check_generator(given.get("generator"))

    def __getstate__(self) -> dict[str, Any]:
        """As bytes: another process gets a bonus of its own, not one that shares memory with this one."""
        stream = io.BytesIO()
        torch.save(self.__dict__, stream)
        return {"bonus": stream.getvalue()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(torch.load(io.BytesIO(state["bonus"]), weights_only=False))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copied = memo[id(self)] = type(self).__new__(type(self))
        copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return copied

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        def moved(tensor: Tensor) -> Tensor:
            result = fn(tensor)
            return result if result.dtype == tensor.dtype else tensor.to(result.device)

        super()._apply(moved, recurse)  # type: ignore[no-untyped-call]
        for optimizer in self._optimizers.values():  # what it has learnt moves with its parameters
            for parameter, state in optimizer.state.items():
                state.update((name, value.to(parameter.device)) for name, value in state.items())
        return self

    @property
    def _sizes(self) -> dict[str, int]:
        return {"num_envs": self.num_envs, "rollout_steps": self.rollout_steps}

    @property
    def rollout(self) -> int:
        """Transitions that are observed between two updates."""
        return self.num_envs * self.rollout_steps

    # ---- checks -------------------------------------------------------------------------------------------
    @property
    def device(self) -> torch.device:
        tensor = next(itertools.chain(self.parameters(), self.buffers()), None)
        return torch.device("cpu") if tensor is None else tensor.device

    def _checked(self, batch: Transitions) -> Transitions:
        """The block if it fits, with something harmless in rows that are not valid."""
        if not isinstance(batch, Transitions):
            raise ValueError(f"{type(self).__name__}: expected lpm.Transitions, got {type(batch).__name__}")
        width = self.spaces.policy_width
        what = {"policy": f"policy's parameters at obs, (T, N, {width}): logits, or means then log-stds"}
        for name in (name for name in self.needs if getattr(batch, name) is None):
            meant = what.get(name, "extrinsic rewards (T, N)")
            raise ValueError(f"{type(self).__name__} needs Transitions.{name}, which is missing: pass the {meant}")
        if self.episodic and batch.shape[1] != self.num_envs:
            raise ValueError(
                f"{type(self).__name__} keeps a memory per environment: expected blocks of "
                f"{self.num_envs} environments, got {batch.shape[1]}"
            )
        if batch.device != self.device:
            raise ValueError(
                f"{type(self).__name__} is on {self.device}, the transitions are on {batch.device}: "
                "move one with .to(device)"
            )
        self.spaces.check(batch)
        return self.spaces.filled(batch)

    def _masked(self, batch: Transitions, reward: Tensor) -> Tensor:
        if tuple(reward.shape) != batch.shape:
            raise ValueError(
                f"{type(self).__name__}: expected rewards of shape (T, N) = {batch.shape}, got {tuple(reward.shape)}"
            )
        return torch.where(batch.valid, reward.float(), torch.zeros((), device=reward.device))
