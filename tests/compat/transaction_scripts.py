"""Conversations about transactions: what Apache Kafka answers to them, kbroker must answer too."""

from collections.abc import Callable

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kbroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest
from kbroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kbroker.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.compat.raw import SocketPeer
from tests.compat.side_by_side import Lines
from tests.compat.transaction_talk import STRANGER, TransactionTalk
from tests.compat.transactional_produce_scripts import produce, refused_batches, refused_records

A0 = {"a": [0]}
SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
"""Of both brokers: a transaction past its timeout is aborted soon."""


def init_producer_id(talk: TransactionTalk) -> None:
    """New, repeated, continued, refused, in every version."""
    for version in range(6):
        name = f"v{version}"
        first = talk.init(f"new v{version}", version, name)
        talk.init(f"again v{version}", version, name)
        talk.init(f"no id v{version}", version, None)
        talk.init(f"empty id v{version}", version, "")
        for timeout_ms in (0, -1, 900_000, 900_001):
            talk.init(f"timeout {timeout_ms} v{version}", version, name, timeout_ms=timeout_ms)
        if version < 3:
            continue
        current = talk.init(f"current v{version}", version, name)
        after = talk.init(f"goes on v{version}", version, name, current)
        talk.init(f"goes on, repeated v{version}", version, name, current)
        talk.init(f"zombie v{version}", version, name, first)
        talk.init(f"stranger v{version}", version, name, STRANGER)
        talk.init(f"future v{version}", version, name, (after[0], after[1] + 5))
        talk.init(f"id without epoch v{version}", version, name, (after[0], -1))
        talk.init(f"epoch without id v{version}", version, name, (-1, 0))
        talk.init(f"unknown goes on v{version}", version, f"u{version}", STRANGER)


def add_partitions(talk: TransactionTalk) -> None:
    """Partitions that exist and do not, producers that may and may not, in every version."""
    talk.create_topic("a", 2)
    for version in range(6):
        name = f"v{version}"
        producer = talk.init(f"init v{version}", name=name)
        talk.add(f"one v{version}", version, producer, A0, name)
        talk.add(f"the same v{version}", version, producer, A0, name)
        talk.add(f"two v{version}", version, producer, {"a": [0, 1]}, name)
        talk.add(f"missing too v{version}", version, producer, {"a": [0, 7], "missing": [0]}, name)
        talk.add(f"no id v{version}", version, producer, A0, "")
        talk.add(f"unknown id v{version}", version, producer, A0, "nobody")
        talk.add(f"stranger v{version}", version, STRANGER, A0, name)
        talk.add(f"old epoch v{version}", version, (producer[0], producer[1] - 1), A0, name)
        talk.add(f"new epoch v{version}", version, (producer[0], producer[1] + 1), A0, name)
        talk.describe(f"described v{version}", name)
    for version in (4, 5):
        name = f"v{version}"
        producer = talk.init(f"init to verify v{version}", name=name)
        for label, who in {"": producer, "stranger ": STRANGER, "zombie ": (producer[0], 0)}.items():
            talk.add(f"{label}verify v{version}", version, who, {"a": [0, 1]}, name, verify_only=True)
        talk.add(f"add v{version}", version, producer, A0, name)
        talk.add(f"verify both v{version}", version, producer, {"a": [0, 1]}, name, verify_only=True)
        talk.add(f"verify missing v{version}", version, producer, {"a": [9]}, name, verify_only=True)


def end_before_v2(talk: TransactionTalk) -> None:
    """EndTxn v0-4: the epoch stays the same, a repeated request is recognized by the state."""
    talk.create_topic("a", 2)
    for version in range(5):
        name = f"v{version}"
        producer = talk.init(f"init v{version}", name=name)
        talk.end(f"nothing begun v{version}", version, producer, True, name)
        talk.end(f"nothing to abort v{version}", version, producer, False, name)
        for commit in (True, False):
            label = f"{'commit' if commit else 'abort'} v{version}"
            talk.add(f"add {label}", 3, producer, A0, name)
            for who in (STRANGER, (producer[0], producer[1] - 1), (producer[0], producer[1] + 1)):
                talk.end(f"other {label}", version, who, commit, name)
            talk.end(label, version, producer, commit, name)
            talk.describe(f"after {label}", name)
            talk.end(f"repeated {label}", version, producer, commit, name)
            talk.end(f"otherwise {label}", version, producer, not commit, name)
        talk.end(f"unknown id v{version}", version, producer, True, "nobody")
        talk.end(f"no id v{version}", version, producer, True, "")


