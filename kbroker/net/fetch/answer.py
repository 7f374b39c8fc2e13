"""The answer to a Fetch that Python serves, v4 to v18: the message, with file ranges in place of
records.

The records are not read here. They leave the process by sendfile, between the other bytes of the
message.
"""

from collections.abc import Iterable

from kbroker.net.connections.connection import FilePart, Part
from kbroker.net.fetch.fetch_session import FetchedPartition
from kbroker.net.fetch.partition_reader import Reading
from kbroker.net.rows import FetchVersion
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import RequestHeader, encode_response_into
from kbroker.protocol.long_frame import LongFrame, Spilled
from kbroker.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from kbroker.protocol.slices import is_sliced, paced, release

LAST_WITHOUT_STORAGE_ERROR = 5
FIRST_WITH_LEADER = 16

Selected = list[tuple[FetchedPartition, Reading]]
_LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class FetchAnswer:
    """Answers one request. node_id: of the leader that an error of a stale leader names."""

    def __init__(self, header: RequestHeader, node_id: int) -> None:
        self._header = header
        self._version = header.api_version
        self._node_id = node_id

    def build(
        self, selected: Selected, error: int = 0, session_id: int = 0, throttle_ms: int = 0
    ) -> list[Part]:
        """The framed answer. Partitions of one topic that follow each other share an entry."""
        response = FetchResponse(throttle_ms, error, session_id, self._topics(selected))
        out = _Gapped()
        encode_response_into(out, ApiKey.FETCH, self._version, self._header.correlation_id, response)
        if is_sliced():
            release(response)
        frame = out.framed(out.file_bytes)
        return frame.parts if isinstance(frame, LongFrame) else [frame]

    def _topics(self, selected: Selected) -> list[FetchableTopicResponse]:
        topics: list[FetchableTopicResponse] = []
        last: str | bytes | None = None
        for partition, reading in paced(selected):
            name = partition.topic_id if self._version >= FetchVersion.TOPIC_IDS else partition.topic
            if name != last:
                topics.append(FetchableTopicResponse(partition.topic, partition.topic_id))
                last = name
            topics[-1].partitions.append(self._partition(partition.partition, reading))
        return topics

    def _partition(self, index: int, reading: Reading) -> PartitionData:
        data = PartitionData(
            index,
            reading.error,
            reading.high_watermark,
            reading.last_stable,
            reading.log_start,
            aborted_transactions=None,
            records=b"",
        )
        if reading.error is ErrorCode.KAFKA_STORAGE_ERROR and self._version <= LAST_WITHOUT_STORAGE_ERROR:
            data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER  # the error that old clients retry
        if reading.aborted is not None:
            data.aborted_transactions = [
                AbortedTransaction(entry.producer_id, entry.first_offset) for entry in reading.aborted
            ]
        if reading.diverging is not None:
            data.diverging_epoch = EpochEndOffset(*reading.diverging)
        if self._version >= FIRST_WITH_LEADER and reading.error in _LEADER_ERRORS:
            data.current_leader = LeaderIdAndEpoch(self._node_id, reading.leader_epoch)
        if reading.range is not None:
            file, position, length = reading.range
            data.records = FilePart(file, position, length)  # type: ignore[assignment]  # see _Gapped
        return data


class _Gapped(Spilled):
    """An encoded message; a file range that is appended is a separate part."""

    def __init__(self) -> None:
        super().__init__()
        self.file_bytes = 0

    def __iadd__(self, more: Iterable[int] | FilePart) -> "_Gapped":  # type: ignore[override,misc]
        if isinstance(more, FilePart):
            self.spill()
            self.parts.append(more)
            self.file_bytes += len(more)
        else:
            self.extend(more)
        return self
