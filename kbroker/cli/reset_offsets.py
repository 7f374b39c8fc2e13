"""`kbroker groups reset-offsets`: move the committed offsets of groups that have no members."""

import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import Struct
from msgspec.structs import astuple

from kbroker.cli.completion import complete_topic
from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed, UsageFailed, raise_first, result_of
from kbroker.cli.group_description import Group, read_group, require
from kbroker.cli.offset_strategies import LogRange, Saved, csv_lines, read_csv, shift
from kbroker.cli.options import AsJson, GroupIds, connected, examples
from kbroker.cli.output import print_json, print_table, say
from kbroker.cli.partitions import Partition, at_time, earliest, latest, scoped
from kbroker.cli.points_in_time import TIME_HELP, parse_duration_ms, parse_time_ms
from kbroker.config.counts import counted

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

EXAMPLES = examples(
    "# show what would change",
    "kbroker groups reset-offsets billing --topic orders --to-earliest",
    "# make the changes",
    "kbroker groups reset-offsets billing --topic orders:0,1 --to-datetime 2026-01-31T12:00:00 --execute",
    "kbroker groups reset-offsets billing --all-topics --shift-by -100 --execute",
    "# save the offsets of a group, and restore them",
    "kbroker groups reset-offsets billing --all-topics --to-current --export > saved.csv",
    "kbroker groups reset-offsets billing --from-file saved.csv --execute",
)


class Strategy(Struct, frozen=True):
    """A strategy: exactly one field is neither None nor False."""

    to_earliest: bool = False
    to_latest: bool = False
    to_current: bool = False
    to_offset: int | None = None
    shift_by: int | None = None
    to_timestamp_ms: int | None = None
    from_file: Path | None = None


class Move(Struct, frozen=True):
    """The change of one partition. current: None if nothing was committed."""

    group: str
    partition: Partition
    current: int | None
    new: int


TopicArgument = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="TOPIC[:PARTITIONS]",
        help="orders or orders:0,1; repeatable.",
        autocompletion=complete_topic,
    ),
]
AllTopics = Annotated[
    bool, typer.Option("--all-topics", help="All topics with committed offsets of the group.")
]
ToEarliest = Annotated[bool, typer.Option("--to-earliest", help="To the earliest offset.")]
ToLatest = Annotated[bool, typer.Option("--to-latest", help="To the end.")]
ToCurrent = Annotated[
    bool, typer.Option("--to-current", help="To the committed offset; to the end if there is none.")
]
ToOffset = Annotated[int | None, typer.Option("--to-offset", min=0, help="To an offset.")]
ShiftBy = Annotated[
    int | None, typer.Option("--shift-by", help="Forward by this number of records, or back if negative.")
]
ToDatetime = Annotated[
    str | None,
    typer.Option(
        "--to-datetime", metavar="TIME", help=f"To the first record at or after a time: {TIME_HELP}"
    ),
]
ByDuration = Annotated[
    str | None,
    typer.Option(
        "--by-duration",
        metavar="DURATION",
        help="To the first record within this time before now: PT1H30M, 90m, 7d.",
    ),
]
FromFile = Annotated[
    Path | None, typer.Option("--from-file", help="To the offsets of a CSV file from --export.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show the changes (the default).")]
Execute = Annotated[bool, typer.Option("--execute", help="Make the changes.")]
Export = Annotated[bool, typer.Option("--export", help="Print CSV: topic,partition,offset.")]


@connected
def reset_offsets(
    broker: Connection,
    groups: GroupIds,
    topic: TopicArgument = None,
    all_topics: AllTopics = False,
    to_earliest: ToEarliest = False,
    to_latest: ToLatest = False,
    to_current: ToCurrent = False,
    to_offset: ToOffset = None,
    shift_by: ShiftBy = None,
    to_datetime: ToDatetime = None,
    by_duration: ByDuration = None,
    from_file: FromFile = None,
    dry_run: DryRun = False,
    execute: Execute = False,
    export: Export = False,
    json: AsJson = False,
) -> None:
    """Reset the committed offsets of groups without members. Only shows the changes unless
    --execute is given."""
    if dry_run and execute:
        raise UsageFailed("give only one of --dry-run and --execute")
    now_ms = int(time.time() * 1000)
    to_timestamp_ms = None if to_datetime is None else parse_time_ms(to_datetime, now_ms)
    if by_duration is not None:
        if to_timestamp_ms is not None:
            raise UsageFailed("give exactly one strategy, not both --to-datetime and --by-duration")
        to_timestamp_ms = max(now_ms - parse_duration_ms(by_duration), 0)
    strategy = Strategy(to_earliest, to_latest, to_current, to_offset, shift_by, to_timestamp_ms, from_file)
    _check(strategy, topic or [], all_topics)
    saved = None if from_file is None else read_csv(from_file, groups[0] if len(groups) == 1 else None)
    admin = broker.admin()
    moves = [move for name in groups for move in _plan(broker, admin, name, saved, strategy, topic or [])]
    failures: dict[Move, CommandFailed] = {}
    if execute:
        failures = _commit_each(broker, admin, groups, moves)
        moves = [move for move in moves if move not in failures]
    if moves or json or not failures:
        _show(moves, several=len(groups) > 1, export=export, json=json)
    if not execute and not export:
        say("nothing was changed: --execute makes the changes")
    raise_first(list(dict.fromkeys(failures.values())))


