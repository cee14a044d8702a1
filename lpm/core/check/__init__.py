"""`check_intrinsic`: the `check_env` of bonuses. Each rule of the contract is a function that fails with numbers."""

import random
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete

from lpm.core.bonus import IntrinsicReward
from lpm.core.check._case import Case, IntrinsicCheckError, Maker, random_block, snapshot
from lpm.core.check._rules import RULES
from lpm.core.spaces import Spaces

__all__ = ["DEFAULT_SPACES", "RULES", "Case", "IntrinsicCheckError", "check_intrinsic", "random_block", "snapshot"]

DEFAULT_SPACES: dict[str, Spaces] = {
    "vector/discrete": Spaces(Box(-1.0, 1.0, (5,)), Discrete(3)),
    "vector/continuous": Spaces(Box(-np.inf, np.inf, (4,)), Box(-2.0, 2.0, (3,))),
    "image/discrete": Spaces(Box(0, 255, (3, 36, 36), np.uint8), Discrete(4)),
}


def check_intrinsic(make: Maker | IntrinsicReward | str, spaces: Spaces | Iterable[Spaces] | None = None) -> list[str]:
    """Test a bonus against the contract of `IntrinsicReward`; raise `IntrinsicCheckError` at the first broken rule.

    `make` is the name of a bonus, its class, an instance (of which class, config and spaces are taken), or a function
    `make(spaces, num_envs=..., rollout_steps=..., seed=...)` such as `functools.partial(lpm.make, "name")`. Without
    `spaces` it is tried on vectors with discrete and with three-dimensional continuous actions, and on uint8 images.
    Returns the names of the rules that were checked. The bonus and its state are copied often: give it small buffers.

    >>> from functools import partial
    >>> import lpm
    >>> small = partial(lpm.make, "lpm", dynamics_steps=1, error_steps=1, buffer_size=64)
    >>> "score is pure" in check_intrinsic(small)
    True
    """
    if spaces is None:
        spaces = make.spaces if isinstance(make, IntrinsicReward) else DEFAULT_SPACES.values()
    build = _maker(make)
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002  the caller's
    try:
        for each in [spaces] if isinstance(spaces, Spaces) else spaces:
            cache: list[IntrinsicReward] = []
            for rule, test in RULES.items():
                try:
                    test(Case(build, each, rule, cache))
                except IntrinsicCheckError:
                    raise
                except Exception as error:
                    raise IntrinsicCheckError(rule, f"raised {type(error).__name__}: {error}") from error
    finally:
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        random.setstate(states[2])
    return list(RULES)


def _maker(make: Any) -> Maker:
    """What builds the bonus that is meant."""
    if isinstance(make, str):
        from lpm.core.registry import make as by_name

        return partial(by_name, make)
    if isinstance(make, IntrinsicReward):
        return lambda spaces, **sizes: type(make)(spaces, make.config, **sizes)
    if isinstance(make, type) and issubclass(make, IntrinsicReward):
        config = getattr(make, "Config", None)
        return make if config is None else lambda spaces, **sizes: make(spaces, config(), **sizes)
    if not callable(make) or isinstance(make, type):
        raise ValueError(
            f"check_intrinsic: expected the name of a bonus, a subclass of IntrinsicReward, an instance of one, or a "
            f"function that builds one, got {make!r}"
        )
    return make  # type: ignore[no-any-return]
