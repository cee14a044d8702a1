"""Bonuses in other people's training loops. Each module needs its own extra and is imported only when used.

- `lpm.adapters.gymnasium`: a wrapper for any vector environment (nothing to install).
- `lpm.adapters.sb3`: Stable-Baselines3 and sb3-contrib (`lpm-exploration[sb3]`).
- `lpm.adapters.torchrl`: TorchRL (`lpm-exploration[torchrl]`).
- `lpm.adapters.rllib`: RLlib (`lpm-exploration[rllib]`).
"""
