"""`kbroker share-groups`: state, members, start offsets and lag of share groups; reset and delete
(KIP-932)."""

import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from kbroker.cli.completion import complete_group
from kbroker.cli.connection import Connection
from kbroker.cli.failures import (
    CommandFailed,
    UsageFailed,
    broker_error,
    check_answer,
    raise_first,
)
from kbroker.cli.groups import Pattern, State, delete_groups, show_groups
from kbroker.cli.options import AsJson, GroupId, GroupIds, Topics, Yes, confirm, connected, examples
from kbroker.cli.output import print_json, print_table, printed, say
from kbroker.cli.own_requests import ask_coordinator
from kbroker.cli.partitions import at_time, earliest, latest, scoped
from kbroker.cli.points_in_time import parse_time_ms
from kbroker.cli.reset_offsets import (
    AllTopics,
    DryRun,
    Execute,
    ToDatetime,
    ToEarliest,
    ToLatest,
    TopicArgument,
)
from kbroker.cli.share_consuming import EXAMPLES as CONSUME_EXAMPLES
from kbroker.cli.share_consuming import consume
from kbroker.cli.share_group_state import alter_start_offsets, read_share_group, refuse_members, start_offsets
from kbroker.config.counts import counted
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode

app = typer.Typer(
    name="share-groups",
    no_args_is_help=True,
    help="List, describe and change share groups, and consume with them.",
)


@app.command(
    "list",
    epilog=examples("kbroker share-groups list", "kbroker share-groups list 'mail.*' --state Empty --json"),
)
@connected
def list_share_groups(
    broker: Connection, pattern: Pattern = None, state: State = None, json: AsJson = False
) -> None:
    """List share groups with their state: `groups list --type share`."""
    show_groups(broker, pattern, state, ["share"], json)


