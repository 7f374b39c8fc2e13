"""`kbroker groups describe`: members, offsets and lag of groups, once or repeatedly."""

import io
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from functools import partial
from typing import Annotated, Any

import typer

from kbroker.cli.completion import complete_group
from kbroker.cli.connection import Connection
from kbroker.cli.failures import UsageFailed, again_and_again
from kbroker.cli.group_description import Group, read_groups, read_lag, require
from kbroker.cli.group_members import Member
from kbroker.cli.idle_options import OwnCommand
from kbroker.cli.options import AsJson, connected, examples
from kbroker.cli.output import json_text, print_json, print_table, printed, takes_escapes
from kbroker.cli.points_in_time import format_time
from kbroker.cli.time_limit import within

CLEAR = "\x1b[H\x1b[2J"
WATCH = "--watch"
WATCH_S = 2
ANSWERS = 4
"""Maximum of answers in turn, each just in time, that a reading waits for."""

EXAMPLES = examples(
    "kbroker groups describe billing",
    "kbroker groups describe billing --members",
    "# repeat every two seconds, until Ctrl-C",
    "kbroker groups describe billing --watch",
    "kbroker groups describe --all --json | jq '.[] | {group, lag}'",
)


class DescribeCommand(OwnCommand):
    """Accepts --watch without a number, for which typer has no option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_interval(args))


def with_interval(words: Sequence[str]) -> list[str]:
    """The words of a command line with the default interval after each --watch that has none: the
    next word is not a number."""
    found: list[str] = []
    for number, word in enumerate(words):
        found.append(word)
        if word == WATCH and not _is_number("".join(words[number + 1 : number + 2])):
            found.append(str(WATCH_S))
    return found


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


@connected
def describe(
    broker: Connection,
    groups: Annotated[
        list[str] | None, typer.Argument(metavar="GROUP", show_default=False, autocompletion=complete_group)
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Describe every consumer group and streams group.")
    ] = False,
    members: Annotated[bool, typer.Option("--members", help="Show members and their partitions.")] = False,
    lag_seconds: Annotated[
        bool,
        typer.Option(help="Read the first unread record of each partition and show its age."),
    ] = True,
    watch_s: Annotated[
        float | None,
        typer.Option(
            WATCH,
            metavar="[SECONDS]",
            min=0.5,
            max=3600,
            help=f"Repeat at this interval (default: {WATCH_S}), until Ctrl-C; with --json one line each time.",
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Show state, members, committed offsets and lag of groups.

    LAG counts records from the committed offset to the high watermark; without a committed offset
    from the start of the log, where Apache Kafka's tools show none. The table has all partitions of
    the topics that the members read or, without members, of the topics with committed offsets.
    LAG-SECONDS is the age of the oldest unread record."""
    if bool(groups) == everything:
        raise UsageFailed("name groups or give --all")
    if watch_s is None:
        found = _read(broker, groups, lag_seconds)
        if json:
            print_json([_to_json(group) for group in found])
        else:
            _print(found, members)
        return
    with suppress(KeyboardInterrupt):  # the ordinary end
        read = partial(_read_in_time, [broker], broker.again, groups, lag_seconds)
        for found in again_and_again(read, watch_s):
            _print_round(found, members, json)


def _read_in_time(
    idle: list[Connection], new: Callable[[], Connection], names: Sequence[str] | None, lag_seconds: bool
) -> list[Group]:
    """As `_read`. A reading that fails or hangs is given up with its connection: when a broker
    comes back, librdkafka's client of before may find the coordinator no more. idle: the connection
    of the last reading, if that was good. Raises CommandFailed."""
    broker = idle.pop() if idle else new()
    found = within(broker.timeout_s * ANSWERS, lambda: _read(broker, names, lag_seconds))
    idle.append(broker)
    return found


