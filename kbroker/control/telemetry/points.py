"""Data points of clients, whatever form they came in."""

from typing import Final, NamedTuple

MAX_TEXT: Final = 128
"""Characters of a name or a value that are kept."""


class Labels(NamedTuple):
    """The identity of a point. attributes: those without their own label."""

    node: str
    topic: str
    partition: str
    attributes: str


class Key(NamedTuple):
    """The labels that distinguish a client's series."""

    metric: str
    labels: Labels
    counter: bool


class Point(NamedTuple):
    """A value to be set, or a delta to be added."""

    key: Key
    value: float
    delta: bool


def printable(text: str) -> str:
    """The text as a label may show it."""
    cut = text[:MAX_TEXT]
    return cut if cut.isprintable() else "".join(c if c.isprintable() else "?" for c in cut)
