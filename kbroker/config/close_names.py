"""The name that was probably meant. Pure."""

from collections.abc import Iterable
from typing import Final

MAX_LENGTH: Final = 100
"""Characters of a name that is compared; every known name is shorter."""
SEVERAL: Final = 3
"""Names of which the one with fewest typos is shown; of two with as many, the one of the same
length: a wrong character is more frequent than one too many."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean ...?`, or nothing when no name is close."""
    if len(name) > MAX_LENGTH:
        return ""
    from difflib import get_close_matches  # a broker whose settings are right needs it not

    close = get_close_matches(name, sorted(known), n=SEVERAL, cutoff=0.75)
    if not close:
        return ""
    meant = min(close, key=lambda one: (_typos(name, one), len(one) != len(name)))
    return f"; did you mean {meant}?"


def _typos(name: str, meant: str) -> int:
    """Characters that are wrong, missing or too many: the Levenshtein distance."""
    row = list(range(len(meant) + 1))
    for number, char in enumerate(name, 1):
        before, row[0] = row[0], number
        for at, other in enumerate(meant, 1):
            changed = before + (char != other)
            before, row[at] = row[at], min(changed, row[at] + 1, row[at - 1] + 1)
    return row[-1]
