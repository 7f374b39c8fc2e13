"""`kbroker consume`: records of topics on stdout, by partitions or as a member of a group."""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from types import FrameType
from typing import Annotated, Any

import typer

from kbroker.cli.client_properties import parse_pairs
from kbroker.cli.connection import Connection
from kbroker.cli.consuming import Bounds, Reader, Start
from kbroker.cli.failures import UsageFailed
from kbroker.cli.options import connected, examples
from kbroker.cli.output import say
from kbroker.cli.points_in_time import TIME_HELP, format_time, parse_time_ms
from kbroker.cli.produce import summary
from kbroker.cli.record_format import FORMAT_HELP, Part, Shown, compile_format, to_json, unescape

EXAMPLES = examples(
    "kbroker consume orders --from-beginning",
    "kbroker consume orders --offset -10 --until-end",
    "# from two hours ago, with keys and times",
    "kbroker consume orders --from 2h --print-key --print-timestamp",
    "kbroker consume orders --group billing",
    r"kbroker consume orders -p 0 -o 1500 -n 1 -f '%p:%o %T %h %k=%s\n'",
    "kbroker consume orders --json --until-end | jq .value",
)


class Isolation(StrEnum):
    """The isolation level: with or without records of open and aborted transactions."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class GroupProtocol(StrEnum):
    """The assignor of the group's partitions."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


