"""Numbers and names as text, the same on the page and in exported tables."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lpm.report.seed_statistics import Interval, Summary


def decimals(spread: float | None, value: float) -> int:
    """Digits after the point: two significant ones of the spread (of a tenth of the value without one), at most six.

    >>> decimals(8.1, 76.5), decimals(14.6, 67.0), decimals(None, 1347.6), decimals(0.0004, 0.1)
    (1, 1, 0, 5)
    """
    size = abs(spread) if spread else abs(value) / 10
    if size == 0 or not math.isfinite(size):
        return 2
    least = 1 if abs(value) < 1000 and size < 100 else 0
    return min(6, max(least, 1 - math.floor(math.log10(size))))


def number(value: float, places: int = 2) -> str:
    """A number with thousands separators; very large and very small ones in powers of ten.

    >>> number(1347.63, 1), number(0.00000123), number(-0.0, 1)
    ('1,347.6', '1.2e-06', '0.0')
    """
    size = abs(value)
    if size and (size >= 1e9 or size < 0.5 * 10**-places):
        return f"{value:.1e}".replace("-", "−", 1) if value < 0 else f"{value:.1e}"
    text = f"{0.0 if size == 0 else value:,.{places}f}"
    return text.replace("-", "−", 1)


def short_number(value: float) -> str:
    """A number with as many digits as a list of means needs.

    >>> short_number(1347.63), short_number(67.04), short_number(0.5)
    ('1,348', '67.0', '0.500')
    """
    return number(value, sum(abs(value) < size for size in (100, 10, 1)))


def plus_minus(summary: Summary) -> str:
    """Mean ± std; of one seed the mean alone."""
    places = decimals(summary.std, summary.mean)
    mean = number(summary.mean, places)
    return mean if summary.std is None else f"{mean} ± {number(summary.std, places)}"


def with_interval(summary: Summary) -> str:
    """Mean ± std [95 % interval of the mean]; of one seed the mean alone."""
    shown = span(summary.mean_interval, decimals(summary.std, summary.mean))
    return plus_minus(summary) + (f" [{shown}]" if summary.mean_interval else "")


def as_printed(mean: float, std: float | None) -> str:
    """A number of the paper with the digits that it was given with.

    >>> as_printed(76.5, 9.08), as_printed(1347.6, None)
    ('76.5 ± 9.08', '1,347.6')
    """
    return f"{mean:,.10g}" if std is None else f"{mean:,.10g} ± {std:,.10g}"


def signed_span(interval: Interval) -> str:
    """An interval of a difference, with signs."""
    places = decimals((interval.high - interval.low) / 2, 0.0)
    low, high = (("+" if v > 0 else "") + number(v, places) for v in (interval.low, interval.high))
    return f"{low} to {high}"


def span(interval: Interval | None, places: int) -> str:
    """An interval, or a dash."""
    return "–" if interval is None else f"{number(interval.low, places)} to {number(interval.high, places)}"


def p_value(p: float) -> str:
    """A p-value.

    >>> p_value(0.03125), p_value(0.00001)
    ('0.031', '< 0.001')
    """
    return "< 0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def flatten(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as dotted names and short texts."""
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else repr(value)


def plain(text: str) -> str:
    """For matplotlib, which reads $…$ as a formula; names are not formulas."""
    return text.replace("$", r"\$")


def slug(text: str) -> str:
    """A name that is safe in a file name or an anchor.

    >>> slug("Noisy TV: 50 %"), slug("../<x>")
    ('noisy-tv-50', 'x')
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "unnamed"


def count_of(count: int, noun: str) -> str:
    """A number and its noun.

    >>> count_of(1, "warning"), count_of(2, "warning")
    ('1 warning', '2 warnings')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown; a bar inside a cell does not end it.

    >>> print(markdown_table(("a", "b"), [("1", "x|y")]), end="")
    | a | b |
    | --- | --- |
    | 1 | x\\|y |
    """
    lines = [header, ("---",) * len(header), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n" for cells in lines)
