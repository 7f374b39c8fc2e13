"""`kbroker quotas`: quotas of users, client ids and addresses, as kafka-configs."""

import math
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from kbroker.cli.client_properties import parse_pairs
from kbroker.cli.completion import complete_quota, complete_quota_value
from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed, UsageFailed, check_answer
from kbroker.cli.options import AsJson, Yes, confirm, connected, examples
from kbroker.cli.output import print_json, print_table, say
from kbroker.config.client_quotas import IP_KEYS, USER_KEYS

app = typer.Typer(name="quotas", no_args_is_help=True, help="Show and change the quotas of clients.")

DEFAULT = "<default>"
KEYS = USER_KEYS.keys() | IP_KEYS.keys()
User = Annotated[
    str | None,
    typer.Option(
        "--user", metavar="NAME", help=f"A user; {DEFAULT} is all users without a quota of their own."
    ),
]
ClientId = Annotated[
    str | None, typer.Option("--client-id", metavar="NAME", help=f"A client id; {DEFAULT} as above.")
]
Ip = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help=f"An address; {DEFAULT} as above.")]
Entity = list[tuple[str, str | None]]


def _entity(user: str | None, client_id: str | None, ip: str | None) -> Entity:
    given = (("user", user), ("client-id", client_id), ("ip", ip))
    return [(kind, None if name == DEFAULT else name) for kind, name in given if name is not None]


def _send(broker: Connection, request: Any) -> Any:
    with broker.kafka_python_admin() as admin:
        return admin._manager.run(admin._manager.send, request)


@app.command(
    "list",
    epilog=examples(
        "kbroker quotas list",
        "kbroker quotas list --user alice",
        "kbroker quotas list --json | jq '.[] | select(.quotas.producer_byte_rate)'",
    ),
)
@connected
def list_quotas(
    broker: Connection, user: User = None, client_id: ClientId = None, ip: Ip = None, json: AsJson = False
) -> None:
    """List quotas: all, or those of one user, client id or address."""
    found: list[dict[str, dict[str, Any]]] = [
        {"entity": dict(entity), "quotas": values}
        for entity, values in read_all(broker, _entity(user, client_id, ip))
    ]
    if json:
        print_json(found)
        return
    rows = []
    for entry in found:
        of = {kind: DEFAULT if name is None else name for kind, name in entry["entity"].items()}
        for key, value in sorted(entry["quotas"].items()):
            rows.append([of.get("user"), of.get("client-id"), of.get("ip"), key, f"{value:.15g}"])
    print_table(["USER", "CLIENT-ID", "IP", "QUOTA", "VALUE"], sorted(rows, key=str))


def read_all(
    broker: Connection, entity: Sequence[tuple[str, str | None]] = (), *, strict: bool = False
) -> list[tuple[Entity, dict[str, float]]]:
    """Every matching entity with its quotas; a missing name stands for the default. strict: without
    entities that have further parts, such as a client id. Raises CommandFailed."""
    from kafka.protocol.admin.client_quotas import DescribeClientQuotasRequest

    component = DescribeClientQuotasRequest.ComponentData
    filters = [
        component(entity_type=kind, match_type=1 if name is None else 0, match=name) for kind, name in entity
    ]
    answer = _send(broker, DescribeClientQuotasRequest(components=filters, strict=strict))
    check_answer(answer)
    return [
        (
            [(part.entity_type, part.entity_name) for part in entry.entity],
            {value.key: value.value for value in entry.values},
        )
        for entry in answer.entries or ()
    ]


def alter(
    broker: Connection, entity: Entity, sets: dict[str, float], removals: list[str], validate_only: bool
) -> None:
    """Set and remove quotas of one entity. Raises CommandFailed."""
    from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest

    entry = AlterClientQuotasRequest.EntryData
    ops = [entry.OpData(key=key, value=value, remove=False) for key, value in sets.items()]
    ops += [entry.OpData(key=key, value=0.0, remove=True) for key in removals]
    parts = [entry.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    request = AlterClientQuotasRequest(entries=[entry(entity=parts, ops=ops)], validate_only=validate_only)
    for result in _send(broker, request).entries:
        check_answer(result)


@app.command(
    "set",
    epilog=examples(
        "kbroker quotas set --user alice producer_byte_rate=1048576 consumer_byte_rate=2097152",
        "kbroker quotas set --user '<default>' --client-id etl request_percentage=50",
        "kbroker quotas set --ip 10.0.0.9 connection_creation_rate=10",
    ),
)
@connected
def set_quotas(
    broker: Connection,
    values: Annotated[
        list[str],
        typer.Argument(metavar="QUOTA=VALUE", show_default=False, autocompletion=complete_quota_value),
    ],
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Only let the broker check the request.")
    ] = False,
) -> None:
    """Set quotas of a user, a client id, both together, or an address. Other quotas stay
    unchanged."""
    entity = _entity(user, client_id, ip)
    if not entity:
        raise UsageFailed("give --user, --client-id or --ip")
    new_values = {}
    for key, text in parse_pairs("QUOTA=VALUE", values).items():
        try:
            new_values[key] = float(text)
        except ValueError:
            new_values[key] = math.nan
        if not math.isfinite(new_values[key]):
            raise UsageFailed(f"{key}={text}: expected a number")
    try:
        alter(broker, entity, new_values, [], validate_only)
    except CommandFailed as failure:
        if new_values.keys() <= KEYS:
            raise
        # not before: a newer broker may know more keys than this command
        raise CommandFailed(f"{failure.message}; known: {', '.join(sorted(KEYS))}", failure.code) from failure
    say("quotas " + ("would be set" if validate_only else "set"))


@app.command(
    epilog=examples(
        "kbroker quotas remove --user alice producer_byte_rate",
        "kbroker quotas remove --user alice --yes   # all quotas of alice",
    )
)
@connected
def remove(
    broker: Connection,
    quotas: Annotated[
        list[str] | None, typer.Argument(metavar="QUOTA", show_default=False, autocompletion=complete_quota)
    ] = None,
    user: User = None,
    client_id: ClientId = None,
    ip: Ip = None,
    yes: Yes = False,
) -> None:
    """Remove the named quotas, or all quotas of the user, client id or address."""
    entity = _entity(user, client_id, ip)
    if not entity:
        raise UsageFailed("give --user, --client-id or --ip")
    there = [key for _, values in read_all(broker, entity, strict=True) for key in values]
    if not there:
        raise CommandFailed("no quotas are set for it; `kbroker quotas list` shows all")
    named = list(quotas or there)
    if missing := sorted(set(named) - set(there)):
        raise CommandFailed(f"{', '.join(missing)}: not set; quotas that are set: {', '.join(sorted(there))}")
    shown = ", ".join(f"{kind} {DEFAULT if name is None else name}" for kind, name in entity)
    confirm(f"Remove {', '.join(sorted(named))} of {shown}?", yes)
    alter(broker, entity, {}, named, validate_only=False)
    say(f"removed {', '.join(sorted(named))}")
