"""`kbroker topics copy`: creates a topic with the settings of another, and copies its records on
request."""

import time
from functools import partial
from typing import Annotated, Any

import typer

from kbroker.cli.client_properties import parse_pairs
from kbroker.cli.completion import complete_topic, complete_topic_value
from kbroker.cli.connection import Connection
from kbroker.cli.consuming import Bounds, Reader, Start
from kbroker.cli.failures import CommandFailed, explain, result_of
from kbroker.cli.options import DryRun, connected, examples
from kbroker.cli.output import say
from kbroker.cli.produce import ALL_SIZES, Sending, summary
from kbroker.cli.record_format import UNREADABLE, ConsumedRecord
from kbroker.cli.record_lines import NewRecord
from kbroker.cli.topic_description import describe_topic, of_new_topic

EXAMPLES = examples(
    "# partitions and settings",
    "kbroker topics copy orders orders-empty",
    "# the records, too; each stays in its partition",
    "kbroker topics copy orders orders-saved --records",
    "# more partitions: records are partitioned by their keys again",
    "kbroker topics copy orders orders-wide --records --partitions 12 -c retention.ms=-1",
)


Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="KEY=VALUE",
        help="A setting that differs from the source; repeatable.",
        autocompletion=complete_topic_value,
    ),
]


@connected
def copy(
    broker: Connection,
    source: Annotated[str, typer.Argument(show_default=False, autocompletion=complete_topic)],
    target: Annotated[str, typer.Argument(help="Name of the new topic.", show_default=False)],
    records: Annotated[
        bool,
        typer.Option(
            "--records", help="Copy the existing records, without those of open and aborted transactions."
        ),
    ] = False,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            "-p",
            min=1,
            max=100_000,
            help="Number of partitions.",
            show_default="as the source",
        ),
    ] = None,
    config: Changes = None,
    validate_only: DryRun = False,
) -> None:
    """Create a topic with the partitions, replication factor and settings of another.

    --records copies records with keys, values, headers and timestamps; offsets begin at 0. If that
    fails or is stopped by Ctrl-C, the new topic is removed, with all that is in it."""
    from confluent_kafka.admin import NewTopic

    changes = parse_pairs("--config", config or [])
    admin = broker.admin()
    described = describe_topic(admin, source, broker.timeout_s)
    was = described["partitions"]
    settings = described["configs"] | changes
    new_topic = NewTopic(target, partitions or len(was), len(was[0]["replicas"]), config=settings)
    answers = admin.create_topics(
        [new_topic],
        request_timeout=broker.timeout_s,
        operation_timeout=broker.timeout_s,
        validate_only=validate_only,
    )
    result_of(answers[target], target)
    say(f"{target}: {'would be created' if validate_only else 'created'} like {source}")
    if records and not validate_only:
        say(_copy_or_remove(broker, source, target, keep_partitions=partitions in (None, len(was))))


def _copy_or_remove(broker: Connection, source: str, target: str, *, keep_partitions: bool) -> str:
    """Returns a line about what was copied."""
    describe = partial(describe_topic, broker.admin(), target, broker.timeout_s)
    created = of_new_topic(describe, broker.timeout_s)["id"]
    try:
        return _copy_records(broker, source, target, keep_partitions=keep_partitions)
    except BaseException:  # also Ctrl-C
        _remove_incomplete(broker, target, created)
        raise


def _remove_incomplete(broker: Connection, target: str, created: str) -> None:
    """Delete the new topic: the next attempt would be refused, and a client would miss records.
    created: its id. Another topic of the name is not deleted."""
    try:
        admin = broker.admin()
        if describe_topic(admin, target, broker.timeout_s)["id"] != created:
            return
        deleted = admin.delete_topics(
            [target], request_timeout=broker.timeout_s, operation_timeout=broker.timeout_s
        )
        result_of(deleted[target], target)
    except Exception as error:
        if explain(error) is None:
            raise
        say(f"{target}: the copy is incomplete; `kbroker topics delete {target}` removes it")
    else:
        say(f"{target}: removed, because the copy is incomplete")


def _copy_records(broker: Connection, source: str, target: str, *, keep_partitions: bool) -> str:
    """Returns a line about what was copied."""
    began = time.monotonic()
    settings: dict[str, Any] = {
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 20,
    }
    everything = Start(whence="earliest")
    reader = Reader(broker, [source], [], None, everything, Bounds(until_end=True), settings)
    writing = {
        "acks": "all",
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "delivery.report.only.error": True,
        "delivery.timeout.ms": int(broker.timeout_s * 1000),
        "linger.ms": 5,
        **ALL_SIZES,
    }
    sending = Sending(broker.producer(writing), target, None)
    try:
        for batch in reader:
            for record in batch:
                sending.send(_again(record, keep_partitions))
            if sending.first_error is not None:
                break
    finally:
        try:
            reader.close()
            sending.finish(broker.timeout_s)
        finally:
            sending.producer.purge()  # what is left might create the topic again
    return f"{target}: {summary(sending.sent, sending.sent_bytes, time.monotonic() - began)}"


def _again(record: ConsumedRecord, keep_partition: bool) -> NewRecord:
    """The record to write. Raises CommandFailed for one that librdkafka would change."""
    if record.timestamp == 0:
        raise CommandFailed(
            f"{record.topic}-{record.partition}: the record at offset {record.offset} has timestamp 0, "
            "which librdkafka replaces by the present time"
        )
    if record.headers is UNREADABLE:
        raise CommandFailed(
            f"{record.topic}-{record.partition}: the record at offset {record.offset} has headers with a name that is "
            "not UTF-8, which librdkafka does not read"
        )
    return NewRecord(
        record.key,
        record.value,
        list(record.headers),
        record.partition if keep_partition else None,
        record.timestamp if record.timestamp >= 0 else None,
    )
