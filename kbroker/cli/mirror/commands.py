"""`kbroker move` and `kbroker import`: live moves between kbroker and an Apache Kafka cluster, with
MirrorMaker 2."""

from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import Struct

from kbroker.cli import client_properties
from kbroker.cli.connection import Connection
from kbroker.cli.exit_codes import ExitCode
from kbroker.cli.failures import CommandFailed, UsageFailed
from kbroker.cli.options import connected, examples
from kbroker.cli.output import print_json, print_table, say
from kbroker.config.counts import counted

MOVE_EXAMPLES = examples(
    "kbroker move --to kafka1:9092,kafka2:9092 --plan",
    "kbroker move --to kafka1:9092,kafka2:9092 --to-config cluster.properties",
    "kbroker move --to kafka1:9092 --topic orders --topic payments --kafka-home /opt/kafka",
)
IMPORT_EXAMPLES = examples(
    "kbroker import --from kafka1:9092,kafka2:9092 --plan",
    "kbroker import --from kafka1:9092 --from-config cluster.properties",
)
IDLE_TIMEOUT_S = 30.0
MAX_QUIET_S = 30 * 86400
Topics = Annotated[
    list[str] | None, typer.Option("--topic", metavar="TOPIC", help="Copy only this topic; repeatable.")
]
PlanOnly = Annotated[bool, typer.Option("--plan", help="Only show what would be copied.")]
Factor = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=32767,
        show_default="3, or the target's brokers",
        help="Replication factor of the new topics.",
    ),
]
QuietS = Annotated[
    float | None,
    typer.Option(
        "--idle-timeout",
        min=1,
        max=MAX_QUIET_S,
        metavar="SECONDS",
        show_default=f"{IDLE_TIMEOUT_S:g}",
        help="The source counts as stopped after this time without writes.",
    ),
]
FormerQuietS = Annotated[
    float | None,
    typer.Option(
        "--quiet",
        hidden=True,  # of other commands it is a flag: no summary
        min=1,
        max=MAX_QUIET_S,
        metavar="SECONDS",
        help="The former name of --idle-timeout.",
    ),
]
EveryS = Annotated[
    float, typer.Option("--every", min=0.2, max=3600, metavar="SECONDS", help="Interval of progress lines.")
]
Tasks = Annotated[int, typer.Option(min=1, max=1000, help="Number of MirrorMaker's parallel tasks.")]
Heap = Annotated[str, typer.Option(metavar="SIZE", help="Java heap of MirrorMaker.")]
Exact = Annotated[
    bool,
    typer.Option(
        "--exactly-once", help="Copy in transactions: no duplicates, even if MirrorMaker is killed."
    ),
]
KafkaHome = Annotated[
    Path | None,
    typer.Option(
        envvar="KAFKA_HOME",
        metavar="DIR",
        help="Folder of an installed Apache Kafka; its jars are used.",
        show_default="fetch jars once",
    ),
]
Log = Annotated[
    Path, typer.Option(metavar="FILE", help="File for MirrorMaker's log; the command appends to it.")
]
KeepTopics = Annotated[
    bool, typer.Option("--keep-topics", help="Keep MirrorMaker's internal topics at the target.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the plan or the result as JSON.")]


@connected
def move(
    broker: Connection,
    to: Annotated[str, typer.Option("--to", metavar="HOST:PORT[,...]", help="The cluster to move to.")],
    to_config: Annotated[Path | None, typer.Option(metavar="FILE", help="Its client.properties.")] = None,
    topic: Topics = None,
    plan: PlanOnly = False,
    replication_factor: Factor = None,
    idle_timeout_s: QuietS = None,
    quiet_s: FormerQuietS = None,
    every_s: EveryS = 5,
    tasks: Tasks = 4,
    heap: Heap = "1g",
    exactly_once: Exact = False,
    kafka_home: KafkaHome = None,
    log: Log = Path("mirror.log"),
    keep_topics: KeepTopics = False,
    json: AsJson = False,
) -> None:
    """Move to an Apache Kafka cluster while clients work: topics, settings, ACLs, quotas, records,
    group offsets.

    Prints when to stop the producers, verifies every record, and prints when the clients may start
    at the cluster. Ctrl-C stops; the same command continues (`kbroker docs move-live`)."""
    other = _other(broker, to, to_config, "--to-config")
    quiet = _quiet_s(idle_timeout_s, quiet_s)
    options = _Options(topic or [], plan, replication_factor, quiet, every_s, tasks, heap, exactly_once)
    _run(broker, other, options, kafka_home, log, keep_topics, json)


