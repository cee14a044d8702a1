"""Exploration via elliptical episodic bonuses (Henaff et al. 2022)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lpm.bonuses._learner import Learner, LearnerConfig, MemoryBonus
from lpm.core.registry import register
from lpm.core.settings import Count, Positive
from lpm.core.transitions import Transitions
from lpm.nn.dynamics import InverseFeatures
from lpm.nn.memory import embed_episodes, episode_starts, episodes_over, interleave

STEPS_AT_ONCE = 32


@dataclass(frozen=True)
class E3BConfig(LearnerConfig):
    """Settings of E3B. "Code" is facebookresearch/e3b, which does not standardise observations."""

    features: Count = 128
    """Width of φ. Code: 1024 for MiniHack; each environment keeps a features × features matrix in float64."""
    ridge: Positive = 0.1
    """λ: the matrix of an episode starts as λ·I (paper, code: 0.1)."""
    layer_norm: bool = False
    """Give φ zero mean and unit variance; otherwise its free scale sets that of the reward. Code: no."""
    hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of φ for vectors. Images have the convolutions of the other methods."""
    inverse_hidden: tuple[int, ...] = (256,)
    """Hidden layers of the inverse model (code: (256,))."""


def elliptical_bonuses(inverse: Tensor, rows: Tensor, episode: Tensor, present: Tensor, ridge: float) -> Tensor:
    """b = hᵀ C⁻¹ h of rows h (N, S, F) in time order, each of which then enters C ← C + h hᵀ; (N, S).

    `inverse` (N, F, F) is C⁻¹ of episode 0 and becomes that of the episode `present` (N,); `episode` (N, S) is each
    row's, and from 1 on it starts with C = ridge · I. h = 0 has reward 0 and changes nothing. `inverse` stays exactly
    symmetric.

    With K = H C⁻¹ Hᵀ of the C before, I + K = L Lᵀ holds all at once: 1 + b is the square of L's diagonal, by which the
    determinant grows, and C⁻¹ loses Vᵀ V with V = L⁻¹ H C⁻¹ (Woodbury).
    """
    fresh = torch.eye(rows.shape[2], dtype=rows.dtype, device=rows.device) / ridge
    u = torch.where((episode == 0).unsqueeze(2), torch.bmm(rows, inverse), rows / ridge)
    together = episode.unsqueeze(2) == episode.unsqueeze(1)
    gram = torch.bmm(u, rows.mT).masked_fill_(~together, 0)
    gram.diagonal(dim1=1, dim2=2).add_(1)
    root = torch.linalg.cholesky(gram)
    own = (episode == present.unsqueeze(1)).unsqueeze(2)
    v = torch.linalg.solve_triangular(root, u * own, upper=False)
    loss = torch.bmm(v.mT, v)
    begun = (present > 0).view(-1, 1, 1)
    inverse.copy_(torch.where(begun, fresh, inverse)).sub_((loss + loss.mT) / 2)
    gain: Tensor = root.diagonal(dim1=1, dim2=2).square() - 1
    return gain


@register("e3b")
class E3B(MemoryBonus, Learner):
    """Elliptical episodic bonus: how unlike the new state's features are to those of the episode so far."""

    label = "E3B"
    family = "episodic"
    use = "Novelty within an episode, by elliptical distance in inverse-dynamics features."
    Config = E3BConfig
    config: E3BConfig
    reference = "Henaff, Raileanu, Jiang & Rocktäschel 2022, Exploration via Elliptical Episodic Bonuses"
    episodic = True

    inverse: Tensor  # (N, F, F) C⁻¹ of each present episode
    running: Tensor  # (N,) whether an episode is in memory

    def _build(self) -> None:
        spaces, config = self.spaces, self.config
        self.experience = config.experience(spaces, self.rollout)
        self.model = InverseFeatures(
            spaces,
            config.features,
            hidden=config.hidden,
            inverse_hidden=config.inverse_hidden,
            layer_norm=config.layer_norm,
        )
        self.add_optimizer("model", self.model.parameters(), config.lr)
        self.register_buffer("inverse", torch.zeros(self.num_envs, config.features, config.features).double())
        self.register_buffer("running", torch.ones(self.num_envs, dtype=torch.bool))
        self.end_episodes(self.running)

    def end_episodes(self, rows: Tensor) -> None:
        """Nothing is in memory, (ridge · I)⁻¹."""
        self.inverse[rows] = torch.eye(self.config.features).to(self.inverse) / self.config.ridge
        self.running.masked_fill_(rows.to(self.device), False)

    def _walk(self, batch: Transitions, keep: bool) -> Tensor:
        ready, inverse, running = self.experience.ready, self.inverse, self.running
        if keep:
            self.experience.observe(batch)
        else:
            inverse, running = inverse.clone(), running.clone()
        if not ready:
            return torch.zeros(batch.shape, device=batch.device)
        starts = episode_starts(batch, running)
        first, following = embed_episodes(batch, starts, self._embed)
        ended, rewards = batch.done & batch.valid, []
        for start in range(0, batch.shape[0], STEPS_AT_ONCE):
            steps = slice(start, start + STEPS_AT_ONCE)
            rows = interleave(first[steps], following[steps])
            passed = ended[steps].cumsum(0)
            before = (passed - ended[steps].long()).T.repeat_interleave(2, 1)
            exists = torch.stack([starts[steps].any(1), batch.valid[steps].any(1)], 1).flatten()
            bonus = rows.new_zeros(rows.shape[:2])
            bonus[:, exists] = elliptical_bonuses(
                inverse, rows[:, exists], before[:, exists], passed[-1], self.config.ridge
            )
            rewards.append(bonus[:, 1::2].T)
        running.copy_((running | batch.valid.any(0)) & ~episodes_over(batch))
        return torch.cat(rewards)

    def _embed(self, obs: Tensor) -> Tensor:
        return self.model(self.experience.input(obs)).double()  # type: ignore[no-any-return]

    def _learn(self, generator: torch.Generator) -> dict[str, Tensor]:
        return {"inverse_loss": self.fit("model", self.model.loss, generator)}
