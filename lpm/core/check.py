"""`check_intrinsic`: the `check_env` of bonuses."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from gymnasium.spaces import Box, Discrete

from lpm.core.bonus import IntrinsicReward
from lpm.core.check_case import Case, IntrinsicCheckError, Maker, random_block
from lpm.core.check_rules import RULES, global_random_state_restored
from lpm.core.spaces import Spaces

__all__ = ["DEFAULT_SPACES", "RULES", "Case", "IntrinsicCheckError", "Maker", "check_intrinsic", "random_block"]

DEFAULT_SPACES: dict[str, Spaces] = {
    "vector/discrete": Spaces(Box(-1.0, 1.0, (5,)), Discrete(3)),
    "vector/continuous": Spaces(Box(-np.inf, np.inf, (4,)), Box(-2.0, 2.0, (3,))),
    "image/discrete": Spaces(Box(0, 255, (3, 36, 36), np.uint8), Discrete(4)),
}


def check_intrinsic(make: Maker, spaces: Spaces | Iterable[Spaces] | None = None) -> list[str]:
    """Test a bonus against the contract of `IntrinsicReward`; raise `IntrinsicCheckError` at the first broken rule.

    `make(spaces, num_envs=..., rollout_steps=..., seed=...)` builds the bonus: a class with a config bound to it, or
    `functools.partial(lpm.make, "name")`. Without `spaces` it is tried on vectors with discrete and with
    three-dimensional continuous actions, and on uint8 images. Returns the names of the rules that were checked.
    The bonus and its state are copied often: give it small buffers.

    >>> from functools import partial
    >>> import lpm
    >>> small = partial(lpm.make, "lpm", dynamics_steps=1, error_steps=1, buffer_size=64)
    >>> "score is pure" in check_intrinsic(small)
    True
    """
    if spaces is None:
        chosen = list(DEFAULT_SPACES.values())
    else:
        chosen = [spaces] if isinstance(spaces, Spaces) else list(spaces)
    for each in chosen:
        cache: list[IntrinsicReward] = []
        with global_random_state_restored():
            for rule, test in RULES.items():
                try:
                    test(Case(make, each, rule, cache))
                except IntrinsicCheckError:
                    raise
                except Exception as error:
                    raise IntrinsicCheckError(rule, f"raised {type(error).__name__}: {error}") from error
    return list(RULES)
