"""`kbroker acls`: lists, adds and removes ACLs, as kafka-acls."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from enum import StrEnum
from typing import Annotated, Any

import typer

from kbroker.cli.acl_requests import create_acls, delete_acls, matching_acls
from kbroker.cli.completion import complete_group, complete_topic
from kbroker.cli.connection import Connection
from kbroker.cli.failures import UsageFailed
from kbroker.cli.options import AsJson, Yes, confirm, connected, examples
from kbroker.cli.output import print_json, print_table, say
from kbroker.config import acls
from kbroker.config.acls import Acl, AclFilter
from kbroker.config.client_network import literal
from kbroker.config.counts import counted

app = typer.Typer(name="acls", no_args_is_help=True, help="Show and change access rights (ACLs).")

Names = list[str] | None


def _principals(option: typer.CallbackParam, names: Names) -> Names:
    """Refuse names without a type, as kafka-acls does: no ACL has such a principal. Raises
    UsageFailed."""
    for name in names or ():
        kind, _, of_kind = name.partition(":")
        if not (kind and of_kind) and not (option.name == "user_principal" and name == acls.WILDCARD):
            raise UsageFailed(f"--{(option.name or '').replace('_', '-')} {name}: expected User:NAME")
    return names


Topic = Annotated[
    Names,
    typer.Option(
        "--topic", metavar="NAME", help="A topic; * is all; repeatable.", autocompletion=complete_topic
    ),
]
Group = Annotated[
    Names,
    typer.Option(
        "--group", metavar="NAME", help="A group; * is all; repeatable.", autocompletion=complete_group
    ),
]
TransactionalId = Annotated[
    Names,
    typer.Option("--transactional-id", metavar="NAME", help="A transactional id; * is all; repeatable."),
]
DelegationToken = Annotated[
    Names, typer.Option("--delegation-token", metavar="ID", help="A delegation token; * is all; repeatable.")
]
UserPrincipal = Annotated[
    Names,
    typer.Option(
        "--user-principal",
        metavar="User:NAME",
        help="The owner of delegation tokens; * is all users; repeatable.",
        callback=_principals,
    ),
]
Cluster = Annotated[bool, typer.Option("--cluster", help="The cluster.")]
Prefixed = Annotated[bool, typer.Option("--prefixed", help="Match all names that begin with the given ones.")]
Principal = Annotated[
    Names,
    typer.Option(
        "--principal",
        metavar="User:NAME",
        help="The principal; User:* is every user; repeatable.",
        callback=_principals,
    ),
]
Host = Annotated[
    Names, typer.Option("--host", metavar="ADDRESS", help="The client's address; * is any; repeatable.")
]


def _addresses(hosts: Names) -> list[str]:
    """The hosts of new ACLs: an ACL of a network or of a name would match no client, and deny
    nothing. Raises UsageFailed."""
    for host in hosts or ():
        if host != acls.WILDCARD and literal(host) is None:
            raise UsageFailed(
                f"--host {host}: expected an address or *, as 10.0.0.9: no client would match a network or a name"
            )
    return hosts or [acls.WILDCARD]


class Operation(StrEnum):
    """Operations that an ACL allows or denies."""

    ALL = "all"
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    CLUSTER_ACTION = "cluster-action"
    DESCRIBE_CONFIGS = "describe-configs"
    ALTER_CONFIGS = "alter-configs"
    IDEMPOTENT_WRITE = "idempotent-write"
    CREATE_TOKENS = "create-tokens"
    DESCRIBE_TOKENS = "describe-tokens"
    TWO_PHASE_COMMIT = "two-phase-commit"


_NUMBERS = {one: number for number, name in acls.OPERATIONS.items() for one in Operation if one.name == name}
_OPTIONS = {
    acls.TOPIC: "--topic",
    acls.GROUP: "--group",
    acls.TRANSACTIONAL_ID: "--transactional-id",
    acls.CLUSTER: "--cluster",
    acls.DELEGATION_TOKEN: "--delegation-token",
    acls.USER: "--user-principal",
}
"""The option of each type of resource."""
_ONE_OF = " or ".join((", ".join([*_OPTIONS.values()][:-1]), _OPTIONS[acls.USER]))

Operations = Annotated[
    list[Operation] | None,
    typer.Option("--operation", "-o", help="Operation; repeatable.", show_default=False),
]
Deny = Annotated[
    bool, typer.Option("--deny", help="Deny instead of allow; a denial overrides every permission.")
]


def _resources(
    topic: Names,
    group: Names,
    transactional_id: Names,
    cluster: bool,
    delegation_token: Names,
    user_principal: Names,
) -> list[tuple[int, str]]:
    kinds = (
        (acls.TOPIC, topic),
        (acls.GROUP, group),
        (acls.TRANSACTIONAL_ID, transactional_id),
        (acls.DELEGATION_TOKEN, delegation_token),
        (acls.USER, user_principal),
    )
    found = [(kind, name) for kind, names in kinds for name in names or ()]
    return [*found, (acls.CLUSTER, acls.CLUSTER_NAME)] if cluster else found


def _pattern(kind: int, prefixed: bool) -> int:
    """The pattern type of a resource. The cluster has one name."""
    return acls.PREFIXED if prefixed and kind != acls.CLUSTER else acls.LITERAL


def _refuse_idle_prefix(prefixed: bool, resources: list[tuple[int, str]]) -> None:
    """Refuse --prefixed without a name that could be a prefix. Raises UsageFailed."""
    if prefixed and all(kind == acls.CLUSTER for kind, _ in resources):
        raise UsageFailed(
            f"--prefixed needs the beginning of names: give {_ONE_OF.replace('--cluster, ', '')}"
        )


def _or_any(given: Sequence[Any] | None, anything: Any) -> Sequence[Any]:
    """The given value, else the wildcard."""
    return given or [anything]


def _row(acl: Acl) -> dict[str, str]:
    return {
        "resource": _word(acls.RESOURCES, acl.resource_type),
        "name": acl.resource_name,
        "pattern": _word(acls.PATTERNS, acl.pattern_type),
        "principal": acl.principal,
        "host": acl.host,
        "permission": _word(acls.PERMISSIONS, acl.permission),
        "operation": _word(acls.OPERATIONS, acl.operation),
    }


def _word(names: Mapping[int, str], number: int) -> str:
    """A name as options write it; numbers that are unknown here stay numbers."""
    return names.get(number, f"unknown-{number}").lower().replace("_", "-")


def _show(found: list[Acl], json: bool) -> None:
    rows = sorted((_row(acl) for acl in found), key=lambda row: tuple(row.values()))
    if json:
        print_json(rows)
    else:
        print_table([name.upper() for name in _FIELDS], [list(row.values()) for row in rows])


_FIELDS = ("resource", "name", "pattern", "principal", "host", "permission", "operation")


@app.command(
    "list",
    epilog=examples(
        "kbroker acls list",
        "kbroker acls list --topic orders   # all that apply to it, by any pattern",
        "kbroker acls list --principal User:alice --json",
        "kbroker acls list --user-principal User:etl   # who may create and describe its delegation tokens",
    ),
)
@connected
def list_acls(
    broker: Connection,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: Cluster = False,
    delegation_token: DelegationToken = None,
    user_principal: UserPrincipal = None,
    principal: Principal = None,
    json: AsJson = False,
) -> None:
    """List ACLs: all, or those that apply to resources or name principals."""
    resources = _resources(topic, group, transactional_id, cluster, delegation_token, user_principal)
    pattern = acls.MATCH if resources else acls.ANY
    filters = [
        AclFilter(kind, name, pattern, who, None, acls.ANY, acls.ANY)
        for kind, name in _or_any(resources, (acls.ANY, None))
        for who in _or_any(principal, None)
    ]
    _show(matching_acls(broker, filters), json)


@app.command(
    epilog=examples(
        "kbroker acls add --principal User:alice --topic orders --operation read --operation describe",
        "kbroker acls add --principal User:etl --topic raw- --prefixed -o write",
        "kbroker acls add --principal User:bob --producer --topic orders",
        "kbroker acls add --principal User:bob --consumer --topic orders --group billing",
        "kbroker acls add --principal User:ops --user-principal User:etl -o create-tokens -o describe-tokens",
        "kbroker acls add --principal 'User:*' --host 10.0.0.9 --topic '*' -o all --deny",
    )
)
@connected
def add(
    broker: Connection,
    principal: Principal = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: Cluster = False,
    delegation_token: DelegationToken = None,
    user_principal: UserPrincipal = None,
    prefixed: Prefixed = False,
    operation: Operations = None,
    host: Host = None,
    deny: Deny = False,
    producer: Annotated[
        bool, typer.Option("--producer", help="Allow everything that a producer to these topics needs.")
    ] = False,
    consumer: Annotated[
        bool,
        typer.Option("--consumer", help="Allow everything that a consumer of these topics and groups needs."),
    ] = False,
) -> None:
    """Allow operations on resources, or deny them with --deny."""
    resources = _resources(topic, group, transactional_id, cluster, delegation_token, user_principal)
    new_acls = _convenience_acls(resources, operation, producer, consumer)
    if not principal:
        raise UsageFailed("give --principal User:NAME")
    _refuse_idle_prefix(prefixed, resources)
    hosts = _addresses(host)
    entries = [
        Acl(
            kind,
            name,
            _pattern(kind, prefixed),
            who,
            where,
            what,
            acls.DENY if deny else acls.ALLOW,
        )
        for kind, name, what in new_acls
        for who in principal
        for where in hosts
    ]
    create_acls(broker, entries)
    say(f"{counted(len(entries), 'ACL')} added")


def _convenience_acls(
    resources: list[tuple[int, str]], operations: list[Operation] | None, producer: bool, consumer: bool
) -> list[tuple[int, str, int]]:
    """(resource type, name, operation) of each ACL."""
    if not resources:
        raise UsageFailed(f"give {_ONE_OF}")
    if not operations and not producer and not consumer:
        raise UsageFailed("give --operation, --producer or --consumer")
    kinds = {kind for kind, _ in resources}
    if producer and acls.TOPIC not in kinds:
        raise UsageFailed("--producer allows writing to topics: give --topic")
    if consumer and not kinds >= {acls.TOPIC, acls.GROUP}:
        raise UsageFailed("--consumer allows reading topics in a group: give --topic and --group")
    found = [(*each, _NUMBERS[one]) for each in resources for one in operations or ()]
    _refuse_unsupported(found)
    needed: dict[int, tuple[int, ...]] = {}
    if producer:
        needed[acls.TOPIC] = acls.WRITE, acls.DESCRIBE, acls.CREATE
        needed[acls.TRANSACTIONAL_ID] = acls.WRITE, acls.DESCRIBE
    if consumer:
        needed[acls.GROUP] = (acls.READ,)
        needed[acls.TOPIC] = (*needed.get(acls.TOPIC, ()), acls.READ, acls.DESCRIBE)
    found += [(kind, name, what) for kind, name in resources for what in needed.get(kind, ())]
    if idle := sorted(kinds - {kind for kind, _, _ in found}):
        roles = " and ".join(["--producer"] * producer + ["--consumer"] * consumer)
        named = " and ".join(_OPTIONS[kind] for kind in idle)
        raise UsageFailed(
            f"{named} would have no effect with {roles}: leave it out, or add it by another command with --operation"
        )
    return list(dict.fromkeys(found))


def _refuse_unsupported(entries: list[tuple[int, str, int]]) -> None:
    """Refuse an operation that the type of the resource does not have: its ACL would have no
    effect. Raises UsageFailed."""
    for kind, _, what in entries:
        if what not in (acls.ALL, *acls.SUPPORTED[kind]):
            has = ", ".join(_word(acls.OPERATIONS, one) for one in (acls.ALL, *acls.SUPPORTED[kind]))
            raise UsageFailed(
                f"{_OPTIONS[kind]} has no operation {_word(acls.OPERATIONS, what)}: it has {has}"
            )


@app.command(
    epilog=examples(
        "kbroker acls remove --principal User:alice --topic orders --operation read",
        "kbroker acls remove --principal User:bob --yes   # all ACLs of bob",
    )
)
@connected
def remove(
    broker: Connection,
    principal: Principal = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: Cluster = False,
    delegation_token: DelegationToken = None,
    user_principal: UserPrincipal = None,
    prefixed: Prefixed = False,
    operation: Operations = None,
    host: Host = None,
    deny: Deny = False,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Remove the ACLs that match all given options. Asks first on a terminal."""
    resources = _resources(topic, group, transactional_id, cluster, delegation_token, user_principal)
    if not resources and not principal:
        raise UsageFailed(f"give --principal or a resource: {_ONE_OF}")
    _refuse_idle_prefix(prefixed, resources)
    filters = [
        AclFilter(
            kind,
            name,
            _pattern(kind, prefixed) if resources else acls.ANY,
            who,
            where,
            what,
            acls.DENY if deny else acls.ANY,
        )
        for kind, name in _or_any(resources, (acls.ANY, None))
        for who in _or_any(principal, None)
        for where in _or_any(host, None)
        for what in [_NUMBERS[one] for one in operation or ()] or [acls.ANY]
    ]
    doomed = matching_acls(broker, filters)
    if not doomed:
        if json:
            _show([], True)
        say("no ACL matches")
        return
    if not yes:
        with redirect_stdout(sys.stderr if json else sys.stdout):
            _show(doomed, False)
    confirm(f"Remove {counted(len(doomed), 'ACL')}?", yes)
    gone = delete_acls(broker, filters)
    if json:
        _show(gone, True)
    say(f"{counted(len(gone), 'ACL')} removed")
