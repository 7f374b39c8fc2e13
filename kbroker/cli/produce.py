"""`kbroker produce`: lines become records."""

import os
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from kbroker.cli.client_properties import parse_pairs
from kbroker.cli.completion import complete_topic
from kbroker.cli.connection import Connection
from kbroker.cli.exit_codes import ExitCode
from kbroker.cli.failures import CommandFailed, Unreachable, UsageFailed, broker_error
from kbroker.cli.options import connected, examples
from kbroker.cli.output import say
from kbroker.cli.progress import Advance, progress
from kbroker.cli.record_format import unescape
from kbroker.cli.record_lines import NewRecord, line_parser, parse_headers, parse_json, pieces
from kbroker.cli.sizes import counted
from kbroker.cli.sizes import size as size_text
from kbroker.config.setting import INT_MAX

if TYPE_CHECKING:
    from confluent_kafka import Producer

EXAMPLES = examples(
    "echo 'first record' | kbroker produce orders",
    "kbroker produce orders records.txt --key-separator : --compression zstd",
    "kbroker produce orders --header source=shop --partition 0 < records.txt",
    "kbroker consume orders --json -e | kbroker produce copy --json",
    """echo '{"key": "7", "payload": "a", "headers": ["shop", "5"]}' | kbroker produce orders --json""",
)


class Acks(StrEnum):
    """Acknowledgements that a record needs before it counts as written."""

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
    """One run of `produce`: sent and failed records. librdkafka reports only failures, to spare a
    call each."""

    def __init__(self, producer: "Producer", topic: str, partition: int | None) -> None:
        self.producer = producer
        self.topic = topic
        self.partition = partition
        self.sent = 0
        self.sent_bytes = 0
        self.failed = 0
        self.first_error: Any = None

    def send(self, record: NewRecord) -> None:
        """Hands one record to the client; waits while its queue is full."""
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
        self.sent += 1
        self.sent_bytes += len(record.value or b"") + len(record.key or b"")
        if not self.sent % 1000:
            self.producer.poll(0)

    def finish(self, timeout_s: float) -> None:
        """Waits for all answers. Raises CommandFailed when a record was not written."""
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
    if error.code() > 0:
        return broker_error(error.code(), error.str(), what)
    unreachable = error.name() in ("_MSG_TIMED_OUT", "_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN")
    return CommandFailed(f"{what}: {error.str()}", ExitCode.UNREACHABLE if unreachable else ExitCode.FAILED)


TopicArgument = Annotated[str, typer.Argument(show_default=False, autocompletion=complete_topic)]
FileArgument = Annotated[
    Path | None, typer.Argument(help="Where to read from; stdin when not given.", show_default=False)
]
KeySeparator = Annotated[
    str | None,
    typer.Option("--key-separator", "-K", help="A line is key, separator, value.", show_default="no keys"),
]
Header = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header for every record."),
]
HeadersSeparator = Annotated[
    str | None,
    typer.Option(help="A line starts with name=value,... and this separator.", show_default="none"),
]
NullMarker = Annotated[
    str | None,
    typer.Option("--null-marker", "-Z", help="A key or value of this text is null.", show_default="none"),
]
Delimiter = Annotated[str, typer.Option("--delimiter", "-D", help="What ends a record.")]
Json = Annotated[
    bool, typer.Option("--json", help="Lines are JSON as `consume --json` or `kcat -J` print them.")
]
Partition = Annotated[
    int | None,
    typer.Option(
        "--partition", "-p", min=0, max=INT_MAX, help="Write to this partition.", show_default="by key"
    ),
]
AcksOption = Annotated[Acks, typer.Option(help="Wait for no answer, the leader, or all in-sync replicas.")]
CompressionOption = Annotated[Compression, typer.Option("--compression", "-z", help="Codec.")]
Idempotence = Annotated[
    bool | None,
    typer.Option(
        "--idempotence/--no-idempotence", help="No duplicates by retries.", show_default="with acks=all"
    ),
]
ClientProperty = Annotated[
    list[str] | None,
    typer.Option("--property", "-X", metavar="KEY=VALUE", help="A setting of librdkafka."),
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
    """Write records, one a line, from a file or stdin. Keys go to the partition that Java's
    producer chooses.

    Ends with 0 when every record is written; a summary with count and rate goes to stderr."""
    settings = {
        "acks": acks.value,
        "compression.type": compression.value,
        "enable.idempotence": (acks is Acks.ALL) if idempotence is None else idempotence,
        "partitioner": "murmur2_random",
        "delivery.report.only.error": True,
        "delivery.timeout.ms": int(broker.timeout_s * 1000),
        "linger.ms": 5,
        "queue.buffering.max.kbytes": 262_144,
    }
    settings |= parse_pairs("--property", client_property or [])
    headers = parse_headers(pair.encode() for pair in header or [])
    separators = (_optional(key_separator), _optional(headers_separator), _optional(null_marker))
    parse = parse_json if json else line_parser(*separators, headers)
    cut = unescape(delimiter)
    sending = Sending(broker.producer(settings), topic, partition)
    start = time.monotonic()
    source: BinaryIO = sys.stdin.buffer if file is None else open(file, "rb")  # noqa: SIM115
    with source, progress(f"produce {topic}", _size(source), "bytes") as advance:
        try:
            _send_all(source, cut, parse, sending, advance, flush_each=file is None and source.isatty())
        finally:
            sending.finish(broker.timeout_s)
    if not quiet:
        say(summary(sending.sent, sending.sent_bytes, time.monotonic() - start))


def _send_all(
    source: BinaryIO, cut: bytes, parse: Any, sending: Sending, advance: Advance, *, flush_each: bool
) -> None:
    shown = 0
    done = 0
    for number, piece in enumerate(pieces(source, cut), 1):
        try:
            record = parse(piece)
        except UsageFailed as error:
            raise UsageFailed(f"line {number}: {error}") from error
        sending.send(record)
        done += len(piece) + len(cut)
        if done - shown > 1 << 20:
            advance(done - shown)
            shown = done
        if sending.first_error is not None:
            return  # more records would fail, too: finish() reports the error
        if flush_each:  # typed by a person who wants to see an error now
            sending.producer.flush(1)
    advance(done - shown)


def summary(count: int, size: int, seconds: float) -> str:
    """`12,345 records, 1.2 MB in 0.5 s (24,690 records/s, 2.4 MB/s)`."""
    seconds = max(seconds, 1e-6)
    return (
        f"{counted(count, 'record')}, {size_text(size)} in {seconds:.2f} s "
        f"({count / seconds:,.0f} records/s, {size_text(size / seconds)}/s)"
    )


def _optional(text: str | None) -> bytes | None:
    return None if text is None else unescape(text)


def _size(source: BinaryIO) -> int | None:
    try:
        return os.fstat(source.fileno()).st_size or None
    except OSError:
        return None
