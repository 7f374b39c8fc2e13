"""`kbroker topics elect-leaders`, `reassign`, `reassignments`: leaders and replicas of
partitions."""

from typing import Annotated, Any

import typer

from kbroker.cli.connection import Connection
from kbroker.cli.failures import UsageFailed, broker_error, explain, raise_first
from kbroker.cli.options import AsJson, Scopes, ScopesOrAll, Yes, confirm, connected, examples
from kbroker.cli.output import print_json, print_table, say
from kbroker.cli.partitions import Partition, scoped, scoped_or_all
from kbroker.config.counts import counted
from kbroker.config.setting import INT_MAX
from kbroker.config.whole_numbers import whole_number
from kbroker.protocol.errors import ErrorCode

PREFERRED, UNCLEAN = 0, 1

ELECT_EXAMPLES = examples("kbroker topics elect-leaders", "kbroker topics elect-leaders orders:0,1")
REASSIGN_EXAMPLES = examples(
    "kbroker topics reassign orders:0 --replicas 1", "kbroker topics reassign audit --cancel"
)
REASSIGNMENTS_EXAMPLES = examples("kbroker topics reassignments", "kbroker topics reassignments --json")


@connected
def elect_leaders(
    broker: Connection,
    scopes: ScopesOrAll = None,
    unclean: Annotated[
        bool,
        typer.Option("--unclean", help="Allow a leader that is not in sync: records may be lost."),
    ] = False,
    yes: Yes = False,
) -> None:
    """Elect the preferred (first) replica as the leader of partitions with another leader."""
    admin = broker.admin()
    partitions = scoped_or_all(admin, scopes, broker.timeout_s)
    if unclean:
        confirm(f"Elect leaders of {counted(len(partitions), 'partition')} and lose missing records?", yes)
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    with broker.kafka_python_admin() as client:
        try:
            answer = client.elect_leaders(
                UNCLEAN if unclean else PREFERRED,
                by_topic,
                timeout_ms=int(broker.timeout_s * 1000),
                raise_errors=False,
            )
        except Exception as error:
            raise explain(error) or error from error
    if getattr(answer, "error_code", 0):
        raise broker_error(answer.error_code)
    _report_elections(answer)


def _report_elections(answer: Any) -> None:
    elected = 0
    failures = []
    for result in answer.replica_election_results:
        for part in result.partition_result:
            name = f"{result.topic}-{part.partition_id}"
            if not part.error_code:
                elected += 1
                say(f"{name}: leader elected")
            elif part.error_code != ErrorCode.ELECTION_NOT_NEEDED.value:
                failures.append(broker_error(part.error_code, part.error_message, name))
    if not elected and not failures:
        say("every partition has its preferred leader")
    raise_first(failures)


@connected
def reassign(
    broker: Connection,
    scopes: Scopes,
    replicas: Annotated[
        str | None,
        typer.Option(
            metavar="ID[,ID...]", help="Ids of the new replicas' brokers; the first one is preferred."
        ),
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel a pending reassignment.")] = False,
) -> None:
    """Move replicas of partitions to other brokers; in kbroker to other replica sites."""
    if (replicas is None) != cancel:
        raise UsageFailed("give either --replicas or --cancel")
    target = None if replicas is None else _ids(replicas)
    partitions = scoped(broker.admin(), scopes, broker.timeout_s)
    with broker.kafka_python_admin() as client:
        from kafka.structs import TopicPartition

        try:
            answers = client.alter_partition_reassignments(
                {TopicPartition(*partition): target for partition in partitions},
                timeout_ms=int(broker.timeout_s * 1000),
            )
        except Exception as error:
            raise explain(error) or error from error
    failures = []
    for partition, refusal in sorted(answers.items()):
        name = f"{partition.topic}-{partition.partition}"
        if refusal is None:
            say(f"{name}: {'cancelled' if cancel else 'reassigned; see kbroker topics reassignments'}")
        else:
            failures.append(broker_error(refusal.errno, None, name))
    raise_first(failures)


def _ids(text: str) -> list[int]:
    ids = [whole_number(word, INT_MAX) for word in text.split(",")]
    if None in ids:
        raise UsageFailed(f"--replicas {text!r}: expected broker ids as 1,2,3")
    return [each for each in ids if each is not None]


@connected
def reassignments(broker: Connection, json: AsJson = False) -> None:
    """Show pending reassignments."""
    with broker.kafka_python_admin() as client:
        try:
            found = client.list_partition_reassignments()
        except Exception as error:
            raise explain(error) or error from error
    rows = [_row((p.topic, p.partition), state) for p, state in sorted(found.items())]
    if json:
        print_json(rows)
    else:
        print_table(
            ("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING"), [list(row.values()) for row in rows]
        )


def _row(partition: Partition, state: Any) -> dict[str, Any]:
    names = ("replicas", "adding_replicas", "removing_replicas")
    return {"topic": partition[0], "partition": partition[1], **{name: state[name] for name in names}}
