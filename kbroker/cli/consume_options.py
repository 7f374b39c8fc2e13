"""Options of `consume`."""

from enum import StrEnum
from typing import Annotated

import typer

from kbroker.cli.completion import complete_group
from kbroker.cli.points_in_time import TIME_HELP
from kbroker.cli.record_format import FORMAT_HELP

MAX_IDLE_S = 31_536_000


class Isolation(StrEnum):
    """The isolation level: with or without records of open and aborted transactions."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class GroupProtocol(StrEnum):
    """The assignor of the group's partitions."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


GroupId = Annotated[
    str | None,
    typer.Option(
        "--group",
        "-g",
        metavar="GROUP",
        help="Join this group: share partitions, continue at its offsets.",
        autocompletion=complete_group,
    ),
]
Partition = Annotated[
    list[int] | None, typer.Option("--partition", "-p", min=0, help="Read only this partition; repeatable.")
]
FromBeginning = Annotated[
    bool,
    typer.Option(
        "--from-beginning", help="Start at the earliest record (with --group: where nothing is committed)."
    ),
]
Offset = Annotated[
    str | None,
    typer.Option(
        "--offset",
        "-o",
        help="Start at: earliest, latest, an offset, or -N for the last N.",
        show_default="latest",
    ),
]
Tail = Annotated[
    int | None,
    typer.Option(
        "--tail",
        min=1,
        max=1_000_000,
        help="Print the last N records of all partitions, sorted by time, and stop.",
    ),
]
ExactCount = Annotated[
    bool,
    typer.Option(
        "--exact-count",
        help="Print only the number of records: each is read and counted, up to the current end.",
    ),
]
Since = Annotated[str | None, typer.Option("--from", metavar="TIME", help=f"Start at a time: {TIME_HELP}")]
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="TIME",
        help="Stop before a time, or at the current end; without a start: from the earliest record.",
    ),
]
UntilEnd = Annotated[
    bool,
    typer.Option(
        "--until-end", "-e", help="Stop at the current end; without a start and --group: read all records."
    ),
]
MaxMessages = Annotated[
    int | None, typer.Option("--max-messages", "-n", min=1, help="Stop after this number of records.")
]
IdleTimeout = Annotated[
    float | None,
    typer.Option(
        "--idle-timeout",
        metavar="SECONDS",
        min=0,
        max=MAX_IDLE_S,
        help="Stop if no record arrives for this time.",
    ),
]
FormatText = Annotated[str | None, typer.Option("--format", "-f", help=FORMAT_HELP)]
Json = Annotated[bool, typer.Option("--json", help="Print a line of JSON for each record.")]
PrintKey = Annotated[bool, typer.Option("--print-key", help="Print the key before the value.")]
PrintHeaders = Annotated[bool, typer.Option("--print-headers", help="Print the headers, too.")]
PrintTimestamp = Annotated[bool, typer.Option("--print-timestamp", help="Print the timestamp, too.")]
PrintOffset = Annotated[bool, typer.Option("--print-offset", help="Print partition and offset, too.")]
Separator = Annotated[str, typer.Option(help="Separator of the printed fields.")]
Delimiter = Annotated[str, typer.Option("--delimiter", "-D", help="Separator after each record.")]
IsolationLevel = Annotated[
    Isolation,
    typer.Option("--isolation", help="read_committed leaves out open and aborted transactions."),
]
Protocol = Annotated[GroupProtocol, typer.Option(help="consumer: the broker assigns partitions (KIP-848).")]
ClientProperty = Annotated[
    list[str] | None,
    typer.Option("--property", "-X", metavar="KEY=VALUE", help="A setting of librdkafka; repeatable."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No summary.")]
Registry = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL",
        help="Decode values of Avro, JSON Schema and Protobuf serializers with the schemas of this registry, "
        "and print them as JSON.",
    ),
]
DecodeKeys = Annotated[bool, typer.Option("--decode-keys", help="With --registry: decode the keys, too.")]