@connected
def import_(
    broker: Connection,
    from_: Annotated[
        str, typer.Option("--from", metavar="HOST:PORT[,...]", help="The cluster to import from.")
    ],
    from_config: Annotated[Path | None, typer.Option(metavar="FILE", help="Its client.properties.")] = None,
    topic: Topics = None,
    plan: PlanOnly = False,
    replication_factor: Factor = None,
    idle_timeout_s: QuietS = None,
    quiet_s: FormerQuietS = None,
    every_s: EveryS = 5,
    tasks: Tasks = 4,
    heap: Heap = "1g",
    exactly_once: Exact = False,
    kafka_home: KafkaHome = None,
    log: Log = Path("mirror.log"),
    keep_topics: KeepTopics = False,
    json: AsJson = False,
) -> None:
    """Import from an Apache Kafka cluster while clients work: `kbroker move`, the other way
    round."""
    other = _other(broker, from_, from_config, "--from-config")
    quiet = _quiet_s(idle_timeout_s, quiet_s)
    options = _Options(topic or [], plan, replication_factor, quiet, every_s, tasks, heap, exactly_once)
    _run(other, broker, options, kafka_home, log, keep_topics, json)


class _Options(Struct, frozen=True):
    """Options of both commands."""

    topics: list[str]
    plan: bool
    replication_factor: int | None
    quiet_s: float
    every_s: float
    tasks: int
    heap: str
    exactly_once: bool


def _quiet_s(given: float | None, former: float | None) -> float:
    if given is not None and former is not None:
        raise UsageFailed("--quiet is the former name of --idle-timeout: give one")
    return next((each for each in (given, former) if each is not None), IDLE_TIMEOUT_S)


def _other(broker: Connection, address: str, config: Path | None, option: str) -> Connection:
    if address == broker.bootstrap:
        raise UsageFailed(f"{address} is both source and target")
    settings = client_properties.read(config) if config else {}
    return Connection(address, settings, broker.timeout_s, config, option)


def _run(
    source: Connection,
    target: Connection,
    options: _Options,
    kafka_home: Path | None,
    log: Path,
    keep_topics: bool,
    json: bool,
) -> None:
    from kbroker.cli.mirror.jars import JarsMissing, class_path
    from kbroker.cli.mirror.plan import make_plan
    from kbroker.cli.mirror.positions import Positions

    continues = Positions(target).exists()
    plan = make_plan(source, target, options.topics, options.replication_factor, continues)
    if options.plan:
        _show_plan(plan, json)
        return
    try:
        class_path(kafka_home)
    except JarsMissing as missing:
        raise CommandFailed(str(missing)) from None
    log.open("ab").close()  # before anything is created at the target
    for remark in plan.remarks:
        say(remark)
    say(
        f"{'continuing with' if continues else 'copying'} {_extent(plan)}; replication factor {plan.replication_factor}"
    )
    _copy(source, target, plan, options, kafka_home, log)
    _verify(source, target, options, keep_topics, json)


