"""`kbroker share-groups consume`: records that a share group assigns to this member, acknowledged
once they are printed (KIP-932)."""

import time
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbroker.cli.client_properties import client_settings
from kbroker.cli.connection import Connection
from kbroker.cli.consume import decoder_of, print_records, renderer_of
from kbroker.cli.consume_options import (
    ClientProperty,
    DecodeKeys,
    Delimiter,
    FormatText,
    IdleTimeout,
    Json,
    MaxMessages,
    PrintHeaders,
    PrintKey,
    PrintOffset,
    PrintTimestamp,
    Quiet,
    Registry,
    Separator,
)
from kbroker.cli.consuming import Bounds, check_reachable, consumed_record
from kbroker.cli.failures import CommandFailed, explain
from kbroker.cli.options import GroupId, Topics, connected, examples
from kbroker.cli.output import say
from kbroker.cli.partitions import partitions_of
from kbroker.cli.produce import summary
from kbroker.cli.record_format import ConsumedRecord, unescape

if TYPE_CHECKING:
    from confluent_kafka import Message

POLL_S = 0.1
EXAMPLES = examples(
    "kbroker share-groups consume workers orders --max-messages 10",
    "# print records and leave them to the other members",
    "kbroker share-groups consume workers orders --acknowledge release --idle-timeout 5 --print-key",
)


class Acknowledgement(StrEnum):
    """The fate of printed records."""

    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"


Acknowledge = Annotated[
    Acknowledgement,
    typer.Option(
        help="What to do with printed records: accept finishes them, release gives them to any member again, "
        "reject finishes them as failed (dead-letter topic)."
    ),
]


@connected
def consume(
    broker: Connection,
    group: GroupId,
    topics: Topics,
    acknowledge: Acknowledge = Acknowledgement.ACCEPT,
    max_messages: MaxMessages = None,
    idle_timeout_s: IdleTimeout = None,
    format_text: FormatText = None,
    json: Json = False,
    print_key: PrintKey = False,
    print_headers: PrintHeaders = False,
    print_timestamp: PrintTimestamp = False,
    print_offset: PrintOffset = False,
    separator: Separator = "\\t",
    delimiter: Delimiter = "\\n",
    registry: Registry = None,
    decode_keys: DecodeKeys = False,
    client_property: ClientProperty = None,
    quiet: Quiet = False,
) -> None:
    """Join a share group and print the records that it assigns, until Ctrl-C or a stop condition.

    Each record is acknowledged after it was printed. A new group starts at its setting
    share.auto.offset.reset, which is latest unless you change it."""
    began = time.monotonic()
    printed = {"T": print_timestamp, "po": print_offset, "h": print_headers, "k": print_key}
    render = renderer_of(json, format_text, printed, unescape(separator), unescape(delimiter))
    decoder = decoder_of(registry, decode_keys, broker.timeout_s)
    bounds = Bounds(max_messages=max_messages, idle_timeout_s=idle_timeout_s)
    reader = ShareReader(broker, group, topics, acknowledge, bounds, client_settings(client_property or []))
    count, size = print_records(reader, reader, render, decoder)
    if not quiet:
        say(summary(count, size, time.monotonic() - began))


class ShareReader:
    """Iterates over lists of records that the group has assigned. Owner: one `consume` command,
    which calls printed() for each list and close()."""

    def __init__(
        self,
        broker: Connection,
        group: str,
        topics: Sequence[str],
        acknowledgement: Acknowledgement,
        bounds: Bounds,
        settings: dict[str, Any],
    ) -> None:
        from confluent_kafka import AcknowledgeType  # type: ignore[attr-defined] # not in its stubs

        self.broker = broker
        self.bounds = bounds
        self.group = group
        self.stopped = False
        self._kind = AcknowledgeType[acknowledgement.name]
        self._release = AcknowledgeType.RELEASE
        self._taken: list[Message] = []
        own = {"group.id": group, "share.acknowledgement.mode": "explicit"}
        self.consumer = broker.share_consumer(own | settings)
        partitions_of(broker.admin(), topics, broker.timeout_s)  # raises for a topic that does not exist
        self.consumer.subscribe(list(topics))

    def __iter__(self) -> Iterator[list[ConsumedRecord]]:
        left = self.bounds.max_messages
        idle_since = time.monotonic()
        while not self.stopped and (left is None or left > 0):
            records = self._take(left)
            if records:
                left = None if left is None else left - len(records)
                yield records
                idle_since = time.monotonic()  # the output may have been slow
            elif (limit := self.bounds.idle_timeout_s) is not None and time.monotonic() - idle_since > limit:
                return

    def printed(self) -> None:
        """Acknowledge the records returned last. Raises CommandFailed if the broker refuses."""
        for message in self._taken:
            self.consumer.acknowledge(message, self._kind)
        self._taken.clear()
        self._commit()

    def stop(self) -> None:
        """End the iteration after the records already returned."""
        self.stopped = True

    def close(self) -> None:
        """Leave the group. The broker releases what is not acknowledged."""
        self.consumer.close()

    def _take(self, left: int | None) -> list[ConsumedRecord]:
        """The next records; an empty list if none arrived for a while. More than `left` are
        released, for the other members."""
        found: list[ConsumedRecord] = []
        for message in self.consumer.poll(POLL_S) or ():
            if (error := message.error()) is not None:
                self._raise(error)
            elif left is not None and len(found) >= left:
                self.consumer.acknowledge(message, self._release)
            else:
                self._taken.append(message)
                found.append(consumed_record(message))
        if not found and self.broker.last_error:
            check_reachable(self.broker, self.broker.admin())
        return found

    def _raise(self, error: Any) -> None:
        from confluent_kafka import KafkaException

        failure = explain(KafkaException(error), f"share group {self.group}")
        if failure is not None and not error.retriable():
            raise failure

    def _commit(self) -> None:
        for partition, error in (self.consumer.commit_sync(self.broker.timeout_s) or {}).items():
            if error is not None:
                where = f"{partition.topic}-{partition.partition}: acknowledgement"
                raise explain(error, where) or CommandFailed(f"{where}: {error}")