def _check(strategy: Strategy, topics: list[str], all_topics: bool) -> None:
    chosen = [value for value in astuple(strategy) if value is not None and value is not False]
    if len(chosen) != 1:
        raise UsageFailed(
            "give exactly one of --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime, "
            "--by-duration, --from-file"
        )
    if strategy.from_file is None and bool(topics) == all_topics:
        raise UsageFailed("give either --topic or --all-topics")
    if strategy.from_file is not None and (topics or all_topics):
        raise UsageFailed("--from-file names its topics itself")


def _plan(
    broker: Connection,
    admin: "AdminClient",
    name: str,
    saved: Saved | None,
    strategy: Strategy,
    topics: list[str],
) -> list[Move]:
    group = read_group(broker, admin, name)
    if group.active:
        raise CommandFailed(
            f"group {name} is {group.state} with {counted(len(group.members), 'member')}: stop its consumers first "
            "(offsets can only be reset while a group has no members)"
        )
    if saved is not None:
        from_file = saved.get(name, {})
        if not from_file:
            raise CommandFailed(f"{strategy.from_file} has no offsets of group {name}")
        partitions = scoped(admin, [f"{topic}:{number}" for topic, number in from_file], broker.timeout_s)
    else:
        partitions = scoped(admin, topics, broker.timeout_s) if topics else sorted(require(group).offsets)
        from_file = {}
    starts = earliest(broker, admin, partitions)
    ends = latest(broker, admin, partitions)
    ranges = {partition: LogRange(starts[partition], ends[partition]) for partition in partitions}
    targets = from_file or _targets(broker, admin, group, strategy, ranges)
    moves = []
    for partition in partitions:
        new = ranges[partition].clip(targets[partition])
        if new != targets[partition]:
            where = f"{partition[0]}-{partition[1]}"
            say(f"{where}: {targets[partition]} is outside the log, taking {new}")
        moves.append(Move(name, partition, group.offsets.get(partition), new))
    return moves


def _targets(
    broker: Connection,
    admin: "AdminClient",
    group: Group,
    strategy: Strategy,
    ranges: dict[Partition, LogRange],
) -> dict[Partition, int]:
    if strategy.to_earliest:
        return {partition: held.earliest for partition, held in ranges.items()}
    if strategy.to_latest:
        return {partition: held.latest for partition, held in ranges.items()}
    if strategy.to_current:
        return {partition: group.offsets.get(partition, held.latest) for partition, held in ranges.items()}
    if strategy.to_offset is not None:
        return dict.fromkeys(ranges, strategy.to_offset)
    if strategy.shift_by is not None:
        return {partition: shift(group.offsets, partition, strategy.shift_by) for partition in ranges}
    assert strategy.to_timestamp_ms is not None
    return at_time(broker, admin, list(ranges), strategy.to_timestamp_ms)


def _commit_each(
    broker: Connection, admin: "AdminClient", groups: Sequence[str], moves: Sequence[Move]
) -> dict[Move, CommandFailed]:
    """Make the changes of each group. Returns the failures; a group that is refused as a whole has
    one for all its changes. All requests are sent first, so that groups without an answer wait for
    the timeout together."""
    failures: dict[Move, CommandFailed] = {}
    sent: list[tuple[str, list[Move], Future[Any]]] = []
    for name in groups:
        if own := [move for move in moves if move.group == name]:
            try:
                sent.append((name, own, _commit(broker, admin, name, own)))
            except CommandFailed as failure:
                failures |= dict.fromkeys(own, failure)
    for name, own, answer in sent:
        try:
            failures |= _refused(result_of(answer, f"group {name}"), own)
        except CommandFailed as failure:
            failures |= dict.fromkeys(own, failure)
    return failures


def _commit(broker: Connection, admin: "AdminClient", group: str, moves: list[Move]) -> "Future[Any]":
    """Sends the offsets of a group. Returns its answer."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    offsets = [TopicPartition(*move.partition, move.new) for move in moves]
    request = [ConsumerGroupTopicPartitions(group, offsets)]
    answers: dict[str, Future[Any]] = admin.alter_consumer_group_offsets(
        request, request_timeout=broker.timeout_s
    )
    return answers[group]


def _refused(done: Any, moves: list[Move]) -> dict[Move, CommandFailed]:
    """The changes that an answer refuses."""
    refused = {
        (each.topic, each.partition): CommandFailed(f"{each.topic}-{each.partition}: {each.error.str()}")
        for each in done.topic_partitions or []
        if each.error is not None
    }
    return {move: refused[move.partition] for move in moves if move.partition in refused}


def _show(moves: list[Move], *, several: bool, export: bool, json: bool) -> None:
    if export:
        for line in csv_lines([(move.group, move.partition, move.new) for move in moves], several):
            print(line)
    elif json:
        print_json(
            [
                {
                    "group": move.group,
                    "topic": move.partition[0],
                    "partition": move.partition[1],
                    "current_offset": move.current,
                    "new_offset": move.new,
                }
                for move in moves
            ]
        )
    else:
        rows = [(move.group, *move.partition, move.current, move.new) for move in moves]
        print_table(("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET"), rows)
