"""`kbroker topics list`: topics with partitions and optionally records, bytes and rates."""

import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Annotated, Any

import typer
from msgspec import Struct

from kbroker.cli.connection import Connection
from kbroker.cli.log_dirs import described
from kbroker.cli.options import AsJson, connected, examples, name_matcher
from kbroker.cli.output import print_json, print_table
from kbroker.cli.partitions import Partition, earliest, latest

INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
MAX_RATE_S = 3600

EXAMPLES = examples(
    "kbroker topics list",
    "kbroker topics list 'orders.*' --json",
    "kbroker topics list --sizes",
    "# write rates, measured for five seconds",
    "kbroker topics list --rates 5",
    "kbroker topics list --under-replicated",
)


class Sizes(Struct, frozen=True):
    """A snapshot of the logs. written: high watermarks; bytes: size of each partition's log on its
    leader."""

    at: float
    starts: dict[Partition, int]
    written: dict[Partition, int]
    bytes: dict[Partition, int]


@connected
def list_topics(
    broker: Connection,
    pattern: Annotated[
        str | None,
        typer.Argument(help="Regular expression that must match the whole name.", show_default=False),
    ] = None,
    exclude_internal: Annotated[
        bool, typer.Option("--exclude-internal", help="Leave out internal topics.")
    ] = False,
    under_replicated: Annotated[
        bool,
        typer.Option("--under-replicated", help="Only topics with under-replicated partitions."),
    ] = False,
    sizes: Annotated[
        bool, typer.Option("--sizes", help="Also show records (counted by offsets) and bytes.")
    ] = False,
    rates_s: Annotated[
        float | None,
        typer.Option(
            "--rates",
            metavar="SECONDS",
            min=0.1,
            max=MAX_RATE_S,
            help="Also show write rates, measured for this time.",
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """List topics with their numbers of partitions and replicas."""
    matches = name_matcher(pattern)
    found = broker.admin().list_topics(timeout=broker.timeout_s).topics
    shown = {
        name: found[name]
        for name in sorted(found)
        if matches(name)
        and not (exclude_internal and name in INTERNAL)
        and not (under_replicated and not short_of_replicas(found[name]))
    }
    rows = [_row(name, topic, under_replicated) for name, topic in shown.items()]
    if sizes or rates_s is not None:
        _add_sizes(broker, shown, rows, rates_s)
    if json:
        print_json(rows)
    else:
        _print(rows, under_replicated, sizes or rates_s is not None, rates_s is not None)


def short_of_replicas(topic: Any) -> list[int]:
    """Partitions with fewer in-sync replicas than replicas."""
    return sorted(number for number, p in topic.partitions.items() if len(p.isrs) < len(p.replicas))


def _row(name: str, topic: Any, under_replicated: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "topic": name,
        "partitions": len(topic.partitions),
        "replication_factor": max((len(p.replicas) for p in topic.partitions.values()), default=0),
    }
    return row | ({"under_replicated": short_of_replicas(topic)} if under_replicated else {})


def _add_sizes(
    broker: Connection, topics: dict[str, Any], rows: list[dict[str, Any]], rates_s: float | None
) -> None:
    leaders = {(name, n): p.leader for name, topic in topics.items() for n, p in topic.partitions.items()}
    first = _read_logs(broker, leaders)
    last = first
    if rates_s is not None:
        time.sleep(rates_s)
        last = _read_logs(broker, leaders)
    records = _by_topic((p, max(end - last.starts[p], 0)) for p, end in last.written.items())
    size = _by_topic(last.bytes.items())
    new_records = _by_topic((p, max(end - first.written[p], 0)) for p, end in last.written.items())
    new_bytes = _by_topic((p, max(now - first.bytes.get(p, 0), 0)) for p, now in last.bytes.items())
    for row in rows:
        name = row["topic"]
        row |= {"records": records[name], "bytes": size[name]}
        if rates_s is not None:
            seconds = last.at - first.at
            row["records_per_second"] = round(new_records[name] / seconds, 1)
            row["bytes_per_second"] = round(new_bytes[name] / seconds, 1)


def _by_topic(amounts: Iterable[tuple[Partition, int]]) -> dict[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for (topic, _), amount in amounts:
        sums[topic] += amount
    return sums


def _read_logs(broker: Connection, leaders: dict[Partition, int]) -> Sizes:
    """Read offsets and sizes of these partitions; those without a leader have no offsets. Raises
    CommandFailed."""
    admin = broker.admin()
    led = [partition for partition, leader in leaders.items() if leader >= 0]
    at = time.monotonic()
    written = latest(broker, admin, led)
    starts = earliest(broker, admin, led)
    return Sizes(at, starts, written, _bytes(broker, leaders))


def _bytes(broker: Connection, leaders: dict[Partition, int]) -> dict[Partition, int]:
    """Bytes of each partition on its leader, or of its largest replica if it has no leader."""
    with broker.kafka_python_admin() as client:
        log_dirs = list(described(client.describe_log_dirs()))
    found: dict[Partition, int] = {}
    for log_dir in log_dirs:
        for log in log_dir.logs:
            partition = (log.topic, log.partition)
            leader = leaders.get(partition)
            if leader is None or log.future or leader not in (log_dir.broker, -1):
                continue
            found[partition] = max(found.get(partition, 0), log.bytes)
    return found


def _print(rows: list[dict[str, Any]], under_replicated: bool, sizes: bool, rates: bool) -> None:
    headers = ["TOPIC", "PARTITIONS", "REPLICAS"]
    headers += ["UNDER-REPLICATED"] if under_replicated else []
    headers += ["RECORDS", "BYTES"] if sizes else []
    headers += ["RECORDS/S", "BYTES/S"] if rates else []
    print_table(headers, [list(row.values()) for row in rows])
