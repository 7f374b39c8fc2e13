"""Checks option values that are names of Kafka, in upper or lower case. A broker ignores unknown
ones, so a misspelled name would silently select nothing. Pure."""

from collections.abc import Iterable, Sequence
from typing import Final

from kbroker.cli.failures import UsageFailed

GROUP_TYPES: Final = ("classic", "consumer", "share", "streams")
GROUP_STATES: Final = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
    "NotReady",
)
TRANSACTION_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
)


def known_words(option: str, given: Iterable[str] | None, known: Sequence[str]) -> list[str]:
    """The given names as Kafka writes them. Raises UsageFailed for an unknown one."""
    by_lower = {word.lower(): word for word in known}
    found = []
    for word in given or ():
        if word.lower() not in by_lower:
            raise UsageFailed(f"{option} {word!r}: expected one of {', '.join(known)}")
        found.append(by_lower[word.lower()])
    return found
