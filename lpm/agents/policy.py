"""Actor and critic networks, and action distributions written out by hand.

`torch.distributions` validates and broadcasts at every call; on small networks that costs as much as the network.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from lpm.core.seeding import seeded
from lpm.core.settings import Count, Positive, Settings
from lpm.core.spaces import Spaces
from lpm.nn.fused import FlatParameters, FusedMLP, InferenceMLP, linear_layers
from lpm.nn.inputs import ObservationInput
from lpm.nn.networks import Activation, Encoder, mlp, orthogonal_

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class NetworkConfig(Settings):
    """The agent's networks."""

    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers for vector observations; actor and critic each have their own."""
    activation: Activation = "tanh"
    """Between those layers."""
    features: Count = 512
    """Width of the layer after the convolutions, which actor and critic share (images)."""
    image_hidden: tuple[int, ...] = ()
    """Hidden layers of actor and critic on top of the features. LPM release, Atari: 512, 512."""
    image_activation: Activation = "relu"
    """In the convolutions and after them. LPM release, Atari: leaky_relu."""
    normalise: Literal["auto", "none", "standard", "robust"] = "auto"
    """Standardise observations by running statistics, renewed after each update. "auto": vectors yes, images no.
    Vectors of bits, as of a one-hot code, stay as they are: divided by its deviation, a rare 1 would drown all others.
    Numbers that share one finite range share one deviation: one that is noise alone stays small.
    "robust" scales vectors by the densest half of the values and squashes the rest, for those that are noise at
    times; images it leaves as they are."""
    clip_observation: Positive = 10.0
    """Bound on standardised observations."""
    initial_log_std: float = 0.0
    """Start of the Gaussian's log standard deviation (continuous actions; bounded ones are scaled to [-1, 1])."""


