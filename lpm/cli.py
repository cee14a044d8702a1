"""The `lpm` command: finds the module of a command and hands it the arguments."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from lpm.suggest import suggest

COMMANDS = {
    "reproduce": "run an experiment of the paper: table, figure, page",
    "report": "one page of all results, the paper's numbers beside ours",
    "tune": "search a bonus's settings over the runs of an experiment",
    "train": "train an agent with a bonus; killed runs resume exactly",
    "watch": "a GIF of a trained policy, and where it has been",
    "bonuses": "list the bonuses and their fields",
    "envs": "list the noisy-TV environments, or draw them",
    "theory": "check the theorems and their limits by running them",
}


def main(args: Sequence[str] | None = None) -> int:
    """Entry point of the console script; returns the exit status."""
    words = list(sys.argv[1:] if args is None else args)
    if not words or words[0] in ("-h", "--help"):
        print(_help())
        return 0
    if words[0] == "--version":
        from lpm import __version__

        print(f"lpm-exploration {__version__}")
        return 0
    command = words[0]
    if command not in COMMANDS:
        print(f"lpm: unknown command {command!r}{suggest(command, COMMANDS)}", file=sys.stderr)
        return 2
    try:
        status: int = import_module(f"lpm.commands.{command}").run(words[1:])
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.split(".")[0] == "lpm":
            raise
        print(f'lpm {command}: needs {missing.name!r}: pip install "lpm-exploration[all]"', file=sys.stderr)
        return 1
    except (ValueError, OSError) as problem:
        print(f"lpm {command}: {problem}", file=sys.stderr)
        return 1
    return status


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {what}" for name, what in COMMANDS.items()]
    return "\n".join(
        [
            "usage: lpm COMMAND [options]      (lpm COMMAND --help lists them)",
            "",
            "Noise-robust exploration for reinforcement learning.",
            "",
            *lines,
            "",
            "  --version   print the version",
        ]
    )


if __name__ == "__main__":
    raise SystemExit(main())
