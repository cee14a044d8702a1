"""Twenty-five ways to break a bonus, each caught by `check_intrinsic` with a word on what to fix; honest ones pass.

`test_check.py` has a mutant for every message; here is one for every kind of mistake that reviewers of the library made
up, the nine that an earlier `check_intrinsic` let pass first.
"""

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from tiny_bonus import Tiny
from torch import Tensor

import lpm
from lpm import Spaces, Transitions, check_intrinsic
from lpm.core.check import DEFAULT_SPACES, RULES, IntrinsicCheckError

VECTOR = Spaces(Box(-np.inf, np.inf, (3,)), Discrete(2))


class Keeper(Tiny):
    """Tiny, with a ring of the latest changes, which are paid less; honest."""

    ROWS = 24
    ring: Tensor
    pushed: Tensor

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register_buffer("ring", torch.zeros(self.ROWS))
        self.register_buffer("pushed", torch.zeros((), dtype=torch.int64))
        self.register_buffer("level", torch.zeros(()))

    def rows(self, batch: Transitions) -> Tensor:
        return (batch.next_obs.float() - batch.obs.float()).flatten(2).mean(2)[batch.valid]

    def push(self, rows: Tensor) -> None:
        for row in rows:
            self.ring[int(self.pushed) % self.ROWS] = row
            self.pushed += 1

    def _observe(self, batch: Transitions) -> None:
        super()._observe(batch)
        self.push(self.rows(batch))

    def _score(self, batch: Transitions) -> Tensor:
        return super()._score(batch) + self.level

    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        self.level.copy_(self.ring.square().mean())
        return super()._update(generator)


class Episodic(Tiny):
    """Tiny, which pays more the longer the episode lasts; honest."""

    episodic = True
    age: Tensor

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register_buffer("age", torch.zeros(self.num_envs))

    def ended(self, batch: Transitions) -> Tensor:
        return batch.done

    def run(self, batch: Transitions, age: Tensor) -> Tensor:
        paid = []
        for t in range(batch.shape[0]):
            age += batch.valid[t]
            paid.append(age / 100)
            age *= ~(self.ended(batch)[t] & batch.valid[t])
        return torch.stack(paid)

    def _score(self, batch: Transitions) -> Tensor:
        return super()._score(batch) + self.run(batch, self.age.clone())

    def _observe(self, batch: Transitions) -> None:
        super()._observe(batch)
        self.run(batch, self.age)


class OnlyUint8IsDivided(Tiny):
    """Scales pixels itself and takes floats as they come; honest."""

    def change(self, batch: Transitions) -> Tensor:
        scale = 255 if batch.obs.dtype == torch.uint8 else 1
        change = batch.next_obs.float() / scale - batch.obs.float() / scale
        return self.head(change.flatten(2)[..., : self.head.in_features]).squeeze(-1)

    def _observe(self, batch: Transitions) -> None:
        scale = 255 if batch.obs.dtype == torch.uint8 else 1
        self.total += (batch.next_obs[batch.valid].double() / scale).sum() / 1000
        self.count += batch.valid.sum()


# ---- the nine that were missed ----------------------------------------------------------------------------------
class TimesEnvironments(Tiny):
    def _score(self, batch: Transitions) -> Tensor:
        return super()._score(batch) * batch.shape[1]


class TimesItsEnvironments(Tiny):
    def _score(self, batch: Transitions) -> Tensor:
        return super()._score(batch) * self.num_envs


class CentredOverEnvironments(Tiny):
    def _score(self, batch: Transitions) -> Tensor:
        reward = super()._score(batch) * batch.valid
        return reward - reward.sum(1, keepdim=True) / batch.valid.sum(1, keepdim=True).clamp_min(1)


class LearnsFromTheFirst(Tiny):
    """As far as the data tells: with environments permuted it learns something else, but pays nobody by place."""

    def _observe(self, batch: Transitions) -> None:
        super()._observe(batch.envs(torch.tensor([0])))


class IgnoresSeed(Tiny):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "seed": 0})


class WeightsWithoutSeed(Tiny):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        with torch.no_grad():
            self.head.weight.copy_(torch.linspace(-1, 1, self.head.in_features))
            self.head.bias.fill_(0.1)


