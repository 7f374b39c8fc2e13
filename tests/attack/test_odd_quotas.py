"""Quotas of odd values: the smallest double, infinity, no number. Clients are throttled, and no
process fails."""

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from tests.attack.peers import Target, target
from tests.conftest import BrokerFactory
from tests.http.console.service import Service
from tests.peer.apache_kafka import ApacheKafka

KEYS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")


def quota(peer: Target, entity: str, name: str, key: str, value: float, remove: bool = False) -> int:
    entry = RequestEntryData([RequestEntityData(entity, name)], [OpData(key, value, remove)])
    answer = peer.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, AlterClientQuotasRequest([entry]))
    return int(answer.entries[0].error_code)


@pytest.mark.parametrize("value", [5e-324, 1e-12, float("inf"), float("nan")])
def test_odd_quotas_only_throttle_their_client(broker_factory: BrokerFactory, value: float) -> None:
    broker = broker_factory({"quota.window.num": "2"})
    admin, client = target(broker), target(broker)
    client.client_id = "odd"
    for key in KEYS:
        quota(admin, "client-id", "odd", key, value)
    quota(admin, "ip", "127.0.0.2", "connection_creation_rate", value)
    topics = CreateTopicsRequest([CreatableTopic("t", 1, 1)], 5000, True)
    assert Service(broker).get("/api/quotas")["quotas"]
    for _ in range(3):
        assert client.ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest()).error_code == ErrorCode.NONE
        assert admin.ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest()).error_code == ErrorCode.NONE
    client.ask(ApiKey.CREATE_TOPICS, 7, topics)
    assert admin.ask(ApiKey.CREATE_TOPICS, 7, topics).topics[0].error_code == ErrorCode.NONE
    for key in KEYS:
        assert quota(admin, "client-id", "odd", key, 0.0, remove=True) == ErrorCode.NONE


@pytest.mark.kafka
def test_odd_quotas_are_taken_as_by_apache_kafka(
    broker_factory: BrokerFactory, fresh_kafka: ApacheKafka
) -> None:
    values = (5e-324, 1e-12, float("inf"), float("nan"), -0.0, 1e308)

    def codes(peer: Target) -> list[int]:
        requested = [("client-id", "odd", key) for key in KEYS] + [
            ("ip", "127.0.0.2", "connection_creation_rate")
        ]
        return [quota(peer, *one, value) for value in values for one in requested]

    assert codes(target(broker_factory())) == codes(Target(fresh_kafka.port))
