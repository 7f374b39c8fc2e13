"""Data points of clients, whatever form they came in."""

from typing import Final, NamedTuple

LONGEST: Final = 128
"""Characters of a name or a value that are kept."""


class Labels(NamedTuple):
    """What a point is about. attributes: those that are no label of their own."""

    node: str
    topic: str
    partition: str
    attributes: str


class Key(NamedTuple):
    """What tells a client's series apart."""

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
    cut = text[:LONGEST]
    return cut if cut.isprintable() else "".join(c if c.isprintable() else "?" for c in cut)
