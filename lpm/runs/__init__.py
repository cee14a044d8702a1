"""Runs: config, folder, checkpoints, metrics, and training through interruptions.

>>> from pathlib import Path
>>> from tempfile import TemporaryDirectory
>>> from lpm.agents import PPOConfig
>>> from lpm.runs import RunConfig, read_metrics, train
>>> small = PPOConfig(num_envs=2, rollout_steps=16)
>>> config = RunConfig("lpm/MountainCar-v0", bonus="none", steps=64, agent=small)
>>> with TemporaryDirectory() as folder:
...     outcome = train(config, Path(folder) / "run", log=lambda line: None)
...     rows = read_metrics(Path(folder) / "run" / "metrics.jsonl")
>>> outcome.status, [row["step"] for row in rows]
('finished', [32, 64])
"""

from lpm.runs.build import build as build
from lpm.runs.build import make_envs as make_envs
from lpm.runs.checkpoint import CheckpointError as CheckpointError
from lpm.runs.checkpoint import load_checkpoint as load_checkpoint
from lpm.runs.config import RunConfig as RunConfig
from lpm.runs.folder import RunFolder as RunFolder
from lpm.runs.metrics import read_metrics as read_metrics
from lpm.runs.train import Outcome as Outcome
from lpm.runs.train import TrainOptions as TrainOptions
from lpm.runs.train import train as train
