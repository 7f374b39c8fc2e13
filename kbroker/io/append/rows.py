"""Tables of the drain kernel, in private memory of one IO worker.

While a partition is open, its AppendRow alone holds its position, next offset and index state.
Python fills the row when a segment becomes active (open, recovery, roll, truncate) and reads it
back for everything else.
"""

from kbroker.kernels.row import Row, Values, word


class AppendRow(Row, writer="io", words=64):
    """The hot state of one partition's append path, by slot."""

    MAX_OPENED = 8
    NEVER = 1 << 62  # a limit that nothing reaches
    NO_FD = -1  # the files are not open now
    KEEP_MS = 30_000  # reserved blocks that are unused for this long are freed

    STATE = word("value", "AppendState")
    LOG_FD = word("descriptor", "of the active .log")
    INDEX_FD = word("descriptor", "of its .index")
    TIME_INDEX_FD = word("descriptor", "of its .timeindex")
    BASE_OFFSET = word("offset", "of the active segment")
    POSITION = word("bytes", "of whole batches in the active .log")
    NEXT_OFFSET = word("offset", "to be assigned")
    LEADER_EPOCH = word("epoch", "that batches get")
    INDEX_BYTES = word("bytes", "of entries in .index (8 an entry)")
    TIME_INDEX_BYTES = word("bytes", "of entries in .timeindex (12 an entry)")
    SINCE_INDEX = word("bytes", "appended since the last index entry")
    MAX_TIMESTAMP = word("ms", "largest timestamp in the active segment, -1: none")
    MAX_TIMESTAMP_OFFSET = word("offset", "last offset of the batch that raised it")
    LAST_INDEXED_TIMESTAMP = word("ms", "of the last .timeindex entry, -1: none")
    INDEX_INTERVAL = word("bytes", "index.interval.bytes")
    SEGMENT_BYTES = word("bytes", "segment.bytes: a batch that would pass it rolls first")
    INDEX_LIMIT = word("bytes", "segment.index.bytes: a full index rolls")
    ROLL_AT_MS = word("ms", "wall clock at which the next append rolls (segment.ms - jitter), NEVER")
    GROW_UNTIL_MS = word(
        "ms",
        "wall clock before which a small segment is not rolled: the log has very many; 0: none has to grow",
    )
    FIRST_TIMESTAMP = word("ms", "of the segment's first batch, -1 when empty (Kafka rolls by it)")
    OTHER_BYTES = word("bytes", "of all older segments")
    UNFLUSHED_RECORDS = word("count", "since the last fdatasync, for flush.messages")
    FLUSH_RECORDS = word("count", "flush.messages, NEVER for Kafka's default")
    FIRST_UNSTABLE = word(
        "offset", "first one of the earliest open transaction, -1: none, and the LSO is the HW"
    )
    SEGMENT_MS = word("ms", "segment.ms minus this segment's jitter")
    LAST_APPEND_MS = word("ms", "wall clock of the last append")
    LAST_FLUSH_MS = word("ms", "when flush.ms last requested a sync, CLOCK_MONOTONIC")
    FLUSH_MS = word("ms", "flush.ms, NEVER for Kafka's default")
    ROLLED = word("flag", "1: a segment was closed since the last sync")
    BATCH_EPOCH = word("epoch", "of a follower: of the last batch that was copied")
    TOO_FEW = word("flag", "1: fewer in-sync replicas than min.insync.replicas: acks=all is refused")
    PLAIN_SYNC = word(
        "flag",
        "1: one fdatasync of the active .log puts everything on disk (nothing rolled, names are synced)",
    )
    CUTS = word("count", "truncations so far: a sync that began before the last one does not count")
    LAST_ABORTED = word("offset", "no aborted transaction ends after it; -1: none was aborted")
    RESERVED = word("bytes", "end of the blocks that the drain has reserved; below POSITION: all are used")
    RESERVE_AT = word(
        "bytes", "position at which the next reservation is considered, NEVER: not in this segment any more"
    )
    RESERVED_MS = word("ms", "when the last one was considered")
    RESERVE_MAX = word("bytes", "maximum of one reservation")
    ENDED_FIRST = word("offset", "first one of the transactions that have ended, if ENDED_UNTIL is not 0")
    ENDED_UNTIL = word(
        "offset",
        "after the first marker that is not below the HW: the LSO stays at ENDED_FIRST; 0: none",
    )
    OPENED = word(
        "count", "transactions that have begun since Python last looked; more than MAX_OPENED: some"
    )
    OPENINGS = word("offset", "first offset, and producer id, of each of these", count=2 * MAX_OPENED)
    SYNC_END = word(
        "offset",
        "after the last batch that reached flush.messages: answers to batches below wait for the disk",
    )