def end_v2(talk: TransactionTalk) -> None:
    """EndTxn v5: every end bumps the epoch, a repeated request is recognized by the previous
    epoch."""
    talk.create_topic("a", 2)
    producer = talk.init("init")
    talk.end("commit of nothing", 5, producer, True)
    producer = talk.end("abort of nothing", 5, producer, False)
    producer = talk.end("abort of nothing again", 5, producer, False)
    for commit in (True, False):
        label = "commit" if commit else "abort"
        talk.add(f"add {label}", 5, producer, A0)
        for who in (STRANGER, (producer[0], producer[1] - 1), (producer[0], producer[1] + 1)):
            talk.end(f"other {label}", 5, who, commit)
        after = talk.end(label, 5, producer, commit)
        talk.describe(f"after {label}")
        talk.end(f"repeated {label}", 5, producer, commit)
        talk.end(f"otherwise {label}", 5, producer, not commit)
        talk.end(f"commit of nothing after {label}", 5, after, True)
        producer = talk.end(f"abort of nothing after {label}", 5, after, False)
    talk.end("unknown id", 5, producer, True, "nobody")
    talk.init("fencing by another")
    talk.add("zombie adds", 5, producer, A0)
    talk.end("zombie ends", 5, producer, True)


def mixed_versions(talk: TransactionTalk) -> None:
    """One id used by clients of both transaction versions, and an open transaction that is
    fenced."""
    talk.create_topic("a", 1)
    producer = talk.init("init")
    talk.add("v1 adds", 3, producer, A0)
    producer = talk.end("v2 ends", 5, producer, True)
    talk.add("v2 adds", 5, producer, A0)
    talk.end("v1 ends", 4, producer, False)
    talk.add("v1 adds again", 3, producer, A0)
    successor = talk.init("successor of an open transaction")
    talk.describe("after the fence")
    talk.end("zombie ends", 4, producer, True)
    talk.add("zombie adds", 3, producer, A0)
    talk.add("successor adds", 3, successor, A0)
    talk.end("successor ends", 4, successor, True)


def timed_out(talk: TransactionTalk) -> None:
    """A transaction that the coordinator aborted, because it was open for longer than its timeout:
    what its producer is answered.

    Under v2 the epoch was bumped once, so a late commit looks like a repetition that contradicts
    the outcome: INVALID_TXN_STATE, not a fencing error.
    """
    talk.create_topic("a", 2)
    for add, end, produced, committed in ((5, 5, 12, 5), (3, 4, 11, 4)):
        for commit in (True, False):
            label = f"{'commit' if commit else 'abort'} v{end}"
            producer = talk.init(f"init {label}", name=label, timeout_ms=500)
            talk.add(f"add {label}", add, producer, A0, label)
            talk.timed_out(label)
            talk.describe(f"after {label}", label)
            talk.end(label, end, producer, commit, label)
            talk.end(f"next epoch {label}", end, (producer[0], producer[1] + 1), commit, label)
            talk.describe(f"at the end {label}", label)
        label = f"late v{end}"
        producer = talk.init(f"init {label}", name=label, timeout_ms=500)
        talk.add(f"add {label}", add, producer, A0, label)
        talk.timed_out(label)
        talk.produce(f"produce {label}", produced, producer, "a", 0, 0, name=label)
        talk.add(f"add again {label}", add, producer, A0, label)
        talk.commit_offsets(f"offsets {label}", committed, producer, "g", "a", 5, name=label)
        talk.init(f"goes on {label}", 5, label, producer)


