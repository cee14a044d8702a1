"""The theory of learning progress, executable: exact information gain, the theorems, and their limits."""

from lpm_paper.theory.check_all import run, run_streams
from lpm_paper.theory.result import CheckResult

__all__ = ["CheckResult", "run", "run_streams"]
