"""One collector for every Gymnasium vector environment, whatever its autoreset mode (see `lpm.core.transitions`).

Blocks hold true successors: no observation that follows a reset is ever given as the successor of an action, and no
real transition is lost. Where autoreset is disabled, rows that ended are reset here, between two steps.
"""

from collections import deque
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from numpy.typing import NDArray
from torch import Tensor

from lpm.agents.policy import ActorCritic
from lpm.core.group import SINGLE_PROCESS, ProcessGroup, join_rows, split_rows
from lpm.core.mixer import Floats, Mask
from lpm.core.monitor import NonFiniteError
from lpm.core.spaces import Spaces
from lpm.core.transitions import RECENT, EpisodeSums, Transitions, autoreset_mode, use_final_obs, valid_steps

Envs = VectorEnv[Any, Any, Any]


@dataclass(frozen=True)
class Block:
    """T steps of N environments, those of all processes. Valid until the next `collect`, which reuses the storage."""

    transitions: Transitions
    """For the bonus, on the agent's device."""
    raw_action: Tensor
    """(T, N, K): sampled indices, or Gaussian samples before clipping."""
    policy: Tensor
    """(T, N, P) policy parameters, as in `Transitions.policy`."""
    values: Tensor | None
    """(T, N, heads), if they came with the policy at no cost."""
    last_obs: Tensor
    """(N, ...): what the next block starts from."""
    reward: Floats
    """(T, N) extrinsic reward."""
    terminated: Mask
    """(T, N)."""
    truncated: Mask
    """(T, N)."""
    valid: Mask
    """(T, N)."""
    cells: NDArray[np.int64]
    """(T, N): where each step led, if the environment says so; -1 otherwise."""
    first_visits: Mask
    """(T, N): the steps that led to a cell for the first time in the run."""
    noise_share: float | None
    """Share of the valid steps that showed noise, if the environment says so."""


