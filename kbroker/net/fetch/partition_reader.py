"""Reads one partition for a fetch: finds the bytes in a segment file, or the error.

Runs in: network. Rules of Kafka's Partition.readRecords and LocalLog.read.
"""

import logging
import time
from itertools import islice
from pathlib import Path

from msgspec import Struct

from kbroker.ipc.layout import Slot, SlotState
from kbroker.ipc.log_dir_errors import LogDirErrors
from kbroker.ipc.messages import PartitionImage, TopicImage
from kbroker.ipc.shared import Shared
from kbroker.log.errors import CorruptLog
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import BatchPosition, FileRange, LogReader
from kbroker.log.transaction_index import AbortedTransaction, aborted_transactions
from kbroker.net.fetch.fetch_session import FetchedPartition
from kbroker.net.fetch.read_table import ReadTable
from kbroker.net.rows import Isolation
from kbroker.net.rows.topic_kernel import read_slot
from kbroker.net.topics import Topics
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.schema import ZERO_UUID

log = logging.getLogger(__name__)

CHECKED_AT_ONCE = 2000  # partitions, in some tenths of a millisecond
UPDATE_S = 0.005
"""A writer that lost its processor within an update of a slot has it again by then; one that died
has not."""
PAUSE_S = 0.0001


class Reading(Struct):
    """Result of a fetch for one partition. place and range are None when there are no bytes."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable: int = -1
    log_start: int = -1
    leader_epoch: int = -1
    slot: int = -1
    place: BatchPosition | None = None
    range: FileRange | None = None
    aborted: list[AbortedTransaction] | None = None
    diverging: tuple[int, int] | None = None

    @property
    def length(self) -> int:
        """Number of bytes of records."""
        return self.range.length if self.range is not None else 0

    def fail(self, error: ErrorCode) -> None:
        """The read of a partition that was found ends with an error: offsets are not shown."""
        self.error = error
        self.high_watermark = self.last_stable = self.log_start = -1
        self.aborted = None

    @property
    def reported(self) -> tuple[int, int, int, int, bool]:
        """The values that an incremental session compares with its last answer."""
        return self.error, self.high_watermark, self.log_start, self.length, self.diverging is not None


class Limits(Struct, frozen=True):
    """Limits of a read. left: bytes of the answer; min_one: a whole first batch, however large."""

    left: int
    min_one: bool
    isolation: int


class PartitionReader:
    """Reads any partition the process knows. Owner: Fetches; keeps a LogReader for each slot in
    use."""

    def __init__(self, shared: Shared, topics: Topics, reads: ReadTable, dir_errors: LogDirErrors) -> None:
        self._dir_errors = dir_errors
        self._reads = reads
        self._slots = shared.slots
        self._topics = topics
        self.files = OpenFiles()
        self._readers: dict[int, tuple[int, LogReader]] = {}
        self._unchecked: list[int] = []  # slots that `outdated` has not checked in this round
        self._snapshot = Slot.row(writer="network")

    def forget(self, slot: int) -> None:
        """The slot no longer belongs to this partition."""
        found = self._readers.pop(slot, None)
        if found is not None:
            self.files.forget_folder(found[1].folder)

    def outdated(self, limit: int) -> list[int]:
        """Slots whose segments have changed since they were read, `limit` at most. A call checks
        CHECKED_AT_ONCE of them, the next call others."""
        if not self._unchecked:
            self._unchecked = list(self._readers)
        slots = [slot for slot in self._unchecked[-CHECKED_AT_ONCE:] if slot in self._readers]
        del self._unchecked[-CHECKED_AT_ONCE:]
        versions = self._slots[slots, Slot.SEGMENTS_VERSION].tolist()
        found = (
            slot
            for slot, version in zip(slots, versions, strict=True)
            if version % 2 == 0 and self._readers[slot][1].is_outdated(version)
        )
        return list(islice(found, limit))

    def name_of(self, partition: FetchedPartition) -> str | None:
        """Name of a partition's topic, None for an unknown id."""
        if partition.topic_id == ZERO_UUID and not partition.by_id:
            return partition.topic
        topic = self._topics.by_id.get(partition.topic_id)
        return None if topic is None else topic.name

    def find(self, partition: FetchedPartition) -> tuple[TopicImage, PartitionImage] | ErrorCode:
        """The partition that a fetch names."""
        if partition.topic_id != ZERO_UUID or partition.by_id:
            topic = self._topics.by_id.get(partition.topic_id)
            if topic is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
        else:
            topic = self._topics.by_name.get(partition.topic)
        if partition.refused:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return topic, topic.partitions[partition.partition]

    def read(self, partition: FetchedPartition, limits: Limits) -> Reading:
        """The result of a read: the place of the bytes, or an error."""
        found = self.find(partition)
        if isinstance(found, ErrorCode):
            return Reading(found, aborted=[])
        part = found[1]
        words = self._slot(part, UPDATE_S)
        if words is None:
            return Reading(ErrorCode.NOT_LEADER_OR_FOLLOWER, slot=part.slot)
        error = self._refusal(words, part, partition)
        if error is not ErrorCode.NONE:
            return Reading(error, slot=part.slot, leader_epoch=words[Slot.LEADER_EPOCH])
        reading = Reading(
            ErrorCode.NONE,
            words[Slot.HIGH_WATERMARK],
            words[Slot.LAST_STABLE],
            words[Slot.LOG_START],
            words[Slot.LEADER_EPOCH],
            part.slot,
        )
        if limits.isolation == Isolation.READ_COMMITTED:
            reading.aborted = []
        try:
            if self._diverges(reading, partition, words, part):
                return reading
            self._locate(reading, partition, words, part, limits)
        except (CorruptLog, OSError) as failure:
            log.error("fetch of %s-%d at %d: %s", found[0].name, part.index, partition.fetch_offset, failure)
            self._dir_errors.report(part.folder, failure)
            return Reading(ErrorCode.KAFKA_STORAGE_ERROR, slot=part.slot)
        return reading

    def available(self, partition: FetchedPartition, isolation: int) -> int:
        """The approximate number of bytes that a read would return now; negative when the fetch
        must be answered at once."""
        found = self.find(partition)
        if isinstance(found, ErrorCode):
            return -1
        words = self._slot(found[1])
        if words is None:  # the update will wake the fetch
            return 0
        if self._refusal(words, found[1], partition) is not ErrorCode.NONE:
            return -1
        committed = isolation == Isolation.READ_COMMITTED
        end = words[Slot.LAST_STABLE] if committed else words[Slot.HIGH_WATERMARK]
        if partition.fetch_offset >= end and partition.last_fetched_epoch < 0:
            return 0
        reading = self.read(partition, Limits(partition.max_bytes, True, isolation))
        at_once = reading.error is not ErrorCode.NONE or reading.diverging is not None
        return -1 if at_once else reading.length

    def current(self, reading: Reading) -> Reading:
        """The reading once its bytes have arrived; an error if its log dir has failed meanwhile."""
        if reading.length and self._slots[reading.slot, Slot.STATE] == SlotState.OFFLINE:
            return Reading(ErrorCode.KAFKA_STORAGE_ERROR, slot=reading.slot)
        return reading

    def _slot(self, part: PartitionImage, patience_s: float = 0.0) -> list[int] | None:
        """The words of one update; None if the writer does not end an update for so long."""
        address = self._slots[part.slot].ctypes.data
        ends = None
        while not read_slot(address, self._snapshot):
            now = time.monotonic()
            ends = now + patience_s if ends is None else ends
            if now >= ends:
                return None
            time.sleep(PAUSE_S)
        words: list[int] = self._snapshot.tolist()
        return words

    def _refusal(self, words: list[int], part: PartitionImage, partition: FetchedPartition) -> ErrorCode:
        state = words[Slot.STATE]
        if words[Slot.GENERATION] != part.generation or state != SlotState.ONLINE:
            if state == SlotState.OFFLINE:
                return ErrorCode.KAFKA_STORAGE_ERROR
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        epoch = words[Slot.LEADER_EPOCH]
        if partition.leader_epoch >= 0 and partition.leader_epoch != epoch:
            older = partition.leader_epoch < epoch
            return ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
        if partition.by_replica:  # no partition has a replica on another broker
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        follows = partition.last_fetched_epoch >= 0  # whether its log diverges is more important
        if not follows and _is_out_of_range(words, partition):
            return ErrorCode.OFFSET_OUT_OF_RANGE
        return ErrorCode.NONE

    def _diverges(
        self, reading: Reading, partition: FetchedPartition, words: list[int], part: PartitionImage
    ) -> bool:
        """Whether the epoch that the reader last saw ended before its offset (KIP-595), or the
        reader's offset is out of range; the reading then has the divergence or the error."""
        if partition.last_fetched_epoch < 0:
            return False
        epoch, end = epoch_end(part.folder, partition.last_fetched_epoch, words[Slot.LOG_END])
        if epoch >= 0 and (epoch < partition.last_fetched_epoch or end < partition.fetch_offset):
            reading.diverging = (epoch, end)
            reading.aborted = None
            return True
        if epoch < 0 or _is_out_of_range(words, partition):
            reading.fail(ErrorCode.OFFSET_OUT_OF_RANGE)
            return True
        return False

    def _locate(
        self,
        reading: Reading,
        partition: FetchedPartition,
        words: list[int],
        part: PartitionImage,
        limits: Limits,
    ) -> None:
        reader = self._reader(part)
        version = words[Slot.SEGMENTS_VERSION]
        base, position = words[Slot.HW_BASE], words[Slot.HW_POSITION]
        end = reading.high_watermark
        if limits.isolation == Isolation.READ_COMMITTED and reading.last_stable < end:
            end = reading.last_stable
            if partition.fetch_offset < end and (stable := reader.locate(end, base, position, version)):
                base, position = stable.segment_base, stable.position
        if partition.fetch_offset >= end:
            return
        max_bytes = min(limits.left, partition.max_bytes)
        if max_bytes < 0:  # as Kafka's LogSegment.read, which has no error of its own for it
            reading.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        place = reader.locate(partition.fetch_offset, base, position, version)
        if place is None:
            return
        if max_bytes < place.size and not limits.min_one:
            return
        reading.place = place
        self._reads.note(part.slot, part.generation, version, reader, place.segment_base)
        reading.range = reader.range(place, max_bytes, base, position, limits.min_one)
        if reading.range is not None and limits.isolation == Isolation.READ_COMMITTED:
            upper = self._upper(reader, reading, place, end, base, position, version)
            reading.aborted = aborted_transactions(reader, partition.fetch_offset, upper, version)
            if version % 2 or self._slots[part.slot, Slot.SEGMENTS_VERSION] != version:
                # segments are being replaced: batches and transaction indexes may not belong
                # together. Return nothing for now; the IO worker wakes this fetch when the files
                # are in place
                reading.place = reading.range = None
                reading.aborted = []

    @staticmethod
    def _upper(
        reader: LogReader,
        reading: Reading,
        place: BatchPosition,
        end: int,
        base: int,
        position: int,
        version: int,
    ) -> int:
        """An offset after the last fetched batch: exact enough to find its aborted transactions."""
        assert reading.range is not None
        last = reading.range.position + reading.range.length
        if place.segment_base == base and last >= position:
            return end
        after = reader.offset_after(place.segment_base, last)
        if after is not None:
            return min(end, after)
        bases = reader.base_offsets(version)
        following = next((other for other in bases if other > place.segment_base), end)
        return min(end, following)

    def _reader(self, part: PartitionImage) -> LogReader:
        found = self._readers.get(part.slot)
        if found is not None and found[0] == part.generation and found[1].folder == part.folder:
            return found[1]
        self.forget(part.slot)
        reader = LogReader(part.folder, self.files)
        self._readers[part.slot] = (part.generation, reader)
        return reader


