"""`kbroker clients list` shows what the console's page of clients shows."""

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.cli.conftest import Shell
from tests.cli.console_address import console
from tests.cli.page_server import serving
from tests.peer.kbroker_node import KBroker


def client(client_id: str, in_bytes_s: int, **other: object) -> dict[str, object]:
    """A row of the API."""
    row: dict[str, object] = {
        "client_id": client_id,
        "address": "10.0.0.7",
        "software_name": "confluent-kafka-python",
        "software_version": "2.10",
        "principal": "User:anna",
        "listener": "SASL",
        "connections": 2,
        "in_bytes_s": in_bytes_s,
        "out_bytes_s": 1,
    }
    return row | other


FOUND = {
    "clients": [
        client("shop-1", 5),
        client("", 7, software_name=None, software_version=None, principal="User:bob"),
        client("shop-2", 900, address="10.0.0.8", listener="TLS"),
    ],
    "left_out": 1,
    "left_out_connections": 30,
}


def page(path: str) -> tuple[int, bytes]:
    assert path == "/api/clients?limit=1000"
    return 200, json.dumps(FOUND).encode()


@pytest.fixture
def url() -> Iterator[str]:
    """A console with three clients."""
    with serving(page) as found:
        yield found


@pytest.mark.parametrize(
    "odd",
    [
        {"clients": [{}], "left_out": 0},
        {"clients": [client("a", 1) | {"in_bytes_s": "1"}], "left_out": 0},
        {"clients": 7},
        {"clients": []},
    ],
    ids=["no field", "a text", "no list", "no number"],
)
@pytest.mark.parametrize("option", [(), ("--json",)])
def test_an_answer_of_another_program_is_reported_in_one_line(
    shell: Shell, odd: object, option: tuple[str, ...]
) -> None:
    with serving(lambda _: (200, json.dumps(odd).encode())) as url:
        said = shell("clients", "list", "--url", url, *option, code=1).stderr
    assert said.startswith(f"kbroker: {url}: its answer is not that of this version of kbroker (")
    assert said.count("\n") == 1


def test_clients_are_listed_by_their_traffic(shell: Shell, url: str) -> None:
    shown = shell("clients", "list", "--url", url)
    head, *rows = shown.lines
    assert head.split("  ")[0] == "CLIENT-ID"
    assert [row.split()[0] for row in rows] == ["shop-2", "-", "shop-1"]
    assert rows[1].split() == ["-", "10.0.0.7", "-", "User:bob", "SASL", "2", "7", "1"]
    assert shown.stderr == "not listed: 1 client with 30 connections\n"


@pytest.mark.parametrize(
    ("words", "traffic"),
    [
        (["shop-.*"], [900, 5]),
        (["shop"], []),
        (["--address", "10.0.0.8"], [900]),
        (["--principal", "User:bob", "--principal", "User:anna", "--listener", "SASL"], [7, 5]),
    ],
)
def test_clients_are_chosen(shell: Shell, url: str, words: list[str], traffic: list[int]) -> None:
    found = shell("clients", "list", "--url", url, "--json", *words).json
    assert [row["in_bytes_s"] for row in found] == traffic


@pytest.mark.parametrize("name", ["anna", "User:", ":anna"])
def test_a_principal_without_its_type_is_refused(shell: Shell, url: str, name: str) -> None:
    said = shell("clients", "list", "--principal", name, "--url", url, code=2).stderr
    assert said == f"kbroker: --principal {name}: expected User:NAME\n"


def test_a_pattern_that_is_none_is_refused(shell: Shell, url: str) -> None:
    assert "regular expression" in shell("clients", "list", "(", "--url", url, code=2).stderr


def test_a_missing_broker_is_reported_in_one_line(shell: Shell) -> None:
    assert "127.0.0.1:1" in shell("clients", "list", "--url", "http://127.0.0.1:1/", code=3).stderr


@pytest.mark.compat
def test_a_connected_client_is_listed(shell: Shell, broker: KBroker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "client.id": "etl-of-this-test"})
    producer.produce("of-a-listed-client", b"x")
    producer.flush(30)
    (row,) = shell("clients", "list", "etl-of-.*", "--json", "--url", console(broker)).json
    assert row["software_name"] == "confluent-kafka-python"
    assert row["address"] == "127.0.0.1"
    assert row["connections"] >= 1