class IgnoresGenerator(Tiny):
    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        return super()._update(self.generator)


class OverflowsOnLargeNumbers(Tiny):
    def change(self, batch: Transitions) -> Tensor:
        return super().change(batch).exp().log()


class OverflowsItsRing(Keeper):
    """Writes a block at once; where it does not fit, the oldest rows of the block stay instead of the newest."""

    def push(self, rows: Tensor) -> None:
        rows = rows[: self.ROWS]
        place = (int(self.pushed) + torch.arange(len(rows))) % self.ROWS
        self.ring[place] = rows
        self.pushed += len(rows)


class DropsTerminals(Keeper):
    def rows(self, batch: Transitions) -> Tensor:
        kept = batch.valid & ~batch.terminated
        return (batch.next_obs.float() - batch.obs.float()).flatten(2).mean(2)[kept]

    def _observe(self, batch: Transitions) -> None:
        self.total += batch.next_obs[batch.valid & ~batch.terminated].double().sum() / 1000
        self.count += batch.valid.sum()
        self.push(self.rows(batch))


class PaysNoTerminals(Tiny):
    def _score(self, batch: Transitions) -> Tensor:
        return super()._score(batch) * ~batch.done


class DeadUpdate(Tiny):
    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        return {"loss": torch.rand((), generator=generator)}


# ---- the others -------------------------------------------------------------------------------------------------
class Transposed(Tiny):
    def _score(self, batch: Transitions) -> Tensor:
        return super()._score(batch).T


class NotANumber(Tiny):
    def _score(self, batch: Transitions) -> Tensor:
        return super()._score(batch).log().sqrt()


class LeaksGradients(Tiny):
    def step(self, batch: Transitions) -> Tensor:
        with torch.enable_grad():
            return self._masked(batch, self._step(batch))


class PaysDoubles(Tiny):
    def step(self, batch: Transitions) -> Tensor:
        return super().step(batch).double()


class PaysElsewhere(Tiny):
    def step(self, batch: Transitions) -> Tensor:
        return super().step(batch).to("meta")


class RemembersInScore(Tiny):
    def _score(self, batch: Transitions) -> Tensor:
        self.total += 1
        return super()._score(batch)


class ThrowsDice(Tiny):
    def _score(self, batch: Transitions) -> Tensor:
        return super()._score(batch) + torch.rand((), generator=self.generator)


class ReseedsTheWorld(Tiny):
    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        torch.manual_seed(0)
        return super()._update(generator)


class LearnsFromFiller(Tiny):
    def _observe(self, batch: Transitions) -> None:
        self.total += batch.next_obs.double().sum() / 1000
        self.count += batch.valid.sum()


class PaysFiller(Tiny):
    def _masked(self, batch: Transitions, reward: Tensor) -> Tensor:
        return reward


class LooksAtTheReset(Tiny):
    """Takes the observation of the next row for the successor, which after an end is that of a reset."""

    def change(self, batch: Transitions) -> Tensor:
        following = torch.cat([batch.obs[1:], batch.next_obs[-1:]])
        return self.head((following.float() - batch.obs.float()).flatten(2) / 100).squeeze(-1)


class DependsOnTheCut(Tiny):
    def _score(self, batch: Transitions) -> Tensor:
        return super()._score(batch) / batch.valid.any(1).sum().clamp_min(1)


class KeepsItsStateToItself(Tiny):
    level = 0.0

    def _score(self, batch: Transitions) -> Tensor:
        return super()._score(batch) + self.level

    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        metrics = super()._update(generator)
        self.level = float(self.mean)
        return metrics


class KeepsEverything(Tiny):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seen: list[Tensor] = []

    def _observe(self, batch: Transitions) -> None:
        super()._observe(batch)
        self.seen.append(batch.next_obs[batch.valid].clone())


class SurvivesTruncation(Episodic):
    def ended(self, batch: Transitions) -> Tensor:
        return batch.terminated


class IgnoresSuccessorsOfTruncated(Tiny):
    def _observe(self, batch: Transitions) -> None:
        kept = batch.valid & ~batch.truncated
        self.total += batch.next_obs[kept].double().sum() / 1000
        self.count += batch.valid.sum()


