"""`kbroker groups`: list, describe with lag, delete; offsets and members of consumer groups."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from kbroker.cli.connection import Connection
from kbroker.cli.describe_groups import EXAMPLES as DESCRIBE_EXAMPLES
from kbroker.cli.describe_groups import DescribeCommand, describe
from kbroker.cli.failures import CommandFailed, UsageFailed, broker_error, explain, raise_first, result_of
from kbroker.cli.group_description import read_group, require
from kbroker.cli.known_words import GROUP_STATES, GROUP_TYPES, known_words
from kbroker.cli.options import (
    AsJson,
    GroupId,
    GroupIds,
    Scopes,
    Yes,
    confirm,
    connected,
    examples,
    name_matcher,
)
from kbroker.cli.output import print_json, print_table, printed, say
from kbroker.cli.partitions import parse_scope
from kbroker.cli.reset_offsets import EXAMPLES as RESET_EXAMPLES
from kbroker.cli.reset_offsets import reset_offsets
from kbroker.config.counts import counted

app = typer.Typer(
    name="groups",
    no_args_is_help=True,
    help="List, describe and change consumer groups: lag, offsets, members.",
)


Pattern = Annotated[
    str | None,
    typer.Argument(help="Regular expression that must match the whole name.", show_default=False),
]
State = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        metavar="WORD",
        help="Only groups in this state, for example Stable or Empty; repeatable.",
    ),
]


@app.command("list", epilog=examples("kbroker groups list", "kbroker groups list --state Empty --json"))
@connected
def list_groups(
    broker: Connection,
    pattern: Pattern = None,
    state: State = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="WORD",
            help="Only groups of this type: classic, consumer, share or streams; repeatable.",
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """List groups with their type and state."""
    show_groups(broker, pattern, state, known_words("--type", kind, GROUP_TYPES), json)


def show_groups(
    broker: Connection,
    pattern: str | None,
    state: Sequence[str] | None,
    kinds: Sequence[str],
    json: bool,
) -> None:
    """Print the groups whose name matches, of these states and types (none: of all). Raises
    UsageFailed."""
    matches = name_matcher(pattern)
    states = known_words("--state", state, GROUP_STATES)
    with broker.kafka_python_admin() as admin:
        found = admin.list_groups()
    groups = [
        {
            "group": group["group_id"],
            "type": str(group.get("group_type") or "classic").lower(),
            "protocol": group["protocol_type"],
            "state": group.get("group_state", ""),
        }
        for group in sorted(found, key=lambda group: str(group["group_id"]))
    ]
    shown = [
        group
        for group in groups
        if matches(group["group"])
        and (not states or group["state"] in states)
        and (not kinds or group["type"] in kinds)
    ]
    if json:
        print_json(shown)
    else:
        print_table(("GROUP", "TYPE", "PROTOCOL", "STATE"), [list(group.values()) for group in shown])


app.command("describe", cls=DescribeCommand, epilog=DESCRIBE_EXAMPLES)(describe)


@app.command(epilog=examples("kbroker groups delete billing audit --yes"))
@connected
def delete(broker: Connection, groups: GroupIds, yes: Yes = False) -> None:
    """Delete groups without members, and their committed offsets."""
    confirm(f"Delete {', '.join(groups)} with all committed offsets?", yes)
    delete_groups(broker, groups, "group")


def delete_groups(broker: Connection, groups: Sequence[str], subject: str) -> None:
    """Delete groups and print the result of each. Raises the first failure at the end."""
    names = list(dict.fromkeys(groups))
    answers = broker.admin().delete_consumer_groups(names, request_timeout=broker.timeout_s)
    failures = []
    for name, future in answers.items():
        try:
            result_of(future, f"{subject} {name}")
        except CommandFailed as failure:
            failures.append(failure)
        else:
            say(f"{name}: deleted")
    raise_first(failures)


@app.command(
    "delete-offsets", epilog=examples("kbroker groups delete-offsets billing orders:0,1 audit --yes")
)
@connected
def delete_offsets(
    broker: Connection,
    group: GroupId,
    scopes: Scopes,
    yes: Yes = False,
) -> None:
    """Delete committed offsets of topics to which no member of the group is subscribed."""
    parsed = [parse_scope(scope) for scope in scopes]
    admin = broker.admin()
    committed = require(read_group(broker, admin, group)).offsets
    chosen = [p for p in committed if any(p[0] == topic and (not n or p[1] in n) for topic, n in parsed)]
    if not chosen:
        raise CommandFailed(
            f"group {group} has no committed offset for {', '.join(scopes)}; "
            f"`kbroker groups describe {group}` shows its offsets"
        )
    confirm(f"Delete {counted(len(chosen), 'committed offset')} of {group}?", yes)
    from kafka.structs import TopicPartition

    with broker.kafka_python_admin() as client:
        try:
            answers = client.delete_group_offsets(group, [TopicPartition(*partition) for partition in chosen])
        except Exception as error:
            raise explain(error, f"group {group}") or error from error
    _report({f"{p.topic}-{p.partition}": outcome for p, outcome in answers.items()}, "offset deleted")


@app.command(
    "remove-members",
    epilog=examples(
        "kbroker groups remove-members billing --instance worker-3",
        "kbroker groups remove-members billing --all --yes",
    ),
)
@connected
def remove_members(
    broker: Connection,
    group: GroupId,
    member: Annotated[
        list[str] | None, typer.Option("--member", metavar="ID", help="Id of a member; repeatable.")
    ] = None,
    instance: Annotated[
        list[str] | None,
        typer.Option("--instance", metavar="ID", help="Group instance id of a static member; repeatable."),
    ] = None,
    everyone: Annotated[bool, typer.Option("--all", help="All members.")] = False,
    yes: Yes = False,
) -> None:
    """Remove members: a static member that will not return, or all members before offsets are
    reset. Live members join again."""
    if not (member or instance or everyone):
        raise UsageFailed("give --member, --instance or --all")
    leaving: list[tuple[str | None, str | None]] = [(name, None) for name in member or []]
    leaving += [(None, name) for name in instance or []]
    if everyone:
        known = require(read_group(broker, broker.admin(), group)).members
        leaving = [(m.member_id, m.instance_id) for m in known]
    if not leaving:
        say(f"{group}: has no members")
        return
    confirm(f"Remove {counted(len(leaving), 'member')} of {group}?", yes)
    with broker.kafka_python_admin() as client:
        from kafka.admin import MemberToRemove

        members = [MemberToRemove(m, i, "removed by an administrator") for m, i in leaving]
        try:
            answers = client.remove_group_members(group, members)
        except Exception as error:
            raise explain(error, f"group {group}") or error from error
    _report(answers, "removed")


app.command("reset-offsets", epilog=RESET_EXAMPLES)(reset_offsets)


def _report(answers: dict[str, Any], done: str) -> None:
    """Print the result of each item, then raise the first error."""
    failures = [broker_error(error.errno, None, item) for item, error in answers.items() if error.errno]
    for item, error in answers.items():
        if not error.errno:
            say(f"{printed(item)}: {done}")
    raise_first(failures)
