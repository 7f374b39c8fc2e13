"""Raw requests to two brokers, answers compared field by field: how kbroker is held against Apache
Kafka.

A `Case` is data: an API, the versions to try, and a function that makes the request for one peer
(topic ids differ between peers). `compare` sends it to both and gives the differences. Ids,
addresses and times are levelled out, lists whose order means nothing are sorted; error texts count
as equal when both or neither are there, unless the case says otherwise.
"""

import re
import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from msgspec.structs import fields

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import encode_request, parse_response
from kbroker.protocol.messages import response_class
from kbroker.protocol.schema import ZERO_UUID, Struct

LEVELLED = frozenset(
    {
        "topic_id", "replica_directory_id", "cluster_id", "port", "log_dir",
        "producer_id", "total_bytes", "usable_bytes", "last_timestamp", "finalized_features_epoch",
    }
)  # fmt: skip
"""Fields that may differ: only whether they are set is compared (not their default)."""


SETTLES_S = 60  # a busy machine is no failure


class Peer(Protocol):
    """A broker under comparison."""

    def ask(self, api: ApiKey, version: int, request: Struct) -> Struct | None:
        """The decoded answer, None when the broker closed the connection instead."""

    def topic_id(self, name: str) -> bytes:
        """Id of a topic, zeros when there is none."""


class SocketPeer:
    """A broker on 127.0.0.1, asked over one connection after the other."""

    def __init__(self, port: int, client_id: str = "raw") -> None:
        self.port = port
        self.client_id = client_id

    def ask(self, api: ApiKey, version: int, request: Struct) -> Struct | None:
        frame = self.send(encode_request(api, version, 7, self.client_id, request))
        if frame is None:
            return None
        correlation_id, start = parse_response(frame, api, version)
        assert correlation_id == 7
        return decode_exact(response_class(api), version, frame, start)

    def send(self, data: bytes) -> bytes | None:
        """One answer frame without its size, None when the connection was closed."""
        with closing(socket.create_connection(("127.0.0.1", self.port), timeout=120)) as link:
            link.sendall(data)
            size = receive(link, 4)
            return None if size is None else receive(link, struct.unpack(">i", size)[0])

    def topic_id(self, name: str) -> bytes:
        from kbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

        request = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        answer: Any = self.ask(ApiKey.METADATA, 12, request)
        return bytes(answer.topics[0].topic_id)


def receive(link: socket.socket, count: int) -> bytes | None:
    data = b""
    while len(data) < count:
        try:
            more = link.recv(count - len(data))
        except ConnectionResetError:
            return None
        if not more:
            return None
        data += more
    return data


Build = Callable[[Peer], Struct]


@dataclass(frozen=True)
class Case:
    """One request, expected to get the same answer. versions: inclusive.

    same_text: error texts must be equal, too. ignore: dotted field paths that are not compared
    ("topics.configs"). keep: the order of these lists (dotted paths) counts. settles: asked again
    for a while until the answers are the same.
    """

    name: str
    api: ApiKey
    versions: tuple[int, int]
    build: Callable[[Peer, int], Struct]
    same_text: bool = False
    ignore: frozenset[str] = frozenset()
    keep: frozenset[str] = frozenset()
    settles: bool = False
    levelled: frozenset[str] = field(default=LEVELLED)


def case(
    name: str,
    api: ApiKey,
    versions: tuple[int, int],
    request: Struct | Callable[[Peer], Struct] | Callable[[Peer, int], Struct],
    **how: Any,
) -> Case:
    """A Case from a request, a function of the peer, or a function of peer and version."""
    if isinstance(request, Struct):
        return Case(name, api, versions, lambda peer, version: request, **how)
    arguments = request.__code__.co_argcount
    if arguments == 1:
        return Case(name, api, versions, lambda peer, version: request(peer), **how)  # type: ignore[call-arg]
    return Case(name, api, versions, request, **how)


later = partial(case, settles=True)
"""A case about what an earlier one changed: Kafka applies changes after it has answered."""


def compare(one: Case, version: int, expected: Peer, actual: Peer) -> list[str]:
    """Differences between the two answers, one line each; empty when they are the same."""
    deadline = time.monotonic() + (SETTLES_S if one.settles else 0)
    while True:
        requested = expected.ask(one.api, version, one.build(expected, version))
        found = actual.ask(one.api, version, one.build(actual, version))
        lines = differences(plain(requested, one), plain(found, one))
        if not lines or time.monotonic() >= deadline:
            return lines
        time.sleep(0.05)


def plain(value: Any, one: Case, path: str = "") -> Any:
    """An answer as dicts, lists and scalars, levelled."""
    if isinstance(value, Struct):
        return {
            each.name: _field(getattr(value, each.name), each.name, one, f"{path}.{each.name}".lstrip("."))
            for each in fields(value)
        }
    if isinstance(value, list | tuple):
        items = [plain(item, one, path) for item in value]
        return items if path in one.keep else sorted(items, key=repr)
    return bytes(value) if isinstance(value, memoryview) else value


TIME_OF_DAY = re.compile(r"\d{13}")  # ms since 1970: two brokers are not asked in the same one


def _field(value: Any, name: str, one: Case, path: str) -> Any:
    if path in one.ignore:
        return "ignored"
    if name in one.levelled:
        unset = (ZERO_UUID, -1, None, "", 0)
        return "unset" if value in unset else "set"
    if name == "error_message" and not one.same_text:
        return None if value is None else ("empty" if value == "" else "text")
    if name == "batch_index_error_message" and value is not None:
        return TIME_OF_DAY.sub("time", value)
    return plain(value, one, path)


def differences(expected: Any, found: Any, path: str = "") -> list[str]:
    """Where two plain values differ."""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        keys = dict.fromkeys((*expected, *found))
        return [
            line for key in keys for line in differences(expected.get(key), found.get(key), f"{path}.{key}")
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return [line for i, (a, b) in pairs for line in differences(a, b, f"{path}[{i}]")]
    if expected == found:
        return []
    return [f"{path.lstrip('.') or 'answer'}: Kafka {expected!r}, kbroker {found!r}"]


def run(cases: Iterable[Case], expected: Peer, actual: Peer) -> dict[str, list[str]]:
    """Differences of every case and version that has any, by "name v7"."""
    found = {}
    for one in cases:
        for version in range(one.versions[0], one.versions[1] + 1):
            if lines := compare(one, version, expected, actual):
                found[f"{one.name} v{version}"] = lines
    return found
