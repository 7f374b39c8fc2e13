"""The families of one scrape: one for each row of the catalogue, and for each of Kafka's names."""

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.core import Metric as Family

from kbroker.metrics import layout as ml
from kbroker.metrics.bounds import EXPORTED, quantile_ns
from kbroker.metrics.catalog import CATALOG
from kbroker.metrics.kafka import KAFKA
from kbroker.metrics.metric import Kind, Metric

ROWS: Mapping[str, Metric] = {metric.name: metric for metric in (*CATALOG, *KAFKA)}
QUANTILES = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")


class Families:
    """Samples are added by the names of the catalogue; the aliases of a row get the same samples.

    kafka: whether Kafka's names are wanted.
    """

    def __init__(self, kafka: bool) -> None:
        self.kafka = kafka
        self._families: dict[str, Family] = {}
        for metric in CATALOG:
            self._start(metric.name, metric.kind, metric.help)
        if not kafka:
            return
        for metric in KAFKA:
            self._start(metric.name, metric.kind, metric.help)
        for metric in CATALOG:
            if metric.kafka and metric.kafka not in self._families:
                self._start(metric.kafka, metric.kind, f"As {metric.name}.")

    def _start(self, name: str, kind: Kind, help_text: str) -> None:
        typ = kind.value
        if kind is Kind.COUNTER and not name.endswith("_total"):
            typ = "unknown"  # a counter has another name in both text formats
        self._families[name] = Family(
            name.removesuffix("_total") if typ == "counter" else name, help_text, typ
        )

    def __iter__(self) -> Iterator[Family]:
        return iter(self._families.values())

    def add(self, name: str, values: Sequence[str], value: float) -> None:
        """One sample; values are those of the row's labels, in its order."""
        metric = ROWS[name]
        labels = dict(zip(metric.shown_labels, values, strict=True))
        self._families[name].add_sample(name, labels, value)
        if metric.kafka and self.kafka:
            names = metric.kafka_labels or metric.shown_labels
            self._families[metric.kafka].add_sample(
                metric.kafka, dict(zip(names, values, strict=False)), value
            )

    def add_total(self, name: str, value: float) -> None:
        """The sum over everything of a Kafka name that a row of the catalogue has by topic."""
        self._families[name].add_sample(name, {}, value)

    def add_histogram(self, name: str, values: Sequence[str], words: Sequence[int]) -> None:
        """One histogram from its slots, with the exported bounds."""
        labels = dict(zip(ROWS[name].shown_labels, values, strict=True))
        family = self._families[name]
        below, at = 0, 0
        for seconds, buckets in EXPORTED:
            below += sum(words[at:buckets])
            at = buckets
            family.add_sample(name + "_bucket", {**labels, "le": repr(round(seconds, 6))}, below)
        below += sum(words[at : ml.HISTOGRAM_BUCKETS])
        family.add_sample(name + "_bucket", {**labels, "le": "+Inf"}, below)
        family.add_sample(name + "_count", labels, below)
        family.add_sample(name + "_sum", labels, words[ml.HISTOGRAM_SUM] * 1e-9)

    def add_times_ms(
        self, name: str, labels: Mapping[str, str], recent: Sequence[int], total: Sequence[int]
    ) -> None:
        """One of Kafka's histograms: quantiles of recent values, in ms, and the count of all."""
        family = self._families[name]
        if sum(recent[: ml.HISTOGRAM_BUCKETS]) == 0:
            recent = total
        for quantile in QUANTILES:
            value = quantile_ns(recent[: ml.HISTOGRAM_BUCKETS], float(quantile)) / 1e6
            family.add_sample(name, {**labels, "quantile": quantile}, value)
        family.add_sample(name + "_count", dict(labels), sum(total[: ml.HISTOGRAM_BUCKETS]))
        family.add_sample(name + "_sum", dict(labels), total[ml.HISTOGRAM_SUM] / 1e6)
