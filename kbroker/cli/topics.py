"""`kbroker topics`: create, list, describe, alter, delete topics; delete records."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from kbroker.cli import move_logs, replicas
from kbroker.cli.client_properties import parse_pairs
from kbroker.cli.completion import complete_topic, complete_topic_setting, complete_topic_value
from kbroker.cli.connection import Connection
from kbroker.cli.copy_topic import EXAMPLES as COPY_EXAMPLES
from kbroker.cli.copy_topic import copy
from kbroker.cli.delete_records import EXAMPLES as DELETE_RECORDS_EXAMPLES
from kbroker.cli.delete_records import delete_records
from kbroker.cli.failures import CommandFailed, UsageFailed, explain, raise_first, result_of
from kbroker.cli.options import AsJson, DryRun, Topics, Yes, confirm, connected, examples
from kbroker.cli.output import print_json, print_table, printed, say
from kbroker.cli.topic_description import describe_topic
from kbroker.cli.topic_list import EXAMPLES as LIST_EXAMPLES
from kbroker.cli.topic_list import list_topics
from kbroker.config.counts import counted
from kbroker.protocol.errors import ErrorCode

app = typer.Typer(
    name="topics", no_args_is_help=True, help="Create, list, describe, alter and delete topics."
)

Configs = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="KEY=VALUE",
        help="A topic setting; repeatable.",
        autocompletion=complete_topic_value,
    ),
]
PartitionCount = Annotated[
    int | None,
    typer.Option(
        "--partitions",
        "-p",
        min=1,
        max=100_000,
        help="Number of partitions.",
        show_default="the broker's num.partitions",
    ),
]
ReplicationFactor = Annotated[
    int | None,
    typer.Option(
        "--replication-factor",
        "-r",
        min=1,
        max=32767,
        help="Replicas of each partition.",
        show_default="the broker's default",
    ),
]


@app.command(
    epilog=examples(
        "kbroker topics create orders --partitions 6",
        "kbroker topics create audit -c cleanup.policy=compact -c min.cleanable.dirty.ratio=0.1",
    )
)
@connected
def create(
    broker: Connection,
    topics: Topics,
    partitions: PartitionCount = None,
    replication_factor: ReplicationFactor = None,
    config: Configs = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do not fail if a topic already exists.")
    ] = False,
    validate_only: DryRun = False,
    json: AsJson = False,
) -> None:
    """Create one or more topics."""
    from confluent_kafka.admin import NewTopic

    settings = parse_pairs("--config", config or [])
    new_topics = [
        NewTopic(name, partitions or -1, replication_factor or -1, config=settings)
        for name in dict.fromkeys(topics)
    ]
    admin = broker.admin()
    answers = admin.create_topics(
        new_topics,
        request_timeout=broker.timeout_s,
        operation_timeout=broker.timeout_s,
        validate_only=validate_only,
    )
    created, failures = _outcomes(answers, ErrorCode.TOPIC_ALREADY_EXISTS if if_not_exists else None)
    if json:
        member = "would_be_created" if validate_only else "created"
        print_json([{"topic": name, member: was_new} for name, was_new in created.items()])
    done = "would be created" if validate_only else "created"
    for name, was_new in created.items():
        if not json:
            say(f"{name}: {done if was_new else 'exists already'}")
    if replication_factor and not validate_only:
        _report_clamped(broker, [name for name, was_new in created.items() if was_new], replication_factor)
    raise_first(failures)


def _outcomes(
    answers: Mapping[str, Any], no_failure: ErrorCode | None
) -> tuple[dict[str, bool], list[CommandFailed]]:
    """(whether each topic was changed, failures of the others). no_failure: an error that is
    accepted."""
    changed: dict[str, bool] = {}
    failures = []
    for name, future in answers.items():
        try:
            future.result()
        except Exception as error:
            failure = explain(error, name)
            if failure is None:
                raise
            if no_failure is not None and failure.error is no_failure:
                changed[name] = False
            else:
                failures.append(failure)
        else:
            changed[name] = True
    return changed, failures


def _report_clamped(broker: Connection, names: list[str], requested: int) -> None:
    """Print a remark about topics with fewer replicas than requested. The broker's answer has it as
    a text, which the client library drops."""
    found = broker.admin().list_topics(timeout=broker.timeout_s).topics
    for name in set(names) & found.keys():
        got = max((len(p.replicas) for p in found[name].partitions.values()), default=requested)
        if got < requested:
            say(f"{name}: {counted(got, 'replica')}, not {requested}: there are no more places for them")


app.command("list", epilog=LIST_EXAMPLES)(list_topics)
app.command("copy", epilog=COPY_EXAMPLES)(copy)


@app.command(
    epilog=examples("kbroker topics describe orders", "kbroker topics describe --json | jq '.[].id'")
)
@connected
def describe(
    broker: Connection,
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC", help="Default: all topics.", show_default=False, autocompletion=complete_topic
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Show ids, settings that differ from the default, leaders, replicas and in-sync replicas."""
    admin = broker.admin()
    if topics:
        described = [describe_topic(admin, name, broker.timeout_s) for name in topics]
    else:
        described = list(_all_described(admin, broker.timeout_s))
    if json:
        print_json(described)
        return
    for number, topic in enumerate(described):
        settings = " ".join(f"{key}={value}" for key, value in topic["configs"].items())
        print(
            ("\n" if number else "")
            + f"{topic['topic']}  id={topic['id']}  partitions={len(topic['partitions'])}"
        )
        print(printed(f"settings: {settings or 'all default'}"))
        rows = [(p["partition"], p["leader"], p["replicas"], p["isr"]) for p in topic["partitions"]]
        print_table(("PARTITION", "LEADER", "REPLICAS", "ISR"), rows)