def _read(broker: Connection, names: Sequence[str] | None, lag_seconds: bool) -> list[Group]:
    """names: None for all groups, without those that end meanwhile. Raises CommandFailed."""
    admin = broker.admin()
    found = read_groups(broker, admin, names or all_groups(broker))
    described = [require(group) for group in found] if names else [each for each in found if each.exists]
    for group in described:
        read_lag(broker, admin, group, in_seconds=lag_seconds)
    return described


def _print_round(groups: Sequence[Group], members: bool, json: bool) -> None:
    """Print one repetition: a line of JSON, or a screen in one write, so that it does not
    flicker."""
    if json:
        print(json_text([_to_json(group) for group in groups]), flush=True)
        return
    text = io.StringIO()
    with redirect_stdout(text):
        print(format_time(int(time.time() * 1000)))
        _print(groups, members)
    print((CLEAR if takes_escapes() else "") + text.getvalue(), flush=True)


def _print(groups: Sequence[Group], members: bool) -> None:
    for number, group in enumerate(groups):
        if number:
            print()
        _print_group(group, members)


def all_groups(broker: Connection) -> list[str]:
    """Names of the groups that commit offsets. Raises CommandFailed."""
    with broker.kafka_python_admin() as admin:
        found = admin.list_groups()
    kinds, protocols = ("classic", "consumer", "streams", ""), ("consumer", "streams", "")
    return sorted(
        str(group["group_id"])
        for group in found
        if str(group.get("group_type") or "").lower() in kinds and group["protocol_type"] in protocols
    )


def _rows(group: Group) -> list[dict[str, Any]]:
    owners = {partition: member for member in group.members for partition in member.partitions}
    rows = []
    for partition in group.partitions():
        owner = owners.get(partition)
        offset = group.offsets.get(partition)
        seconds = group.lag_seconds.get(partition)
        rows.append(
            {
                "topic": partition[0],
                "partition": partition[1],
                "current_offset": offset,
                "log_end_offset": group.ends.get(partition),
                "lag": group.lag(partition),
                "lag_seconds": None if seconds is None else round(seconds, 3),
                "member_id": owner.member_id if owner else None,
                "client_id": owner.client_id if owner else None,
                "host": owner.host if owner else None,
            }
        )
    return rows


def _to_json(group: Group) -> dict[str, Any]:
    rows = _rows(group)
    ages = [row["lag_seconds"] for row in rows if row["lag_seconds"] is not None]
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "assignor": group.assignor or None,
        "coordinator": group.coordinator,
        "lag": sum(row["lag"] or 0 for row in rows),
        "lag_seconds": max(ages, default=None),
        "members": [_member_json(member) for member in group.members],
        "partitions": rows,
    }


def _member_json(member: Member) -> dict[str, Any]:
    found: dict[str, Any] = {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "partitions": [{"topic": topic, "partition": number} for topic, number in member.partitions],
    }
    return found | ({"malformed_assignment": member.malformed} if member.malformed else {})


def _print_group(group: Group, members: bool) -> None:
    lag = sum(group.lag(partition) or 0 for partition in group.partitions())
    print(
        f"{printed(group.group_id)}  state={group.state}  type={group.type}  "
        f"assignor={printed(group.assignor) or '-'}  "
        f"coordinator={group.coordinator}  members={len(group.members)}  lag={lag}"
    )
    for member in group.members:
        if member.malformed:
            print(f"{printed(member.member_id)}: malformed assignment: {member.malformed}")
    if members:
        print_table(
            ("MEMBER-ID", "INSTANCE-ID", "CLIENT-ID", "HOST", "PARTITIONS"),
            [
                (
                    m.member_id,
                    m.instance_id,
                    m.client_id,
                    m.host,
                    " ".join(f"{t}:{n}" for t, n in m.partitions),
                )
                for m in group.members
            ],
        )
        return
    rows = _rows(group)
    headers = [key.upper().replace("_", "-") for key in (rows[0] if rows else {})]
    if rows:
        print_table(headers, [list(row.values()) for row in rows])
