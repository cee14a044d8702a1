"""The theory of learning progress, executable: exact information gain, the theorems, and their limits."""

from lpm.theory.result import CheckResult
from lpm.theory.run import run, run_streams

__all__ = ["CheckResult", "run", "run_streams"]
