"""`kbroker acls`: ACLs, as by kafka-acls."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from kbroker.cli.completion import complete_group, complete_topic
from kbroker.cli.connection import Connection
from kbroker.cli.failures import UsageFailed, result_of
from kbroker.cli.options import AsJson, Yes, confirm, connected, examples
from kbroker.cli.output import print_json, print_table, say

app = typer.Typer(name="acls", no_args_is_help=True, help="Show and change who may do what.")

Names = list[str] | None
Topic = Annotated[
    Names, typer.Option("--topic", metavar="NAME", help="A topic; * is all.", autocompletion=complete_topic)
]
Group = Annotated[
    Names, typer.Option("--group", metavar="NAME", help="A group; * is all.", autocompletion=complete_group)
]
TransactionalId = Annotated[
    Names, typer.Option("--transactional-id", metavar="NAME", help="A transactional id; * is all.")
]
Cluster = Annotated[bool, typer.Option("--cluster", help="The cluster.")]
Prefixed = Annotated[bool, typer.Option("--prefixed", help="Names are prefixes of names.")]
Principal = Annotated[
    Names, typer.Option("--principal", metavar="User:NAME", help="Who; User:* is everybody.")
]
Host = Annotated[Names, typer.Option("--host", metavar="ADDRESS", help="From where; * is anywhere.")]


class Operation(StrEnum):
    """What may be done."""

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


Operations = Annotated[
    list[Operation] | None, typer.Option("--operation", "-o", help="What; repeatable.", show_default=False)
]
Deny = Annotated[bool, typer.Option("--deny", help="Forbid it, whatever else is allowed.")]


def _resources(topic: Names, group: Names, transactional_id: Names, cluster: bool) -> list[tuple[str, str]]:
    found = [("TOPIC", name) for name in topic or ()]
    found += [("GROUP", name) for name in group or ()]
    found += [("TRANSACTIONAL_ID", name) for name in transactional_id or ()]
    return [*found, ("BROKER", "kafka-cluster")] if cluster else found


def _or_any(given: Sequence[Any] | None, anything: Any) -> Sequence[Any]:
    """The given value, else the wildcard."""
    return given or [anything]


def _row(acl: Any) -> dict[str, str]:
    kind = "CLUSTER" if acl.restype.name == "BROKER" else acl.restype.name
    return {
        "resource": kind.lower().replace("_", "-"),
        "name": acl.name,
        "pattern": acl.resource_pattern_type.name.lower(),
        "principal": acl.principal,
        "host": acl.host,
        "permission": acl.permission_type.name.lower(),
        "operation": acl.operation.name.lower().replace("_", "-"),
    }


def _show(acls: list[Any], json: bool) -> None:
    rows = sorted((_row(acl) for acl in acls), key=lambda row: tuple(row.values()))
    if json:
        print_json(rows)
    else:
        print_table([name.upper() for name in _FIELDS], [list(row.values()) for row in rows])


_FIELDS = ("resource", "name", "pattern", "principal", "host", "permission", "operation")


@app.command(
    "list",
    epilog=examples(
        "kbroker acls list",
        "kbroker acls list --topic orders   # all that hold for it, by any pattern",
        "kbroker acls list --principal User:alice --json",
    ),
)
@connected
def list_acls(
    broker: Connection,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: Cluster = False,
    principal: Principal = None,
    json: AsJson = False,
) -> None:
    """Show ACLs: all, or those that hold for resources or name principals."""
    from confluent_kafka.admin import ResourcePatternType

    resources = _resources(topic, group, transactional_id, cluster)
    pattern = ResourcePatternType.MATCH if resources else ResourcePatternType.ANY
    filters = [
        _filter(kind, name, pattern, who)
        for kind, name in _or_any(resources, ("ANY", None))
        for who in _or_any(principal, None)
    ]
    _show(_matching(broker, filters), json)


def all_acls(broker: Connection) -> list[Any]:
    """Every ACL. Raises CommandFailed, for a broker without an authorizer too."""
    from confluent_kafka.admin import ResourcePatternType

    return _matching(broker, [_filter("ANY", None, ResourcePatternType.ANY, None)])


def _matching(broker: Connection, filters: Sequence[Any]) -> list[Any]:
    """The ACLs that one of the filters selects, each once. Raises CommandFailed."""
    admin = broker.admin()
    found = {acl: None for each in filters for acl in result_of(admin.describe_acls(each))}
    if not found:
        _check_authorizer(broker)
    return list(found)


def _check_authorizer(broker: Connection) -> None:
    """Raises the broker's error when there is one: confluent-kafka drops that of a whole
    DescribeAcls answer, and gives an empty list for SECURITY_DISABLED as for no match."""
    with broker.kafka_python_admin() as admin:
        from kafka.admin import (
            ACLFilter,
            ACLOperation,
            ACLPermissionType,
            ACLResourcePatternType,
            ResourcePatternFilter,
            ResourceType,
        )

        anything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
        admin.describe_acls(ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, anything))


def _filter(
    kind: str,
    name: str | None,
    pattern: Any,
    who: str | None,
    host: str | None = None,
    operation: str = "ANY",
    permission: str = "ANY",
) -> Any:
    from confluent_kafka.admin import AclBindingFilter, AclOperation, AclPermissionType, ResourceType

    anything: Any = AclBindingFilter  # the library's types do not say that None is everything
    return anything(
        ResourceType[kind], name, pattern, who, host, AclOperation[operation], AclPermissionType[permission]
    )


@app.command(
    epilog=examples(
        "kbroker acls add --principal User:alice --topic orders --operation read --operation describe",
        "kbroker acls add --principal User:etl --topic raw- --prefixed -o write",
        "kbroker acls add --principal User:bob --producer --topic orders",
        "kbroker acls add --principal User:bob --consumer --topic orders --group billing",
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
    prefixed: Prefixed = False,
    operation: Operations = None,
    host: Host = None,
    deny: Deny = False,
    producer: Annotated[
        bool, typer.Option("--producer", help="All that a producer to the topics needs.")
    ] = False,
    consumer: Annotated[
        bool, typer.Option("--consumer", help="All that a consumer of topics and groups needs.")
    ] = False,
) -> None:
    """Allow, or with --deny forbid, operations on resources."""
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    wanted = _wanted(_resources(topic, group, transactional_id, cluster), operation, producer, consumer)
    if not principal:
        raise UsageFailed("give --principal User:NAME")
    pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    permission = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
    bindings = [
        AclBinding(
            ResourceType[kind],
            name,
            ResourcePatternType.LITERAL if kind == "BROKER" else pattern,
            who,
            where,
            AclOperation[what],
            permission,
        )
        for kind, name, what in wanted
        for who in principal
        for where in host or ["*"]
    ]
    for future in broker.admin().create_acls(bindings).values():
        result_of(future)
    say(f"{len(bindings)} ACL{'s' if len(bindings) != 1 else ''} added")


def _wanted(
    resources: list[tuple[str, str]], operations: list[Operation] | None, producer: bool, consumer: bool
) -> list[tuple[str, str, str]]:
    """(resource type, name, operation) of each ACL."""
    if not resources:
        raise UsageFailed("give --topic, --group, --transactional-id or --cluster")
    if not operations and not producer and not consumer:
        raise UsageFailed("give --operation, --producer or --consumer")
    found = [(*each, one.name) for each in resources for one in operations or ()]
    needed: dict[str, tuple[str, ...]] = {}
    if producer:
        needed = {"TOPIC": ("WRITE", "DESCRIBE", "CREATE"), "TRANSACTIONAL_ID": ("WRITE", "DESCRIBE")}
    if consumer:
        needed = {**needed, "GROUP": ("READ",)}
        needed["TOPIC"] = (*needed.get("TOPIC", ()), "READ", "DESCRIBE")
    found += [(kind, name, what) for kind, name in resources for what in needed.get(kind, ())]
    return list(dict.fromkeys(found))


@app.command(
    epilog=examples(
        "kbroker acls remove --principal User:alice --topic orders --operation read",
        "kbroker acls remove --principal User:bob --yes   # everything that names bob",
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
    prefixed: Prefixed = False,
    operation: Operations = None,
    host: Host = None,
    deny: Deny = False,
    yes: Yes = False,
    json: AsJson = False,
) -> None:
    """Remove the ACLs that all given options name; asks first on a terminal."""
    from confluent_kafka.admin import ResourcePatternType

    resources = _resources(topic, group, transactional_id, cluster)
    if not resources and not principal:
        raise UsageFailed("give --principal or a resource: --topic, --group, --transactional-id, --cluster")
    pattern = ResourcePatternType.ANY
    if resources:
        pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    filters = [
        _filter(kind, name, pattern, who, where, what, "DENY" if deny else "ANY")
        for kind, name in _or_any(resources, ("ANY", None))
        for who in _or_any(principal, None)
        for where in _or_any(host, None)
        for what in [one.name for one in operation or ()] or ["ANY"]
    ]
    doomed = _matching(broker, filters)
    if not doomed:
        say("no ACL is like that")
        return
    if not yes:
        _show(doomed, False)
    confirm(f"Remove {len(doomed)} ACLs?", yes)
    gone = {acl: None for future in broker.admin().delete_acls(filters).values() for acl in result_of(future)}
    if json:
        _show(list(gone), True)
    say(f"{len(gone)} ACL{'s' if len(gone) != 1 else ''} removed")
