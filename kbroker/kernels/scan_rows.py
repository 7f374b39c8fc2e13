"""Rows that walks over segment files and searches in their indexes and records fill: `batches.py`,
`search.py`, `rebuild.py`, `record_times_kernel.py`."""

from kbroker.kernels.row import Row, Values, word


class ScannedBatch(Row, writer="the scanning process"):
    """A batch that a scan found."""

    POSITION = word("bytes", "in the file")
    SIZE = word("bytes", "of the batch")
    BASE_OFFSET = word("offset", "of the batch")
    LAST_OFFSET = word("offset", "of the batch")
    MAX_TIMESTAMP = word("ms", "of the batch")
    BASE_TIMESTAMP = word("ms", "of the batch")
    LEADER_EPOCH = word("epoch", "of the batch")
    ATTRIBUTES = word("bits", "of the batch")
    PRODUCER_ID = word("producer id", "-1: none")
    PRODUCER_EPOCH = word("epoch", "of the producer")
    BASE_SEQUENCE = word("sequence", "-1: none")
    RECORD_COUNT = word("count", "records")
    CONTROL_TYPE = word(
        "value", "0 abort, 1 commit, other numbers as written; -1 for data and for emptied control batches"
    )
    COORDINATOR_EPOCH = word("epoch", "of an end marker, else -1")


class ScanState(Row, writer="the scanning process"):
    """Progress of a scan."""

    NEXT_POSITION = word("bytes", "of the next batch")
    NEXT_OFFSET = word("offset", "lowest one that the next batch may have")
    STOP = word("value", "ScanStop")
    NEXT_SIZE = word("bytes", "of a batch larger than the buffer")


class ScanStop(Values):
    """The reason why a walk over batches stopped."""

    MORE = 0  # the row array is full: call again at the next position
    END = 1  # exactly at the end
    TORN = 2  # the file ends within a batch
    BAD_LENGTH = 3
    BAD_MAGIC = 4
    OLD_MAGIC = 5  # message format 0 or 1
    BAD_CRC = 6
    BAD_OFFSET = 7  # not above the batch before, or higher than the segment may hold
    BAD_COUNT = 8
    READ_FAILED = 9
    NEED_BUFFER = 10  # a batch larger than the buffer: come back with NEXT_SIZE bytes


class FoundPlace(Row, writer="the searching process"):
    """Position of a batch that `locate` found."""

    POSITION = word("bytes", "in the file")
    BASE_OFFSET = word("offset", "of the batch")
    LAST_OFFSET = word("offset", "of the batch")
    SIZE = word("bytes", "of the batch")


class Located(Values):
    """Results of `locate`."""

    FOUND = 0
    NOT_HERE = 1  # every batch up to the end lies below the offset
    DAMAGED = 2  # no magic 2 batch where one must be
    READ_FAILED = 3


class IndexCarry(Row, writer="the scanning process"):
    """State that is carried from call to call while the indexes of one segment are rebuilt."""

    SINCE_INDEX = word("bytes", "from the batch of the last entry on")
    MAX_TIMESTAMP = word("ms", "-1: none")
    MAX_TIMESTAMP_OFFSET = word("offset", "last offset of the batch that raised it")
    LAST_INDEXED_TIMESTAMP = word("ms", "of the last .timeindex entry")
    INDEX_BYTES = word("bytes", "of .index")
    TIME_INDEX_BYTES = word("bytes", "of .timeindex")


class RecordSearch(Row, writer="the searching process"):
    """Progress of a search in the records of one batch."""

    LEFT = word("count", "records not seen yet; set to the batch's count")
    SKIP = word("bytes", "before the next record")
    BASE_TIMESTAMP = word("ms", "of the batch; set")
    MIN_TIMESTAMP = word("ms", "of the record; set")
    MIN_DELTA = word("offset", "of the record, relative to the batch's; set")
    FOUND = word("flag", "1: a record is found")
    TIMESTAMP = word("ms", "of the found record")
    OFFSET_DELTA = word("offset", "of the found record, relative to the batch's")
