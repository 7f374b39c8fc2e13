"""`kbroker cluster`: identity, brokers, features, API versions, log directories."""

from typing import Annotated, Any

import typer
from msgspec.structs import asdict, astuple

from kbroker.cli.completion import complete_topic
from kbroker.cli.config_changes import require_broker
from kbroker.cli.connection import Connection
from kbroker.cli.failures import broker_error, result_of
from kbroker.cli.log_dirs import DescribedLogDir, described
from kbroker.cli.options import AsJson, connected, examples
from kbroker.cli.output import print_json, print_table, printed
from kbroker.cli.partitions import partitions_of
from kbroker.protocol.api_keys import ApiKey

app = typer.Typer(
    name="cluster",
    no_args_is_help=True,
    help="Show the cluster's identity, brokers, features, API versions and log directories.",
)


@app.command(
    "describe", epilog=examples("kbroker cluster describe", "kbroker cluster describe --json | jq -r .id")
)
@connected
def describe(broker: Connection, json: AsJson = False) -> None:
    """Show the cluster id, the controller and the brokers."""
    found = result_of(broker.admin().describe_cluster(request_timeout=broker.timeout_s))
    brokers = sorted(found.nodes, key=lambda node: int(node.id))
    if json:
        print_json(
            {
                "id": found.cluster_id,
                "controller": found.controller.id if found.controller else None,
                "brokers": [
                    {"id": node.id, "host": node.host, "port": node.port, "rack": node.rack}
                    for node in brokers
                ],
            }
        )
        return
    controller = found.controller.id if found.controller else "-"
    print(printed(f"{found.cluster_id}  controller={controller}"))
    print_table(("BROKER", "HOST", "PORT", "RACK"), [(n.id, n.host, n.port, n.rack) for n in brokers])


@app.command("features", epilog=examples("kbroker cluster features"))
@connected
def features(broker: Connection, json: AsJson = False) -> None:
    """Show the feature levels that the broker supports, and those in effect."""
    with broker.kafka_python_admin() as admin:
        found: dict[str, dict[str, Any]] = admin.describe_features()
    rows = []
    for name in sorted(found):
        supported = found[name].get("supported", (None, None))
        finalized = found[name].get("finalized", (None, None))
        rows.append({"feature": name, "min": supported[0], "max": supported[1], "finalized": finalized[1]})
    if json:
        print_json(rows)
    else:
        print_table(("FEATURE", "MIN", "MAX", "FINALIZED"), [list(row.values()) for row in rows])


@app.command(
    "api-versions", epilog=examples("kbroker cluster api-versions", "kbroker cluster api-versions --json")
)
@connected
def api_versions(
    broker: Connection,
    broker_id: Annotated[
        int | None,
        typer.Option(
            "--broker", metavar="ID", help="Ask this broker.", show_default="the first that answers"
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Show every API of the broker with its lowest and highest version."""
    if broker_id is not None:
        require_broker(broker, str(broker_id))
    with broker.kafka_python_admin() as admin:
        if broker_id is None:
            offered = {int(key): versions for key, versions in admin.api_versions().items()}
        else:
            offered = {int(k): v for k, v in admin.get_broker_version_data(broker_id).api_versions.items()}
    rows = [
        {"key": key, "api": _api_name(key), "min": low, "max": high}
        for key, (low, high) in sorted(offered.items())
    ]
    if json:
        print_json(rows)
    else:
        print_table(("KEY", "API", "MIN", "MAX"), [list(row.values()) for row in rows])


def _api_name(key: int) -> str:
    try:
        return ApiKey(key).title
    except ValueError:
        return f"unknown {key}"


@app.command(
    "log-dirs", epilog=examples("kbroker cluster log-dirs", "kbroker cluster log-dirs --topic orders")
)
@connected
def log_dirs(
    broker: Connection,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="TOPIC",
            help="Count only this topic; repeatable.",
            autocompletion=complete_topic,
        ),
    ] = None,
    partitions: Annotated[
        bool, typer.Option("--partitions", help="Show the size of each partition.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Show log directories with the size of their logs, the size of the disk and its free space."""
    with broker.kafka_python_admin() as admin:
        answers = admin.describe_log_dirs(topic_partitions=topic or None)
    found = list(described(answers))
    with_logs = {log.topic for log_dir in found for log in log_dir.logs}
    if others := [name for name in topic or () if name not in with_logs]:
        # one that does not exist is an error; who may only describe the cluster sees the others'
        # logs
        partitions_of(broker.admin(), others, broker.timeout_s)
    if json:
        print_json([_as_json(log_dir) for log_dir in found])
    elif partitions:
        rows = [(each.broker, each.path, *astuple(log)) for each in found for log in each.logs]
        print_table(("BROKER", "LOG-DIR", "TOPIC", "PARTITION", "BYTES", "OFFSET-LAG", "FUTURE"), rows)
    else:
        totals = [
            (
                each.broker,
                each.path,
                len(each.logs),
                each.bytes,
                each.total_bytes,
                each.usable_bytes,
                _error(each),
            )
            for each in found
        ]
        print_table(
            ("BROKER", "LOG-DIR", "PARTITIONS", "BYTES", "DISK-BYTES", "USABLE-BYTES", "ERROR"), totals
        )


def _as_json(log_dir: DescribedLogDir) -> dict[str, Any]:
    return {
        "broker": log_dir.broker,
        "log_dir": log_dir.path,
        "error": _error(log_dir),
        "bytes": log_dir.bytes,
        "total_bytes": log_dir.total_bytes,
        "usable_bytes": log_dir.usable_bytes,
        "partitions": [asdict(log) for log in log_dir.logs],
    }


def _error(log_dir: DescribedLogDir) -> str | None:
    return broker_error(log_dir.error_code).message if log_dir.error_code else None
