"""`kbroker client-metrics`: subscriptions to metrics that clients push, as
kafka-client-metrics.sh."""

from typing import Annotated, Any

import typer

from kbroker.cli import named_configs
from kbroker.cli.config_changes import read_configs
from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed, UsageFailed, broker_error, result_of
from kbroker.cli.long_names import refuse_long_string
from kbroker.cli.options import AsJson, DryRun, Yes, confirm, connected, examples
from kbroker.cli.output import print_json, print_table, say

app = typer.Typer(
    name="client-metrics",
    no_args_is_help=True,
    help="List and change subscriptions to metrics that clients push.",
)

CLIENT_METRICS = 16
"""Type of a resource, as in the protocol."""
SET, DELETE = 0, 1
SETTINGS = ("interval.ms", "match", "metrics")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The subscription.", show_default=False)]


def _subject(name: str) -> str:
    return f"client metrics subscription {name}"


def names(broker: Connection) -> list[str]:
    """All subscriptions. Raises CommandFailed."""
    from kafka.protocol.admin import ListConfigResourcesRequest

    request = ListConfigResourcesRequest(resource_types=[CLIENT_METRICS], max_version=0)
    answer = named_configs.ask(broker, request)
    if answer.error_code:
        raise broker_error(answer.error_code, None, "client metrics subscriptions")
    return sorted(resource.resource_name for resource in answer.config_resources)


def _described(broker: Connection, name: str) -> dict[str, Any]:
    entries = named_configs.read(broker, (CLIENT_METRICS, name), _subject(name))
    return {"name": name, **{entry["name"]: entry["value"] for entry in entries}}


@app.command("list", epilog=examples("kbroker client-metrics list"))
@connected
def list_subscriptions(broker: Connection, json: AsJson = False) -> None:
    """List the names of all subscriptions."""
    found = names(broker)
    if json:
        print_json(found)
        return
    print_table(["NAME"], [[name] for name in found])


@app.command(
    epilog=examples(
        "kbroker client-metrics describe",
        "kbroker client-metrics describe producers --json | jq -r .[].metrics",
    )
)
@connected
def describe(
    broker: Connection,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Default: all subscriptions.", show_default=False)
    ] = None,
    json: AsJson = False,
) -> None:
    """Show the metrics that subscriptions request, their clients and intervals."""
    known = names(broker)
    if name is not None and name not in known:
        raise CommandFailed(f"there is no {_subject(name)}; `kbroker client-metrics list` shows all")
    found = [_described(broker, each) for each in (known if name is None else [name])]
    if json:
        print_json(found)
        return
    rows = [[one["name"], *(one.get(setting) or "" for setting in SETTINGS)] for one in found]
    print_table(["NAME", "INTERVAL-MS", "MATCH", "METRICS"], rows)


@app.command(
    epilog=examples(
        "kbroker client-metrics alter all --metrics '*' --interval-ms 60000",
        "kbroker client-metrics alter etl --metrics org.apache.kafka.producer. --match 'client_id=etl-.*'",
        "kbroker client-metrics alter etl --match ''   # every client again",
    )
)
@connected
def alter(
    broker: Connection,
    name: Name,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="PREFIX[,...]", help="Prefixes of metric names; * is all, empty is none."),
    ] = None,
    interval_ms: Annotated[
        int | None,
        typer.Option(
            metavar="MS", help="Interval between pushes, 100 to 3600000; a new subscription has 300000."
        ),
    ] = None,
    match: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SELECTOR=REGEX",
            help="Only clients whose client_id, client_instance_id, client_software_name, client_software_version, "
            "client_source_address or client_source_port matches; repeatable, all must match. Empty is every "
            "client.",
        ),
    ] = None,
    validate_only: DryRun = False,
) -> None:
    """Create or change a subscription; options that are not given stay unchanged."""
    settings = {
        "metrics": metrics,
        "interval.ms": None if interval_ms is None else str(interval_ms),
        "match": None if match is None else ",".join(match),
    }
    operations = [
        (key, SET if value else DELETE, value) for key, value in settings.items() if value is not None
    ]
    if not operations:
        raise UsageFailed("nothing to alter: give --metrics, --interval-ms or --match")
    refuse_long_string("all of --match", settings["match"] or "")
    named_configs.change(broker, (CLIENT_METRICS, name), _subject(name), operations, validate_only)
    say(f"{_subject(name)}: {'would be altered' if validate_only else 'altered'}")
    _warn_without_effect(broker)


def _off_settings(broker: Connection) -> list[str]:
    """Settings because of which the broker does not take metrics of clients, with their values;
    none of Apache Kafka, which has no such settings. Raises CommandFailed."""
    node, *_ = result_of(broker.admin().describe_cluster(request_timeout=broker.timeout_s)).nodes
    found = {entry["name"]: entry["value"] for entry in read_configs(broker, "broker", str(node.id))}
    off = {"kbroker.client.telemetry.enable": "false", "kbroker.http.listen": ""}
    return [f"{setting}={value}" for setting, value in off.items() if found.get(setting) == value]


def _warn_without_effect(broker: Connection) -> None:
    """Warn if the broker's settings disable client metrics: the broker writes that only to its
    log."""
    try:
        off = _off_settings(broker)
    except CommandFailed:  # the change is made all the same
        return
    if off:
        say(
            f"warning: clients push no metrics, as the broker has {' and '.join(off)}; change that in its "
            "properties and start it again"
        )


@app.command(epilog=examples("kbroker client-metrics delete etl --yes"))
@connected
def delete(broker: Connection, name: Name, yes: Yes = False) -> None:
    """Delete a subscription: clients stop pushing its metrics."""
    if name not in names(broker):
        raise CommandFailed(f"there is no {_subject(name)}; `kbroker client-metrics list` shows all")
    confirm(f"Delete {_subject(name)}?", yes)
    operations = [(setting, DELETE, None) for setting in SETTINGS]
    named_configs.change(broker, (CLIENT_METRICS, name), _subject(name), operations, validate_only=False)
    say(f"{_subject(name)}: deleted")
