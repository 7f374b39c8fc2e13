"""OffsetFetch for one group: some partitions, or all that have an offset."""

from kbroker.control.groups.table import GroupTable
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kbroker.protocol.schema import ZERO_UUID
from kbroker.protocol.slices import paced

INVALID_OFFSET = -1


def fetch_offsets(
    table: GroupTable, request: OffsetFetchRequestGroup, require_stable: bool
) -> OffsetFetchResponseGroup:
    """The group's answer; request.topics None requests all. Topics carry name and id as requested.

    Raises KafkaError for the whole group: UNKNOWN_MEMBER_ID and STALE_MEMBER_EPOCH of a consumer
    group.
    """
    known = _validate(table, request)
    answer = OffsetFetchResponseGroup(request.group_id)
    if request.topics is None:
        return _fetch_all(table, request.group_id, require_stable) if known else answer
    for topic in paced(request.topics):
        topic_id = topic.topic_id if topic.topic_id != ZERO_UUID else table.topics.id_of(topic.name)
        partitions = [
            _partition(table, request.group_id, topic.name, topic_id, index, require_stable, known)
            for index in paced(topic.partition_indexes)
        ]
        answer.topics.append(OffsetFetchResponseTopics(topic.name, topic.topic_id, partitions))
    return answer


def failed_group(group_id: str, code: ErrorCode) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id, error_code=code)


def failed_partition(index: int, code: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(index, INVALID_OFFSET, error_code=code)


def _validate(table: GroupTable, request: OffsetFetchRequestGroup) -> bool:
    """False: there is no such group, so nothing is committed."""
    group = table.groups.get(request.group_id)
    if group is None:
        return False
    try:
        group.validate_offset_fetch(request.member_id, request.member_epoch)
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return False
        raise
    return True


def _fetch_all(table: GroupTable, group_id: str, require_stable: bool) -> OffsetFetchResponseGroup:
    answer = OffsetFetchResponseGroup(group_id)
    for topic, offsets in table.offsets.of_group(group_id).items():
        topic_id = table.topics.id_of(topic)
        partitions = [
            _partition(table, group_id, topic, topic_id, index, require_stable, True)
            for index, offset in paced(offsets.items())
            if not offset.is_of_another(topic_id)
        ]
        if partitions:
            answer.topics.append(OffsetFetchResponseTopics(topic, partitions=partitions))
    return answer


def _partition(
    table: GroupTable,
    group_id: str,
    topic: str,
    topic_id: bytes | None,
    index: int,
    require_stable: bool,
    known: bool,
) -> OffsetFetchResponsePartitions:
    offset = table.offsets.get(group_id, topic, index) if known else None
    if require_stable and table.offsets.is_pending(group_id, topic, index):
        return failed_partition(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    if offset is None or offset.is_of_another(topic_id):
        return OffsetFetchResponsePartitions(index, INVALID_OFFSET)
    return OffsetFetchResponsePartitions(index, offset.offset, offset.leader_epoch, offset.metadata)