def _all_described(admin: Any, timeout_s: float) -> Iterator[dict[str, Any]]:
    """The descriptions of all topics, without those that are deleted meanwhile. Raises
    CommandFailed."""
    for name in sorted(admin.list_topics(timeout=timeout_s).topics):
        try:
            yield describe_topic(admin, name, timeout_s)
        except CommandFailed as failure:
            if failure.error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise


@app.command(
    epilog=examples(
        "kbroker topics alter orders --partitions 12",
        "kbroker topics alter orders -c retention.ms=86400000 --delete-config segment.bytes",
    )
)
@connected
def alter(
    broker: Connection,
    topic: Annotated[str, typer.Argument(show_default=False, autocompletion=complete_topic)],
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", "-p", min=1, max=100_000, help="New number of partitions; it can only grow."
        ),
    ] = None,
    config: Configs = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option(
            "--delete-config",
            metavar="KEY",
            help="Restore the default of this setting; repeatable.",
            autocompletion=complete_topic_setting,
        ),
    ] = None,
    validate_only: DryRun = False,
) -> None:
    """Add partitions, change settings, or restore their defaults."""
    from kbroker.cli.config_changes import change_configs

    if not (partitions or config or delete_config):
        raise UsageFailed("nothing to alter: give --partitions, --config or --delete-config")
    settings = parse_pairs("--config", config or [])
    if partitions:  # before any setting changes
        _grow(broker, topic, partitions, validate_only=True)
    if settings or delete_config:
        change_configs(
            broker, "topic", topic, sets=settings, deletes=delete_config or [], validate_only=validate_only
        )
    if partitions and not validate_only:
        _grow(broker, topic, partitions, validate_only=False)
    say(f"{topic}: {'would be altered' if validate_only else 'altered'}")


def _grow(broker: Connection, topic: str, partitions: int, *, validate_only: bool) -> None:
    from confluent_kafka.admin import NewPartitions

    answers = broker.admin().create_partitions(
        [NewPartitions(topic, partitions)],
        request_timeout=broker.timeout_s,
        operation_timeout=broker.timeout_s,
        validate_only=validate_only,
    )
    result_of(answers[topic], topic)


@app.command(epilog=examples("kbroker topics delete orders audit --yes"))
@connected
def delete(
    broker: Connection,
    topics: Topics,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Do not fail if a topic does not exist.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Delete topics with all their records."""
    confirm(f"Delete {', '.join(topics)} with all records?", yes)
    answers = broker.admin().delete_topics(
        list(dict.fromkeys(topics)), request_timeout=broker.timeout_s, operation_timeout=broker.timeout_s
    )
    deleted, failures = _outcomes(answers, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if if_exists else None)
    for name, was_there in deleted.items():
        say(f"{name}: {'deleted' if was_there else 'not there'}")
    raise_first(failures)


app.command("delete-records", epilog=DELETE_RECORDS_EXAMPLES)(delete_records)
app.command("elect-leaders", epilog=replicas.ELECT_EXAMPLES)(replicas.elect_leaders)
app.command("reassign", epilog=replicas.REASSIGN_EXAMPLES)(replicas.reassign)
app.command("reassignments", epilog=replicas.REASSIGNMENTS_EXAMPLES)(replicas.reassignments)
app.command("move-logs", epilog=move_logs.EXAMPLES)(move_logs.move_logs)