class ActorCritic(nn.Module):
    """Policy parameters and state values of raw observations.

    Vectors: separate MLPs. Images: shared convolutions. The policy parameters are laid out as in
    `Transitions.policy`: logits of all factors, or means then log-stds.
    """

    def __init__(self, spaces: Spaces, config: NetworkConfig, heads: int, generator: torch.Generator) -> None:
        super().__init__()
        self.spaces = spaces
        normalise: Any = config.normalise
        if normalise in ("auto", "robust") and spaces.kind != "vector":
            normalise = "none"
        elif normalise == "auto":
            normalise = "none" if spaces.bits else "scalar" if spaces.one_unit else "standard"
        self.input = ObservationInput(spaces, normalise, clip=config.clip_observation)
        self.continuous = spaces.action_kind == "continuous"
        outputs = spaces.policy_width // 2 if self.continuous else spaces.policy_width
        with seeded(generator):
            self.encoder: Encoder | None = None
            if spaces.kind == "vector":
                width, hidden, act = spaces.input_shape[0], config.hidden, config.activation
            else:
                act, hidden, width = config.image_activation, config.image_hidden, config.features
                self.encoder = Encoder(spaces.input_shape, width, act=act)
                orthogonal_(self.encoder)
            self.actor = mlp(width, hidden, outputs, act)
            orthogonal_(self.actor)
            self.critic = mlp(width, hidden, heads, act)
            orthogonal_(self.critic)
            for network, gain in ((self.actor, 0.01), (self.critic, 1.0)):
                nn.init.orthogonal_(network[-1].weight, gain)  # type: ignore[arg-type]
        if self.continuous:
            self.log_std = nn.Parameter(torch.full((outputs,), config.initial_log_std))
        self.actions = ActionDistribution(spaces)
        self._fused: tuple[FusedMLP, FusedMLP] | None = None

    def fuse(self) -> FlatParameters | None:
        """Put the parameters into one vector and use the fused passes, if these networks allow it."""
        actor, critic = linear_layers(self.actor), linear_layers(self.critic)
        if self.encoder is not None or actor is None or critic is None:
            return None
        flat = FlatParameters([p for part in self.parts() for p in part])
        self._fused = FusedMLP(actor), FusedMLP(critic)
        return flat

    def parts(self) -> list[list[nn.Parameter]]:
        """Parameters that share no gradient: actor and critic, or all where they share convolutions.

        PPO bounds each part's gradient by itself. Together, the critic's large errors would leave the actor gradients
        so small that Adam's ε swallows them.
        """
        critic = list(self.critic.parameters())
        if self.encoder is not None:
            return [list(self.parameters())]
        return [[p for p in self.parameters() if all(p is not q for q in critic)], critic]

    def for_acting(self) -> Callable[[Tensor], tuple[Tensor, Tensor | None]]:
        """The policy with its present parameters, for inference only: means alone where there is a `shared_log_std`,
        and values where they share the convolutions."""
        if self._fused is not None:
            act = InferenceMLP(self.input, self._fused[0].layers)
            return lambda obs: (act(obs), None)
        return self if self.encoder is not None else lambda obs: (self.policy(obs), None)

    def shared_log_std(self) -> Tensor | None:
        """The log standard deviation of all states' actions, where `for_acting` leaves it out."""
        return self.log_std.detach() if self.continuous and self._fused is not None else None

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Policy parameters (B, P) and values (B, heads) of raw observations (B, ...)."""
        x = self._features(obs)
        actor, critic = self._fused if self._fused and torch.is_grad_enabled() else (self.actor, self.critic)
        return self._with_std(actor(x)), critic(x)

    def backward(self, loss: Tensor) -> None:
        """Set all gradients from a loss on what `forward` gave."""
        if self._fused is None:
            self.zero_grad(set_to_none=True)
        elif self.continuous:  # the fused networks replace their gradients
            assert self.log_std.grad is not None
            self.log_std.grad.zero_()
        loss.backward()  # type: ignore[no-untyped-call]

    def policy(self, obs: Tensor) -> Tensor:
        """Policy parameters alone."""
        return self._with_std(self.actor(self._features(obs)))

    def values(self, obs: Tensor) -> Tensor:
        """Values alone."""
        return self.critic(self._features(obs))  # type: ignore[no-any-return]

    def _features(self, obs: Tensor) -> Tensor:
        x: Tensor = self.input(obs)
        return x if self.encoder is None else self.encoder(x)

    def _with_std(self, outputs: Tensor) -> Tensor:
        if not self.continuous:
            return outputs
        return torch.cat([outputs, self.log_std.expand_as(outputs)], dim=-1)


class ActionDistribution:
    """Actions from policy parameters, and their probabilities.

    A raw action (B, K) is the sampled index of each factor, or the Gaussian sample before it is clipped; `executed`
    turns it into what the environment gets. Random numbers come first, for a whole block at once: Gumbel noise for
    discrete factors, normal noise otherwise.
    """

    def __init__(self, spaces: Spaces) -> None:
        self.spaces = spaces
        self.continuous = spaces.action_kind == "continuous"
        self.width = math.prod(spaces.action_shape)
        self._splits = list(spaces.factors)
        self._dtype = np.dtype(spaces.action.dtype)
        if self.continuous:
            self._bounds(spaces.action)
        else:
            start = np.asarray(getattr(spaces.action, "start", 0)).ravel()
            self._start = start if start.any() else None

    def _bounds(self, box: Any) -> None:
        low, high = box.low.ravel().astype(np.float32), box.high.ravel().astype(np.float32)
        bounded = np.isfinite(low) & np.isfinite(high) & (high > low) & (high.astype(np.float64) - low < 1e30)
        self._low, self._high = low, high
        with np.errstate(over="ignore", invalid="ignore"):
            self._scale = np.where(bounded, (high - low) / 2, 1).astype(np.float32)
            self._centre = np.where(bounded, (high + low) / 2, 0).astype(np.float32)
        self._identity = bool((self._scale == 1).all() and (self._centre == 0).all())

    def noise(self, steps: int, rows: int, generator: torch.Generator) -> Tensor:
        """Random numbers for `steps` raw actions in each of `rows` environments, on the CPU."""
        if self.continuous:
            return torch.randn(steps, rows, self.width, generator=generator)
        uniform = torch.empty(steps, rows, sum(self._splits)).exponential_(generator=generator)
        return -torch.log(uniform)

    def sample(self, policy: Tensor, noise: Tensor) -> Tensor:
        """One raw action per row."""
        if self.continuous:
            mean, log_std = policy.chunk(2, dim=-1)
            return torch.addcmul(mean, log_std.exp(), noise)
        scores = policy + noise
        if len(self._splits) == 1:
            return scores.argmax(-1, keepdim=True)
        return torch.stack([part.argmax(-1) for part in torch.split(scores, self._splits, -1)], dim=-1)

    def greedy(self, policy: Tensor) -> Tensor:
        """The most likely raw action."""
        return self.sample(policy, torch.zeros(()))

    def uniform(self, noise: Tensor) -> Tensor:
        """Choices without a policy: uniform over the actions (over the box, where it is bounded)."""
        if not self.continuous:
            return self.sample(torch.zeros(()), noise)
        return torch.erf(noise / math.sqrt(2))

    def executed(self, raw_action: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """What the environment gets, (B, *action shape)."""
        if self.continuous:
            action = raw_action if self._identity else raw_action * self._scale + self._centre
            action = np.minimum(np.maximum(action, self._low), self._high)
        else:
            action = raw_action if self._start is None else raw_action + self._start
        return action.reshape(-1, *self.spaces.action_shape).astype(self._dtype, copy=False)

    def log_prob(self, policy: Tensor, raw_action: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probability of each raw action, (B,), and the entropy of each distribution, (B,)."""
        if self.continuous:
            mean, log_std = policy.chunk(2, dim=-1)
            z = (raw_action - mean) * (-log_std).exp()
            log_prob = -(0.5 * z.square() + log_std).sum(-1) - self.width * _HALF_LOG_2PI
            return log_prob, log_std.sum(-1) + self.width * (0.5 + _HALF_LOG_2PI)
        if len(self._splits) == 1:
            return _categorical(policy, raw_action)
        logits = torch.split(policy, self._splits, -1)
        parts = [_categorical(part, raw_action[:, i : i + 1]) for i, part in enumerate(logits)]
        return torch.stack([p[0] for p in parts]).sum(0), torch.stack([p[1] for p in parts]).sum(0)


def _categorical(logits: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    log_probs = functional.log_softmax(logits, dim=-1)
    return log_probs.gather(1, index).squeeze(1), -(log_probs.exp() * log_probs).sum(-1)
