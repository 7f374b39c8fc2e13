"""`kbroker produce`: writes lines as records."""

import os
import sys
import time
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from kbroker.cli.client_properties import client_settings
from kbroker.cli.completion import complete_topic
from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed, Unreachable, UsageFailed, broker_error, without_origin
from kbroker.cli.input_files import STDIN, open_bytes, unreadable
from kbroker.cli.options import connected, examples
from kbroker.cli.output import say
from kbroker.cli.progress import Advance, progress
from kbroker.cli.record_format import unescape
from kbroker.cli.record_lines import (
    Headers,
    NewRecord,
    Parser,
    line_parser,
    parse_headers,
    parse_json,
    pieces,
)
from kbroker.cli.sizes import size as size_text
from kbroker.config.counts import counted
from kbroker.config.setting import INT_MAX
from kbroker.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from confluent_kafka import Producer

EXAMPLES = examples(
    "echo 'first record' | kbroker produce orders",
    "kbroker produce orders records.txt --key-separator : --compression zstd",
    "kbroker produce orders --header source=shop --partition 0 < records.txt",
    "kbroker consume orders --json -e | kbroker produce copy --json",
    """echo '{"key": "7", "payload": "a", "headers": ["shop", "5"]}' | kbroker produce orders --json""",
)


ALL_SIZES = {"message.max.bytes": 100_000_000}
"""The broker decides which records are too large: librdkafka's own limit is 1 MB, whatever the
topic's is. Not more than fits into a request (socket.request.max.bytes)."""

MEETING_S = 1.0
UNSENT = "Unable to produce message"
"""Begins an error of the client itself."""


class Acks(StrEnum):
    """Acknowledgements that a written record needs."""

    NONE = "0"
    LEADER = "1"
    ALL = "all"


class Compression(StrEnum):
    """Codec of the batches."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Sending:
    """Counts the sent and failed records of a run. librdkafka only reports failures, which saves a
    call for each record."""

    def __init__(self, producer: "Producer", topic: str, partition: int | None) -> None:
        from confluent_kafka import KafkaException

        self._refusal = KafkaException
        self.producer = producer
        self.topic = topic
        self.partition = partition
        self.sent = 0
        self.sent_bytes = 0
        self.failed = 0
        self.first_error: Any = None
        self._topic_error: Any = None

    def send(self, record: NewRecord) -> None:
        """Pass a record to the client; waits while its queue is full."""
        if not self.sent:
            self._meet_a_broker()
        chosen: dict[str, Any] = {}
        if (partition := record.partition if self.partition is None else self.partition) is not None:
            chosen["partition"] = partition
        if record.timestamp is not None:
            chosen["timestamp"] = record.timestamp
        if record.headers:
            chosen["headers"] = record.headers
        while True:
            try:
                self.producer.produce(
                    self.topic, record.value, record.key, on_delivery=self._delivered, **chosen
                )
                break
            except BufferError:
                self.producer.poll(0.1)
            except self._refusal as refused:  # of the client itself, such as a record that is too large
                self.sent += 1
                self._delivered(self._topic_error or refused.args[0], None)
                return
        self.sent += 1
        self.sent_bytes += len(record.value or b"") + len(record.key or b"")
        if not self.sent % 1000:
            self.producer.poll(0)

    def _meet_a_broker(self) -> None:
        """librdkafka requests its producer id with an answer about topics, if it is connected to a
        broker that such an answer has named; else half a second later. So the second answer starts
        the request. If there is none, the first record has the failure. A topic with an error, such
        as a bad name, is one that the client does not know from then on: its records have the
        broker's error."""
        with suppress(self._refusal):
            for _ in range(2):
                found = self.producer.list_topics(self.topic, MEETING_S)
            self._topic_error = found.topics[self.topic].error

    def finish(self, timeout_s: float) -> None:
        """Wait for all answers. Raises CommandFailed if a record was not written."""
        unanswered = self.producer.flush(timeout_s)
        written = self.sent - self.failed - unanswered
        if self.first_error is not None:
            raise _failure(self.first_error, f"not written: {self.failed} of {counted(self.sent, 'record')}")
        if unanswered:
            raise Unreachable(f"{counted(unanswered, 'record')} without an answer, {written} written")

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is not None:
            self.failed += 1
            self.first_error = self.first_error or error


