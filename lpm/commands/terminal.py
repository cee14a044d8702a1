"""What every command shares: parsing, printing, folders of its own, and the end by Ctrl-C."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import tyro
from rich.console import Console
from rich.table import Table

from lpm.storage.files import printable

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""

Options = TypeVar("Options")


def parse(options: type[Options], args: Sequence[str]) -> Options:
    """The options of a command; the class is called like the command."""
    return tyro.cli(options, args=args, prog=f"lpm {options.__name__.lower()}")


class _Terminal(Console):
    def on_broken_pipe(self) -> None:
        """`lpm.cli` ends the command, as it does where no console prints."""
        raise BrokenPipeError("nobody reads what is printed")

    def print(self, *objects: Any, **options: Any) -> None:
        """Print text without what a stranger's file could do to a terminal."""
        super().print(*(printable(shown) if isinstance(shown, str) else shown for shown in objects), **options)


def terminal() -> Console:
    """A console that prints text as it is.

    What a user typed is never read as markup, and no line is broken: a path or a call that is cut in two cannot be
    copied. Colours are given as `style`.
    """
    return _Terminal(markup=False, emoji=False, highlight=False, soft_wrap=True)


def print_table(console: Console, title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table as wide as the terminal."""
    table = Table(*header, title=title)
    for row in rows:
        table.add_row(*map(printable, row))
    console.print(table, soft_wrap=False)


@contextmanager
def continued(out: Path) -> Iterator[None]:
    """Ctrl-C ends the command with a sentence: what is finished stays."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"\nInterrupted. What is finished is in {out}; the same command continues where this stopped.")
        raise SystemExit(INTERRUPTED) from None
