"""check_intrinsic must catch broken bonuses: one mutant per rule, each of a bonus that passes."""

import random
import re
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from test_broken_bonuses import KINDS
from tiny_bonus import Tiny
from torch import Tensor

from lpm import Spaces, Transitions, check_intrinsic
from lpm.core.check import DEFAULT_SPACES, RULES, Case, IntrinsicCheckError, random_block

VECTOR = Spaces(Box(-1, 1, (3,)), Discrete(2))
PIXELS = Spaces(Box(0, 255, (4,), np.uint8), Discrete(2))


def test_the_correct_bonus_passes() -> None:
    assert check_intrinsic(Tiny, [VECTOR, PIXELS]) == list(RULES)


# ---- shape and finiteness -------------------------------------------------------------------------------------
class WrongShape(Tiny):
    def _score(self, batch: Transitions) -> Tensor:
        return super()._score(batch).flatten()


class Infinite(Tiny):
    def _score(self, batch: Transitions) -> Tensor:
        return super()._score(batch) / (self.count == 0)


class MetricIsAVector(Tiny):
    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        return {name: value.view(1) for name, value in super()._update(generator).items()}


class MetricIsAFloat(Tiny):
    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        return {"loss": super()._update(generator)["loss"].item()}  # type: ignore[dict-item]


class MetricIsNaN(Tiny):
    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        return {"loss": super()._update(generator)["loss"] * torch.nan}


class Crashes(Tiny):
    def _score(self, batch: Transitions) -> Tensor:
        if bool((~batch.valid).any()):
            raise KeyError("no such transition")
        return super()._score(batch)


# ---- randomness -----------------------------------------------------------------------------------------------
class GlobalTorchInUpdate(Tiny):
    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        self.total += torch.rand(())
        return super()._update(generator)


class GlobalNumpyInScore(Tiny):
    def _score(self, batch: Transitions) -> Tensor:
        return super()._score(batch) + np.random.rand()  # noqa: NPY002


class GlobalPythonInObserve(Tiny):
    def _observe(self, batch: Transitions) -> None:
        super()._observe(batch)
        self.total += random.random()


class GlobalTorchInWeights(Tiny):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.head.reset_parameters()


# ---- purity, step -----------------------------------------------------------------------------------------------
class ScoreCounts(Tiny):
    def _score(self, batch: Transitions) -> Tensor:
        self.count += 1
        return super()._score(batch)


class StepObservesTwice(Tiny):
    def _step(self, batch: Transitions) -> Tensor:
        self._observe(batch)
        return super()._step(batch)


class StepObservesFirst(Tiny):
    """Pays a little more for every transition seen, and sees this block before paying."""

    def _score(self, batch: Transitions) -> Tensor:
        return super()._score(batch) + self.count.float() / 100

    def _step(self, batch: Transitions) -> Tensor:
        self._observe(batch)
        return self._score(batch)


# ---- invalid transitions --------------------------------------------------------------------------------------
class LearnsWhileObserving(Tiny):
    def _observe(self, batch: Transitions) -> None:
        super()._observe(batch)
        with torch.enable_grad():
            self.descend("head", self.change(batch).square().mean())


class CountsInvalid(Tiny):
    def _observe(self, batch: Transitions) -> None:
        self.count += (~batch.valid).sum()
        super()._observe(batch)


class SumsInvalid(Tiny):
    def _observe(self, batch: Transitions) -> None:
        super()._observe(batch)
        self.total += batch.obs[~batch.valid].double().sum()


class MeanOverInvalid(Tiny):
    def _score(self, batch: Transitions) -> Tensor:
        change = self.change(batch)
        return change - change.mean()


# ---- splitting and order --------------------------------------------------------------------------------------
class MeanOfBlock(Tiny):
    def _score(self, batch: Transitions) -> Tensor:
        change = self.change(batch)
        return change - (change[batch.valid].mean() if bool(batch.valid.any()) else 0.0)


class LastOfBlock(Tiny):
    """Remembers one number per block instead of one per transition."""

    def _observe(self, batch: Transitions) -> None:
        super()._observe(batch)
        self.total += bool(batch.valid.any())


class PaysTheFirstEnvironment(Tiny):
    def _score(self, batch: Transitions) -> Tensor:
        return super()._score(batch) * torch.arange(batch.shape[1])


# ---- state ----------------------------------------------------------------------------------------------------
class ForgetsABuffer(Tiny):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register_buffer("mean", torch.zeros((), dtype=torch.float64), persistent=False)


class ForgetsOptimizers(Tiny):
    def get_extra_state(self) -> dict[str, Any]:
        return {"generator": self.generator.get_state()}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"])


