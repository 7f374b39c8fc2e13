"""Transactions are listed and described; one that hangs is aborted so that readers get past it."""

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.cli.conftest import Shell, Target, offered


@pytest.fixture
def open_transaction(cli: Shell, topic: str, group: str, target: Target) -> Iterator[str]:
    """A transactional id with an open transaction of one record on partition 1."""
    offered(cli, "ListTransactions")
    name = f"open-{group}"
    producer = Producer({"bootstrap.servers": target.bootstrap, "transactional.id": name})
    producer.init_transactions(120)
    producer.begin_transaction()
    producer.produce(topic, "pending", partition=1)
    producer.flush(60)
    yield name
    producer.purge()


def test_an_open_transaction_is_listed_and_described(cli: Shell, topic: str, open_transaction: str) -> None:
    listed = ("transactions", "list", "--json")
    (row,) = cli(*listed, open_transaction).json
    assert row["state"] == "Ongoing"
    assert cli(*listed, "--pattern", open_transaction).json == [row]
    assert cli(*listed, open_transaction[:-1]).json == [], "the whole id must match"
    assert "give one" in cli(*listed, "a", "--pattern", "a", code=2).stderr
    assert cli(*listed, open_transaction, "--longer-than", "1h").json == []
    assert cli(*listed, open_transaction, "--state", "CompleteAbort").json == []
    (found,) = cli("transactions", "describe", open_transaction, "--json").json
    assert found["producer_id"] == row["producer_id"]
    assert found["partitions"] == [{"topic": topic, "partition": 1}]
    assert 0 <= found["open_seconds"] < 300
    assert f"{topic}-1" in cli("transactions", "describe", open_transaction).text
    unknown = cli("transactions", "describe", open_transaction, f"{open_transaction}-not", code=1)
    assert unknown.stderr.startswith(f"kbroker: {open_transaction}-not: ")
    assert "TRANSACTIONAL_ID_NOT_FOUND" in unknown.stderr


def test_a_hanging_transaction_is_aborted(cli: Shell, topic: str, open_transaction: str) -> None:
    (producer,) = cli("transactions", "producers", f"{topic}:1", "--json").json
    assert producer["transaction_start_offset"] == 0
    assert cli("offsets", f"{topic}:1", "--read-committed", "--json").json[0]["latest"] == 0
    wrong = cli("transactions", "abort", f"{topic}:1", "--start-offset", 5, "--yes", code=1)
    assert "no such open transaction" in wrong.stderr
    assert "either --start-offset or" in cli("transactions", "abort", f"{topic}:1", "--yes", code=2).stderr
    cli("transactions", "abort", f"{topic}:1", "--start-offset", 0, "--yes")
    (producer,) = cli("transactions", "producers", f"{topic}:1", "--json").json
    assert producer["transaction_start_offset"] is None
    assert cli("offsets", f"{topic}:1", "--read-committed", "--json").json[0]["latest"] == 2
    shown = cli("consume", topic, "--from-beginning", "-e", "-q", "--isolation", "read_committed").stdout
    assert shown == b""
    dirty = cli("consume", topic, "--from-beginning", "-e", "-q", "--json").stdout
    assert json.loads(dirty)["value"] == "pending"
