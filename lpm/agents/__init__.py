"""Agents that train on task reward plus bonus: PPO and A2C.

>>> import gymnasium
>>> from lpm.agents import PPO, PPOConfig
>>> envs = gymnasium.make_vec("CartPole-v1", num_envs=4)
>>> agent = PPO(envs, config=PPOConfig(num_envs=4, rollout_steps=16), total_steps=64)
>>> metrics = agent.cycle()
>>> agent.steps
64
"""

from lpm.agents.a2c import A2C as A2C
from lpm.agents.a2c import A2CConfig as A2CConfig
from lpm.agents.agent import Agent as Agent
from lpm.agents.agent import gae as gae
from lpm.agents.collect import Block as Block
from lpm.agents.collect import Collector as Collector
from lpm.agents.config import AgentConfig as AgentConfig
from lpm.agents.policy import ActorCritic as ActorCritic
from lpm.agents.policy import NetworkConfig as NetworkConfig
from lpm.agents.ppo import PPO as PPO
from lpm.agents.ppo import PPOConfig as PPOConfig
from lpm.core.mixer import MixerConfig as MixerConfig
from lpm.core.mixer import RewardMixer as RewardMixer
from lpm.core.monitor import NonFiniteError as NonFiniteError
