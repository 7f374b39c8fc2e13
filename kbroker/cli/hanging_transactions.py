"""`kbroker transactions find-hanging`: finds open transactions that no coordinator will end
(KIP-664)."""

import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer
from msgspec import Struct

from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed, explain
from kbroker.cli.options import AsJson, ScopesOrAll, connected, examples
from kbroker.cli.output import print_json, print_table, say
from kbroker.cli.partitions import Partition, scoped_or_all, without_leader
from kbroker.cli.points_in_time import format_time, parse_duration_ms
from kbroker.config.counts import counted

EXAMPLES = examples(
    "kbroker transactions find-hanging",
    "kbroker transactions find-hanging orders:0,1 --older-than 1h",
    "kbroker transactions find-hanging --json | jq -r '.[].abort'",
)


class Candidate(Struct, frozen=True):
    """An open transaction of a partition. last_ms: time of the producer's last record."""

    partition: Partition
    producer_id: int
    producer_epoch: int
    start_offset: int
    last_ms: int


def hanging(
    candidates: Iterable[Candidate], known: Mapping[int, set[Partition]], older_than_ms: int, now_ms: int
) -> list[Candidate]:
    """Candidates without recent records whose coordinator has no open transaction with the
    partition.

    known: partitions of open transactions, by producer id."""
    return [
        candidate
        for candidate in candidates
        if now_ms - candidate.last_ms > older_than_ms
        and candidate.partition not in known.get(candidate.producer_id, ())
    ]


@connected
def find_hanging(
    broker: Connection,
    scopes: ScopesOrAll = None,
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than",
            metavar="DURATION",
            help="Time without a record; if it is below transaction.max.timeout.ms, a transaction may just be slow.",
        ),
    ] = "15m",
    json: AsJson = False,
) -> None:
    """Find open transactions that no coordinator knows: read_committed consumers wait for them.

    Ends with 0 even if some are found, and with 1 if a partition has no leader. `transactions
    abort` aborts one."""
    older_than_ms = parse_duration_ms(older_than)
    admin = broker.admin()
    requested = scoped_or_all(admin, scopes, broker.timeout_s)
    dead = without_leader(admin, requested, broker.timeout_s)
    partitions = [each for each in requested if each not in dead]
    with broker.kafka_python_admin() as client:
        try:
            candidates = _candidates(client, partitions)
            known = _known(client, sorted({each.producer_id for each in candidates}))
            found = hanging(candidates, known, older_than_ms, int(time.time() * 1000))
            # A transaction that ended between the two requests is unknown, too: check that it is
            # still open.
            still_open = set(_candidates(client, sorted({each.partition for each in found})))
        except Exception as error:
            raise explain(error) or error from error
    _show([each for each in found if each in still_open], json)
    if dead:
        topic, number = min(dead)
        some = counted(len(dead), "partition")
        raise CommandFailed(f"not checked, without a leader: {some}, the first is {topic}-{number}")


def _candidates(client: Any, partitions: list[Partition]) -> list[Candidate]:
    from kafka.structs import TopicPartition

    if not partitions:
        return []
    answers = client.describe_producers([TopicPartition(*partition) for partition in partitions])
    return [
        Candidate(
            (p.topic, p.partition),
            producer.producer_id,
            producer.producer_epoch,
            producer.current_transaction_start_offset,
            producer.last_timestamp,
        )
        for p, state in sorted(answers.items())
        for producer in sorted(state.active_producers)
        if producer.current_transaction_start_offset >= 0
    ]


def _known(client: Any, producer_ids: list[int]) -> dict[int, set[Partition]]:
    """Partitions of open transactions of these producers."""
    if not producer_ids:
        return {}
    listed = client.list_transactions(producer_id_filters=producer_ids)
    names = sorted({row.transactional_id for rows in listed.values() for row in rows})
    found: dict[int, set[Partition]] = {}
    for described in _described(client, names):
        partitions = {(topic, number) for topic, number in described.topic_partitions}
        found.setdefault(described.producer_id, set()).update(partitions)
    return found


def _described(client: Any, names: list[str]) -> list[Any]:
    """The transactions of these ids, without those that have expired: the library then raises for
    all ids of a request."""
    from kafka.errors import TransactionalIdNotFoundError

    if not names:
        return []
    try:
        return list(client.describe_transactions(names).values())
    except TransactionalIdNotFoundError:
        half = len(names) // 2
        return _described(client, names[:half]) + _described(client, names[half:]) if half else []


def _show(found: list[Candidate], json: bool) -> None:
    rows = [
        {
            "topic": each.partition[0],
            "partition": each.partition[1],
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "start_offset": each.start_offset,
            "last_timestamp": each.last_ms,
            "abort": f"kbroker transactions abort {each.partition[0]}:{each.partition[1]} "
            f"--start-offset {each.start_offset}",
        }
        for each in found
    ]
    if json:
        print_json(rows)
        return
    headers = ["TOPIC", "PARTITION", "PRODUCER-ID", "EPOCH", "START-OFFSET", "LAST-RECORD"]
    print_table(
        headers, [[*list(row.values())[:5], format_time(found[i].last_ms)] for i, row in enumerate(rows)]
    )
    if rows:
        say(f"check the producer first: {rows[0]['abort']}")
