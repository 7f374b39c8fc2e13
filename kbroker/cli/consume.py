"""`kbroker consume`: records of topics on stdout, by partitions or as a member of a group."""

import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from kbroker.cli.client_properties import client_settings
from kbroker.cli.connection import Connection
from kbroker.cli.consume_options import (
    ClientProperty,
    DecodeKeys,
    Delimiter,
    ExactCount,
    FormatText,
    FromBeginning,
    GroupId,
    GroupProtocol,
    IdleTimeout,
    Isolation,
    IsolationLevel,
    Json,
    MaxMessages,
    Offset,
    Partition,
    PrintHeaders,
    PrintKey,
    PrintOffset,
    PrintTimestamp,
    Protocol,
    Quiet,
    Registry,
    Separator,
    Since,
    Tail,
    Until,
    UntilEnd,
)
from kbroker.cli.consuming import Bounds, OpenReader, Reader, Start
from kbroker.cli.decoding import Decoder
from kbroker.cli.failures import UsageFailed
from kbroker.cli.last_records import count_records, last_records
from kbroker.cli.options import Topics, connected, examples
from kbroker.cli.output import print_json, say
from kbroker.cli.points_in_time import format_time, parse_time_ms
from kbroker.cli.produce import summary
from kbroker.cli.record_format import ConsumedRecord, Part, compile_format, tamed, to_json, unescape
from kbroker.cli.schema_source import SchemaSource
from kbroker.config.whole_numbers import whole_number

T = TypeVar("T")

NOT_WITH_A_GROUP = (
    "a group continues where it was: no --partition, --offset, --from, --tail, --exact-count with --group"
)

WAITING = "waiting for new records; --from-beginning prints the existing ones, too; Ctrl-C stops"

EXAMPLES = examples(
    "kbroker consume orders --from-beginning",
    "kbroker consume orders --offset -10 --until-end",
    "# the last ten over all partitions, by time",
    "kbroker consume orders --tail 10 --print-timestamp",
    "# how many records there are, without those compacted away",
    "kbroker consume orders --exact-count",
    "# from two hours ago, with keys and times",
    "kbroker consume orders --from 2h --print-key --print-timestamp",
    "kbroker consume orders --group billing",
    r"kbroker consume orders -p 0 -o 1500 -n 1 -f '%p:%o %T %h %k=%s\n'",
    "kbroker consume orders --json --until-end | jq .value",
    "# decode values that serializers wrote with schemas",
    "kbroker consume orders --registry http://127.0.0.1:8081 --json --until-end | jq .value",
)


@connected
def consume(
    broker: Connection,
    topics: Topics,
    group: GroupId = None,
    partition: Partition = None,
    from_beginning: FromBeginning = False,
    offset: Offset = None,
    since: Since = None,
    until: Until = None,
    until_end: UntilEnd = False,
    tail: Tail = None,
    exact_count: ExactCount = False,
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
    isolation: IsolationLevel = Isolation.READ_UNCOMMITTED,
    group_protocol: Protocol = GroupProtocol.CLASSIC,
    registry: Registry = None,
    decode_keys: DecodeKeys = False,
    client_property: ClientProperty = None,
    quiet: Quiet = False,
) -> None:
    """Print records as they arrive (escaped for a terminal), until Ctrl-C or a stop condition.

    Without --group it reads all partitions (or those of --partition) and commits nothing."""
    now_ms = int(time.time() * 1000)
    if group and (partition or offset or since or tail or exact_count):
        raise UsageFailed(NOT_WITH_A_GROUP)
    _refuse_contradictions(exact_count, tail, max_messages, format_text)
    until_end |= exact_count or tail is not None
    until_ms = None if until is None else parse_time_ms(until, now_ms)
    bounded = (until_end or until is not None) and group is None
    start = _start(offset, since, from_beginning, tail, bounded, now_ms)
    _refuse_empty_span(start, until_ms)
    printed = {"T": print_timestamp, "po": print_offset, "h": print_headers, "k": print_key}
    render = renderer_of(json, format_text, printed, unescape(separator), unescape(delimiter))
    decoder = decoder_of(registry, decode_keys, broker.timeout_s)
    bounds = Bounds(until_end, until_ms, max_messages, idle_timeout_s)
    settings = _settings(isolation, group_protocol if group else None, bounds, client_property or [])
    reader = Reader(broker, topics, partition or [], group, start, bounds, settings)
    count, size = _print_count(reader, json) if exact_count else _print_all(reader, render, decoder, tail)
    if not quiet:
        say(summary(count, size, time.time() - now_ms / 1000))


def _refuse_contradictions(
    exact_count: bool, tail: int | None, max_messages: int | None, format_text: str | None
) -> None:
    """Raises UsageFailed for options of which one would have no effect, or a wrong one."""
    if exact_count and (tail or format_text is not None):
        raise UsageFailed("--exact-count prints no records: it does not allow --tail and --format")
    if tail and max_messages:
        raise UsageFailed("give only one of --tail and --max-messages: --tail N prints N records")


def _refuse_empty_span(start: Start, until_ms: int | None) -> None:
    """Raises UsageFailed for an end that is not after the start: a mistake, or the wrong way
    round."""
    if start.timestamp_ms is not None and until_ms is not None and until_ms <= start.timestamp_ms:
        times = f"--until {format_time(until_ms)} is not after --from {format_time(start.timestamp_ms)}"
        raise UsageFailed(f"{times}: no record is between them")