def _copy(
    source: Connection, target: Connection, plan: Any, options: _Options, kafka_home: Path | None, log: Path
) -> None:
    """Copy topics, ACLs and quotas, then records until all are copied."""
    from kbroker.cli.mirror.engine import Engine, engine_settings
    from kbroker.cli.mirror.following import Follower, follow
    from kbroker.cli.mirror.prepare import copy_acls, copy_quotas, create_topics, renewed

    for remark in create_topics(target, plan):
        say(remark)
    copy_acls(source, target)
    copy_quotas(source, target)
    settings = engine_settings(
        source, target, options.topics, plan.replication_factor, options.tasks, options.exactly_once
    )
    follower = Follower(source.bootstrap, options.quiet_s, say)
    with Engine(settings, kafka_home, options.heap, log) as engine:
        follow(
            source,
            target,
            plan,
            engine,
            follower,
            options.every_s,
            lambda plan: renewed(source, target, plan, options.topics, say),
        )


def _verify(source: Connection, target: Connection, options: _Options, keep_topics: bool, json: bool) -> None:
    """Compare every record. Raises CommandFailed if one differs."""
    from kbroker.cli.mirror.finish import finish, remove_own_topics
    from kbroker.cli.mirror.plan import make_plan

    say("all is copied; comparing every record")
    plan = make_plan(source, target, options.topics, options.replication_factor, continues=True)
    outcome = finish(source, target, plan, say)
    for remark in outcome.remarks:
        say(remark)
    _show_outcome(outcome, json)
    if not outcome.clean:
        raise CommandFailed("source and target differ: do not move the clients", ExitCode.FAILED)
    if not keep_topics:
        remove_own_topics(target)
    say(f"verified. Start the clients with bootstrap.servers={target.bootstrap}")


def _extent(plan: Any) -> str:
    return (
        f"{counted(len(plan.topics), 'topic')}, {counted(len(plan.partitions), 'partition')}, "
        f"about {counted(plan.records, 'record')}, {counted(len(plan.groups), 'group')}, "
        f"{counted(plan.acls, 'ACL')}"
    )


def _show_plan(plan: Any, json: bool) -> None:
    rows = [
        {
            "topic": topic.name,
            "partitions": topic.partitions,
            "records": sum(
                plan.ends[topic.name, n] - plan.starts[topic.name, n] for n in range(topic.partitions)
            ),
            "at_target": topic.at_target > 0,
            "settings": {name: one.value for name, one in topic.settings.items() if one.source == "topic"},
        }
        for topic in plan.topics.values()
    ]
    if json:
        facts = {"groups": plan.groups, "acls": plan.acls, "replication_factor": plan.replication_factor}
        print_json({"topics": rows, **facts, "remarks": plan.remarks})
        return
    say(f"{_extent(plan)}; replication factor {plan.replication_factor}")
    for remark in plan.remarks:
        say(remark)
    shown = [
        (
            r["topic"],
            r["partitions"],
            r["records"],
            ",".join(f"{k}={v}" for k, v in r["settings"].items()) or None,
        )
        for r in rows
    ]
    print_table(("TOPIC", "PARTITIONS", "RECORDS", "SETTINGS"), shown)


def _show_outcome(outcome: Any, json: bool) -> None:
    if json:
        partitions = [
            {"topic": one.partition[0], "partition": one.partition[1], **_facts(one)}
            for one in outcome.differences
        ]
        print_json(
            {
                "clean": outcome.clean,
                "records": outcome.records,
                "duplicates": outcome.duplicates,
                "groups": outcome.groups,
                "partitions": partitions,
            }
        )
        return
    rows = [
        (*one.partition, one.source, one.target, one.duplicates, one.digest) for one in outcome.differences
    ]
    print_table(("TOPIC", "PARTITION", "SOURCE", "TARGET", "DUPLICATES", "DIGEST"), rows)
    say(
        f"{counted(outcome.records, 'record')} compared, {sum(one.missing for one in outcome.differences):,} missing, "
        f"{outcome.duplicates:,} twice; offsets of {counted(len(outcome.groups), 'group')} set"
    )


def _facts(one: Any) -> dict[str, Any]:
    names = ("source", "target", "missing", "duplicates", "foreign", "expired", "ordered", "digest")
    return {name: getattr(one, name) for name in names}
