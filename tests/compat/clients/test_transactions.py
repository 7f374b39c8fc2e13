"""Transactions as clients use them: all or nothing, zombies fenced, offsets with the records,
tools."""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from tests.compat.clients.conftest import Cluster, NameFactory, TopicFactory
from tests.compat.clients.transactional_clients import (
    CLIENTS,
    ConfluentTransactional,
    Transactional,
    committed_offset,
    read_to_end,
)
from tests.peer.tools import run_tool

pytestmark = pytest.mark.compat

NO_OFFSET = -1001
UNSTABLE_S = 60
FENCED = re.compile("fenced|old epoch|invalid.?producer.?epoch", re.IGNORECASE)


Begin = Callable[[str], Transactional]


@pytest.fixture
def begin(bootstrap: str, client: type[Transactional]) -> Iterator[Begin]:
    """Starts producers of one client: `begin("transactional id")`; all are closed after the
    test."""
    made: list[Transactional] = []

    def start(transactional_id: str) -> Transactional:
        made.append(client(bootstrap, transactional_id))
        return made[-1]

    yield start
    for producer in made:
        with suppress(Exception):  # a fenced one cannot say goodbye
            producer.close()


@pytest.mark.parametrize("client", CLIENTS)
class TestEveryClient:
    def test_commits_are_seen_and_aborts_are_not(
        self, bootstrap: str, topic: TopicFactory, fresh: NameFactory, begin: Begin
    ) -> None:
        name = topic(partitions=2)
        producer = begin(fresh("tx"))
        for number in range(4):
            producer.begin()
            for partition in (0, 1):
                producer.send(name, partition, f"{number}a".encode())
                producer.send(name, partition, f"{number}b".encode())
            producer.end(commit=number % 2 == 0)
        for partition in (0, 1):
            assert read_to_end(bootstrap, name, partition=partition) == [b"0a", b"0b", b"2a", b"2b"]
            everything = read_to_end(bootstrap, name, "read_uncommitted", partition)
            assert everything == [f"{n}{x}".encode() for n in range(4) for x in "ab"]

    def test_an_open_transaction_hides_what_follows_it(
        self, bootstrap: str, topic: TopicFactory, fresh: NameFactory, begin: Begin
    ) -> None:
        name = topic()
        slow, quick = begin(fresh("tx")), begin(fresh("tx"))
        for producer in (slow, quick):
            producer.begin()
        slow.send(name, 0, b"slow")
        quick.send(name, 0, b"quick")
        quick.end(commit=True)
        assert read_to_end(bootstrap, name) == []
        slow.end(commit=False)
        assert _eventually(lambda: read_to_end(bootstrap, name), [b"quick"])

    def test_offsets_are_committed_with_the_transaction_or_not_at_all(
        self, bootstrap: str, topic: TopicFactory, fresh: NameFactory, begin: Begin
    ) -> None:
        name, group = topic(), fresh("group")
        producer = begin(fresh("tx"))
        for offset, commit, expected in ((5, False, NO_OFFSET), (7, True, 7), (9, False, 7), (11, True, 11)):
            producer.begin()
            producer.send(name, 0, str(offset).encode())
            producer.send_offset(group, name, 0, offset)
            producer.end(commit)
            assert committed_offset(bootstrap, group, name) == expected
        assert read_to_end(bootstrap, name) == [b"7", b"11"]

    def test_a_successor_fences_the_zombie_and_aborts_its_transaction(
        self, bootstrap: str, topic: TopicFactory, fresh: NameFactory, begin: Begin
    ) -> None:
        name, transactional_id = topic(), fresh("tx")
        zombie = begin(transactional_id)
        zombie.begin()
        zombie.send(name, 0, b"zombie")
        successor = begin(transactional_id)
        successor.begin()
        successor.send(name, 0, b"successor")
        successor.end(commit=True)
        with pytest.raises(Exception) as refused:
            _produce_again(zombie, name)
        assert FENCED.search(_texts(refused.value)), _texts(refused.value)
        assert read_to_end(bootstrap, name) == [b"successor"]


def _texts(error: BaseException | None) -> str:
    """Of an exception and of those that it came from."""
    found = []
    while error is not None:
        found.append(f"{type(error).__name__} {error}")
        error = error.__cause__ or error.__context__
    return "\n".join(found)


def _produce_again(zombie: Transactional, name: str) -> None:
    zombie.send(name, 0, b"zombie again")
    zombie.end(commit=True)


def _eventually(look: object, requested: object) -> bool:
    """Whether something becomes so: a transaction's markers are written after its end was
    answered."""
    deadline = time.monotonic() + UNSTABLE_S
    while time.monotonic() < deadline:
        if look() == requested:  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False


@pytest.mark.kafka
class TestTools:
    """Apache Kafka's own programs; the Java producer speaks transactions v2."""

    def test_message_copier_copies_exactly_once(
        self, cluster: Cluster, topic: TopicFactory, fresh: NameFactory
    ) -> None:
        source, target, group = topic(), topic(), fresh("group")
        messages = 500
        run_tool(
            "org.apache.kafka.tools.VerifiableProducer",
            *("--bootstrap-server", cluster.bootstrap, "--topic", source, "--max-messages", str(messages)),
        )
        reported = run_tool(
            "org.apache.kafka.tools.TransactionalMessageCopier",
            *("--broker-list", cluster.bootstrap, "--input-topic", source, "--input-partition", "0"),
            *("--output-topic", target, "--transactional-id", fresh("copier"), "--consumer-group", group),
            *("--max-messages", str(messages), "--transaction-size", "37", "--enable-random-aborts"),
        )
        assert json.loads(reported.stdout.splitlines()[-1])["totalProcessed"] >= messages
        assert read_to_end(cluster.bootstrap, target) == [str(number).encode() for number in range(messages)]
        assert committed_offset(cluster.bootstrap, group, source) == messages

    def test_transactions_tool_lists_describes_and_aborts(
        self, cluster: Cluster, topic: TopicFactory, fresh: NameFactory
    ) -> None:
        name, transactional_id = topic(), fresh("tx")
        producer = ConfluentTransactional(cluster.bootstrap, transactional_id)
        producer.begin()
        producer.send(name, 0, b"open")

        def tool(*words: str) -> str:
            where = ("--bootstrap-server", cluster.bootstrap)
            return run_tool("org.apache.kafka.tools.TransactionsCommand", *where, *words).stdout

        listed = tool("list", "--transactional-id-pattern", transactional_id)
        assert [line.split()[0::3][:1] for line in listed.splitlines()[1:]] == [[transactional_id]]
        described = tool("describe", "--transactional-id", transactional_id)
        assert "Ongoing" in described
        assert f"{name}-0" in described
        producers = tool("describe-producers", "--topic", name, "--partition", "0").splitlines()
        start_offset = producers[1].split()[-1]
        assert start_offset == "0"
        assert read_to_end(cluster.bootstrap, name) == []
        tool("abort", "--topic", name, "--partition", "0", "--start-offset", start_offset)
        assert read_to_end(cluster.bootstrap, name) == []
        assert read_to_end(cluster.bootstrap, name, "read_uncommitted") == [b"open"]
        after = tool("describe-producers", "--topic", name, "--partition", "0").splitlines()
        assert after[1].split()[-1] == "None"
