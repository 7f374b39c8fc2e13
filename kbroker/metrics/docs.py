"""docs/metrics.md, from the catalogue: ``python -m kbroker.metrics.docs`` prints it."""

import sys
from collections.abc import Iterable

from kbroker.metrics.bounds import EXPORTED
from kbroker.metrics.catalog import CATALOG
from kbroker.metrics.kafka import KAFKA
from kbroker.metrics.labels import VALUES
from kbroker.metrics.metric import Metric, Source

SECTIONS = {
    Source.ROW: "Counted by the processes of the broker",
    Source.PARTITION: "Topics and partitions",
    Source.BROKER: "The broker as a whole",
    Source.HOST: "Processes and host",
    Source.GROUP: "Groups",
    Source.CLIENT: "Clients",
}

HEAD = f"""# Metrics

Look up what a series means and what Kafka's dashboards call it; [alerts](alerts.md) says
which to watch. The http process serves them at `http://127.0.0.1:9404/metrics` (setting
`kbroker.http.listen`) in Prometheus' text format or in OpenMetrics, as the scraper requests; `/healthz`
and `/readyz` on the same port answer 200, or 503 with the reason.

Each process counts in slots of shared memory; a scrape sums them. Counters survive the restart of a
process, not of
the broker. Histograms have the bounds 100 µs · 2^k up to {EXPORTED[-1][0]:.1f} s. Series that have counted
nothing yet
are left out.

`kbroker.metrics.kafka.names=true` (the default) adds the names that dashboards for Kafka use: the third
column, and
the last table. A scrape can leave them out with `/metrics?names=kbroker`, or request only them with
`/metrics?names=kafka`. With 1,000 partitions and a group on each, a scrape is 2.5 MB under both names (131
kB compressed), and 0.95 MB without Kafka's (61 kB). In Prometheus: `params: {{names: [kbroker]}}`.

A scrape is bounded: `kbroker.metrics.partitions.max` topics, partitions, groups and partitions of groups
have series of their own: the busiest ones and those with the largest lag. A group or a partition of a group
that has series keeps them until another one has a lag that is larger by a quarter. Of equal lags, each group
has one partition before a group has a second one: first those without a committed offset. If such a
partition is empty, it has series only when there is room after all others. Each of these groups has the
sum of its lag, `kbroker_group_lag_sum`. `kbroker_topics_left_out`,
`kbroker_partitions_left_out`,
`kbroker_groups_left_out` and `kbroker_group_partitions_left_out` count the others; sums include them.
`kbroker_log_page_cache_bytes` has the same bound. `kbroker.metrics.details.max` partitions, the busiest,
also have the number of segments and writes and the durable offset, under kbroker's names; a sum of
these series is one of the partitions shown. So many
partitions of a group have the lag in seconds: those where it is largest.
`kbroker_log_high_watermark` and `kbroker_log_last_stable_offset` have a series only while they differ from
the next larger offset. This expression has a value for each partition:

```text
kbroker_log_last_stable_offset or kbroker_log_high_watermark or kbroker_log_end_offset
```

`/metrics?name[]=kbroker_log_bytes&name[]=kbroker_group_lag` returns only these families. The response is
compressed with gzip if the scraper accepts it.
"""


def page() -> str:
    """The whole text."""
    parts = [HEAD]
    for source, title in SECTIONS.items():
        parts.append(f"## {title}\n\n| metric | type | also as | meaning |\n|---|---|---|---|")
        parts.append("\n".join(_line(metric) for metric in CATALOG if metric.source is source) + "\n")
    parts.append("## Values of labels\n\n| label | values |\n|---|---|")
    parts.append("\n".join(_values()) + "\n")
    parts.append(
        "## Names of Kafka's dashboards that are more than another name\n\n| metric | type | meaning |\n|---|---|---|"
    )
    parts.append("\n".join(f"| `{shown(row)}` | {row.kind.value} | {row.help} |" for row in KAFKA) + "\n")
    return "\n".join(parts)


def shown(metric: Metric) -> str:
    """Name and labels."""
    labels = ", ".join(metric.shown_labels)
    return f"{metric.name}{{{labels}}}" if labels else metric.name


def _line(metric: Metric) -> str:
    alias = f"`{metric.kafka}`" if metric.kafka else ""
    return f"| `{shown(metric)}` | {metric.kind.value} | {alias} | {metric.help} |"


def _values() -> Iterable[str]:
    yield "| api | names of Kafka's API keys: Produce, Fetch, ... |"
    yield "| error | names of Kafka's error codes: NONE, OFFSET_OUT_OF_RANGE, ... |"
    yield "| listener | name of the listener |"
    yield "| process | acceptor, control, http, io-N, network-N |"
    for label in ("phase", "operation", "role", "why", "path"):
        yield f"| {label} | {', '.join(VALUES[label])} |"


if __name__ == "__main__":
    sys.stdout.write(page())
