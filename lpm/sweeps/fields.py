"""Values of fields, and what a search may try for one, as written on the command line."""

import ast
import math
from dataclasses import dataclass
from typing import Any

HOW = "expected NAME=LOW:HIGH (numbers), NAME=LOW..HIGH (integers), either with :log, or NAME=A,B,C (choices)"


@dataclass(frozen=True)
class Field:
    """A field and the values to search."""

    name: str
    """Of the bonus's config; "mixer.weight" and the like of the mixer's."""
    low: float | int | None = None
    """Smallest value of a range; integers make it a range of integers."""
    high: float | int | None = None
    """Largest value, included."""
    log: bool = False
    """Spread over orders of magnitude."""
    choices: tuple[Any, ...] = ()
    """Instead of a range."""

    @property
    def examples(self) -> tuple[Any, ...]:
        """Values to check before hours of work: the ends of a range, or all choices."""
        return self.choices or (self.low, self.high)


def parse_field(text: str) -> Field:
    """A field from its command-line form.

    >>> parse_field("lr=1e-4:1e-2:log")
    Field(name='lr', low=0.0001, high=0.01, log=True, choices=())
    >>> parse_field("epochs=1..4").high
    4
    >>> parse_field("form=log,linear,exp").choices
    ('log', 'linear', 'exp')
    """

    def refused(wanted: str = HOW) -> ValueError:
        return ValueError(f"--field {text}: {wanted}")

    name, _, values = text.partition("=")
    span = values.removesuffix(":log")
    log = span != values
    if not span or not all(part.isidentifier() for part in name.split(".")):
        raise refused()
    kind, between = (int, "..") if ".." in span else (float, ":")
    if between not in span:
        found = literal(span)
        if found == span:
            found = tuple(literal(part.strip()) for part in span.split(","))
        if log or not isinstance(found, tuple) or len(found) < 2:
            raise refused(f"{HOW}, with at least two values to choose from")
        return Field(name, choices=found)
    try:
        low, high = map(kind, span.split(between))
    except ValueError:
        raise refused() from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise refused(f"expected a finite range whose low end comes first, got {low} to {high}")
    if log and low <= 0:
        raise refused(f"expected a range above 0 for :log, got {low} to {high}")
    return Field(name, low, high, log)


def literal(text: str) -> Any:
    """A value from the command line: a Python literal, true or false in any case, or else the text itself.

    `none` stays text, because fields have it as a choice.

    >>> literal("1e-3"), literal("(64, 64)"), literal("false"), literal("none"), literal("None")
    (0.001, (64, 64), False, 'none', None)
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError):
        return text
