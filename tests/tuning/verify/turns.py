"""Figures of alternating turns."""

from collections.abc import Sequence

from tuning.verify.figures import ACK_P99, PRODUCE, Figures

SPREAD = (0.97, 0.99, 1.0, 1.01, 1.03)


def turns(produce: float, ack: float, spread: Sequence[float] = SPREAD) -> list[Figures]:
    """One turn for each factor of the spread; the two figures vary in opposite orders."""
    backwards = reversed(spread)
    return [
        {PRODUCE.key: produce * one, ACK_P99.key: ack * other}
        for one, other in zip(spread, backwards, strict=True)
    ]
