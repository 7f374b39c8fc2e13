"""Names and labels of series as text, cached between scrapes: a scrape only adds numbers."""

from collections.abc import Iterator, Mapping, Sequence

from kbroker.metrics.metric import Metric

MAX_KEPT = 100_000

_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})


def escaped_help(text: str, openmetrics: bool) -> str:
    """The text of a HELP line."""
    return text.translate(_ESCAPES if openmetrics else _HELP_ESCAPES)


def labels_text(names: Sequence[str], values: Sequence[str]) -> str:
    """The text of labels between the braces."""
    pairs = zip(names, values, strict=False)
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs)


def aliases(metric: Metric) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Other names of a row's samples, with the names of their labels."""
    if not metric.kafka:
        return ()
    return ((metric.kafka, metric.kafka_labels or metric.shown_labels),)


def prefix(name: str, labels: Sequence[str], values: Sequence[str]) -> str:
    """A sample's line up to its value."""
    return f"{name}{{{labels_text(labels, values)}}} " if labels and values else f"{name} "


class Prefixes:
    """Prefixes of single samples. Runs in: http. Owner: the collector."""

    def __init__(self, rows: Mapping[str, Metric]) -> None:
        self._rows = rows
        self._kept: dict[tuple[str, tuple[str, ...]], tuple[str, tuple[tuple[str, str], ...]]] = {}

    def of(self, name: str, values: tuple[str, ...]) -> tuple[str, tuple[tuple[str, str], ...]]:
        """(prefix, (name, prefix) of each alias)."""
        key = name, values
        found = self._kept.get(key)
        if found is None:
            metric = self._rows[name]
            if len(values) != len(metric.shown_labels):
                raise ValueError(f"{name} has the labels {metric.shown_labels}, not {values}")
            others = tuple((alias, prefix(alias, labels, values)) for alias, labels in aliases(metric))
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()
            found = self._kept[key] = prefix(name, metric.shown_labels, values), others
        return found


class Labels:
    """Label sets that several metrics share, such as those of all partitions, with their
    prefixes."""

    def __init__(self, values: Sequence[tuple[str, ...]]) -> None:
        self.values = values
        self._prefixes: dict[str, list[str]] = {}

    def prefixes(self, metric: Metric) -> Iterator[tuple[str, list[str]]]:
        """Name and prefixes of a metric, and of each alias."""
        for name, labels in ((metric.name, metric.shown_labels), *aliases(metric)):
            found = self._prefixes.get(name)
            if found is None:
                found = self._prefixes[name] = [prefix(name, labels, values) for values in self.values]
            yield name, found


class KeptLabels:
    """Caches the label sets of the last scrape until they change. Runs in: http."""

    def __init__(self) -> None:
        self._last = Labels(())

    def of(self, values: Sequence[tuple[str, ...]]) -> Labels:
        """The cached label sets, or new ones if they have changed."""
        if self._last.values != values:
            self._last = Labels(values)
        return self._last
