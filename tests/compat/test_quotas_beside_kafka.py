"""Quotas and credentials to kbroker and to Apache Kafka 4.3.1: the answers are the same; Kafka's
tools set quotas."""

from typing import Any

import pytest

from tests.compat import credential_cases, quota_cases
from tests.compat.raw import SocketPeer, compare
from tests.peer.apache_kafka import ApacheKafka
from tests.peer.kbroker_node import KBroker
from tests.peer.tools import run_tool

pytestmark = [pytest.mark.kafka, pytest.mark.compat]


@pytest.fixture(scope="module")
def peers(kafka: ApacheKafka, broker: KBroker) -> tuple[SocketPeer, SocketPeer]:
    return SocketPeer(kafka.port), SocketPeer(int(broker.bootstrap.rpartition(":")[2]))


CASES = quota_cases.CASES + credential_cases.CASES


@pytest.mark.parametrize(
    ("one", "version"),
    [(one, version) for one in CASES for version in range(one.versions[0], one.versions[1] + 1)],
    ids=lambda value: getattr(value, "name", f"v{value}"),
)
def test_answers_are_the_same(peers: tuple[SocketPeer, SocketPeer], one: Any, version: int) -> None:
    assert not compare(one, version, *peers)


def test_kafka_configs_sets_and_shows_quotas(broker: KBroker) -> None:
    def configs(*arguments: str) -> str:
        entity = (
            "--entity-type",
            "users",
            "--entity-name",
            "tool",
            "--entity-type",
            "clients",
            "--entity-default",
        )
        command = ("kafka.admin.ConfigCommand", "--bootstrap-server", broker.bootstrap)
        return run_tool(*command, *entity, *arguments).stdout

    configs("--alter", "--add-config", "producer_byte_rate=1024,request_percentage=12.5")
    shown = configs("--describe")
    assert "producer_byte_rate=1024.0" in shown
    assert "request_percentage=12.5" in shown