class AppendState(Values):
    """State of a partition for its appends."""

    CLOSED = 0  # NOT_LEADER_OR_FOLLOWER
    OPEN = 1
    DISK_FULL = 2  # KAFKA_STORAGE_ERROR


class Environment(Row, writer="io", words=24):
    """Addresses and limits of the kernels that wait and drain."""

    MAX_IOV = 1000  # below Linux's IOV_MAX of 1024
    MAX_EVENTS = 8  # of descriptors that one wait takes

    CAPACITY = word("count", "entries of a ring")
    ONE = word("address", "an int64 of 1 (what an eventfd write sends)")
    IOV = word("address", "MAX_IOV iovecs (16 bytes each)")
    INDEX_BYTES = word("address", "scratch for .index entries of one partition and call")
    TIME_INDEX_BYTES = word("address", "the same for .timeindex")
    CLOCK = word("address", "a timespec")
    METRICS = word("address", "this process's row of metric slots, shared")
    DELAYED_FREE = word("number", "first free DelayedProduce")
    DELAYED_COUNT = word("count", "delayed produces")
    DELAYED_MAX = word("count", "with more of them there may be no room for those of another call")
    DELAYED_DUE_MS = word("ms", "no delayed produce expires before; CLOCK_MONOTONIC")
    SYNC_JOBS = word("descriptor", "end of the pipe to the threads that sync, -1 while there are none")
    SYNC_RESULTS = word("descriptor", "end of the pipe from them")
    SYNC_SCRATCH = word("address", "MAX_JOBS of SyncJob")
    EPOLL_FD = word("descriptor", "of the worker's epoll")
    EVENT_FD = word("descriptor", "of the worker's eventfd, in that epoll")
    EVENTS = word("address", "MAX_EVENTS of epoll's events")
    PROCESS_LINE = word("address", "the worker's row of ProcessLine, shared")
    WITHOUT_EPOLL = word("count", "waits since epoll was last asked")
    BLOCKED = word("flag", "1: the last drain took nothing, because no completion ring had room")


class WaitResult(Values):
    """Bits of a wait's result: what it found besides entries."""

    OTHER = 1  # a message, an expired delayed produce, or other work that is due
    SYNCED = 2  # a sync has ended


class Client(Row, writer="io"):
    """A client process."""

    APPEND_RING = word("address", "its append ring, shared")
    COMPLETION_RING = word("address", "its completion ring, shared")
    ARENA = word("address", "its arena, shared")
    ARENA_BYTES = word("bytes", "size of the arena")
    PROCESS_LINE = word("address", "its row of ProcessLine, shared")
    EVENT_FD = word("descriptor", "that wakes it")
    CONSUMED = word("count", "entries that this call has taken")
    COMPLETED = word("count", "completions that this call has pushed")


class Batch(Row, writer="io", words=20):
    """An entry that a call took from a ring."""

    ROWS = 1024

    CLIENT = word("number", "of the client process that sent it")
    TOKEN = word("bits", "of its append entry")
    SLOT = word("number", "of the partition")
    ADDRESS = word("address", "the record batch")
    LENGTH = word("bytes", "of the record batch")
    ACKS = word("bits", "acks and timeout as in the ring entry")
    ERROR = word("error code", "of its completion")
    BASE_OFFSET = word("offset", "of the record batch")
    LAST_OFFSET = word("offset", "of the record batch")
    NEXT = word("number", "next accepted batch of the same slot in this call, -1: none")
    APPEND_TIME = word("ms", "-1 for CreateTime")
    HELD = word("value", "Held: why it is not completed yet")
    MAX_TIMESTAMP = word("ms", "of the record batch")
    RECORDS = word("count", "records")
    ENQUEUED_NS = word("ns", "when it was enqueued, CLOCK_MONOTONIC")
    PRODUCER_ROW = word("number", "its Producer, -1: none")
    OPERATION = word("value", "Operation")
    GENERATION = word("count", "of the slot")