def _failure(error: Any, what: str) -> CommandFailed:
    if error.code() == ErrorCode.MESSAGE_TOO_LARGE and error.str().startswith(UNSENT):
        return CommandFailed(f"{what}: larger than message.max.bytes of this client; -X sets another limit")
    if error.code() > 0:
        return broker_error(error.code(), without_origin(error.str()), what)
    if error.name() == "_UNKNOWN_PARTITION":
        return CommandFailed(f"{what}: there is no such partition; `kbroker topics describe` shows them")
    if error.name() in ("_MSG_TIMED_OUT", "_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN"):
        return Unreachable(f"{what}: no answer within --timeout")
    return CommandFailed(f"{what}: {without_origin(error.str())}")


TopicArgument = Annotated[str, typer.Argument(show_default=False, autocompletion=complete_topic)]


def _without_stdin(file: Path | None) -> Path | None:
    return None if file == STDIN else file


FileArgument = Annotated[
    Path | None,
    typer.Argument(help="File to read; - or no file: stdin.", show_default=False, callback=_without_stdin),
]
KeySeparator = Annotated[
    str | None,
    typer.Option(
        "--key-separator", "-K", help="Separator of key and value in a line.", show_default="no keys"
    ),
]
Header = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of every record; repeatable."),
]
HeadersSeparator = Annotated[
    str | None,
    typer.Option(help="Lines start with headers, name=value,..., and this separator.", show_default="none"),
]
NullMarker = Annotated[
    str | None,
    typer.Option("--null-marker", "-Z", help="A key or value with this text is null.", show_default="none"),
]
Delimiter = Annotated[str, typer.Option("--delimiter", "-D", help="Separator after each record.")]
Json = Annotated[
    bool,
    typer.Option("--json", help="Lines are JSON documents in the format of `consume --json` or `kcat -J`."),
]
Partition = Annotated[
    int | None,
    typer.Option(
        "--partition",
        "-p",
        min=0,
        max=INT_MAX,
        help="Write all records to this partition.",
        show_default="by key",
    ),
]
AcksOption = Annotated[
    Acks, typer.Option(help="Wait for no answer (0), the leader (1), or all in-sync replicas (all).")
]
CompressionOption = Annotated[Compression, typer.Option("--compression", "-z", help="Codec.")]
Idempotence = Annotated[
    bool | None,
    typer.Option(
        "--idempotence/--no-idempotence", help="Retries cause no duplicates.", show_default="with acks=all"
    ),
]
ClientProperty = Annotated[
    list[str] | None,
    typer.Option("--property", "-X", metavar="KEY=VALUE", help="A setting of librdkafka; repeatable."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No summary.")]


@connected
def produce(
    broker: Connection,
    topic: TopicArgument,
    file: FileArgument = None,
    key_separator: KeySeparator = None,
    header: Header = None,
    headers_separator: HeadersSeparator = None,
    null_marker: NullMarker = None,
    delimiter: Delimiter = "\\n",
    json: Json = False,
    partition: Partition = None,
    acks: AcksOption = Acks.ALL,
    compression: CompressionOption = Compression.NONE,
    idempotence: Idempotence = None,
    client_property: ClientProperty = None,
    quiet: Quiet = False,
) -> None:
    """Write records from the lines of a file or of stdin. Keys map to partitions as in the Java
    producer.

    Ends with 0 if every record was written; with --acks 0, if it was sent: the broker reports no
    refusal then. Prints count and rate to stderr."""
    settings = {
        "acks": acks.value,
        "compression.type": compression.value,
        "enable.idempotence": (acks is Acks.ALL) if idempotence is None else idempotence,
        "partitioner": "murmur2_random",
        "delivery.report.only.error": True,
        "delivery.timeout.ms": int(broker.timeout_s * 1000),
        "linger.ms": 5,
        "queue.buffering.max.kbytes": 262_144,
        **ALL_SIZES,
    }
    settings |= client_settings(client_property or [])
    headers = parse_headers(pair.encode() for pair in header or [])
    parse = _parser(json, key_separator, headers_separator, null_marker, headers)
    cut = _separator("--delimiter", delimiter)
    source: BinaryIO = sys.stdin.buffer if file is None else open_bytes(file)
    with source:
        sending = Sending(broker.producer(settings), topic, partition)
        start = time.monotonic()
        with progress(f"produce {topic}", _size(source), "bytes") as advance:
            try:
                _send_all(source, cut, parse, sending, advance, flush_each=file is None and source.isatty())
            except OSError as error:
                raise _cut_short(file, error, sending.sent) from error
            finally:
                sending.finish(broker.timeout_s)
    if not quiet:
        say(_summary(sending, time.monotonic() - start, str(settings["acks"])))


def _cut_short(file: Path | None, error: OSError, sent: int) -> CommandFailed:
    """The failure of a reading; not of the command line if some records were sent."""
    failure = unreadable(file or "stdin", error)
    return CommandFailed(failure.message) if sent else failure


def _send_all(
    source: BinaryIO, cut: bytes, parse: Parser, sending: Sending, advance: Advance, *, flush_each: bool
) -> None:
    shown = 0
    done = 0
    if flush_each:
        say("each line becomes a record; Ctrl-D ends")
    for number, piece in enumerate(pieces(source, cut), 1):
        try:
            record = parse(piece)
        except UsageFailed as error:
            before = f"{counted(number - 1, 'record')} before it written" if number > 1 else "nothing written"
            raise UsageFailed(f"line {number}: {error}; {before}") from error
        sending.send(record)
        done += len(piece) + len(cut)
        if done - shown > 1 << 20:
            advance(done - shown)
            shown = done
        if sending.first_error is not None:
            return  # more records would fail, too: finish() reports the error
        if flush_each:  # on a terminal, errors are shown at once
            sending.producer.flush(1)
    advance(done - shown)


def _summary(sending: Sending, seconds: float, acks: str) -> str:
    sent = summary(sending.sent, sending.sent_bytes, seconds)
    return f"{sent}; sent, the broker reports no refusal" if acks == Acks.NONE else sent


def summary(count: int, size: int, seconds: float) -> str:
    """`12,345 records, 1.2 MB in 0.5 s (24,690 records/s, 2.4 MB/s)`."""
    seconds = max(seconds, 1e-6)
    return (
        f"{counted(count, 'record')}, {size_text(size)} in {seconds:.2f} s "
        f"({count / seconds:,.0f} records/s, {size_text(size / seconds)}/s)"
    )


def _parser(
    json: bool,
    key_separator: str | None,
    headers_separator: str | None,
    null_marker: str | None,
    headers: Headers,
) -> Parser:
    """The format of the input. headers: of every record, before its own. Raises UsageFailed."""
    if not json:
        return line_parser(
            None if key_separator is None else _separator("--key-separator", key_separator),
            None if headers_separator is None else _separator("--headers-separator", headers_separator),
            None if null_marker is None else unescape(null_marker),
            headers,
        )
    if (key_separator, headers_separator, null_marker) != (None, None, None):
        raise UsageFailed(
            "--json documents name key, headers and nulls: "
            "it does not allow --key-separator, --headers-separator and --null-marker"
        )

    def parse(line: bytes) -> NewRecord:
        record = parse_json(line)
        return record._replace(headers=headers + record.headers)

    return parse


def _separator(option: str, text: str) -> bytes:
    """Raises UsageFailed for an empty one."""
    if not text:
        raise UsageFailed(f"{option} is empty: nothing separates then; leave the option out")
    return unescape(text)


def _size(source: BinaryIO) -> int | None:
    try:
        return os.fstat(source.fileno()).st_size or None
    except OSError:
        return None
