"""Requests about groups, in short."""

import struct
from typing import Any

from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kbroker.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

SUBSCRIPTION = struct.pack(">hi", 0, 1) + b"\0\1t" + struct.pack(">i", -1)
PROTOCOLS = (("range", SUBSCRIPTION), ("roundrobin", SUBSCRIPTION))


def join_request(
    group: str,
    member_id: str = "",
    instance: str | None = None,
    protocols: tuple[tuple[str, bytes], ...] = PROTOCOLS,
    protocol_type: str = "consumer",
    session_ms: int = 10_000,
) -> JoinGroupRequest:
    offered = [JoinGroupRequestProtocol(name, metadata) for name, metadata in protocols]
    return JoinGroupRequest(group, session_ms, 60_000, member_id, instance, protocol_type, offered)


def sync_request(group: str, generation: int, member_id: str, given: dict[str, bytes], **more: Any) -> Any:
    parts = [SyncGroupRequestAssignment(each, data) for each, data in given.items()]
    fields = {"protocol_type": "consumer", "protocol_name": "range"} | more
    return SyncGroupRequest(group, generation, member_id, assignments=parts, **fields)


def commit_request(
    group: str,
    topic: str,
    offset: int,
    member_id: str = "",
    epoch: int = -1,
    metadata: str | None = "m",
    partitions: tuple[int, ...] = (0,),
    topic_id: bytes = bytes(16),
) -> OffsetCommitRequest:
    parts = [OffsetCommitRequestPartition(index, offset, 0, metadata) for index in partitions]
    return OffsetCommitRequest(
        group, epoch, member_id, topics=[OffsetCommitRequestTopic(topic, topic_id, parts)]
    )


def fetch_request(group: str, version: int, topics: dict[str, list[int]] | None) -> OffsetFetchRequest:
    if version >= 8:
        requested = (
            None if topics is None else [OffsetFetchRequestTopics(*_named(each)) for each in topics.items()]
        )
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=requested)])
    plain = (
        None if topics is None else [OffsetFetchRequestTopic(name, parts) for name, parts in topics.items()]
    )
    return OffsetFetchRequest(group, plain)


def _named(each: tuple[str, list[int]]) -> tuple[str, bytes, list[int]]:
    return each[0], bytes(16), each[1]


def pause() -> None:
    """Requests on two connections are to arrive in this order."""
    import time

    time.sleep(0.2)
