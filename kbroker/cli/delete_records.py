"""`kbroker topics delete-records`: deletes records before an offset or a time."""

import re
import time
from typing import Annotated

import typer

from kbroker.cli.completion import complete_topic
from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed, UsageFailed, raise_first, result_of
from kbroker.cli.options import AsJson, Yes, confirm, connected, examples
from kbroker.cli.output import print_json, print_table
from kbroker.cli.partitions import Partition, before_time, parse_scope, scoped
from kbroker.cli.points_in_time import TIME_HELP, format_time, parse_time_ms
from kbroker.config.whole_numbers import whole_number
from kbroker.protocol.errors import ErrorCode

MAX_PARTITION = (1 << 31) - 1
MAX_OFFSET = (1 << 63) - 1

EXAMPLES = examples(
    "kbroker topics delete-records orders:0:50 orders:1:-1 --yes",
    "# records older than a week in some partitions, or before a date in a whole topic",
    "kbroker topics delete-records orders:0,1 --before 7d --yes",
    "kbroker topics delete-records orders --before 2026-01-31T12:00:00+01:00 --yes",
)


@connected
def delete_records(
    broker: Connection,
    scopes: Annotated[
        list[str],
        typer.Argument(
            metavar="TOPIC:PARTITION:OFFSET",
            autocompletion=complete_topic,
            help="Offset -1 is the end. With --before: TOPIC[:PARTITIONS].",
            show_default=False,
        ),
    ],
    before: Annotated[
        str | None,
        typer.Option(metavar="TIME", help=f"Delete records before the first at or after TIME: {TIME_HELP}"),
    ] = None,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Delete all records before an offset or a time; the log then starts there."""
    from confluent_kafka import TopicPartition

    if before is None:
        offsets = _limits(scopes)
        confirm(f"Delete records before {', '.join(scopes)}?", yes)
        scoped(broker.admin(), [f"{topic}:{number}" for topic, number in offsets], broker.timeout_s)
    else:
        time_ms = parse_time_ms(before, int(time.time() * 1000))
        for text in scopes:
            parse_scope(text)
        confirm(f"Delete records of {', '.join(scopes)} from before {format_time(time_ms)}?", yes)
        admin = broker.admin()
        offsets = before_time(broker, admin, scoped(admin, scopes, broker.timeout_s), time_ms)
    limits = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
    answers = broker.admin().delete_records(limits, request_timeout=broker.timeout_s)
    rows = []
    failures = []
    for partition, future in answers.items():
        try:
            answer = result_of(future, f"{partition.topic}-{partition.partition}")
        except CommandFailed as failure:
            failures.append(_with_reason(failure))
        else:
            rows.append((partition.topic, partition.partition, answer.low_watermark))
    if not (rows or failures):
        raise CommandFailed("the broker answered for no partition")
    if json:
        print_json([{"topic": t, "partition": p, "log_start_offset": o} for t, p, o in rows])
    elif rows:
        print_table(("TOPIC", "PARTITION", "LOG-START-OFFSET"), rows)
    raise_first(failures)


def _with_reason(failure: CommandFailed) -> CommandFailed:
    if failure.error is not ErrorCode.POLICY_VIOLATION:
        return failure
    return CommandFailed(f"{failure.message}: its cleanup.policy has no delete")


def _limits(texts: list[str]) -> dict[Partition, int]:
    """The new log start of each partition. Raises UsageFailed for two of one partition."""
    found: dict[Partition, int] = {}
    for partition, offset in map(_parse, texts):
        if found.setdefault(partition, offset) != offset:
            where = f"{partition[0]}:{partition[1]}"
            raise UsageFailed(f"{where} has two offsets, {found[partition]} and {offset}: give only one")
    return found


def _parse(text: str) -> tuple[Partition, int]:
    found = re.fullmatch(r"(.+):([0-9]+):(-1|[0-9]+)", text)
    if not found:
        raise UsageFailed(
            f"{text!r}: expected TOPIC:PARTITION:OFFSET, or --before TIME with TOPIC[:PARTITIONS]"
        )
    partition = whole_number(found[2], MAX_PARTITION)
    offset = -1 if found[3] == "-1" else whole_number(found[3], MAX_OFFSET)
    if partition is None or offset is None:
        raise UsageFailed(f"{text!r}: the partition or the offset is too large")
    return (found[1], partition), offset