def epoch_end(folder: str, epoch: int, log_end: int) -> tuple[int, int]:
    """(epoch, end offset) of the largest known leader epoch <= the requested one; (-1, -1) when
    there is none.

    From leader-epoch-checkpoint: version, count, then a line "epoch start-offset" each. Raises
    CorruptLog for another content, OSError, also when the folder is gone: the log has moved."""
    path = Path(folder) / "leader-epoch-checkpoint"
    try:
        lines = path.read_text().split("\n")
        entries = [
            (int(first), int(second))
            for first, second in (line.split() for line in lines[2:] if line.strip())
        ]
        if len(lines) > 2 and int(lines[1]) != len(entries):
            raise ValueError(f"{lines[1]} entries announced, {len(entries)} found")
    except FileNotFoundError:
        Path(folder).stat()
        return -1, -1
    except ValueError as error:
        raise CorruptLog(f"{path}: {error}") from error
    if not entries or epoch > entries[-1][0]:
        return -1, -1
    if epoch == entries[-1][0]:
        return epoch, log_end
    later = [entry for entry in entries if entry[0] > epoch]
    before = [entry for entry in entries if entry[0] <= epoch]
    return (before[-1][0] if before else epoch), later[0][1]


def _is_out_of_range(words: list[int], partition: FetchedPartition) -> bool:
    return not words[Slot.LOG_START] <= partition.fetch_offset <= words[Slot.LOG_END]