def reading(talk: TransactionTalk) -> None:
    """Last stable offset and aborted transactions, to both isolation levels."""
    talk.create_topic("a", 1)
    talk.create_topic("b", 1)
    one, two = talk.init("one", name="one"), talk.init("two", name="two")
    talk.produce("one begins", 12, one, "a", 0, 0, name="one")
    talk.produce("two begins", 12, two, "a", 0, 0, name="two")
    look_at(talk, "both open")
    one = talk.end("one aborts", 5, one, False, "one")
    look_at(talk, "two open")
    talk.produce("one begins again", 12, one, "a", 0, 0, name="one")
    two = talk.end("two commits", 5, two, True, "two")
    look_at(talk, "one open again")
    talk.end("one commits", 5, one, True, "one")
    look_at(talk, "all ended")


def look_at(talk: TransactionTalk, label: str) -> None:
    """Fetch and ListOffsets of a-0 by both isolation levels."""
    name = f"{talk.prefix}-a"
    for isolation in (0, 1):
        for offset in (0, 2):
            fetch = FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=1 << 20,
                isolation_level=isolation,
                session_epoch=-1,
                topics=[
                    FetchTopic(
                        name, partitions=[FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)]
                    )
                ],
            )
            talk.ask(f"fetch {label} from {offset} level {isolation}", ApiKey.FETCH, 11, fetch)
        listed = ListOffsetsRequest(
            -1, isolation, [ListOffsetsTopic(name, [ListOffsetsPartition(0, timestamp=-1)])]
        )
        talk.ask(f"end {label} level {isolation}", ApiKey.LIST_OFFSETS, 5, listed)


def offsets(talk: TransactionTalk) -> None:
    """Offsets in transactions: pending, committed, dropped, refused, in every version."""
    talk.create_topic("a", 2)
    for version in range(6):
        name, group = f"v{version}", f"g{version}"
        producer = talk.init(f"init v{version}", name=name)
        talk.commit_offsets(f"not added v{version}", version, producer, group, "a", 5, name=name)
        if version < 5:
            talk.add_offsets(f"add v{version}", min(version, 4), producer, group, name)
        talk.commit_offsets(f"added v{version}", version, producer, group, "a", 5, name=name)
        fetched(talk, f"pending v{version}", group)
        talk.describe(f"described v{version}", name)
        end = 5 if version == 5 else 4
        producer = talk.end(f"commit v{version}", end, producer, True, name)
        fetched(talk, f"committed v{version}", group)
        if version < 5:
            talk.add_offsets(f"add again v{version}", min(version, 4), producer, group, name)
        talk.commit_offsets(f"again v{version}", version, producer, group, "a", 9, name=name)
        producer = talk.end(f"abort v{version}", end, producer, False, name)
        fetched(talk, f"dropped v{version}", group)
        talk.commit_offsets(f"unknown id v{version}", version, producer, group, "a", 5, name="nobody")
        many = {"name": name, "partitions": (0, 1, 7)}
        talk.commit_offsets(f"missing partition v{version}", version, producer, group, "a", 5, **many)
        talk.commit_offsets(f"missing topic v{version}", version, producer, group, "missing", 5, name=name)
        talk.commit_offsets(f"no group v{version}", version, producer, "", "a", 5, name=name)
        talk.commit_offsets(f"stranger v{version}", version, STRANGER, group, "a", 5, name=name)
        zombie = (producer[0], producer[1] - 1)
        talk.commit_offsets(f"zombie v{version}", version, zombie, group, "a", 5, name=name)
        talk.add_offsets(f"unknown adds v{version}", min(version, 4), producer, group, "nobody")
        talk.add_offsets(f"zombie adds v{version}", min(version, 4), zombie, group, name)
        if version >= 3:
            talk.commit_offsets(
                f"generation v{version}",
                version,
                producer,
                group,
                "a",
                5,
                name=name,
                generation=3,
                member="m",
            )
        talk.end(f"last v{version}", end, producer, False, name)


def fetched(talk: TransactionTalk, label: str, group: str) -> None:
    """OffsetFetch with and without require_stable, again and again: an answer that stands must not
    outlive a change."""
    topics = [OffsetFetchRequestTopics(f"{talk.prefix}-a", partition_indexes=[0, 1])]
    for stable in (False, True):
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(talk.group(group), topics=topics)], require_stable=stable
        )
        for time in range(3):
            talk.ask(f"{label} stable={stable}, time {time}", ApiKey.OFFSET_FETCH, 8, request)