def _settings(
    isolation: Isolation, group_protocol: GroupProtocol | None, bounds: Bounds, properties: list[str]
) -> dict[str, Any]:
    """Settings of the client. group_protocol: None without a group. Raises CommandFailed."""
    settings: dict[str, Any] = {"isolation.level": isolation.value, "enable.partition.eof": True}
    if bounds.until_end or bounds.until_ms is not None:
        settings["fetch.wait.max.ms"] = 20  # an empty answer shows that the end is reached
    if group_protocol is GroupProtocol.CONSUMER:
        settings["group.protocol"] = group_protocol.value
    return settings | client_settings(properties)


def decoder_of(url: str | None, keys: bool, timeout_s: float) -> Decoder | None:
    """The decoder of values (with keys: also of keys) by the schemas of a registry; None without a
    registry. Raises UsageFailed."""
    if url is None:
        if keys:
            raise UsageFailed("--decode-keys needs --registry")
        return None
    return Decoder(SchemaSource(url, timeout_s), keys=keys)


def _print_all(reader: Reader, render: Part, decoder: Decoder | None, tail: int | None) -> tuple[int, int]:
    """Prints every record and commits it; returns (records, bytes of keys and values)."""
    if reader.waits and sys.stderr.isatty():  # also of one who pipes the records into jq
        say(WAITING)
    return print_records(reader, reader if tail is None else _last(reader, tail), render, decoder)


def _last(reader: Reader, count: int) -> Iterator[list[ConsumedRecord]]:
    yield _whole(reader, last_records(reader, count))


def print_records(
    reader: OpenReader, lists: Iterable[list[ConsumedRecord]], render: Part, decoder: Decoder | None
) -> tuple[int, int]:
    """Prints lists of records; reader.printed() is called after each. Returns (records, bytes of
    keys and values)."""
    shown = render if decoder is None else lambda record: render(decoder(record))
    out = sys.stdout.buffer
    count = size = 0
    with _open(reader):
        for records in lists:
            for record in records:
                out.write(shown(record))
                size += len(record.value or b"") + len(record.key or b"")
            out.flush()
            count += len(records)
            reader.printed()
    if decoder is not None and decoder.undecoded:
        say(f"{decoder.undecoded:,} without a schema id are shown unchanged")
    return count, size


def _print_count(reader: Reader, json: bool) -> tuple[int, int]:
    """Prints the number of records; returns (records, bytes of keys and values)."""
    with _open(reader):
        counts, size = _whole(reader, count_records(reader))
    total = counts.total()
    if json:
        partitions = [{"topic": t, "partition": p, "records": n} for (t, p), n in sorted(counts.items())]
        print_json({"records": total, "bytes": size, "partitions": partitions})
    else:
        print(total)
    return total, size


def _whole(reader: Reader, result: T) -> T:
    """The result; raises on Ctrl-C before everything was read, because a partial result looks like
    a whole one."""
    if reader.stopped:
        raise KeyboardInterrupt
    return result


@contextmanager
def _open(reader: OpenReader) -> Iterator[None]:
    """Open a reader, stopped by signals and closed at the end."""
    try:
        with _stopped_by_signals(reader):
            yield
    finally:
        reader.close()


@contextmanager
def _stopped_by_signals(reader: OpenReader) -> Iterator[None]:
    """Ctrl-C and SIGTERM stop the reader after the present records; a second signal ends the
    command at once."""

    def stop(number: int, _frame: FrameType | None) -> None:
        reader.stop()
        signal.signal(number, signal.default_int_handler)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _start(
    offset: str | None, since: str | None, from_beginning: bool, tail: int | None, bounded: bool, now_ms: int
) -> Start:
    """The start. bounded: the reader stops at the end; its default start is then the earliest
    record instead of the end."""
    if sum((offset is not None, since is not None, from_beginning, tail is not None)) > 1:
        raise UsageFailed("give only one of --from-beginning, --offset, --from and --tail")
    if tail is not None:
        return Start(offset=-tail)
    if since is not None:
        return Start(timestamp_ms=parse_time_ms(since, now_ms))
    if from_beginning or offset == "earliest" or (bounded and offset is None):
        return Start(offset=0, whence="earliest")
    if offset is None or offset == "latest":
        return Start(offset=0, whence="latest")
    number = whole_number(offset.removeprefix("-"))
    if number is not None:
        return Start(-number, "latest") if offset.startswith("-") else Start(number, "offset")
    raise UsageFailed(f"--offset {offset!r}: expected earliest, latest, a number, or -N for the last N")


def renderer_of(
    json: bool, format_text: str | None, printed: dict[str, bool], separator: bytes, delimiter: bytes
) -> Part:
    """The printed form of a record; on a terminal, what would control it is escaped. printed:
    whether the parts before the value are in it. Raises UsageFailed."""
    if json and format_text is not None:
        raise UsageFailed("give only one of --json and --format")
    if json:
        return to_json
    if format_text == "":
        raise UsageFailed("--format is empty: nothing would be printed; is a shell variable not set?")
    clean = tamed if sys.stdout.isatty() else bytes
    if format_text is not None:
        return compile_format(format_text, clean)
    fields: list[Part] = []
    if printed["T"]:
        fields.append(lambda record: format_time(record.timestamp).encode())
    if printed["po"]:
        fields.append(compile_format("%p:%o"))
    if printed["h"]:
        fields.append(compile_format("%h", clean))
    if printed["k"]:
        fields.append(lambda record: b"null" if record.key is None else clean(record.key))

    def render(record: ConsumedRecord) -> bytes:
        value = b"null" if record.value is None else clean(record.value)
        return separator.join([*(field(record) for field in fields), value]) + delimiter

    return render