class Held(Values):
    """The reason why a batch is not completed by the call that took it."""

    APPEND = 1  # waits for a sync or for replicas: a delayed produce
    CONTROL = 2  # a written transaction marker
    READ_AHEAD = 3


class Chain(Row, writer="io"):
    """The batches of one slot, valid during a call for touched slots."""

    HEAD = word("number", "first accepted Batch of this call, -1 for untouched")
    TAIL = word("number", "last accepted Batch of this call")
    POSITION = word("bytes", "end of the file as it will be after the write")
    NEXT_OFFSET = word("offset", "as it will be after the write")
    MARKED = word("flag", "1: a transaction marker is in the chain, so nothing more is taken for this slot")


class SyncRow(Row, writer="io", words=8):
    """The sync of a slot that is in progress."""

    STATE = word("value", "SyncState")
    AGAIN = word("flag", "1: something was appended since, so another sync follows")
    GENERATION = word("count", "of the slot")
    FD = word("descriptor", "the sync's own")
    NEXT_OFFSET = word("offset", "below which everything is on disk then")
    SEGMENT_BASE = word("offset", "base offset of the segment in which it lies")
    POSITION = word("bytes", "where it lies in that segment")
    CUTS = word("count", "AppendRow.CUTS when it began")

    # as errno of a SyncJob that came back
    NOT_STARTED = -1  # Python makes the slot's next sync
    NOT_NOTIFIED = -2  # the ring of a waiting client process had no room for the notification


class SyncState(Values):
    """States of a slot's sync."""

    IDLE = 0
    PLAIN = 1  # one fdatasync, requested by the kernel
    WHOLE = 2  # a FlushJob of Python's


class SyncJob(Row, writer="io"):
    """A record of the pipes to and from the threads that sync."""

    MAX_JOBS = 512  # that are prepared or read at a time
    ATOMIC = 170  # that a pipe takes as a whole or not at all: PIPE_BUF bytes
    END = -1  # as descriptor: the thread ends

    TOKEN = word("number", "of the sync; -1 - slot for a plain one")
    FD = word("descriptor", "to sync; in the answer the errno")
    NANOSECONDS = word("ns", "in the answer: how long it took")
    ERROR = FD


class Drained(Row, writer="io", words=16):
    """Results of a call of the drain kernel."""

    COUNT = word("count", "rows of Batch")
    STOP = word("value", "Stop: why planning stopped early")
    STOP_SLOT = word("number", "slot because of which it stopped")
    TOUCHED = word("count", "touched slots")
    FAILED = word("count", "slots whose write failed, in the failed array as (slot, errno)")
    HELD = word("count", "batches that this call has not completed")
    NOTIFY_AGAIN = word("count", "waiter bits that found a full completion ring")
    FOLLOW_UP = word("bits", "FollowUp: some touched slot needs a flush now, or is replicated")
    NOW_MS = word("ms", "wall clock of the call")
    NOW_NS = word("ns", "CLOCK_MONOTONIC of the call")
    LEFT = word("flag", "1: STOP, FAILED, HELD, NOTIFY_AGAIN or FOLLOW_UP leave work to Python")


class FollowUp(Values):
    """Work for Python on slots that a drain touched."""

    FLUSH = 1  # of a slot whose sync is more than one fdatasync
    REPLICAS = 2


class Stop(Values):
    """The reason why the drain kernel stopped planning."""

    NONE = 0
    ROLL = 1  # STOP_SLOT needs a new segment; its batch is still in the ring
    ROOM = 2  # the table of producers, or that of delayed produces, has to grow
    MARKER = 3  # an entry would follow a transaction marker: Python ends its transaction first
    FILES = 4  # the files of STOP_SLOT are not open; its batch is still in the ring
