"""`kbroker transactions`: lists and describes transactions, aborts hanging ones (KIP-664)."""

import time
from typing import Annotated, Any

import typer

from kbroker.cli.completion import complete_topic
from kbroker.cli.connection import Connection
from kbroker.cli.coordinators import coordinator_answer
from kbroker.cli.failures import CommandFailed, UsageFailed, explain
from kbroker.cli.hanging_transactions import EXAMPLES as HANGING_EXAMPLES
from kbroker.cli.hanging_transactions import find_hanging
from kbroker.cli.known_words import TRANSACTION_STATES, known_words
from kbroker.cli.options import AsJson, Scopes, Yes, confirm, connected, examples
from kbroker.cli.output import print_json, print_table, say
from kbroker.cli.partitions import scoped
from kbroker.cli.points_in_time import format_time, parse_duration_ms
from kbroker.config.setting import LONG_MAX

app = typer.Typer(name="transactions", no_args_is_help=True, help="List, describe and abort transactions.")


Pattern = Annotated[
    str | None,
    typer.Argument(
        help="Regular expression that must match the whole id (Kafka 4.1 and later).", show_default=False
    ),
]
FormerPattern = Annotated[
    str | None, typer.Option("--pattern", hidden=True, help="The former place of PATTERN.")
]
State = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        metavar="WORD",
        help="Only in this state, for example Ongoing or CompleteCommit; repeatable.",
    ),
]


@app.command(
    "list",
    epilog=examples(
        "kbroker transactions list", "kbroker transactions list --state Ongoing --longer-than 5m"
    ),
)
@connected
def list_transactions(
    broker: Connection,
    pattern: Pattern = None,
    state: State = None,
    producer_id: Annotated[
        list[int] | None,
        typer.Option("--producer-id", min=0, max=LONG_MAX, help="Only of this producer id; repeatable."),
    ] = None,
    longer_than: Annotated[
        str | None,
        typer.Option(
            "--longer-than", metavar="DURATION", help="Only those open for longer than: 90s, 15m, 2h."
        ),
    ] = None,
    former_pattern: FormerPattern = None,
    json: AsJson = False,
) -> None:
    """List transactional ids with producer id and state."""
    if pattern is not None and former_pattern is not None:
        raise UsageFailed("--pattern is the former place of PATTERN: give one")
    states = known_words("--state", state, TRANSACTION_STATES)
    duration_ms = None if longer_than is None else parse_duration_ms(longer_than)
    with broker.kafka_python_admin() as admin:
        found = admin.list_transactions(
            producer_id_filters=producer_id or None,
            state_filters=states or None,
            duration_filter_ms=duration_ms,
            transactional_id_pattern=former_pattern if pattern is None else pattern,
        )
    rows = [
        {
            "transactional_id": row.transactional_id,
            "coordinator": coordinator,
            "producer_id": row.producer_id,
            "state": row.state.value,
        }
        for coordinator, listed in sorted(found.items())
        for row in sorted(listed)
    ]
    if json:
        print_json(rows)
    else:
        print_table(
            ("TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE"), [list(row.values()) for row in rows]
        )


@app.command("describe", epilog=examples("kbroker transactions describe payments-1"))
@connected
def describe(
    broker: Connection,
    ids: Annotated[list[str], typer.Argument(metavar="TRANSACTIONAL-ID", show_default=False)],
    json: AsJson = False,
) -> None:
    """Show producer, state, age and partitions of transactional ids."""
    with broker.kafka_python_admin() as admin:
        found = [_described(admin, name, broker.timeout_s) for name in ids]
    now_ms = int(time.time() * 1000)
    described = [_description(*each, now_ms) for each in zip(ids, found, strict=True)]
    if json:
        print_json(described)
        return
    rows = [
        (
            *(
                d[key]
                for key in ("transactional_id", "coordinator", "producer_id", "producer_epoch", "state")
            ),
            d["timeout_ms"],
            format_time(d["started_ms"] if d["started_ms"] is not None else -1),
            d["open_seconds"],
            [f"{p['topic']}-{p['partition']}" for p in d["partitions"]],
        )
        for d in described
    ]
    headers = (
        "TRANSACTIONAL-ID COORDINATOR PRODUCER-ID EPOCH STATE TIMEOUT-MS STARTED OPEN-SECONDS PARTITIONS"
    )
    print_table(headers.split(), rows)


