"""What stops a run."""

from __future__ import annotations


class NonFiniteError(ArithmeticError):
    """A number that is not finite, with the module that made it and the environment step at which it came."""

    def __init__(self, module: str, step: int, value: float) -> None:
        super().__init__(f"{module} is {value} at step {step:,}: training cannot go on from here")
        self.module = module
        self.step = step
        self.value = value