class ForgetsGenerator(Tiny):
    def get_extra_state(self) -> dict[str, Any]:
        return {"optimizers": super().get_extra_state()["optimizers"]}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        super().set_extra_state({**state, "generator": self.generator.get_state()})


class ForgetsWhatToLearnFrom(Tiny):
    """Keeps the sum that the next update needs in a plain attribute."""

    pending = 0.0

    def _observe(self, batch: Transitions) -> None:
        super()._observe(batch)
        self.pending += float(batch.obs[batch.valid].sum())

    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        self.total += self.pending
        self.pending = 0.0
        return super()._update(generator)


# ---- odd batches, pixels --------------------------------------------------------------------------------------
class NaNOnConstants(Tiny):
    """Divides by the spread of what was seen, which a constant stream does not have."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register_buffer("spread", torch.ones((), dtype=torch.float64))
        self.register_buffer("seen", torch.zeros((), dtype=torch.float64))

    def _observe(self, batch: Transitions) -> None:
        super()._observe(batch)
        self.seen += (batch.next_obs - batch.obs)[batch.valid].double().square().sum()

    def _update(self, generator: torch.Generator) -> dict[str, Tensor]:
        metrics = super()._update(generator)
        if metrics:
            self.spread.copy_(self.seen)
        return metrics

    def _score(self, batch: Transitions) -> Tensor:
        return (batch.next_obs - batch.obs).sum(2) / self.spread.float()


class EmptyBatchMovesState(Tiny):
    def _observe(self, batch: Transitions) -> None:
        super()._observe(batch)
        if not bool(batch.valid.any()):
            self.count += 1


class WrapsPixels(Tiny):
    def change(self, batch: Transitions) -> Tensor:
        return self.head((batch.next_obs - batch.obs).float() / 100).squeeze(-1)


SHAPE, RANDOM, PURE, STEP, LEARNS, INVALID, SPLIT, ORDER, RESUMES, ODD, UINT8 = (
    "shape and finiteness",
    "no global randomness",
    "score is pure",
    "step is score then observe",
    "only update learns",
    "invalid transitions are scored 0 and leave no trace",
    "splitting a block in time changes nothing",
    "permuting environments permutes rewards",
    "saved in mid-cycle, resumes exactly",
    "constant, single-sample and all-invalid batches",
    "uint8 images are not wrapped",
)

NUMBERS = r"expected -?\d.*, got -?\d"

MUTANTS: list[tuple[type[Tiny], str, str]] = [
    (WrongShape, SHAPE, r"expected rewards of shape \(T, N\) = \(8, 3\), got \(24,\)"),
    (Infinite, SHAPE, r"cycle 1: expected finite rewards, got inf in [0-9]+ of [0-9]+"),
    (MetricIsAVector, SHAPE, r"expected metric 'loss' as a 0-d tensor, got shape \(1,\)"),
    (MetricIsAFloat, SHAPE, r"expected metric 'loss' as a 0-d tensor, got \d\.\d+"),
    (MetricIsNaN, SHAPE, r"cycle 0: expected finite loss, got nan"),
    (Crashes, SHAPE, r"raised KeyError: 'no such transition'"),
    (GlobalTorchInUpdate, RANDOM, r"global random state.torch.*" + NUMBERS),
    (GlobalNumpyInScore, RANDOM, r"global random state.numpy.*" + NUMBERS),
    (GlobalPythonInObserve, RANDOM, r"global random state.python: " + NUMBERS),
    (GlobalTorchInWeights, RANDOM, r"global random state.torch.*" + NUMBERS),
    (ScoreCounts, PURE, r"state after score.count\[\]: expected \d+, got \d+ \(1 of 1 differ, by up to 2"),
    (StepObservesTwice, STEP, r"state.(total|count)\[\]: " + NUMBERS),
    (StepObservesFirst, STEP, r"reward\[0, 0\]: " + NUMBERS),
    (LearnsWhileObserving, LEARNS, r"parameters after step.head.weight.*" + NUMBERS),
    (CountsInvalid, INVALID, r"state with an invalid step put in front.count.*" + NUMBERS),
    (SumsInvalid, INVALID, r"state with other contents in invalid rows.total.*" + NUMBERS),
    (MeanOverInvalid, INVALID, r"reward with other contents in invalid rows\[0, 0\]: " + NUMBERS),
    (MeanOfBlock, SPLIT, r"reward\[0, 0\]: " + NUMBERS),
    (LastOfBlock, SPLIT, r"state.total\[\]: " + NUMBERS),
    (PaysTheFirstEnvironment, ORDER, r"reward\[0, 0\]: " + NUMBERS),
    (ForgetsABuffer, RESUMES, r"reward after load\[0, 0\]: " + NUMBERS),
    (ForgetsOptimizers, RESUMES, r"state after update 1.head.weight.*" + NUMBERS),
    (ForgetsGenerator, RESUMES, r"metrics of update 1.loss.*" + NUMBERS),
    (ForgetsWhatToLearnFrom, RESUMES, r"metrics of update 1.loss.*" + NUMBERS),
    (NaNOnConstants, ODD, r"constant batch, cycle 1: expected finite rewards, got nan in"),
    (EmptyBatchMovesState, ODD, r"state after an all-invalid batch.count\[\]: expected 72, got 73"),
    (WrapsPixels, UINT8, r"reward in cycle 0, floats against uint8\[0, \d\]: " + NUMBERS),
]


@pytest.mark.parametrize(("mutant", "rule", "message"), MUTANTS, ids=[mutant.__name__ for mutant, *_ in MUTANTS])
def test_mutants_are_caught(mutant: type[Tiny], rule: str, message: str) -> None:
    with pytest.raises(IntrinsicCheckError) as caught:
        check_intrinsic(mutant, PIXELS if rule == UINT8 else VECTOR)
    assert caught.value.rule == rule, caught.value
    assert str(caught.value).startswith(f"rule '{rule}': ")
    assert re.search(message, str(caught.value)), caught.value


def test_every_rule_has_a_mutant() -> None:
    assert {rule for _, rule, *_ in [*MUTANTS, *KINDS]} == set(RULES)


# ---- the tool itself ------------------------------------------------------------------------------------------
def test_the_callers_random_state_is_left_alone() -> None:
    torch.manual_seed(3)
    random.seed(3)
    expected = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # type: ignore[index,union-attr]  # noqa: NPY002
    check_intrinsic(Tiny, VECTOR)
    with pytest.raises(IntrinsicCheckError):
        check_intrinsic(GlobalTorchInUpdate, VECTOR)
    assert torch.equal(expected[0], torch.get_rng_state())
    assert expected[1] == np.random.get_state()[1].tolist()  # type: ignore[index,union-attr]  # noqa: NPY002
    assert expected[2] == random.getstate()


@pytest.mark.parametrize("tolerance", [0.0, 1e-4])
def test_comparison_of_special_numbers(tolerance: float) -> None:
    case = Case(Tiny, VECTOR, "rule", [])
    inf, nan = torch.tensor(torch.inf), torch.tensor(torch.nan)
    for value in (inf, -inf, nan, torch.tensor(True), torch.zeros(0)):
        case.same("value", {"a": [value]}, {"a": [value.clone()]}, tolerance)
    for a, b in ((inf, -inf), (inf, nan), (inf, torch.tensor(5.0)), (torch.tensor(5.0), inf), (nan, torch.tensor(5.0))):
        with pytest.raises(IntrinsicCheckError, match=r"rule 'rule': value.a\[0\]\[\]: expected .*, got"):
            case.same("value", {"a": [a]}, {"a": [b]}, tolerance)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ({"x": 1}, {"y": 1}, r"state: expected keys \['x'\], got keys \['y'\]"),
        ([1], [1, 2], r"state: expected \[1\], got \[1, 2\]"),
        (torch.zeros(2), torch.zeros(3), r"state: expected a tensor \(2,\), got a tensor \(3,\)"),
        (1, 1.0, "state: expected 1, got 1.0"),
        ("a", "b", "state: expected 'a', got 'b'"),
    ],
)
def test_comparison_of_structures(a: object, b: object, message: str) -> None:
    with pytest.raises(IntrinsicCheckError, match=message):
        Case(Tiny, VECTOR, "rule", []).same("state", a, b)


@pytest.mark.parametrize("name", DEFAULT_SPACES)
def test_random_blocks_have_fillers_after_ends_only(name: str) -> None:
    spaces = DEFAULT_SPACES[name]
    block = random_block(spaces, steps=50, envs=4, filler=True)
    spaces.check(block)
    assert torch.equal(~block.valid[1:], block.done[:-1])
    assert block.valid[0].all()
    assert 0 < int(block.terminated.sum()) < int(block.done.sum())
    assert torch.equal(block.obs[1:], block.next_obs[:-1])


def test_uint8_matrices_are_images_for_the_float_twin_too() -> None:
    """A uint8 matrix is an image and a float matrix a vector: the comparison must not mix the two."""
    kinds = []

    def make(spaces: Spaces, **arguments: Any) -> Tiny:
        kinds.append((spaces.kind, spaces.input_shape))
        return Tiny(spaces, **arguments)

    check_intrinsic(make, Spaces(Box(0, 255, (5, 6), np.uint8), Discrete(2)))
    assert set(kinds) == {("grid", (1, 5, 6))}
