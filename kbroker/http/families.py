"""The families of one scrape, as text: one for each row of the catalogue and for each Kafka
name."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum

from kbroker.http.series import Labels, Prefixes, aliases, escaped_help, labels_text
from kbroker.metrics import layout as ml
from kbroker.metrics.bounds import EXPORTED, quantile_ns
from kbroker.metrics.catalog import CATALOG
from kbroker.metrics.kafka import KAFKA
from kbroker.metrics.metric import Kind, Metric

OWN = frozenset(metric.name for metric in CATALOG)
ROWS: Mapping[str, Metric] = {metric.name: metric for metric in (*CATALOG, *KAFKA)}
QUANTILES = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
BOUNDS = tuple(repr(round(seconds, 6)) for seconds, _ in EXPORTED)
PARTS = ("_total", "_bucket", "_count", "_sum")


class Dialect(StrEnum):
    """The names that a scrape requests: all, kbroker's or Kafka's."""

    ALL = "all"
    KBROKER = "kbroker"
    KAFKA = "kafka"


class Families:
    """Samples are added by their names in the catalogue; the aliases of a row get the same samples.
    kafka: include Kafka's names. prefixes: cached by the caller between scrapes.
    """

    def __init__(self, kafka: bool, prefixes: Prefixes | None = None) -> None:
        self.kafka = kafka
        self._prefixes = Prefixes(ROWS) if prefixes is None else prefixes
        self._kinds: dict[str, tuple[Kind, str]] = {}
        for metric in (*CATALOG, *(KAFKA if kafka else ())):
            self._kinds[metric.name] = metric.kind, metric.help
        for metric in CATALOG if kafka else ():
            for name, _ in aliases(metric):
                self._kinds.setdefault(name, (metric.kind, f"As {metric.name}."))
        self._lines: dict[str, list[str]] = {name: [] for name in self._kinds}

    def add(self, name: str, values: Sequence[str], value: float) -> None:
        """One sample; values are those of the row's labels, in its order."""
        own, others = self._prefixes.of(name, tuple(values))
        shown = number(value)
        self._lines[name].append(own + shown)
        if others and self.kafka:
            for alias, prefix in others:
                self._lines[alias].append(prefix + shown)

    def add_all(
        self, name: str, labels: Labels, values: Iterable[float], dialect: Dialect = Dialect.ALL
    ) -> None:
        """Samples of many label sets, one value for each. dialect: whose names get them."""
        written = [
            (each, prefixes)
            for each, prefixes in labels.prefixes(ROWS[name])
            if self._is_written(each == name, dialect)
        ]
        shown = [number(value) for value in values] if written else []
        for each, prefixes in written:
            self._lines[each] += [prefix + value for prefix, value in zip(prefixes, shown, strict=True)]

    def _is_written(self, own: bool, dialect: Dialect) -> bool:
        """Whether samples are written. own: under kbroker's name, else under one of Kafka's."""
        if own:
            return dialect is not Dialect.KAFKA
        return self.kafka and dialect is not Dialect.KBROKER

    def add_total(self, name: str, value: float) -> None:
        """Add the total under a Kafka name whose row in the catalogue has a sample for each
        topic."""
        self._lines[name].append(f"{name} {number(value)}")

    def add_histogram(self, name: str, values: Sequence[str], words: Sequence[int]) -> None:
        """One histogram from its slots, with the exported bounds."""
        pairs = labels_text(ROWS[name].shown_labels, values)
        front = f'{name}_bucket{{{pairs + "," if pairs else ""}le="'
        lines = self._lines[name]
        below, at = 0, 0
        for bound, (_, buckets) in zip(BOUNDS, EXPORTED, strict=True):
            below += sum(words[at:buckets])
            at = buckets
            lines.append(f'{front}{bound}"}} {below}')
        below += sum(words[at : ml.HISTOGRAM_BUCKETS])
        braces = f"{{{pairs}}}" if pairs else ""
        lines.append(f'{front}+Inf"}} {below}')
        lines.append(f"{name}_count{braces} {below}")
        lines.append(f"{name}_sum{braces} {number(words[ml.HISTOGRAM_SUM] * 1e-9)}")

    def add_times_ms(
        self, name: str, labels: Mapping[str, str], recent: Sequence[int], total: Sequence[int]
    ) -> None:
        """One of Kafka's histograms: quantiles of recent values, in ms, and the count of all."""
        pairs = labels_text(tuple(labels), tuple(labels.values()))
        front = f'{name}{{{pairs + "," if pairs else ""}quantile="'
        braces = f"{{{pairs}}}" if pairs else ""
        lines = self._lines[name]
        if sum(recent[: ml.HISTOGRAM_BUCKETS]) == 0:
            recent = total
        for quantile in QUANTILES:
            value = quantile_ns(recent[: ml.HISTOGRAM_BUCKETS], float(quantile)) / 1e6
            lines.append(f'{front}{quantile}"}} {number(value)}')
        lines.append(f"{name}_count{braces} {sum(total[: ml.HISTOGRAM_BUCKETS])}")
        lines.append(f"{name}_sum{braces} {number(total[ml.HISTOGRAM_SUM] / 1e6)}")

    def text(self, openmetrics: bool, names: Collection[str] = (), dialect: Dialect = Dialect.ALL) -> bytes:
        """The text of the answer. names: of the requested families, or of their samples; none:
        all. dialect: the families to include."""
        requested = {*names, *(name.removesuffix(part) for name in names for part in PARTS)}
        out = []
        for name, (kind, text) in self._kinds.items():
            base = name.removesuffix("_total")
            if requested and not requested & {name, base}:
                continue
            if dialect is Dialect.KAFKA and name in OWN:
                continue
            shown, word = name, kind.value
            if kind is Kind.COUNTER and base == name:  # a counter has another name in both text formats
                word = "unknown" if openmetrics else "untyped"
            elif kind is Kind.COUNTER and openmetrics:
                shown = base
            out.append(f"# HELP {shown} {escaped_help(text, openmetrics)}")
            out.append(f"# TYPE {shown} {word}")
            out += self._lines[name]
        out.append("# EOF\n" if openmetrics else "")
        return "\n".join(out).encode()


def number(value: float) -> str:
    """A sample's value as both formats write it."""
    if math.isfinite(value):
        return repr(value) if type(value) in (int, float) else repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