@app.command(
    epilog=examples(
        "kbroker share-groups describe workers",
        "kbroker share-groups describe workers --members",
        "kbroker share-groups describe --all --json | jq '.[] | {group, state}'",
    )
)
@connected
def describe(
    broker: Connection,
    groups: Annotated[
        list[str] | None, typer.Argument(metavar="GROUP", show_default=False, autocompletion=complete_group)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Describe every share group.")] = False,
    members: Annotated[bool, typer.Option("--members", help="Show members and their partitions.")] = False,
    json: AsJson = False,
) -> None:
    """Show state, start offsets and lag: records that are not finished."""
    if bool(groups) == everything:
        raise UsageFailed("name groups or give --all")
    failures: list[CommandFailed] = []
    if groups:
        found = [_described(broker, name, failures) for name in groups]
    else:
        found = list(_all_described(broker, failures))
    if json:
        print_json(found)
    else:
        _print(found, members)
    raise_first(failures)


def _print(groups: list[dict[str, Any]], members: bool) -> None:
    for number, group in enumerate(groups):
        if number:
            print()
        head = f"{group['group']}: {group['state']}, {counted(len(group['members']), 'member')}"
        print(printed(head))
        if members:
            rows = [
                (m["member_id"], m["client_id"], m["host"], m["epoch"], _assigned(m))
                for m in group["members"]
            ]
            print_table(("MEMBER-ID", "CLIENT-ID", "HOST", "EPOCH", "PARTITIONS"), rows)
        else:
            rows = [tuple(row.values()) for row in group["offsets"]]
            print_table(("TOPIC", "PARTITION", "START-OFFSET", "LAG"), rows)


def _all_groups(broker: Connection) -> list[str]:
    with broker.kafka_python_admin() as admin:
        found = admin.list_groups()
    return sorted(str(one["group_id"]) for one in found if str(one.get("group_type")).lower() == "share")


def _all_described(broker: Connection, failures: list[CommandFailed]) -> Iterator[dict[str, Any]]:
    """The descriptions of all share groups, without those that are deleted meanwhile. Raises
    CommandFailed."""
    for name in _all_groups(broker):
        try:
            yield _described(broker, name, failures)
        except CommandFailed as failure:
            if failure.error is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise


def _assigned(member: dict[str, Any]) -> list[str]:
    return [f"{row['topic']}-{row['partition']}" for row in member["partitions"]]


def _described(broker: Connection, name: str, failures: list[CommandFailed]) -> dict[str, Any]:
    """failures: gets those of single partitions. Raises CommandFailed."""
    group = read_share_group(broker, name)
    return {
        "group": name,
        "state": group.group_state,
        "epoch": group.group_epoch,
        "assignor": group.assignor_name,
        "offsets": [
            {"topic": start.partition[0], "partition": start.partition[1]}
            | {"start_offset": start.offset, "lag": start.lag}
            for start in start_offsets(broker, name, failures)
        ],
        "members": [
            {
                "member_id": member.member_id,
                "client_id": member.client_id,
                "host": member.client_host.removeprefix("/"),
                "epoch": member.member_epoch,
                "partitions": [
                    {"topic": each.topic_name, "partition": number}
                    for each in member.assignment.topic_partitions
                    for number in each.partitions
                ],
            }
            for member in sorted(group.members, key=lambda member: (member.client_id, member.member_id))
        ],
    }


@app.command(
    "reset-offsets",
    epilog=examples(
        "# show what would change",
        "kbroker share-groups reset-offsets workers --topic orders --to-earliest",
        "# make the changes",
        "kbroker share-groups reset-offsets workers --topic orders:0,1 --to-latest --execute",
        "kbroker share-groups reset-offsets workers --all-topics --to-datetime 2h --execute",
    ),
)
@connected
def reset_offsets(
    broker: Connection,
    group: GroupId,
    topic: TopicArgument = None,
    all_topics: AllTopics = False,
    to_earliest: ToEarliest = False,
    to_latest: ToLatest = False,
    to_datetime: ToDatetime = None,
    dry_run: DryRun = False,
    execute: Execute = False,
    json: AsJson = False,
) -> None:
    """Reset the start offsets of a group without members, or of a new group.

    Only shows the changes unless --execute is given."""
    if dry_run and execute:
        raise UsageFailed("give only one of --dry-run and --execute")
    if sum((to_earliest, to_latest, to_datetime is not None)) != 1:
        raise UsageFailed("give exactly one of --to-earliest, --to-latest, --to-datetime")
    if bool(topic) == all_topics:
        raise UsageFailed("give either --topic or --all-topics")
    time_ms = None if to_datetime is None else parse_time_ms(to_datetime, int(time.time() * 1000))
    refuse_members(broker, group)
    before = {start.partition: start.offset for start in start_offsets(broker, group)}
    admin = broker.admin()
    partitions = scoped(admin, topic, broker.timeout_s) if topic else sorted(before)
    if not partitions:
        raise CommandFailed(f"share group {group} has no offsets; name topics with --topic")
    if time_ms is not None:
        after = at_time(broker, admin, partitions, time_ms)
    else:
        after = (earliest if to_earliest else latest)(broker, admin, partitions)
    refused = alter_start_offsets(broker, group, after) if execute else {}
    rows = [
        (group, *partition, before.get(partition), after[partition])
        for partition in partitions
        if partition not in refused
    ]
    if json:
        keys = ("group", "topic", "partition", "start_offset", "new_offset")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
    elif rows or not refused:
        print_table(("GROUP", "TOPIC", "PARTITION", "START-OFFSET", "NEW-OFFSET"), rows)
    if not execute:
        say("nothing was changed: --execute makes the changes")
    raise_first(list(refused.values()))


app.command("consume", epilog=CONSUME_EXAMPLES)(consume)


@app.command("delete-offsets", epilog=examples("kbroker share-groups delete-offsets workers orders --yes"))
@connected
def delete_offsets(
    broker: Connection,
    group: GroupId,
    topics: Topics,
    yes: Yes = False,
) -> None:
    """Delete a group's offsets of topics; it must have no members. It then starts at
    share.auto.offset.reset."""
    from kbroker.protocol.messages.delete_share_group_offsets import (
        DeleteShareGroupOffsetsRequest,
        DeleteShareGroupOffsetsRequestTopic,
    )

    confirm(f"Delete the offsets of share group {group} for {', '.join(topics)}?", yes)
    request = DeleteShareGroupOffsetsRequest(
        group, [DeleteShareGroupOffsetsRequestTopic(name) for name in topics]
    )
    answer = ask_coordinator(broker, group, ApiKey.DELETE_SHARE_GROUP_OFFSETS, request)
    check_answer(answer, f"share group {group}")
    failures = [
        broker_error(t.error_code, t.error_message, t.topic_name) for t in answer.responses if t.error_code
    ]
    for each in answer.responses:
        if not each.error_code:
            say(f"{each.topic_name}: offsets deleted")
    raise_first(failures)


@app.command(epilog=examples("kbroker share-groups delete workers --yes"))
@connected
def delete(broker: Connection, groups: GroupIds, yes: Yes = False) -> None:
    """Delete share groups without members, and their offsets."""
    for name in groups:
        read_share_group(broker, name)  # checked first, so that groups of other types are not deleted
    confirm(f"Delete {', '.join(groups)} with all offsets?", yes)
    delete_groups(broker, groups, "share group")
