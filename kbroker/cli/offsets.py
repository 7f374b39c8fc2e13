"""`kbroker offsets`: earliest and latest offsets of partitions, and offsets by time."""

import time
from typing import Annotated, Any

import typer

from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed, raise_first
from kbroker.cli.options import AsJson, Scopes, connected, examples
from kbroker.cli.output import print_json, print_table
from kbroker.cli.partitions import earliest, latest, list_offsets, scoped, without_leader
from kbroker.cli.points_in_time import TIME_HELP, format_time, parse_time_ms

EXAMPLES = examples(
    "kbroker offsets orders",
    "kbroker offsets orders:0,1 --at 2h",
    "kbroker offsets orders --max-timestamp --json",
)


@connected
def offsets(
    broker: Connection,
    topics: Scopes,
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help=f"Also the first offset at or after a time: {TIME_HELP}"),
    ] = None,
    max_timestamp: Annotated[
        bool,
        typer.Option("--max-timestamp", help="Also the offset of the record with the largest timestamp."),
    ] = False,
    read_committed: Annotated[
        bool,
        typer.Option("--read-committed", help="Up to the last stable offset, before any open transaction."),
    ] = False,
    json: AsJson = False,
) -> None:
    """Show the earliest and latest offset of each partition, and optionally the offset of a
    time."""
    from confluent_kafka.admin import OffsetSpec

    timestamp_ms = None if at is None else parse_time_ms(at, int(time.time() * 1000))
    admin = broker.admin()
    requested = scoped(admin, topics, broker.timeout_s)
    dead = without_leader(admin, requested, broker.timeout_s)
    partitions = [each for each in requested if each not in dead]
    starts = earliest(broker, admin, partitions)
    ends = latest(broker, admin, partitions, committed=read_committed)
    rows = [_row(each, starts[each], ends[each]) for each in partitions]
    if timestamp_ms is not None:
        found = list_offsets(
            broker, admin, OffsetSpec.for_timestamp(timestamp_ms), partitions, committed=read_committed
        )
        for row, partition in zip(rows, partitions, strict=True):
            row["at"] = _held(found[partition][0])
    if max_timestamp:
        found = list_offsets(broker, admin, OffsetSpec.max_timestamp(), partitions, committed=read_committed)
        for row, partition in zip(rows, partitions, strict=True):
            row["max_timestamp_offset"], row["max_timestamp"] = map(_held, found[partition])
    keys = list(rows[0] if rows else ("topic", "partition", "earliest", "latest", "records"))
    rows += [{**dict.fromkeys(keys), "topic": topic, "partition": number} for topic, number in dead]
    _print(sorted(rows, key=lambda row: (row["topic"], row["partition"])), json)
    raise_first([CommandFailed(f"{topic}-{number}: it has no leader") for topic, number in sorted(dead)])


def _row(partition: tuple[str, int], start: int, end: int) -> dict[str, Any]:
    topic, number = partition
    return {"topic": topic, "partition": number, "earliest": start, "latest": end, "records": end - start}


def _held(number: int) -> int | None:
    """An offset or a timestamp; None if the answer has none."""
    return number if number >= 0 else None


def _print(rows: list[dict[str, Any]], json: bool) -> None:
    if json:
        print_json(rows)
        return
    headers = [key.upper().replace("_", "-") for key in (rows[0] if rows else {})]
    for row in rows:
        if row.get("max_timestamp") is not None:
            row["max_timestamp"] = format_time(int(row["max_timestamp"]))
    print_table(headers, [list(row.values()) for row in rows])
