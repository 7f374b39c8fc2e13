"""Regular expressions that keep a backtracking matcher busy for years: matched in linear time, or
refused."""

import socket
import time

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kbroker.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest
from tests.attack.peers import Target, port_of, target
from tests.callbacks import slowness
from tests.compat.raw import receive
from tests.conftest import BrokerFactory
from tests.peer.apache_kafka import ApacheKafka
from tests.peer.kbroker_node import KBroker

AT_ONCE_CPU_S = 10  # of all processes of the broker
CLIENT_METRICS = 16  # the type of resource
NOT_YET = (14, 15, 16)  # the coordinator loads, is not available, is not there
LONG_ID = "a" * 60 + "!"
PATTERNS = (
    "(a+)+$", "(a|a)*$", "(a*)*(a|aa)+b", "((a{30}){30})?b", "[[:alpha:]]+!", r"\pL+!", "(?i)A+!", r"\Qa\E+!", "(",
    "a**", "(?=a)", r"\1", "a{1001}", r"a\Z", r"\C", "[a", "(?<!a)b",
)  # fmt: skip


def make_id(peer: Target) -> None:
    """An id that the patterns almost match; asked again while the coordinator is being made."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        answer = peer.ask(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(LONG_ID, 60_000))
        if answer.error_code == ErrorCode.NONE:
            return
        peer.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(key_type=1, coordinator_keys=[LONG_ID]))
        time.sleep(0.1)
    raise AssertionError("no transaction coordinator")


def listed(peer: Target, pattern: str) -> tuple[int, list[str]]:
    request = ListTransactionsRequest(transactional_id_pattern=pattern)
    answer = peer.ask(ApiKey.LIST_TRANSACTIONS, 2, request)
    return int(answer.error_code), [state.transactional_id for state in answer.transaction_states]


def subscribed(peer: Target, pattern: str, number: int) -> int:
    request = ConsumerGroupHeartbeatRequest(
        f"pattern-{number}", "A" * 22, 0, rebalance_timeout_ms=60_000, topic_partitions=[],
        subscribed_topic_regex=pattern,
    )  # fmt: skip
    deadline = time.monotonic() + 90
    while True:
        answer = peer.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
        if answer.error_code not in NOT_YET or time.monotonic() > deadline:
            return int(answer.error_code)
        peer.ask(ApiKey.FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=[request.group_id]))
        time.sleep(0.1)


def test_no_pattern_stalls_control(broker: KBroker) -> None:
    peer = target(broker)
    make_id(peer)
    subscribed(peer, "ready", -1)
    before_s = broker.cpu_s()
    for number, pattern in enumerate(PATTERNS):
        listed(peer, pattern)
        subscribed(peer, pattern, number)
    assert broker.cpu_s() - before_s < AT_ONCE_CPU_S * slowness()


def test_no_pattern_of_client_metrics_stalls_control(broker_factory: BrokerFactory) -> None:
    broker = broker_factory({"kbroker.client.telemetry.enable": "true"})
    peer = target(broker)
    match = AlterableConfig("match", 0, "client_id=(a+)+$")
    resource = AlterConfigsResource(CLIENT_METRICS, "all", [match, AlterableConfig("metrics", 0, "*")])
    changed = peer.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest([resource]))
    assert changed.responses[0].error_code == ErrorCode.NONE
    requested = encode_request(
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 1, LONG_ID, GetTelemetrySubscriptionsRequest(bytes(16))
    )
    with socket.create_connection(("127.0.0.1", port_of(broker)), timeout=60) as link:
        before_s = broker.cpu_s()
        link.sendall(requested)
        assert receive(link, 4)
    assert broker.cpu_s() - before_s < AT_ONCE_CPU_S * slowness()


@pytest.mark.kafka
def test_patterns_are_understood_as_by_apache_kafka(broker: KBroker, fresh_kafka: ApacheKafka) -> None:
    ours, theirs = target(broker), Target(fresh_kafka.port)
    make_id(ours)
    make_id(theirs)
    assert {p: listed(ours, p) for p in PATTERNS} == {p: listed(theirs, p) for p in PATTERNS}
    numbered = list(enumerate(PATTERNS))
    assert {p: subscribed(ours, p, n) for n, p in numbered} == {
        p: subscribed(theirs, p, n) for n, p in numbered
    }
