"""Tests of an adapter are collected only where its library is installed."""

from importlib.util import find_spec

_PATTERNS = {"sb3_contrib": "test_sb3_*.py", "torchrl": "test_torchrl_*.py", "ray": "test_rllib_*.py"}
collect_ignore_glob = [pattern for package, pattern in _PATTERNS.items() if find_spec(package) is None]
