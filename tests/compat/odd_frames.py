"""Frames that no client library writes: unknown APIs and versions, bodies that end early or go on,
unknown tags, odd client ids. A broker answers them or closes the connection."""

import struct
from collections.abc import Iterator
from typing import Any

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.frame import flexible, parse_response
from kbroker.protocol.messages import response_class
from kbroker.protocol.messages.describe_cluster import DescribeClusterRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.index import APIS
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from kbroker.protocol.schema import ProtocolError, Struct
from tests.compat.odd_world import shown

BETWEEN_BROKERS = {80, 81, 82, 83, 84, 85, 86, 87}
"""Raft voters and the share state persister, which kbroker does not serve."""
UNSTABLE = {(ApiKey.INIT_PRODUCER_ID, 6)}
"""Versions that Kafka knows, and serves only with a setting of its developers."""
KNOWN = tuple(sorted(key for key in APIS if key not in BETWEEN_BROKERS))
LEFT_OUT = {
    ApiKey.UNREGISTER_BROKER,
    ApiKey.LIST_GROUPS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.FETCH,
    ApiKey.PRODUCE,
    ApiKey.ELECT_LEADERS,
}
"""Their answers to an empty request differ, or there is none, or they shut down Apache Kafka. An
election without a timeout is timed out there, and done here."""
VALID: tuple[tuple[ApiKey, Struct], ...] = (
    (ApiKey.METADATA, MetadataRequest([], False)),
    (ApiKey.LIST_GROUPS, ListGroupsRequest(["Dead"])),
    (ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest()),
    (ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("g", 0, ["g"])),
    (ApiKey.OFFSET_FETCH, OffsetFetchRequest("no-group")),
    (ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest("", 1)),
)
TAG = b"\x01\x63\x01x"
"""One tagged field that nobody knows."""
CLIENT_IDS = (None, b"", b"\xff\xfe", b"i" * 300, b"a\0b", "é".encode())

Odd = tuple[str, int, int, bytes]
"""Label, API, version, frame without its size."""


def head(api: int, version: int, client_id: bytes | None = b"odd", tags: bytes = b"\0") -> bytes:
    """A request header, with tags where the version has them."""
    name = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    has_tags = api in APIS and version >= 0 and flexible(api, version)
    return struct.pack(">hhi", api, version, 7) + name + (tags if has_tags else b"")


def frames() -> Iterator[Odd]:
    """All of them."""
    yield from _unknown()
    for key in KNOWN:
        api = APIS[key]
        for version in range(api.min_version, api.max_version + 1):
            if (key, version) not in UNSTABLE and key not in LEFT_OUT:
                for name, body in (("no body", b""), ("zeros", bytes(64)), ("ones", b"\xff" * 64)):
                    yield f"{ApiKey(key).name} v{version} {name}", key, version, head(key, version) + body
    yield from _around_valid()


def _unknown() -> Iterator[Odd]:
    for key in (-32768, -1, *range(106), 999, 32767):
        if key in BETWEEN_BROKERS:
            continue
        api = APIS.get(key)
        versions = (-1, 0, 1, 32767) if api is None else (-1, api.min_version - 1, api.max_version + 1, 32767)
        for version in versions:
            yield f"{key} v{version} unknown", key, version, head(key, version) + bytes(8)


def _around_valid() -> Iterator[Odd]:
    for key, request in VALID:
        api = APIS[key]
        for version in range(api.min_version, api.max_version + 1):
            if (key, version) in UNSTABLE:
                continue
            label, body = f"{key.name} v{version}", encode(request, version)
            yield f"{label} goes on", key, version, head(key, version) + body + b"more"
            yield f"{label} ends early", key, version, head(key, version) + body[:-1]
            for client_id in CLIENT_IDS:
                yield f"{label} of {client_id!r:.20}", key, version, head(key, version, client_id) + body
            if flexible(key, version):
                yield f"{label} tag", key, version, head(key, version) + body[:-1] + TAG
                yield f"{label} tag of the header", key, version, head(key, version, tags=TAG) + body


def answered(api: int, version: int, frame: bytes | None) -> Any:
    """An answer, as its fields if they can be read."""
    if frame is None:
        return "closed"
    try:
        correlation_id, start = parse_response(frame, api, version)
        found, _ = decode(response_class(ApiKey(api)), version, frame, start)
    except (ProtocolError, KeyError, ValueError):
        return frame
    return correlation_id, shown(found)