def _described(admin: Any, name: str, timeout_s: float) -> Any:
    """One request for each: the error of several names none."""
    return coordinator_answer(lambda: admin.describe_transactions([name]), name, timeout_s)[name]


def _description(name: str, found: Any, now_ms: int) -> dict[str, Any]:
    started = found.transaction_start_time_ms
    return {
        "transactional_id": name,
        "coordinator": found.coordinator_id,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "state": found.state.value,
        "timeout_ms": found.transaction_timeout_ms,
        "started_ms": started if started >= 0 else None,
        "open_seconds": (now_ms - started) / 1000 if started >= 0 else None,
        "partitions": [{"topic": t, "partition": p} for t, p in sorted(found.topic_partitions)],
    }


@app.command("producers", epilog=examples("kbroker transactions producers orders:0"))
@connected
def producers(
    broker: Connection,
    scopes: Scopes,
    json: AsJson = False,
) -> None:
    """Show the active producers of partitions, and the start offsets of their open transactions."""
    partitions = scoped(broker.admin(), scopes, broker.timeout_s)
    with broker.kafka_python_admin() as admin:
        found = _producers(admin, partitions)
    rows = [
        {
            "topic": topic,
            "partition": number,
            "producer_id": p.producer_id,
            "producer_epoch": p.producer_epoch,
            "coordinator_epoch": p.coordinator_epoch,
            "last_sequence": p.last_sequence,
            "last_timestamp": p.last_timestamp,
            "transaction_start_offset": _start(p),
        }
        for (topic, number), listed in sorted(found.items())
        for p in sorted(listed)
    ]
    if json:
        print_json(rows)
        return
    headers = (
        "TOPIC PARTITION PRODUCER-ID EPOCH COORDINATOR-EPOCH LAST-SEQUENCE LAST-TIMESTAMP TXN-START-OFFSET"
    )
    shown = [list((row | {"last_timestamp": format_time(row["last_timestamp"])}).values()) for row in rows]
    print_table(headers.split(), shown)


def _producers(admin: Any, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], list[Any]]:
    from kafka.structs import TopicPartition

    answers = admin.describe_producers([TopicPartition(*partition) for partition in partitions])
    return {(p.topic, p.partition): list(state.active_producers) for p, state in answers.items()}


def _start(producer: Any) -> int | None:
    offset = int(producer.current_transaction_start_offset)
    return offset if offset >= 0 else None


app.command("find-hanging", epilog=HANGING_EXAMPLES)(find_hanging)


@app.command(
    "abort",
    epilog=examples(
        "# first find a transaction that no coordinator knows",
        "kbroker transactions find-hanging",
        "kbroker transactions abort orders:0 --start-offset 1500 --yes",
    ),
)
@connected
def abort(
    broker: Connection,
    partition: Annotated[
        str, typer.Argument(metavar="TOPIC:PARTITION", show_default=False, autocompletion=complete_topic)
    ],
    start_offset: Annotated[
        int | None, typer.Option("--start-offset", min=0, help="Start offset of the open transaction.")
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option("--producer-id", min=0, help="Its producer id, instead of the start offset.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Abort a hanging transaction of one partition, so that read_committed consumers can continue.

    The marker is written without asking the coordinator. Use it only for transactions that the
    coordinator no longer has."""
    if (start_offset is None) == (producer_id is None):
        raise UsageFailed("give either --start-offset or --producer-id")
    chosen = scoped(broker.admin(), [partition], broker.timeout_s)
    if len(chosen) != 1 or ":" not in partition:
        raise UsageFailed(f"{partition!r}: expected one TOPIC:PARTITION")
    with broker.kafka_python_admin() as admin:
        from kafka.admin import AbortTransactionSpec
        from kafka.structs import TopicPartition

        active = _producers(admin, chosen)[chosen[0]]
        hanging = [
            p
            for p in active
            if _start(p) is not None and (_start(p) == start_offset or p.producer_id == producer_id)
        ]
        if not hanging:
            raise CommandFailed(
                f"{partition} has no such open transaction; `kbroker transactions producers {partition}` shows them"
            )
        found = hanging[0]
        confirm(f"Abort the transaction of producer {found.producer_id} on {partition}?", yes)
        spec = AbortTransactionSpec(
            TopicPartition(*chosen[0]),
            found.producer_id,
            found.producer_epoch,
            max(found.coordinator_epoch, 0),
        )
        try:
            admin.abort_transaction(spec)
        except Exception as error:
            raise explain(error, partition) or error from error
    say(f"{partition}: transaction of producer {found.producer_id} aborted")
