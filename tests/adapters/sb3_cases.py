"""Small models on tracing environments."""

from __future__ import annotations

from typing import Any

import sb3_contrib as contrib
import torch
from adapter_envs import Tracing
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.vec_env import DummyVecEnv

ROWS, STEPS = 3, 16
TINY: dict[str, Any] = {"net_arch": [8]}
ON_POLICY: dict[str, Any] = {
    "PPO": PPO,
    "A2C": A2C,
    "TRPO": contrib.TRPO,
    "RecurrentPPO": contrib.RecurrentPPO,
    "MaskablePPO": contrib.MaskablePPO,
}
OFF_POLICY: dict[str, Any] = {
    "SAC": SAC,
    "TD3": TD3,
    "DDPG": DDPG,
    "DQN": DQN,
    "TQC": contrib.TQC,
    "QRDQN": contrib.QRDQN,
}
CONTINUOUS = ("SAC", "TD3", "DDPG", "TQC")


def envs(rows: int = ROWS, **settings: Any) -> DummyVecEnv:
    return DummyVecEnv([lambda row=row: Tracing(row, **settings) for row in range(rows)])


def on_policy(name: str, env: Any, policy: str = "MlpPolicy", **settings: Any) -> Any:
    if name == "RecurrentPPO":
        policy, network = policy.replace("Policy", "LstmPolicy"), {**TINY, "lstm_hidden_size": 4}
    else:
        network = TINY
    if name != "A2C":
        settings.setdefault("batch_size", 24)
    return ON_POLICY[name](policy, env, n_steps=STEPS, seed=0, policy_kwargs=network, device="cpu", **settings)


def off_policy(name: str, env: Any, policy: str = "MlpPolicy", **settings: Any) -> Any:
    settings = {"learning_starts": 12, "batch_size": 8, "buffer_size": 300, "train_freq": 4, **settings}
    network = {**TINY, **({"n_quantiles": 5} if name in ("TQC", "QRDQN") else {})}
    return OFF_POLICY[name](policy, env, seed=0, policy_kwargs=network, device="cpu", **settings)


def parameters(model: Any) -> list[torch.Tensor]:
    return [value.detach().clone() for value in model.policy.state_dict().values()]


def same(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


class Kept(KVWriter):
    """What was logged, dump by dump."""

    def __init__(self) -> None:
        self.dumps: list[dict[str, Any]] = []

    def write(self, key_values: dict[str, Any], key_excluded: Any, step: int = 0) -> None:
        self.dumps.append(dict(key_values))

    def close(self) -> None:
        pass


def keep_log(model: Any) -> list[dict[str, Any]]:
    kept = Kept()
    model.set_logger(Logger(None, [kept]))
    return kept.dumps
