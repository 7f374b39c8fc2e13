"""Every API with the longest strings there are, and with bytes that are no text: answered or
closed, never a traceback.

The fixture looks for tracebacks in the log when the broker has stopped."""

from typing import Any

import pytest

from kbroker.api.registry import APIS
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import encode
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.protocol.schema import Struct
from tests.attack.peers import Target, target
from tests.peer.apache_kafka import ApacheKafka
from tests.peer.kbroker_node import KBroker

LONGEST = 32_767
MARK = "MARKED"


def filled(cls: type[Struct], text: str) -> Struct:
    """A struct whose strings are all the same, with one element in each array, and numbers of their
    defaults."""
    values: dict[str, Any] = {}
    for field in cls.SCHEMA.fields:
        if field.wire in ("string", "[]string"):
            values[field.name] = text if field.wire == "string" else [text]
        elif field.item is not None:
            made = filled(field.item, text)
            values[field.name] = [made] if field.wire.startswith("[]") else made
        elif field.wire.startswith("[]int"):
            values[field.name] = [0]
    return cls(**values)


REQUESTS = [
    pytest.param(api, version, id=f"{api.name} v{version}")
    for api in APIS.values()
    for version in sorted({api.min_version, api.max_version})
    if api.request.SCHEMA.versions[0] <= version <= api.request.SCHEMA.versions[1]
]


def send(peer: Target, frame: bytes) -> None:
    """Whatever comes back: an answer, or the end of the connection. Fetches and joins may wait."""
    try:
        peer.send(frame)
    except TimeoutError as error:
        raise AssertionError("neither answered nor closed") from error


@pytest.mark.slow
@pytest.mark.parametrize(("api", "version"), REQUESTS)
def test_long_strings_and_bad_bytes_leave_no_traceback(broker: KBroker, api: Any, version: int) -> None:
    peer = target(broker)
    long = filled(api.request, "x" * LONGEST)
    short = encode_request(api.key, version, 7, "c", filled(api.request, MARK))
    assert MARK.encode() in encode(filled(api.request, MARK), version) or api.key in NO_TEXT, (
        "nothing is tried"
    )
    for frame in (
        encode_request(api.key, version, 7, "c", long),
        short.replace(MARK.encode(), b"\xff\xfe\xfd\xfc\xfb\xfa"),
        short.replace(MARK.encode(), b"a\xed\xa0\x80b\xff"),
        short.replace(MARK.encode(), b"\0\0\0\0\0\0"),
    ):
        send(peer, frame)
    assert peer.ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest()).error_code == ErrorCode.NONE
    assert "Traceback (most recent call last)" not in broker.logs(1 << 20)


NO_TEXT = frozenset(
    {ApiKey.DESCRIBE_CLUSTER, ApiKey.UNREGISTER_BROKER, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE}
    | {ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN, ApiKey.LIST_CONFIG_RESOURCES}
    | {ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS, ApiKey.METADATA, ApiKey.DESCRIBE_DELEGATION_TOKEN}
    | {ApiKey.FETCH, ApiKey.PRODUCE, ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
)
"""APIs of which some version has no string."""


@pytest.mark.kafka
def test_long_names_are_refused_as_by_apache_kafka(broker: KBroker, fresh_kafka: ApacheKafka) -> None:
    assert refused(target(broker)) == refused(Target(fresh_kafka.port))


def refused(peer: Target) -> list[object]:
    found: list[object] = []
    for length in (249, 250, 32_000, LONGEST):
        answer = peer.ask(
            ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic("x" * length, 1, -1)], 30_000, True)
        )
        found.append((answer.topics[0].error_code, answer.topics[0].error_message))
    return found
