"""One broker that is asked for odd requests: its topics, and the groups and transactions that the
requests are about."""

import re
import socket
import struct
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kbroker.protocol.records import build_batch
from kbroker.protocol.schema import ZERO_UUID, Struct
from tests.compat.odd_fields import TWICE, changes
from tests.compat.raw import Case, SocketPeer, plain, receive
from tests.compat.side_by_side import Lines
from tests.config.differences import is_later, is_own
from tests.peer.eventually import eventually

TOPIC, OTHER = "orders", "payments"
UNANSWERED = {
    "transactions empty",
    "markers.0.topics first twice",
    "markers.0.topics.0.partition_indexes first twice",
    "markers.0.topics.0.partition_indexes also 0",
}
"""Changes after which Apache Kafka does not answer."""
MAX_CHANGES = 40
"""Of a scene; those with up to twice as many have all of them."""
CONFIGURED = ("configured-1", "configured-2")
"""Topics whose configs change."""
INTERNAL = ("through", "counts")
"""Internal topics of a Streams application."""
PARTITIONS = 2
ANSWERS_S = 10.0
PASSING = {14, 15, 16, 51}
"""The coordinator is loading, not known or elsewhere; the transaction before is being completed."""
PASSES_S = 2.0
MADE_UP = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?<![\w-])[\w-]{22}(?![\w-])"
)
TIMED = re.compile(r"\d{13}")
DIFFER = frozenset(
    {
        "acquisition_lock_timeout_ms", "client_instance_id", "cluster_id", "host",
        "last_timestamp", "log_append_time_ms",
        "log_dir", "ongoing_txn_producer_id", "partition_size", "port", "producer_id", "replica_directory_id",
        "session_id",
        "subscription_id", "topic_id", "total_bytes", "transaction_start_time_ms", "usable_bytes",
    }
)  # fmt: skip
"""Fields of which only it is compared whether they are set."""
STARTED_MS = time.time_ns() // 1_000_000


class KeptPeer(SocketPeer):
    """Asks over one connection while the broker keeps it open."""

    _link: socket.socket | None = None

    def send(self, data: bytes) -> bytes | None:
        if self._link is None:
            self._link = socket.create_connection(("127.0.0.1", self.port), timeout=ANSWERS_S)
        try:
            self._link.sendall(data)
            size = receive(self._link, 4)
            frame = None if size is None else receive(self._link, struct.unpack(">i", size)[0])
        except BrokenPipeError:
            frame = None
        except TimeoutError:
            self.close()
            raise
        if frame is None:
            self.close()
        return frame

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None


class World:
    """A broker with the topics, and what was learned of it."""

    def __init__(self, peer: KeptPeer) -> None:
        self.peer = peer
        self.ids = {name: peer.topic_id(name) for name in (TOPIC, OTHER)}

    def ask(self, api: ApiKey, version: int, request: Struct) -> Any:
        """The answer, after those that pass; None when the broker closed the connection."""
        ends = time.monotonic() + PASSES_S
        while True:
            answer = self.peer.ask(api, version, request)
            if answer is None or not codes(answer) & PASSING or time.monotonic() > ends:
                return answer
            time.sleep(0.01)

    def heard(self, api: ApiKey, version: int, request: Struct) -> object:
        """The answer as it is compared."""
        try:
            return shown(self.ask(api, version, request))
        except TimeoutError:
            return "no answer"

    def done(self, api: ApiKey, version: int, request: Struct) -> Any:
        """The answer to a request that succeeds."""
        answer = self.ask(api, version, request)
        assert answer is not None, request
        assert not codes(answer) - {0}, (request, answer)
        return answer


class Scene(NamedTuple):
    """Requests about something of a name that no other request is about.

    make: makes it, and the valid request of a version. kept: fields that stay as they are. once:
    nothing is named twice. look: a request after the odd one, whose answer shows what that has
    changed.
    """

    api: ApiKey
    versions: tuple[int, int]
    make: Callable[[World, str, int], Struct]
    kept: frozenset[str] = frozenset()
    once: bool = False
    look: Callable[[World, str], tuple[ApiKey, int, Struct]] | None = None


