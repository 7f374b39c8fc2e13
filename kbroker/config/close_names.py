"""The name that was probably meant. Pure."""

from collections.abc import Iterable
from typing import Final

MAX_LENGTH: Final = 100
"""Characters of a name that is compared; every known name is shorter."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """`; did you mean ...?`, or nothing when no name is close."""
    if len(name) > MAX_LENGTH:
        return ""
    from difflib import get_close_matches  # a broker whose settings are right needs it not

    close = get_close_matches(name, sorted(known), n=1, cutoff=0.75)
    return f"; did you mean {close[0]}?" if close else ""
