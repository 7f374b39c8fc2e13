"""Clients that push garbage, bombs, and series without end: refused or counted, and control stays
as it was."""

import os
import socket
import struct
from collections.abc import Callable
from contextlib import closing

import psutil
import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.compression import Codec, compress
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages import response_class
from kbroker.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.protocol.messages.push_telemetry import PushTelemetryRequest
from kbroker.protocol.schema import Struct
from tests.attack.peers import port_of, target
from tests.compat.raw import receive
from tests.conftest import BrokerFactory
from tests.control.telemetry.payloads import gauge, payload
from tests.peer.kbroker_node import KBroker
from tests.peer.scrape import scrape

pytestmark = pytest.mark.slow

ROUNDS = 100
MAX_GROWTH = 150 << 20
"""Of control's memory: the largest payload as protobuf has it, and the series that are allowed."""
TREE = b"\x0a\x00" * (1 << 19)
"""A mebibyte of half a million empty messages."""
BAD: dict[str, tuple[int, Callable[[], bytes]]] = {
    "garbage": (0, lambda: os.urandom(5000)),
    "damaged zstd": (Codec.ZSTD, lambda: b"\x28\xb5\x2f\xfd" + os.urandom(500)),
    "gzip bomb": (Codec.GZIP, lambda: compress(Codec.GZIP, bytes(500 << 20))),
    "zstd bomb": (Codec.ZSTD, lambda: compress(Codec.ZSTD, bytes(500 << 20))),
    "tree": (Codec.ZSTD, lambda: compress(Codec.ZSTD, TREE)),
    "many series": (0, lambda: payload(*(gauge(os.urandom(9).hex(), 1) for _ in range(3000)))),
}


class Pushing:
    """One connection that asks and pushes."""

    def __init__(self, broker: KBroker) -> None:
        self._link = socket.create_connection(("127.0.0.1", port_of(broker)), timeout=60)

    def close(self) -> None:
        self._link.close()

    def ask(self, api: ApiKey, request: Struct) -> Struct:
        self._link.sendall(encode_request(api, 0, 7, "attacker", request))
        size = receive(self._link, 4)
        assert size is not None, "closed"
        frame = receive(self._link, struct.unpack(">i", size)[0])
        assert frame is not None
        answer = decode_exact(response_class(api), 0, frame, parse_response(frame, api, 0)[1])
        assert isinstance(answer, Struct)
        return answer

    def push(self, codec: int, data: bytes) -> int:
        """As a new client each time: no interval holds it back."""
        got = self.ask(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, GetTelemetrySubscriptionsRequest())
        request = PushTelemetryRequest(
            got.client_instance_id,  # type: ignore[attr-defined]
            got.subscription_id,  # type: ignore[attr-defined]
            compression_type=codec,
            metrics=data,
        )
        return int(self.ask(ApiKey.PUSH_TELEMETRY, request).error_code)  # type: ignore[attr-defined]


@pytest.fixture
def broker(broker_factory: BrokerFactory) -> KBroker:
    """It offers telemetry."""
    return broker_factory({"kbroker.client.telemetry.enable": "true"})


def memory_of_control(broker: KBroker) -> int:
    (control,) = [
        child
        for child in psutil.Process(broker.pid).children()
        if "kbroker: control" in " ".join(child.cmdline())
    ]
    return int(control.memory_info().rss)


@pytest.mark.parametrize("kind", list(BAD))
def test_bad_pushes_leave_control_as_it_was(broker: KBroker, kind: str) -> None:
    codec, make = BAD[kind]
    data = make()
    before = memory_of_control(broker)
    codes = set()
    for _ in range(ROUNDS // 10 if "bomb" in kind or kind == "tree" else ROUNDS):
        with closing(Pushing(broker)) as client:
            codes.add(client.push(codec, data))
    expected = {
        "tree": {ErrorCode.NONE},
        "many series": {ErrorCode.NONE},
    }.get(kind, {ErrorCode.INVALID_RECORD})
    assert codes == expected
    assert memory_of_control(broker) - before < MAX_GROWTH
    found = scrape(broker)
    assert len(found.labels("kbroker_client_metric_value")) <= 10_000
    assert target(broker).ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest()).error_code == ErrorCode.NONE
    assert "Traceback (most recent call last)" not in broker.logs(1 << 20)