class Collector:
    """Steps the environments and keeps what the next block starts from; all of it is in `state_dict`."""

    def __init__(
        self,
        envs: Envs,
        spaces: Spaces,
        steps: int,
        *,
        seed: int,
        device: torch.device | str = "cpu",
        group: ProcessGroup = SINGLE_PROCESS,
    ) -> None:
        """In a `group` of several processes `envs` are this one's share; what it says is about those of all."""
        self.envs, self.group = envs, group
        self.spaces = spaces
        self.num_steps = steps
        self.num_envs = envs.num_envs
        self.mode = autoreset_mode(envs)
        self.device = torch.device(device)
        self.seed = seed + group.rank * envs.num_envs  # a row's seed is that of a single process
        self.seconds = {"env": 0.0, "policy": 0.0}
        self.total_steps = 0
        self.sums = EpisodeSums(2, self.num_envs * group.size)
        """Return and length of episodes."""
        self.visits = np.zeros(int(find_attribute(envs, "num_cells", 0)), dtype=np.int64)
        shape = (steps, self.num_envs)
        # with NEXT_STEP the returned observation is always the true successor: one storage serves both
        self._obs = torch.zeros((steps + 1, self.num_envs, *spaces.obs_shape), dtype=spaces.obs_dtype)
        shared = self.mode is AutoresetMode.NEXT_STEP
        self._next_obs = self._obs[1:] if shared else torch.zeros_like(self._obs[1:])
        self._reward = np.zeros(shape, dtype=np.float32)
        self._terminated, self._truncated, self._valid, self._noise = np.zeros((4, *shape), dtype=np.bool_)
        self._cells = np.full((2, *shape), -1, dtype=np.int64)  # where the step led, and where a reset led
        self._ended = np.zeros(self.num_envs, dtype=np.bool_)
        self._start(envs.reset(seed=self.seed))
        self._here = slice(group.rank * self.num_envs, (group.rank + 1) * self.num_envs)  # of all environments
        self.exact = _can_save(envs)
        """Whether the environments can be saved and put back exactly."""
        self.shared_names: tuple[str, ...] = tuple(find_attribute(envs, "_shared_state", tuple)())
        """Parts of the environments' state that belong to all of them together."""
        if not group.is_single and self.exact:
            self._share_state()

    def _start(self, first: tuple[Any, dict[str, Any]]) -> None:
        obs, info = first
        self._obs.numpy()[-1] = obs
        if "cell" in info:
            self._visit(self.of_all(_cells(info)[None]))

    def _share_state(self) -> None:
        """What belongs to all environments together is the first process's."""
        state: Any = self.envs.get_state()  # type: ignore[attr-defined]
        states = self.group.all_gather_objects(state)
        if join_rows(states, self.shared_names) is None:
            self.exact = False  # saved for each process apart, it could not be put together
        elif self.shared_names:
            shared = {key: value for key, value in states[0].items() if key.split(".")[-1] in self.shared_names}
            self.envs.set_state({**state, **shared})  # type: ignore[attr-defined]

    def of_all(self, block: NDArray[Any]) -> NDArray[Any]:
        """(T, N, ...) of all processes, from the (T, n, ...) of each."""
        return block if self.group.is_single else self.group.all_gather_columns(torch.from_numpy(block)).numpy()

    # ---- collecting ---------------------------------------------------------------------------------------
    def collect(self, policy: ActorCritic, generator: torch.Generator, *, uniform: bool = False) -> Block:
        """The next block, acted by sampling from `policy`, or uniformly at random."""
        steps, actions = self.num_steps, policy.actions
        noise = actions.noise(steps, self.num_envs * self.group.size, generator)[:, self._here]
        parameters = torch.zeros(steps, self.num_envs, self.spaces.policy_width)
        chosen = list(actions.uniform(noise)) if uniform else []  # raw actions of each step
        values: list[Tensor] = []
        self._obs[0] = self._obs[-1]
        self._cells.fill(-1)
        self._noise.fill(False)
        saw_noise = False
        clock = perf_counter()
        with torch.inference_mode():
            act, log_std = policy.for_acting(), policy.shared_log_std()
            if log_std is not None:  # the same for all states: nothing to put together at every step
                parameters[..., actions.width :] = log_std
                log_std = log_std.exp().expand(self.num_envs, -1)
            for t in range(steps):
                if not uniform:
                    now, value = act(self._obs[t].to(self.device))
                    if value is not None:
                        values.append(value)
                    if log_std is None:
                        parameters[t] = now = now.cpu()
                        chosen.append(actions.sample(now, noise[t]))
                    else:
                        parameters[t, :, : actions.width] = now
                        chosen.append(torch.addcmul(now, log_std, noise[t]))
                action = actions.executed(chosen[t].numpy())
                decided = perf_counter()
                self.seconds["policy"] += decided - clock
                saw_noise |= self._store(t, *self.envs.step(action))
                clock = perf_counter()
                self.seconds["env"] += clock - decided
        # cloned outside inference mode: only ordinary tensors may take part in the loss
        raw_actions = torch.stack(chosen).clone()
        self.total_steps += steps * self.num_envs * self.group.size
        stored = (self._reward, self._terminated, self._truncated, self._valid, self._noise, *self._cells)
        reward, terminated, truncated, valid, shown, led_to, reset_to = map(self.of_all, stored)
        whole = self.group.all_gather_columns
        obs, raw_actions, parameters = whole(self._obs), whole(raw_actions), whole(parameters)
        next_obs = obs[1:] if self.mode is AutoresetMode.NEXT_STEP else whole(self._next_obs)
        executed = actions.executed(raw_actions.flatten(0, 1).numpy())
        taken = torch.as_tensor(executed, dtype=self.spaces.action_dtype)
        transitions = Transitions(
            obs=obs[:-1],
            action=taken.view(*reward.shape, *self.spaces.action_shape),
            next_obs=next_obs,
            terminated=torch.from_numpy(terminated),
            truncated=torch.from_numpy(truncated),
            valid=torch.from_numpy(valid),
            reward=torch.from_numpy(reward),
            policy=parameters,
        )
        self._check_finite("observation", next_obs.numpy())
        self._check_finite("reward", reward)
        self.sums.add(np.stack((reward, valid)), terminated | truncated)
        first_visits = self._first_visits(led_to, valid)
        self._visit(led_to)
        self._visit(reset_to)
        return Block(
            transitions=transitions if self.device.type == "cpu" else transitions.to(self.device),
            raw_action=raw_actions.to(self.device),
            policy=parameters.to(self.device),
            values=whole(torch.stack(values).clone()) if values else None,
            last_obs=obs[-1].to(self.device),
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            valid=valid,
            cells=led_to,
            first_visits=first_visits,
            noise_share=float(shown[valid].mean()) if saw_noise and valid.any() else None,
        )

    def _store(self, t: int, obs: Any, reward: Any, terminated: Any, truncated: Any, info: dict[str, Any]) -> bool:
        """Put one step into the storage; says whether the environment reports noise."""
        self._reward[t], self._terminated[t], self._truncated[t] = reward, terminated, truncated
        done = np.logical_or(terminated, truncated)
        if "cell" in info:
            self._cells[0, t] = _cells(info)
        if "noise" in info:
            self._noise[t] = info["noise"]
        self._valid[t] = valid_steps(self.mode, self._ended)
        self._ended = done
        if self.mode is not AutoresetMode.NEXT_STEP:
            successors = self._next_obs.numpy()[t]
            successors[...] = obs
            use_final_obs(self.mode, successors, done, info, None)
            if done.any():
                if self.mode is AutoresetMode.SAME_STEP:
                    self._use_final_info(t, done, info)
                else:
                    obs = self._reset_rows(t, done, np.array(obs))
        self._obs.numpy()[t + 1] = obs
        return "noise" in info

    def _use_final_info(self, t: int, done: Mask, info: dict[str, Any]) -> None:
        """SAME_STEP: what describes the true successors is set aside in `info`."""
        described, rows = info.get("final_info", {}), np.flatnonzero(done)
        if "cell" in described:
            self._cells[1, t, rows] = self._cells[0, t, rows]
            self._cells[0, t, rows] = _cells(described)[rows]
        if "noise" in described:
            self._noise[t, rows] = described["noise"][rows]

    def _reset_rows(self, t: int, done: Mask, obs: NDArray[Any]) -> NDArray[Any]:
        """DISABLED: begin new episodes; the observations to act on next."""
        fresh, info = self.envs.reset(options={"reset_mask": done})
        obs[done] = np.asarray(fresh)[done]
        if "cell" in info:
            self._cells[1, t, done] = _cells(info)[done]
        return obs

    # ---- accounts -----------------------------------------------------------------------------------------
    def _check_finite(self, name: str, block: NDArray[Any]) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # of finite numbers too
            total = block.sum() if block.dtype.kind == "f" else 0
        if np.isfinite(total):
            return
        for bad in np.argwhere(~np.isfinite(block)):
            t, env = int(bad[0]), int(bad[1])
            step = self.total_steps - (len(block) - t) * block.shape[1] + env
            raise NonFiniteError(f"environment {env} ({name})", step, float(block[tuple(bad)]))

    def _first_visits(self, led_to: NDArray[np.int64], valid: Mask) -> Mask:
        cells, first = led_to.ravel(), np.zeros(valid.shape, dtype=np.bool_)
        if len(self.visits):
            # in order of time: the first step of each cell that was never visited before this block
            known = valid.ravel() & (cells >= 0) & (cells < len(self.visits))
            there = np.flatnonzero(known)[self.visits[cells[known]] == 0]
            first.ravel()[there[np.unique(cells[there], return_index=True)[1]]] = True
        return first

    def _visit(self, cells: NDArray[np.int64]) -> None:
        if len(self.visits):
            seen = cells[(cells >= 0) & (cells < len(self.visits))]
            self.visits += np.bincount(seen, minlength=len(self.visits))

    # ---- state --------------------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """Everything the next block depends on, the environments included if they can be saved."""
        envs: Any = None
        if self.exact:
            states = self.group.all_gather_objects(self.envs.get_state())  # type: ignore[attr-defined]
            envs = states[0] if self.group.is_single else join_rows(states, self.shared_names)
        return {
            "obs": self.group.all_gather_columns(self._obs[-1:])[0].clone(),
            "ended": self.of_all(self._ended[None])[0].copy(),
            "returns": self.sums.running[0].copy(),
            "lengths": self.sums.running[1].copy(),
            "visits": self.visits.copy(),
            "recent": [list(episode) for episode in self.sums.recent],
            "counters": [self.total_steps, self.sums.ended],
            "envs": envs,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` saved; environments that could not be saved begin new episodes."""
        shape = (self.num_envs * self.group.size, *self.spaces.obs_shape)
        if tuple(state["obs"].shape) != shape:
            raise ValueError(f"Collector: expected observations of shape {shape}, got {tuple(state['obs'].shape)}")
        if envs := state["envs"]:  # first: it may be refused
            part = envs if self.group.is_single else split_rows(envs, self._here, self.shared_names)
            self.envs.set_state(part)  # type: ignore[attr-defined]
        self.total_steps, self.sums.ended = state["counters"]
        self.visits[...] = state["visits"]
        self.sums.recent = deque(map(tuple, state["recent"]), maxlen=RECENT)
        if not envs:
            self._ended[...] = False
            self.sums.running[...] = 0.0
            self._start(self.envs.reset(seed=(self.seed + self.total_steps) % 2**31))
            return
        self._ended = np.array(state["ended"][self._here], dtype=np.bool_)
        self.sums.running[...] = state["returns"], state["lengths"]
        self._obs[-1] = state["obs"][self._here]


def _can_save(envs: Any) -> bool:
    try:
        envs.get_state()
    except (NotImplementedError, AttributeError):  # they cannot, or are a wrapper or backend of some that cannot
        return False
    return hasattr(envs, "set_state")


def _cells(info: dict[str, Any]) -> NDArray[np.int64]:
    """The cells of an info; -1 where it has none, which Gymnasium's vector environments leave 0 and mask."""
    cells = np.asarray(info["cell"], dtype=np.int64)
    return np.where(info["_cell"], cells, -1) if "_cell" in info else cells


def find_attribute(envs: Any, name: str, default: Any) -> Any:
    """An attribute of a vector environment, of what its wrappers hold, or of the environments inside."""
    while not hasattr(envs, name):
        if isinstance(envs, (SyncVectorEnv, AsyncVectorEnv)):
            # asked first: a worker process ends when it is asked for what it has not
            known = not name.startswith("_") and all(envs.call("has_wrapper_attr", name))
            return envs.get_attr(name)[0] if known else default
        if not hasattr(envs, "env"):
            return default
        envs = envs.env
    return getattr(envs, name)
