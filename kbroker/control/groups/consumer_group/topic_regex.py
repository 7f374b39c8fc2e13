"""The topics that a regular-expression subscription matches (KIP-848)."""

from collections.abc import Iterable

from kbroker.config.client_pattern import InvalidPattern, compile_pattern


def matching_topics(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """The topics that an expression matches; none when it is not valid."""
    try:
        regex = compile_pattern(pattern)
    except InvalidPattern:
        return frozenset()
    return frozenset(filter(regex.matches, names))