Topics = Annotated[list[str], typer.Argument(metavar="TOPIC", show_default=False)]
GroupId = Annotated[
    str | None,
    typer.Option("--group", "-g", help="Join this group: share partitions, go on where it was."),
]
Partition = Annotated[
    list[int] | None, typer.Option("--partition", "-p", min=0, help="Only this partition; repeatable.")
]
FromBeginning = Annotated[
    bool,
    typer.Option("--from-beginning", help="Start at the earliest record (a group: where it has no offset)."),
]
Offset = Annotated[
    str | None,
    typer.Option(
        "--offset", "-o", help="earliest, latest, an offset, or -N for the last N.", show_default="latest"
    ),
]
Since = Annotated[str | None, typer.Option("--from", metavar="TIME", help=f"Start at a time: {TIME_HELP}")]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Stop before a time.")]
UntilEnd = Annotated[
    bool,
    typer.Option(
        "--until-end", "-e", help="Stop at what is the end now; without a start: read all there is."
    ),
]
MaxMessages = Annotated[
    int | None, typer.Option("--max-messages", "-n", min=1, help="Stop after so many records.")
]
IdleTimeout = Annotated[
    float | None,
    typer.Option("--idle-timeout", metavar="SECONDS", help="Stop when nothing came for so long."),
]
FormatText = Annotated[str | None, typer.Option("--format", "-f", help=FORMAT_HELP)]
Json = Annotated[bool, typer.Option("--json", help="A line of JSON for each record.")]
PrintKey = Annotated[bool, typer.Option("--print-key", help="Put the key before the value.")]
PrintHeaders = Annotated[bool, typer.Option("--print-headers", help="Put the headers before.")]
PrintTimestamp = Annotated[bool, typer.Option("--print-timestamp", help="Put the time before.")]
PrintOffset = Annotated[bool, typer.Option("--print-offset", help="Put partition and offset before.")]
Separator = Annotated[str, typer.Option(help="Between the printed fields.")]
Delimiter = Annotated[str, typer.Option("--delimiter", "-D", help="After each record.")]
IsolationLevel = Annotated[
    Isolation,
    typer.Option("--isolation", help="read_committed leaves out open and aborted transactions."),
]
Protocol = Annotated[GroupProtocol, typer.Option(help="consumer: the broker assigns (KIP-848).")]
ClientProperty = Annotated[
    list[str] | None,
    typer.Option("--property", "-X", metavar="KEY=VALUE", help="A setting of librdkafka."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No summary.")]


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
    client_property: ClientProperty = None,
    quiet: Quiet = False,
) -> None:
    """Print records as they come, until Ctrl-C or one of the stop conditions.

    Without --group all partitions (or those of --partition) are read and nothing is committed."""
    now_ms = int(time.time() * 1000)
    start = _start(
        offset, since, from_beginning or _reads_what_is_there(until_end, offset, since, group), now_ms
    )
    if group and (partition or offset or since):
        raise UsageFailed("a group goes on where it was: no --partition, --offset, --from with --group")
    printed = {"T": print_timestamp, "po": print_offset, "h": print_headers, "k": print_key}
    render = _renderer(json, format_text, printed, unescape(separator), unescape(delimiter))
    bounds = Bounds(
        until_end=until_end,
        until_ms=None if until is None else parse_time_ms(until, now_ms),
        max_messages=max_messages,
        idle_timeout_s=idle_timeout_s,
    )
    settings: dict[str, Any] = {"isolation.level": isolation.value, "enable.partition.eof": True}
    if until_end or until:
        settings["fetch.wait.max.ms"] = 20  # that the end is reached is known from an empty answer
    if group and group_protocol is GroupProtocol.CONSUMER:
        settings["group.protocol"] = group_protocol.value
    settings |= parse_pairs("--property", client_property or [])
    reader = Reader(broker, topics, partition or [], group, start, bounds, settings)
    count, size = _print_all(reader, render)
    if not quiet:
        say(summary(count, size, time.time() - now_ms / 1000))


def _print_all(reader: Reader, render: Part) -> tuple[int, int]:
    """Writes every record; (records, bytes of keys and values). Printed records are committed."""
    out = sys.stdout.buffer
    count = size = 0
    try:
        with _stopped_by_signals(reader):
            for records in reader:
                for record in records:
                    out.write(render(record))
                    size += len(record.value or b"") + len(record.key or b"")
                out.flush()
                count += len(records)
                reader.printed()
    finally:
        reader.close()
    return count, size


@contextmanager
def _stopped_by_signals(reader: Reader) -> Iterator[None]:
    """Ctrl-C and SIGTERM are the ordinary way to stop: after the present records; a second signal ends it at once."""

    def stop(number: int, _frame: FrameType | None) -> None:
        reader.stop()
        signal.signal(number, signal.default_int_handler)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _reads_what_is_there(until_end: bool, offset: str | None, since: str | None, group: str | None) -> bool:
    """Whether --until-end came without a start: from the end to the end would be nothing."""
    return until_end and offset is None and since is None and group is None


def _start(offset: str | None, since: str | None, from_beginning: bool, now_ms: int) -> Start:
    if sum((offset is not None, since is not None, from_beginning)) > 1:
        raise UsageFailed("give only one of --from-beginning, --offset and --from")
    if since is not None:
        return Start(timestamp_ms=parse_time_ms(since, now_ms))
    if from_beginning or offset == "earliest":
        return Start(offset=0, whence="earliest")
    if offset is None or offset == "latest":
        return Start(offset=0, whence="latest")
    if offset.lstrip("-").isdigit():
        number = int(offset)
        return Start(offset=number, whence="latest" if number < 0 else "offset")
    raise UsageFailed(f"--offset {offset!r}: expected earliest, latest, a number, or -N for the last N")


def _renderer(
    json: bool, format_text: str | None, printed: dict[str, bool], separator: bytes, delimiter: bytes
) -> Part:
    if json and format_text is not None:
        raise UsageFailed("give only one of --json and --format")
    if json:
        return to_json
    if format_text is not None:
        return compile_format(format_text)
    fields: list[Part] = []
    if printed["T"]:
        fields.append(lambda record: format_time(record.timestamp).encode())
    if printed["po"]:
        fields.append(compile_format("%p:%o"))
    if printed["h"]:
        fields.append(compile_format("%h"))
    if printed["k"]:
        fields.append(lambda record: b"null" if record.key is None else record.key)

    def render(record: Shown) -> bytes:
        value = b"null" if record.value is None else record.value
        return separator.join([*(field(record) for field in fields), value]) + delimiter

    return render
