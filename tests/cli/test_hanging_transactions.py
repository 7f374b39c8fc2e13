"""An open transaction hangs when no coordinator knows it: it is found and aborted, and no other one
is."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka.errors import TransactionalIdNotFoundError

from kbroker.cli import hanging_transactions
from kbroker.cli.connection import Connection
from kbroker.cli.hanging_transactions import Candidate, _known, hanging
from tests.cli.conftest import Shell, Target, offered
from tests.compat.transaction_connection import talk_to
from tests.conftest import BrokerFactory

ORDERS = ("orders", 0)
OLD = Candidate(ORDERS, 7, 0, 100, last_ms=1_000)
NOW_MS = 10_000


def test_a_transaction_hangs_when_its_partition_is_in_no_open_transaction() -> None:
    assert hanging([OLD], {}, 5_000, NOW_MS) == [OLD]
    assert hanging([OLD], {7: {("orders", 1)}, 8: {ORDERS}}, 5_000, NOW_MS) == [OLD]
    assert hanging([OLD], {7: {ORDERS}}, 5_000, NOW_MS) == []
    assert hanging([OLD], {}, 9_000, NOW_MS) == []


def test_a_partition_without_a_leader_hides_no_transaction_of_another(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaders = {0: 1, 1: -1, 2: -1}
    parts = {number: SimpleNamespace(leader=leader) for number, leader in leaders.items()}
    metadata = SimpleNamespace(topics={"orders": SimpleNamespace(partitions=parts)})
    monkeypatch.setattr(Connection, "admin", lambda _: SimpleNamespace(list_topics=lambda timeout: metadata))
    monkeypatch.setattr(Connection, "kafka_python_admin", lambda _: nullcontext())
    monkeypatch.setattr(hanging_transactions, "_known", lambda *_: {})
    checked: list[list[tuple[str, int]]] = []

    def candidates(_: object, partitions: list[tuple[str, int]]) -> list[Candidate]:
        checked.append(partitions)
        return [OLD]

    monkeypatch.setattr(hanging_transactions, "_candidates", candidates)
    done = shell("transactions", "find-hanging", "--json", code=1)
    assert [row["producer_id"] for row in done.json] == [7]
    assert done.stderr == "kbroker: not checked, without a leader: 2 partitions, the first is orders-1\n"
    assert checked == [[ORDERS], [ORDERS]]


class Client:
    """An admin client of kafka-python: the listed ids, and the producers of those that have not
    expired since."""

    def __init__(self, listed: str, producers: dict[str, int]) -> None:
        self.listed = listed
        self.producers = producers

    def list_transactions(self, producer_id_filters: list[int]) -> dict[int, list[Any]]:
        return {0: [SimpleNamespace(transactional_id=name) for name in self.listed]}

    def describe_transactions(self, names: list[str]) -> dict[str, Any]:
        if not self.producers.keys() >= set(names):
            raise TransactionalIdNotFoundError
        return {
            name: SimpleNamespace(producer_id=self.producers[name], topic_partitions={ORDERS})
            for name in names
        }


@pytest.mark.parametrize("left", ["abcde", "bce", "d", ""])
def test_an_id_that_expires_between_two_requests_hides_no_other(left: str) -> None:
    producers = {name: number for number, name in enumerate("abcde") if name in left}
    found = _known(Client("abcde", producers), list(range(5)))
    assert found == {number: {ORDERS} for number in producers.values()}
    assert _known(Client("", {}), [1]) == {}


def test_a_transaction_that_its_coordinator_knows_does_not_hang(
    cli: Shell, topic: str, target: Target, group: str
) -> None:
    offered(cli, "ListTransactions")
    producer = Producer({"bootstrap.servers": target.bootstrap, "transactional.id": group})
    producer.init_transactions(120)
    producer.begin_transaction()
    producer.produce(topic, "pending", partition=1)
    producer.flush(60)
    find = ("transactions", "find-hanging", topic, "--older-than", "0s", "--json")
    assert cli("transactions", "producers", f"{topic}:1", "--json").json[0]["transaction_start_offset"] == 0
    assert cli(*find).json == []
    producer.purge()
    assert "not a duration" in cli("transactions", "find-hanging", "--older-than", "long", code=2).stderr
    assert "no partition 9" in cli("transactions", "find-hanging", f"{topic}:9", code=1).stderr


@pytest.mark.compat
def test_a_hanging_transaction_is_found_and_aborted(
    broker_factory: BrokerFactory, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without verification a broker takes a record of a transaction that was never begun."""
    broker = broker_factory({"transaction.partition.verification.enable": "false"})
    monkeypatch.setenv("KBROKER_BOOTSTRAP", broker.bootstrap)
    talk = talk_to(broker)
    talk.create_topic("a", 1)
    producer = talk.init("init")
    talk.produce("not added", 11, producer, "a", 0, 0)
    talk.close()
    assert shell("transactions", "find-hanging", "--older-than", "100000d", "--json").json == []
    (found,) = shell("transactions", "find-hanging", "--json").json
    assert (found["producer_id"], found["start_offset"]) == (producer[0], 0)
    done = shell("transactions", "find-hanging", "--older-than", "0s")
    assert found["abort"] in done.stderr
    assert done.lines[1].split()[2] == str(producer[0])
    shell(*found["abort"].split()[1:], "--yes")
    assert shell("transactions", "find-hanging", "--older-than", "0s", "--json").json == []