KINDS: list[tuple[type[Tiny], str]] = [
    (TimesEnvironments, "the number of environments sets no scale"),
    (TimesItsEnvironments, "the number of environments sets no scale"),
    (CentredOverEnvironments, "the number of environments sets no scale"),
    (LearnsFromTheFirst, "every transition is learnt from"),
    (IgnoresSeed, "seed and generator are used"),
    (WeightsWithoutSeed, "seed and generator are used"),
    (IgnoresGenerator, "seed and generator are used"),
    (OverflowsOnLargeNumbers, "large numbers stay finite"),
    (OverflowsItsRing, "more transitions than a rollout"),
    (DropsTerminals, "every transition is learnt from"),
    (PaysNoTerminals, "an end of an episode is an end for either reason"),
    (DeadUpdate, "update learns"),
    (Transposed, "shape and finiteness"),
    (NotANumber, "shape and finiteness"),
    (LeaksGradients, "shape and finiteness"),
    (PaysDoubles, "shape and finiteness"),
    (PaysElsewhere, "shape and finiteness"),
    (RemembersInScore, "score is pure"),
    (ThrowsDice, "score is pure"),
    (ReseedsTheWorld, "no global randomness"),
    (LearnsFromFiller, "invalid transitions are scored 0 and leave no trace"),
    (PaysFiller, "invalid transitions are scored 0 and leave no trace"),
    (LooksAtTheReset, "invalid transitions are scored 0 and leave no trace"),
    (DependsOnTheCut, "splitting a block in time changes nothing"),
    (KeepsItsStateToItself, "saved in mid-cycle, resumes exactly"),
    (KeepsEverything, "memory is bounded"),
    (SurvivesTruncation, "an end of an episode is an end for either reason"),
    (IgnoresSuccessorsOfTruncated, "every transition is learnt from"),
]


@pytest.mark.parametrize(("broken", "rule"), KINDS, ids=[kind.__name__ for kind, _ in KINDS])
def test_every_broken_kind_is_caught(broken: type[Tiny], rule: str) -> None:
    with pytest.raises(IntrinsicCheckError) as caught:
        check_intrinsic(broken, VECTOR)
    assert caught.value.rule == rule, caught.value


def test_there_are_at_least_25_kinds() -> None:
    assert len(KINDS) >= 25
    assert {rule for _, rule in KINDS} <= set(RULES)


@pytest.mark.parametrize("honest", [Tiny, Keeper, Episodic, OnlyUint8IsDivided])
@pytest.mark.parametrize("space", DEFAULT_SPACES)
def test_honest_ones_pass(honest: type[Tiny], space: str) -> None:
    assert check_intrinsic(honest, DEFAULT_SPACES[space]) == list(RULES)


# ---- what may be checked ----------------------------------------------------------------------------------------
def test_a_name_a_class_or_an_instance_is_checked() -> None:
    discrete = DEFAULT_SPACES["vector/discrete"]
    assert check_intrinsic("pointwise", discrete) == list(RULES)
    assert check_intrinsic(lpm.core.registry.lookup("forward_error").bonus, discrete) == list(RULES)
    instance = lpm.make("lpm", VECTOR, error_steps=1, dynamics_steps=1)
    assert check_intrinsic(instance) == list(RULES)


def test_the_config_and_spaces_of_an_instance_are_kept() -> None:
    made: list[tuple[Spaces, Any]] = []

    class Spied(Tiny):
        def __init__(self, spaces: Spaces, config: Any = None, **sizes: Any) -> None:
            made.append((spaces, config))
            super().__init__(spaces, config, **sizes)

    instance = Spied(VECTOR, Tiny.Config(lr=0.02))
    check_intrinsic(instance)
    assert all(spaces is VECTOR and config.lr == 0.02 for spaces, config in made)
    assert len(made) > 10


@pytest.mark.parametrize("wrong", [3, None, dict, object()])
def test_anything_else_is_refused(wrong: Any) -> None:
    with pytest.raises(
        ValueError, match="check_intrinsic: expected the name of a bonus, a subclass of IntrinsicReward"
    ):
        check_intrinsic(wrong)


def test_an_unknown_name_is_suggested() -> None:
    with pytest.raises((ValueError, IntrinsicCheckError), match=r"unknown bonus 'lpn'.*lpm"):
        check_intrinsic("lpn")