def prepare(peer: KeptPeer) -> World:
    """The topics, with three records in the first one's first partition; coordinators that
    answer."""
    configs = [CreatableTopicConfig("retention.ms", "-1")]
    topics = [
        CreatableTopic(name, PARTITIONS, 1, [], configs) for name in (TOPIC, OTHER, *INTERNAL, *CONFIGURED)
    ]
    created: Any = peer.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics, 30_000))
    assert not any(topic.error_code for topic in created.topics), created
    eventually(lambda: ZERO_UUID not in (peer.topic_id(TOPIC), peer.topic_id(OTHER)))
    for key_type, key in enumerate(("group", "transaction", "group:AAAAAAAAAAAAAAAAAAAAAA:0")):
        find = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        eventually(partial(_succeeds, peer, ApiKey.FIND_COORDINATOR, 6, find))
    for number in range(8):
        begin = InitProducerIdRequest(f"early-{number}", 60_000)
        eventually(partial(_succeeds, peer, ApiKey.INIT_PRODUCER_ID, 2, begin))
    eventually(partial(_succeeds, peer, ApiKey.LIST_GROUPS, 1, ListGroupsRequest()))
    world = World(peer)
    world.done(ApiKey.PRODUCE, 9, produced(3))
    return world


def _succeeds(peer: KeptPeer, api: ApiKey, version: int, request: Struct) -> bool:
    return not codes(peer.ask(api, version, request)) - {0}


def produced(count: int, topic: str = TOPIC, partition: int = 0) -> ProduceRequest:
    """Records of one batch."""
    batch = build_batch([(b"key", b"value", (), STARTED_MS)] * count)
    return ProduceRequest(
        None, -1, 10_000, [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, batch)])]
    )


def answers(world: World, name: str, scene: Scene, every: bool = False) -> Lines:
    """The answers to the scene's odd requests, and what they have changed; each in one of the
    scene's versions, or in `every` one."""
    lines: Lines = []
    first, last = scene.versions
    step = 1 if every else last - first + 1
    for version in range(first, last + 1):
        odd = changes(scene.make(world, f"{name}-v{version}", version), version, scene.kept)
        odd = [change for change in odd if not (scene.once and change.what == TWICE)]
        skipped = 1 if every else max(1, len(odd) // MAX_CHANGES)
        for number, change in enumerate(odd):
            if (number - version) % (step * skipped) or str(change) in UNANSWERED:
                continue
            own = f"{name}-v{version}-{number}"
            request = change.applied(scene.make(world, own, version))
            label = f"{name} v{version} {change}"
            lines.append((label, world.heard(scene.api, version, request)))
            if scene.look is not None:
                lines.append((f"{label}, then", shown(world.ask(*scene.look(world, own)))))
    return lines


def shown(answer: Struct | None) -> object:
    """An answer without what a broker makes up."""
    if answer is None:
        return "closed"
    how = Case("", ApiKey.METADATA, (0, 0), lambda *_: answer, same_text=True, levelled=DIFFER)
    return _levelled(plain(answer, how))


def _levelled(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if key != "finalized_features_epoch"}
        return {key: _size(item) if key == "api_keys" else _levelled(item) for key, item in kept.items()}
    if isinstance(value, list):
        left = [_levelled(item) for item in value if not (isinstance(item, dict) and _is_own(item))]
        return sorted(left, key=repr)  # again: it was by the ids that the broker made up
    return TIMED.sub("time", MADE_UP.sub("made-up", value)) if isinstance(value, str) else value


def compared(kafkas: Lines, kbrokers: Lines) -> tuple[Lines, Lines]:
    """The lines to compare: those that both had time for, and not those where Apache Kafka fails
    with an exception, which is UNKNOWN_SERVER_ERROR, and what comes of that."""
    both = min(len(kafkas), len(kbrokers))
    assert both, "nothing was answered"
    kafkas, kbrokers = kafkas[:both], kbrokers[:both]
    assert [label for label, _ in kafkas] == [label for label, _ in kbrokers]
    failed = {label for label, answer in kafkas if _fails(answer)}
    failed |= {f"{label}, then" for label in failed}
    return (
        [line for line in kafkas if line[0] not in failed],
        [line for line in kbrokers if line[0] not in failed],
    )


def _fails(answer: Any) -> bool:
    if isinstance(answer, dict):
        return any(
            value == -1 if key.endswith("error_code") else _fails(value) for key, value in answer.items()
        )
    return isinstance(answer, list | tuple) and any(map(_fails, answer))


def _is_own(config: dict[str, Any]) -> bool:
    """Whether this is a setting that Apache Kafka does not have."""
    name = config.get("name")
    return "config_source" in config and (is_own(str(name)) or is_later(str(name)))


def _size(listed: list[Any]) -> str:
    """Of the list of APIs, of which kbroker leaves out what it does not serve."""
    return "many" if len(listed) > 1 else repr(listed)


def codes(answer: Any) -> set[int]:
    """Every error code in an answer."""
    if isinstance(answer, Struct):
        pairs = [(field, getattr(answer, field)) for field in answer.__struct_fields__]
        found = {value for field, value in pairs if field.endswith("error_code")}
        return found.union(*(codes(value) for _, value in pairs))
    return set().union(*map(codes, answer)) if isinstance(answer, list) else set()
