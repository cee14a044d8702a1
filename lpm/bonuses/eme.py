"""Effective metric-based exploration (Wang et al. 2024): distance in a learnt behavioural metric, scaled by doubt."""

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lpm.bonuses._learner import Learner, LearnerConfig
from lpm.core.registry import register
from lpm.core.settings import Count, Decay, Limit, NonNegative, Share
from lpm.core.spaces import Spaces
from lpm.core.transitions import Transitions
from lpm.nn.experience import Prepared
from lpm.nn.inputs import OVERFLOW_CLIP
from lpm.nn.networks import Encoder, StackedLinear, follow_


@dataclass(frozen=True)
class EMEConfig(LearnerConfig):
    """Settings of EME: the paper's metric and loss. "Code" is YimingWangMingle/EME, which trains something else."""

    features: Count = 128
    """Width of ψ (code: 512)."""
    members: Count = 6
    """K, size of the reward ensemble (paper: 6; code: 5)."""
    max_scale: Limit = 10.0
    """M, upper bound of the scale that the ensemble's variance gives (paper: 10; code: 1, which switches it off)."""
    discount: Decay = 0.99
    """γ of the metric (paper: 0.99)."""
    max_divergence: NonNegative = 10.0
    """Bound on the KL divergence between two policies in the target. Not in the paper."""
    keep: Share = 0.8
    """Share of each minibatch that each member of the ensemble learns from, drawn every time."""
    target_decay: Decay = 0.99
    """Decay of the running copy of ψ in the target; 0 uses ψ itself, as the paper does."""
    hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of ψ for vectors. Images have the convolutions of the other methods."""
    ensemble_hidden: Count = 256
    """Hidden layer of each member (code: 512)."""
    lr: NonNegative = 1e-3
    """Adam learning rate of ψ and the ensemble (code: 1e-3)."""
    batch_size: Count = 256
    """Minibatch; pairs are a random matching of its members."""


# ---- the metric, as pure functions --------------------------------------------------------------------------
def distance(a: Tensor, b: Tensor) -> Tensor:
    """‖a − b‖ of rows, (B,)."""
    return torch.linalg.vector_norm(a - b, dim=1)  # type: ignore[no-any-return]


def reward_gap(r_i: Tensor, r_j: Tensor, variance_i: Tensor, variance_j: Tensor) -> Tensor:
    """|E r_i − E r_j| from one sample of each: √max((r_i − r_j)² − var_i − var_j, 0) (Proposition 3)."""
    return ((r_i - r_j).square() - variance_i - variance_j).clamp_min(0).sqrt()


def doubt_scale(variance: Tensor, limit: float) -> Tensor:
    """min(max(ζ, 1), M)."""
    return variance.clamp(1, limit)


def policy_divergence(spaces: Spaces, p: Tensor, q: Tensor) -> Tensor:
    """KL(p ‖ q) of policies given as in `Transitions.policy`, (B,)."""
    if spaces.action_kind == "continuous":
        (mean_p, log_p), (mean_q, log_q) = p.chunk(2, dim=1), q.chunk(2, dim=1)
        log_p, log_q = log_p.clamp(-20, 20), log_q.clamp(-20, 20)
        ratio = (2 * (log_p - log_q)).exp() + (mean_p - mean_q).square() * (-2 * log_q).exp()
        return (log_q - log_p + 0.5 * (ratio - 1)).sum(1)
    factors = list(spaces.factors)
    parts = zip(torch.split(p, factors, dim=1), torch.split(q, factors, dim=1), strict=True)
    logs = [(a.log_softmax(1), b.log_softmax(1)) for a, b in parts]
    return torch.stack([(a.exp() * (a - b)).sum(1) for a, b in logs]).sum(0)


@register("eme")
class EME(Learner):
    """Metric-based: distance between consecutive states in a learnt behavioural metric, scaled by reward doubt."""

    label = "EME"
    family = "novelty"
    use = "Distance between states by a learnt behavioural metric, scaled by disagreement."
    Config = EMEConfig
    config: EMEConfig
    reference = "Wang et al. 2024, Rethinking Exploration in RL with Effective Metric-Based Exploration Bonus"
    needs = ("reward", "policy")

    def _build(self) -> None:
        spaces, config = self.spaces, self.config
        policy = ((spaces.policy_width,), torch.float32)
        columns = {"reward": ((), torch.float32), "policy": policy, "terminated": ((), torch.bool)}
        self.experience = config.experience(spaces, self.rollout, columns)
        self.psi = Encoder(spaces.input_shape, config.features, hidden=config.hidden, final_activation=False)
        self.ensemble = nn.Sequential(
            StackedLinear(config.members, config.features + spaces.action_width, config.ensemble_hidden),
            nn.ReLU(),
            StackedLinear(config.members, config.ensemble_hidden, 1),
        )
        self.target = copy.deepcopy(self.psi).requires_grad_(False)
        self.add_optimizer("model", [*self.psi.parameters(), *self.ensemble.parameters()], config.lr)

    # ---- collection ---------------------------------------------------------------------------------------
    def _score(self, batch: Transitions) -> Tensor:
        return self.experience.each(self._bonus, batch)

    def _observe(self, batch: Transitions) -> None:
        rows = batch.rows()
        assert rows.reward is not None
        assert rows.policy is not None
        reward, policy = (value.float().clamp(-OVERFLOW_CLIP, OVERFLOW_CLIP) for value in (rows.reward, rows.policy))
        self.experience.observe(batch, reward=reward, policy=policy, terminated=batch.terminated[batch.valid])

    def _bonus(self, rows: Prepared) -> Tensor:
        psi, psi_next = self.psi(torch.cat([rows.x, rows.x_next])).chunk(2)
        return distance(psi, psi_next) * doubt_scale(self._doubt(psi, rows.code), self.config.max_scale)

    def _rewards(self, psi: Tensor, code: Tensor) -> Tensor:
        """Each member's prediction of the extrinsic reward, (K, B)."""
        return self.ensemble(torch.cat([psi, code], dim=1)).squeeze(2)  # type: ignore[no-any-return]

    def _doubt(self, psi: Tensor, code: Tensor) -> Tensor:
        """ζ: population variance of the members' predictions, (B,)."""
        return self._rewards(psi, code).var(0, correction=0)

    # ---- learning -----------------------------------------------------------------------------------------
    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        slots, parts = self.experience.fresh, []

        def loss(rows: Prepared) -> Tensor:
            stored = [self.experience.buffer[name][slots[rows.index]] for name in ("reward", "policy", "terminated")]
            psi = self.psi(rows.x)
            metric = self._metric_loss(rows, psi, stored, generator)
            ensemble = self._ensemble_loss(psi.detach(), rows.code, stored[0], generator)
            parts.append(torch.stack([metric.detach().mean(), ensemble.detach().mean()]))
            return metric + ensemble

        self.fit("model", loss, generator, after_step=lambda: follow_(self.target, self.psi, self.config.target_decay))
        metric_loss, ensemble_loss = torch.stack(parts).mean(0)
        return {"metric_loss": metric_loss, "ensemble_loss": ensemble_loss}

    def _metric_loss(self, rows: Prepared, psi: Tensor, stored: list[Tensor], generator: torch.Generator) -> Tensor:
        """(d(s_i, s_j) − target)² of a random matching of the rows, (B,); `stored` are their columns."""
        reward, policy, terminated = stored
        c, other = self.config, torch.randperm(len(psi), generator=generator).to(psi.device)
        with torch.no_grad():
            doubt = self._doubt(psi, rows.code)
            following = self.target(rows.x_next)
            # past a terminal state there is nothing to compare
            ahead = distance(following, following[other]) * ~(terminated | terminated[other])
            divergence = policy_divergence(self.spaces, policy, policy[other]).clamp(0, c.max_divergence)
            gap = reward_gap(reward, reward[other], doubt, doubt[other])
        return (distance(psi, psi[other]) - (gap + c.discount * (ahead + divergence))).square()

    def _ensemble_loss(self, psi: Tensor, code: Tensor, reward: Tensor, generator: torch.Generator) -> Tensor:
        """Squared error of the members on the rows that each keeps, (B,)."""
        errors = (self._rewards(psi, code) - reward).square()
        kept = torch.rand(errors.shape, generator=generator).to(errors.device) < self.config.keep
        return (errors * kept).mean(0) / self.config.keep
