"""Settings that PPO and A2C share."""

from dataclasses import dataclass, field
from typing import Literal

from lpm.agents.policy import NetworkConfig
from lpm.core.settings import Count, NonNegative, Positive, Settings, Unit, expect

Schedule = Literal["constant", "linear", "exponential", "cosine"]


@dataclass(frozen=True)
class AgentConfig(Settings):
    """Settings that every learner has."""

    num_envs: Count = 8
    """Parallel environments. Paper: 64 (Atari), 1 (MiniWorld)."""
    rollout_steps: Count = 128
    """Steps per environment between two updates. Paper: 128 (Atari), 64 (MiniWorld)."""
    learning_rate: NonNegative = 1e-3
    """Of the optimiser. Paper: 1e-4 (Atari), 0.01 (MiniWorld)."""
    learning_rate_schedule: Schedule = "linear"
    """How the learning rate moves to `final_learning_rate` over the run. Once values are right, advantages are mostly
    noise; a rate that stays high then walks away from a good policy. LPM release: constant."""
    final_learning_rate: NonNegative = 0.0
    """The learning rate at the end, unless the schedule is "constant"."""
    gamma: Unit = 0.99
    """Discount of the task's reward (with one head: of the sum)."""
    gae_lambda: Unit = 0.95
    """λ of generalised advantage estimation; 1: n-step returns. Release (MiniWorld): 0.95; the paper does not say."""
    value_heads: Literal[1, 2] = 2
    """1: one value function for the sum. 2: one each for the task's reward and the bonus, advantages added."""
    episodic_bonus: bool = False
    """Whether the bonus's return ends with the episode. False lets it run on (RND): a bonus that is never negative
    then gives no reason to stay away from the goal. With one head there is one return, so False lets all of it run on,
    as in the LPM release."""
    value_coef: NonNegative = 0.5
    """Weight of the value loss (half the mean squared error, summed over heads)."""
    entropy: NonNegative = 0.0
    """Weight of the entropy bonus. Paper: 0.001 (Atari), 0.03 (MiniWorld); release (MiniWorld): 0.05."""
    entropy_schedule: Schedule = "constant"
    """How the entropy weight moves to `final_entropy` over the run."""
    final_entropy: NonNegative = 0.0
    """The entropy weight at the end, unless the schedule is "constant"."""
    max_grad_norm: Positive = 0.5
    """Bound on the norm of the gradient: of actor and critic each (PPO), or of both where they share convolutions."""
    normalise_advantage: bool = True
    """Standardise advantages in each minibatch. Without it the size of policy steps follows the size of the critic's
    errors, and a solved policy is lost again. LPM release (MiniWorld): no."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """The networks."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for start in ("learning_rate", "entropy"):
            if getattr(self, f"{start}_schedule") == "exponential":  # it multiplies: from 0 it never leaves
                for name in (start, f"final_{start}"):
                    wanted = f"a number above 0 with {start}_schedule='exponential'"
                    expect(self, name, getattr(self, name) > 0, wanted)
