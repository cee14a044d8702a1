"""The end of an error message: what was probably meant. Needs nothing but the standard library."""

import difflib
from collections.abc import Iterable


def suggest(word: str, known: Iterable[str]) -> str:
    """The known names that are most like a wrong one, or all of them if they are few.

    >>> suggest("lmp", ["rnd", "lpm"]), suggest("?", ["rnd", "lpm"])
    ('; did you mean lpm?', '; known: lpm, rnd')
    """
    options = sorted(known)
    near = difflib.get_close_matches(word, options, n=3, cutoff=0.5)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    few = len(options) <= 40
    return f"; known: {', '.join(options) or 'none'}" if few else f"; none of {len(options)} known names is like it"
