"""The slots of one process: int64 words in shared memory, one writer, read by the http process at
each scrape.

A slot number is computed from the catalogue, so an update is ``words[number] += 1``. Rows belong to
the parent's memory: the successor of a process that died continues to count where it stopped.
"""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kbroker.metrics import layout
from kbroker.metrics.catalog import CATALOG
from kbroker.metrics.histogram_kernel import observe_one
from kbroker.metrics.labels import VALUES
from kbroker.metrics.metric import Kind, Metric, Source


class MetricWords(Struct, frozen=True):
    """Words of a metric in a row: words [start, start + size); one series is `width` words."""

    metric: Metric
    start: int
    shape: tuple[int, ...]
    width: int

    @property
    def size(self) -> int:
        """Words of all series."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.width


def _metric_words() -> dict[str, MetricWords]:
    places = {}
    start = 0
    for metric in CATALOG:
        if metric.source is not Source.ROW:
            continue
        shape = tuple(len(VALUES[label]) for label in metric.labels)
        width = layout.HISTOGRAM_WORDS if metric.kind is Kind.HISTOGRAM else 1
        place = places[metric.name] = MetricWords(metric, start, shape, width)
        start += place.size
    return places


METRIC_WORDS = _metric_words()
ROW_WORDS = -(-sum(place.size for place in METRIC_WORDS.values()) // 512) * 512
"""Words of one process's row, whole pages. Most are never touched, and untouched pages cost
nothing."""


def bind(name: str, **labels: int | str) -> int:
    """Slot number of a series: of its only word, or of a histogram's first.

    A label is given by value or by index; one that is left out counts as index 0, which gives the
    base of its values. KeyError for an unknown metric or label, ValueError for an unknown value.
    """
    place = METRIC_WORDS[name]
    number = 0
    for label, count in zip(place.metric.labels, place.shape, strict=True):
        given = labels.pop(label, 0)
        index = given if isinstance(given, int) else VALUES[label].index(given)
        if not 0 <= index < count:
            raise ValueError(f"{name} has no {label} {given}")
        number = number * count + index
    if labels:
        raise KeyError(f"{name} has no label {', '.join(labels)}")
    return place.start + number * place.width


class Slots:
    """One process's row. Runs in: every process, for its own row. Owner: its creator.

    words: memoryview of int64, the cheapest to update from Python. address: of its first word, for
    kernels.
    """

    def __init__(self, row: NDArray[np.int64]) -> None:
        if len(row) < ROW_WORDS:
            raise ValueError(f"a row of metrics needs {ROW_WORDS} words, not {len(row)}")
        self.words = memoryview(row)  # type: ignore[arg-type]  # arrays are buffers since Python 3.12 to typing
        self.address = int(row.ctypes.data)

    def observe(self, histogram: int, nanoseconds: int) -> None:
        """Count one time into a histogram."""
        observe_one(self.address + 8 * histogram, nanoseconds)

    def clear_gauges(self) -> None:
        """Set the gauges of a process that has ended to 0; counters stay."""
        for place in METRIC_WORDS.values():
            if place.metric.kind is Kind.GAUGE:
                for number in range(place.start, place.start + place.size):
                    if self.words[number]:
                        self.words[number] = 0


def private() -> Slots:
    """Private slots, for code that runs without a broker."""
    return Slots(np.zeros(ROW_WORDS, np.int64))
