"""Random requests for Apache Kafka and kbroker: valid messages of every served API and version, in
the names of a small world, with values that a client could send.

A request is made twice from the same seed, once for each broker, with the topic ids of that broker.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.compression import Codec
from kbroker.protocol.messages import request_class
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.index import APIS
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.protocol.records import build_batch
from kbroker.protocol.schema import Field, Struct
from tests.compat.raw import SocketPeer
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import AS_A_CLUSTER_OF_ONE
from tests.protocol.random_messages import random_struct

TOPICS = ("orders", "payments")
PARTITIONS = 2
NAMES = (*TOPICS, *TOPICS, "absent", "group-1", "group-2", "tx-1", "range", "", "bad name")
MEMBERS = ("member", "AAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBB")

LEFT_OUT = {
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: "Apache Kafka fails for absent partitions",
    ApiKey.API_VERSIONS: "the clients' tests compare it, and kbroker leaves out what it does not serve",
    ApiKey.CREATE_DELEGATION_TOKEN: "a token is valid for a time",
    ApiKey.CREATE_PARTITIONS: "its check of the counts needs a state that other requests change",
    ApiKey.DELETE_RECORDS: "it moves the start of a log that other requests read",
    ApiKey.DELETE_TOPICS: "the other requests need the topics",
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: "Apache Kafka fails for absent partitions",
    ApiKey.DESCRIBE_LOG_DIRS: "the sizes of logs differ",
    ApiKey.DESCRIBE_QUORUM: "kbroker has no quorum",
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "Apache Kafka fails for absent partitions",
    ApiKey.RENEW_DELEGATION_TOKEN: "a token is valid for a time",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "a token is valid for a time",
    ApiKey.SASL_AUTHENTICATE: "it ends a connection without a login",
    ApiKey.SASL_HANDSHAKE: "it ends a connection without a login",
    ApiKey.UNREGISTER_BROKER: "Apache Kafka would shut down",
    ApiKey.UPDATE_FEATURES: "it changes the protocols of later requests",
    ApiKey.WRITE_TXN_MARKERS: "of brokers, not of clients",
}
"""APIs without random requests, and the reason."""

FIXED_VALUES: Mapping[str, tuple[Any, ...]] = {
    "allow_auto_topic_creation": (False,),
    "isolation_level": (0, 1),
    "max_bytes": (1, 1 << 20),
    "max_wait_ms": (0, 5),
    "min_bytes": (0, 1),
    "partition_max_bytes": (1, 1 << 20),
    "rebalance_timeout_ms": (60_000,),
    "replica_epoch": (-1,),
    "replica_id": (-1,),
    "session_timeout_ms": (30_000,),
    "timeout_ms": (10_000,),
    "transaction_timeout_ms": (60_000,),
    "validate_only": (True,),
    "acks": (1, -1),
}
"""Fields with few values that a client sends, or whose other values depend on time."""
NUMBERS = (0, 0, 1, -1, 5)
SETTINGS = {
    **AS_A_CLUSTER_OF_ONE,
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    **{
        f"group.{protocol}.{name}": value
        for protocol in ("consumer", "share", "streams")
        for name, value in {
            "assignment.interval.ms": "0",
            "max.session.timeout.ms": "3600000",
            "session.timeout.ms": "3600000",
        }.items()
    },
}
"""Of both brokers. Nothing depends on time: assignments are made at once, and no member is late."""
SHARE_KEY = "group-1:AAAAAAAAAAAAAAAAAAAAAA:0"


@dataclass(frozen=True)
class RandomRequest:
    """One request of a run: number ``number`` of ``seed``."""

    seed: int
    number: int
    api: ApiKey
    version: int

    @classmethod
    def of(cls, seed: int, number: int, apis: list[ApiKey]) -> "RandomRequest":
        """Its API and version, of those of `apis`."""
        rng = random.Random(f"{seed}/{number}")
        api = rng.choice(apis)
        found = APIS[api]
        return cls(seed, number, api, rng.randint(found.min_version, found.max_version))

    def build(self, world: "World") -> Struct:
        """The request for a broker with this world."""
        rng = random.Random(f"{self.seed}/{self.number}/request")
        request: Struct = random_struct(request_class(self.api), self.version, rng, _number)
        world.fill(request, self.version, rng)
        return request


def served() -> list[ApiKey]:
    """The APIs that random requests are made for."""
    return [ApiKey(key) for key in APIS if ApiKey(key) not in LEFT_OUT]


def _number(rng: random.Random, field: Field) -> int:
    number = rng.choice(NUMBERS)
    return abs(number) if field.wire == "uint16" else number


@dataclass(frozen=True)
class World:
    """What requests to one broker refer to."""

    ids: tuple[bytes, ...]
    """Of TOPICS, then of none."""
    now_ms: int

    def fill(self, found: Struct, version: int, rng: random.Random) -> None:
        """Give the fields of a random struct a meaning, in place."""
        for field in found.SCHEMA.fields:
            value: Any = getattr(found, field.name)
            if field.present(version) and (value is not None or field.wire == "records"):
                setattr(found, field.name, self._filled(field, value, version, rng))

    def _filled(self, field: Field, value: Any, version: int, rng: random.Random) -> Any:
        if field.name in FIXED_VALUES:
            return rng.choice(FIXED_VALUES[field.name])
        if field.wire == "struct":
            self.fill(value, version, rng)
            return value
        if field.wire == "records":
            return self._batch(rng)
        if field.wire.startswith("[]"):
            return self._list(field, value, version, rng)
        if field.wire == "string":
            return rng.choice(MEMBERS if field.name == "member_id" else NAMES)
        return rng.choice(self.ids) if field.wire == "uuid" else value

    def _list(self, field: Field, value: list[Any], version: int, rng: random.Random) -> list[Any]:
        """At least one entry, and none twice: clients make their lists of maps."""
        if field.wire == "[]int32":
            value = value or [_number(rng, field)]
        if field.wire == "[]string":
            value = [rng.choice(NAMES) for _ in value]
        elif field.wire == "[]uuid":
            value = [rng.choice(self.ids) for _ in value]
        elif field.wire == "[]struct":
            assert field.item is not None
            value = value or [random_struct(field.item, version, rng, _number)]
            for each in value:
                self.fill(each, version, rng)
        return list({_key(each): each for each in value}.values())

    def _batch(self, rng: random.Random) -> bytes:
        records = [
            (rng.choice((None, b"key")), rng.randbytes(20), (), self.now_ms) for _ in range(rng.randint(1, 3))
        ]
        return build_batch(records, codec=Codec(rng.choice((0, 0, 1, 2, 3, 4))))


def _key(entry: Any) -> Any:
    """What a list has only once: a name, an id, the number of a partition."""
    if not isinstance(entry, Struct):
        return entry
    fields = entry.SCHEMA.fields
    named = [field for field in fields if field.wire in ("string", "uuid")]
    found = fields[:1] if fields[0].wire == "int32" else named[:2]
    return tuple(getattr(entry, field.name) for field in found)


def prepare(peer: SocketPeer, now_ms: int) -> World:
    """Create the topics, and wait until the coordinators answer."""
    creation = CreateTopicsRequest([CreatableTopic(name, PARTITIONS, 1) for name in TOPICS], 30_000)
    created: Any = peer.ask(ApiKey.CREATE_TOPICS, 7, creation)
    assert not any(topic.error_code for topic in created.topics), created
    for key_type, key in enumerate(("group-1", "tx-1", SHARE_KEY)):
        find = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        eventually(partial(_answers, peer, ApiKey.FIND_COORDINATOR, 6, find))
    for number in range(8):  # one of each partition, or nearly so
        begin = InitProducerIdRequest(f"early-{number}", 60_000)
        eventually(partial(_answers, peer, ApiKey.INIT_PRODUCER_ID, 2, begin))
    eventually(partial(_answers, peer, ApiKey.LIST_GROUPS, 1, ListGroupsRequest()))
    return World((*(peer.topic_id(name) for name in TOPICS), b"unknown-topic-id"), now_ms)


def _answers(peer: SocketPeer, api: ApiKey, version: int, request: Struct) -> bool:
    answer: Any = peer.ask(api, version, request)
    return not any(each.error_code for each in getattr(answer, "coordinators", [answer]))
