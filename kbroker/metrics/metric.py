"""One metric of the catalogue."""

from enum import Enum

from msgspec import Struct


class Kind(Enum):
    """Prometheus types."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"


class Source(Enum):
    """Source of a metric's value."""

    ROW = "each process's slots"
    PARTITION = "partition slots and counters"
    BROKER = "the state of the whole broker"
    HOST = "the operating system"
    GROUP = "control"
    CLIENT = "control, of clients"


class Metric(Struct, frozen=True):
    """One row of the catalogue.

    name: with Prometheus' suffixes. labels: in the order of a row's dimensions; those of ROW
    metrics have fixed value sets (``labels.VALUES``). by_process: shown for each process with the
    label ``process``, instead of summed. scale: slot value times scale is the exported value (1e-9
    for slots that count ns). kafka: the metric of Kafka's exporters that is the same series under
    other names, with its label names in `kafka_labels`; "" for none.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    source: Source = Source.ROW
    by_process: bool = False
    role: str = ""
    scale: float = 1.0
    kafka: str = ""
    kafka_labels: tuple[str, ...] = ()

    @property
    def shown_labels(self) -> tuple[str, ...]:
        """Label names of the exported series."""
        return (*self.labels, "process") if self.by_process else self.labels


def counter(name: str, help: str, *labels: str, **more: object) -> Metric:  # noqa: A002  Prometheus' word
    """A row that only grows."""
    return Metric(name, Kind.COUNTER, help, labels, **more)  # type: ignore[arg-type]


def gauge(name: str, help: str, *labels: str, **more: object) -> Metric:  # noqa: A002
    """A row that goes up and down."""
    return Metric(name, Kind.GAUGE, help, labels, **more)  # type: ignore[arg-type]


def histogram(name: str, help: str, *labels: str, **more: object) -> Metric:  # noqa: A002
    """A row of times; slots hold ns, the export seconds."""
    return Metric(name, Kind.HISTOGRAM, help, labels, scale=1e-9, **more)  # type: ignore[arg-type]