def listing(talk: TransactionTalk) -> None:
    """DescribeTransactions and ListTransactions with every filter."""
    talk.create_topic("a", 2)
    talk.init("idle", name="idle")
    busy = talk.init("busy", name="busy")
    talk.add("add", 3, busy, {"a": [0, 1]}, "busy")
    ids = [talk.group("idle"), talk.group("busy"), talk.group("nobody"), ""]
    talk.ask("describe", ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(ids))
    talk.ask("describe none", ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest([]))
    own = f"{talk.prefix}-.*"
    cases = {
        "mine": ListTransactionsRequest(transactional_id_pattern=own),
        "mine ongoing": ListTransactionsRequest(["Ongoing"], transactional_id_pattern=own),
        "mine empty": ListTransactionsRequest(["Empty", "Ongoing"], transactional_id_pattern=own),
        "by producer": ListTransactionsRequest(producer_id_filters=[busy[0]]),
        "old": ListTransactionsRequest(["Ongoing"], duration_filter=3_600_000, transactional_id_pattern=own),
        "half a name": ListTransactionsRequest(transactional_id_pattern=talk.prefix),
        "bad pattern": ListTransactionsRequest(transactional_id_pattern="("),
        "unknown state": ListTransactionsRequest(["Open", "Open", "ongoing"], transactional_id_pattern=own),
    }
    for label, request in cases.items():
        talk.ask(label, ApiKey.LIST_TRANSACTIONS, 2, request)
    for version in (0, 1):
        only = ListTransactionsRequest(["Ongoing"], [busy[0]])
        talk.ask(f"by producer v{version}", ApiKey.LIST_TRANSACTIONS, version, only)
    talk.end("end", 4, busy, False, "busy")


def markers(talk: TransactionTalk) -> None:
    """WriteTxnMarkers: what ends a hanging transaction, and what is refused."""
    talk.create_topic("a", 2)
    talk.init("predecessor")
    producer = talk.init("init")
    talk.produce("open", 12, producer, "a", 0, 0)
    look_at(talk, "open")

    def write(label: str, version: int, epoch: int, coordinator_epoch: int, **more: object) -> None:
        marker = WritableTxnMarker(
            producer[0],
            epoch,
            bool(more.get("commit", False)),
            [WritableTxnMarkerTopic(str(more.get("topic", f"{talk.prefix}-a")), [0])],
            coordinator_epoch,
            int(str(more.get("transaction_version", 0))),
        )
        talk.ask(label, ApiKey.WRITE_TXN_MARKERS, version, WriteTxnMarkersRequest([marker]))

    write("unknown topic", 1, producer[1], 0, topic=f"{talk.prefix}-missing")
    write("old epoch", 1, producer[1] - 1, 0)
    write("same epoch, v2", 2, producer[1], 5, transaction_version=2)
    write("abort", 1, producer[1], 5)
    look_at(talk, "aborted")
    write("older coordinator", 1, producer[1], 4)
    write("nothing open", 1, producer[1], 5)
    write("nothing open, v2", 2, producer[1], 5, transaction_version=2)
    for label in ("offsets, v2", "offsets again, v2"):
        write(label, 2, producer[1], 5, topic="__consumer_offsets", transaction_version=2)
    talk.ask("none", ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest([]))
    described = DescribeProducersRequest([TopicRequest(f"{talk.prefix}-a", [0])])
    talk.ask("producers", ApiKey.DESCRIBE_PRODUCERS, 0, described)


SCRIPTS: dict[str, Callable[[TransactionTalk], None]] = {
    "init": init_producer_id,
    "add": add_partitions,
    "end1": end_before_v2,
    "end2": end_v2,
    "mixed": mixed_versions,
    "timed-out": timed_out,
    "produce": produce,
    "refused-records": refused_records,
    "refused-batches": refused_batches,
    "reading": reading,
    "offsets": offsets,
    "listing": listing,
    "markers": markers,
}


def answers_to(peer: SocketPeer, script: str) -> Lines:
    """The answers of a broker to a script."""
    talk = TransactionTalk(peer, script)
    talk.find_transaction_coordinator()
    SCRIPTS[script](talk)
    talk.close()
    return talk.lines
