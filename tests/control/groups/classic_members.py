"""Classic groups and their members' protocols."""

import struct

from kbroker.control.groups.settings import GroupSettings
from kbroker.protocol.codec import encode
from kbroker.protocol.consumer_protocol import encode_assignment
from kbroker.protocol.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    TopicPartition,
)
from tests.control.groups.coordinator import Coordinator, answer


def subscription(owned: dict[str, list[int]] | None = None, version: int = 1) -> bytes:
    """Metadata of a classic consumer that subscribes to t."""
    parts = [TopicPartition(topic, partitions) for topic, partitions in (owned or {}).items()]
    return struct.pack(">h", version) + encode(ConsumerProtocolSubscription(["t"], None, parts), version)


PROTOCOLS = (("range", subscription()),)


def assignment_of(*partitions: int) -> bytes:
    return encode_assignment([("t", list(partitions))], 1)


def classic_group(size: int = 2, settings: GroupSettings | None = None) -> tuple[Coordinator, list[str], int]:
    """A stable classic group of consumers that share t's six partitions."""
    kafka = Coordinator(settings)
    kafka.topics.put("t", 6)
    fields = {"protocols": PROTOCOLS, "session_timeout_ms": 45_000}
    joins = [kafka.send_join(kafka.new_member_id(**fields), **fields) for _ in range(size)]
    kafka.advance(6000)
    responses = [answer(join) for join in joins]
    members = [response.member_id for response in responses]
    leader, generation = responses[0].leader, responses[0].generation_id
    share = 6 // size
    given = {
        member: assignment_of(*range(index * share, index * share + share))
        for index, member in enumerate(members)
    }
    for member in sorted(members, key=lambda each: each != leader, reverse=True):
        kafka.send_sync(member, generation, given if member == leader else None)
    assert kafka.state() == "Stable"
    return kafka, members, generation
