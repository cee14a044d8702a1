"""The `lpm` command: finds the module of a command, hands it the arguments, and says in one line what went wrong."""

import os
import select
import sys
from collections.abc import Sequence
from importlib import import_module

from lpm.experiments import papers
from lpm.utils.suggest import suggest

COMMANDS = {
    "train": "train an agent with a bonus; killed runs resume exactly, finished ones can be extended",
    "report": "one page that compares runs: ranking, curves, tables, statistics",
    "bonuses": "list the bonuses, which one to use, and their settings",
    "envs": "list the environments, or draw them",
    "watch": "a film of a trained policy, and a map of where it has been",
    "suite": "score a bonus under many kinds of noise",
    "reproduce": "repeat a stored experiment: tables, figures, page",
    "tune": "search the settings of a bonus on an environment",
    "doctor": "versions, threads, devices, data, and what is missing",
}

USAGE = """usage: lpm COMMAND [options]      (lpm COMMAND --help lists them)

Noise-robust exploration for reinforcement learning."""
READER_GONE = 141
"""Exit status when `| head` has seen enough, as shells have it."""


def main(args: Sequence[str] | None = None) -> int:
    """Entry point of the console script; returns the exit status."""
    words = list(sys.argv[1:] if args is None else args)
    try:
        status = _answer(words)
        sys.stdout.flush()  # here, where it can still be told that nobody reads any more
        return status
    except BrokenPipeError:
        if not _reader_is_gone():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains while it ends
        return READER_GONE


def _answer(words: Sequence[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_help())
        return 0
    if words[0] == "--version":
        from lpm import __version__

        print(f"lpm-exploration {__version__}")
        return 0
    command = words[0]
    module = f"lpm.commands.{command}"
    if command not in COMMANDS:
        added = papers.installed()
        if command not in added.commands:
            print(f"lpm: unknown command {command!r}{suggest(command, [*COMMANDS, *added.commands])}", file=sys.stderr)
            return 2
        module, _ = added.commands[command]
    try:
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())  # `my_envs:Corridor-v0` beside my_envs.py; last, so that it hides no package
        status: int = import_module(module).run(words[1:])
        return status
    except KeyboardInterrupt:
        print(f"\nlpm {command}: interrupted", file=sys.stderr)
        return 130  # as shells have it
    except Exception as problem:
        if isinstance(problem, BrokenPipeError) and _reader_is_gone():
            raise
        line = _one_line(problem)
        if line is None:
            raise
        from lpm.storage.files import printable

        print(f"lpm {command}: {printable(line)}", file=sys.stderr)
        return 1


def _reader_is_gone() -> bool:
    """Whether what is printed goes into a pipe whose other end was closed, as `| head` does."""
    if not hasattr(select, "poll"):
        return True
    poll = select.poll()
    poll.register(sys.stdout.fileno(), select.POLLOUT)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _one_line(problem: Exception) -> str | None:
    """What is said of a problem that is the user's to solve; None for a defect, which deserves its traceback."""
    if isinstance(problem, ImportError):
        from lpm.utils.versions import explained

        return explained(problem)
    if isinstance(problem, (ValueError, OSError)):
        return str(problem)
    if type(problem).__module__.startswith("gymnasium"):
        from lpm.utils.versions import about_dependency

        return about_dependency(str(problem))
    return None


def _help() -> str:
    added = papers.installed()
    commands = {**COMMANDS, **{name: what for name, (_, what) in added.commands.items()}}
    width = max(map(len, commands))
    lines = "\n".join(f"  {name:<{width}}  {what}" for name, what in commands.items())
    warnings = "".join(f"\n\nwarning: {problem}" for problem in added.problems)
    return f"{USAGE}\n\n{lines}\n\n  --version   print the version{warnings}"


if __name__ == "__main__":
    raise SystemExit(main())
