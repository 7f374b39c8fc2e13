"""The consumer protocol: subscriptions and assignments inside the messages of classic groups
(KIP-429 and before).

Versions newer than ours are read as ours, as Kafka's ConsumerProtocol does. The bytes may be
anything, because clients of other languages choose them; an unreadable subscription is None, never
an error.
"""

import struct
from collections.abc import Iterable

from kbroker.protocol.codec import decode, encode
from kbroker.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from kbroker.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kbroker.protocol.schema import ProtocolError

_VERSION = struct.Struct(">h")
_LENGTH = struct.Struct(">i")
_NEWEST = 3
MAX_TOPICS = 50_000
"""Maximum for all members of a group: they are read at once, when a rebalance ends."""


def version_of(data: bytes) -> int:
    """The version that metadata or an assignment starts with. Raises ProtocolError."""
    if len(data) < 2:
        raise ProtocolError("no version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise ProtocolError(f"version {version}")
    return version


def parse_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """A member's subscription. Raises ProtocolError."""
    version = min(version_of(metadata), _NEWEST)
    return decode(ConsumerProtocolSubscription, version, metadata, 2)[0]


def parse_assignment(assignment: bytes) -> ConsumerProtocolAssignment:
    """A member's assignment. Raises ProtocolError."""
    version = min(version_of(assignment), _NEWEST)
    return decode(ConsumerProtocolAssignment, version, assignment, 2)[0]


def assigned_topics(assignment: bytes) -> tuple[list[TopicPartition], str | None]:
    """The topics of an assignment and, if it is malformed, those before the error and the reason.
    Empty bytes (during a rebalance) are no topics."""
    found: list[TopicPartition] = []
    if not assignment:
        return found, None
    try:
        position = _VERSION.size + _LENGTH.size
        if len(assignment) < position:
            raise ProtocolError(f"only {len(assignment)} bytes")
        version = min(version_of(assignment), _NEWEST)
        count: int = _LENGTH.unpack_from(assignment, _VERSION.size)[0]
        if count < 0:
            raise ProtocolError(f"{count} topics")
        while len(found) < count:
            topic, position = decode(TopicPartition, version, assignment, position)
            found.append(topic)
        parse_assignment(assignment)
    except ProtocolError as error:
        return found, str(error)
    return found, None


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Topics of all subscriptions together; None when one cannot be read, or when they name more
    than MAX_TOPICS."""
    topics: set[str] = set()
    left = MAX_TOPICS
    known = b""  # version and topics of the one before: most members have the same
    try:
        for each in metadata:
            left -= int.from_bytes(each[2:6], signed=True)
            if left < 0:
                return None
            if known and each.startswith(known) and _ends_with_user_data(each, len(known)):
                continue
            version_of(each)
            found, end = decode(ConsumerProtocolSubscription, 0, each, 2)
            topics.update(found.topics)
            known = each[: end - _LENGTH.size - len(found.user_data or b"")]
    except ProtocolError:
        return None
    return frozenset(topics)


def _ends_with_user_data(metadata: bytes, position: int) -> bool:
    """Whether readable user data is at the position: null, or as many bytes as its length says."""
    rest = len(metadata) - position - _LENGTH.size
    if rest < 0:
        return False
    length: int = _LENGTH.unpack_from(metadata, position)[0]
    return -1 <= length <= rest


def encode_assignment(partitions: Iterable[tuple[str, list[int]]], version: int) -> bytes:
    """An assignment by topic name, as a consumer of the classic protocol reads it."""
    version = min(version, _NEWEST)
    body = ConsumerProtocolAssignment([TopicPartition(topic, list(each)) for topic, each in partitions])
    return _VERSION.pack(version) + encode(body, version)
