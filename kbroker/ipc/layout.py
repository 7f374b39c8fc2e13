"""Every table of the memory that processes share, and of the blocks that they send each other.
Nothing here is persisted.

All words are int64 in native byte order; a "line" is 64 bytes (8 words).
"""

from kbroker.kernels.row import Row, Struct, Values, field, word

LINE = 64


class Slot(Row, writer="io", shared="all", words=32):
    """A replica of a partition, as all processes see it.

    Words of the IO worker are written as one group under SEQUENCE, those of control before the slot
    is assigned or when a config changes, WAITERS by many, atomically.
    """

    NOT_LED = 1 << 62
    ANY_CODEC = -1  # COMPRESSION of a topic that keeps what producers chose

    SEQUENCE = word(
        "count", "odd while being written; readers retry until they see the same even value twice"
    )
    STATE = word("value", "SlotState")
    LEADER_EPOCH = word("epoch", "of the leader")
    LOG_START = word("offset", "log start offset", metric="kbroker_log_start_offset")
    LOG_END = word("offset", "next one to be assigned (LEO)", metric="kbroker_log_end_offset")
    HIGH_WATERMARK = word("offset", "high watermark", metric="kbroker_log_high_watermark")
    LAST_STABLE = word("offset", "last stable offset", metric="kbroker_log_last_stable_offset")
    DURABLE = word(
        "offset", "every one below is on disk (fdatasync has returned)", metric="kbroker_log_durable_offset"
    )
    ACTIVE_BASE = word("offset", "base offset of the active segment")
    ACTIVE_END = word("bytes", "of the active segment's .log that hold whole batches")
    HW_BASE = word("offset", "base offset of the segment in which the high watermark stands")
    HW_POSITION = word("bytes", "where it stands in that segment")
    SEGMENTS_VERSION = word(
        "count",
        "grows whenever the list of segment files changes (roll, delete, truncate, compaction); odd while files are "
        "being replaced: what was read from more than one file meanwhile may not fit together",
    )
    LOG_BYTES = word("bytes", "of all segments", metric="kbroker_log_bytes")
    SEGMENT_COUNT = word("count", "segments", metric="kbroker_log_segments")
    MAX_TIMESTAMP = word("ms", "largest timestamp of the log")
    GENERATION = word(
        "count", "incarnation of this slot; a descriptor of an older one is refused", writer="control", line=2
    )
    OWNER = word("number", "of the IO worker", writer="control")
    FLAGS = word("bits", "SlotFlag", writer="control")
    MAX_MESSAGE_BYTES = word("bytes", "max.message.bytes", writer="control")
    TIMESTAMP_BEFORE_MAX_MS = word("ms", "message.timestamp.before.max.ms", writer="control")
    TIMESTAMP_AFTER_MAX_MS = word("ms", "message.timestamp.after.max.ms", writer="control")
    COMPRESSION = word("value", "codec that every batch must have, or ANY_CODEC", writer="control")
    MIN_IN_SYNC_REPLICAS = word("count", "min.insync.replicas", writer="control")
    WAITERS = word("bits", "p: process p wants a wake-up when this slot advances", writer="all", line=3)
    LAST_ABORTED = word(
        "offset", "no record after it belongs to an aborted transaction; -1: none at all does"
    )
    COMPRESSION_LEVEL = word("level", "of COMPRESSION, as the topic has it", writer="control")
    START_EPOCH = word("epoch", "leader epoch of the log start offset, -1: not known")
    EPOCH_START = word(
        "offset",
        "where the log ended when its leader's epoch began: a high watermark below it is behind what clients have "
        "seen (0: no other replica has a say in it); NOT_LED: it is a follower's",
    )


class SlotState(Values):
    """States of a slot."""

    FREE = 0
    RECOVERING = 1
    ONLINE = 2
    OFFLINE = 3  # its log dir failed: KAFKA_STORAGE_ERROR
    DELETED = 4


class SlotFlag(Values):
    """Flags of a slot."""

    COMPACTED = 1  # cleanup.policy contains compact: a null key is INVALID_RECORD
    LOG_APPEND_TIME = 2  # message.timestamp.type=LogAppendTime
    DURABLE = 4  # write.caching=false: acks=all waits for fdatasync
    INTERNAL = 8  # only control may append (clients: INVALID_TOPIC_EXCEPTION handled by control's grant)
    REPLICATED = 16  # several replicas: acks=all waits for the high watermark, which the in-sync ones move
    ACKS_WAIT = DURABLE | REPLICATED  # acks=all of such a slot is not answered by the drain kernel


class ProcessLine(Row, writer="its process", shared="all", words=16):
    """A process that owns rings."""

    SLEEPING = word("flag", "1: blocked in epoll (or about to), wants its eventfd written", writer="all")
    EPOCH = word("count", "incarnation, set before each fork, starting at 1", writer="supervisor")
    PID = word("pid", "of the process")
    READY = word("count", "incarnation that has finished starting")
    HEARTBEAT_NS = word("ns", "CLOCK_MONOTONIC of the last loop turn")
    CONNECTIONS = word("count", "open connections")
    LOGS_OPEN = word("count", "control: incarnation that has had every log opened, and so checked")
    SLOTS_ASSIGNED = word("flag", "control: slots have been assigned in this run")


class Ring(Row, writer="producer", shared="producer and consumer", words=16):
    """The head of a ring: single producer, single consumer; entries of one line follow."""

    HEAD = word("count", "entries ever written")
    TAIL = word("count", "entries ever consumed", writer="consumer", line=1)
    RECOVERED = word(
        "count",
        "TAIL when the present consumer began: older entries are completed or never will be",
        writer="consumer",
    )


class AppendEntry(Row, writer="client process", shared="io", words=8):
    """An entry of an append ring, client process to IO worker. READ_AHEAD: ADDRESS, LENGTH and
    GENERATION differ."""

    OPERATION = word("value", "Operation")
    SLOT = word("number", "of the partition")
    GENERATION = word("count", "of the slot; READ_AHEAD: base offset of the segment")
    ADDRESS = word("arena offset", "the record batch, in the sender's arena; READ_AHEAD: byte position")
    LENGTH = word("bytes", "of the batch")
    TOKEN = word("bits", "opaque to the IO worker; the high 16 bits are the low bits of ProcessLine.EPOCH")
    ACKS = word("bits", "acks and timeout, see `ring.pack_acks`")
    NANOSECONDS = word("ns", "when it was enqueued, CLOCK_MONOTONIC")

    TOKEN_EPOCH_SHIFT = 48
    # The batch of a verified or added append carries in its base offset (which the IO worker
    # overwrites) the LAST_OFFSET of the UNVERIFIED completion, so that an end of its producer's
    # transaction is noticed; ANY_TRANSACTION: no matter.
    ANY_TRANSACTION = -2
    # Base offset of a marker of transactions v2, whose epoch must be newer than the partition's
    # (else it is there already).
    MARKER_WITH_NEW_EPOCH = 2


class Operation(Values):
    """Kind of an entry of an append ring."""

    APPEND = 1
    READ_AHEAD = 2
    APPEND_VERIFIED = 3  # an append that was answered UNVERIFIED and that control has allowed since
    APPEND_ADDED = 4  # the same under transactions v2: control has added the partition as well
    APPEND_BY_CONTROL = 5  # within the IO worker: control's own appends, which are not checked again


class Completion(Row, writer="io", shared="client process", words=8):
    """An entry of a completion ring, IO worker to client process."""

    TOKEN = word("bits", "of the append entry, or SLOT_ADVANCED")
    ERROR = word("error code", "or UNVERIFIED")
    BASE_OFFSET = word(
        "offset", "of the batch, or the original one of a duplicate; -1 on error; see UNVERIFIED"
    )
    APPEND_TIME_MS = word("ms", "-1 for CreateTime")
    LOG_START = word("offset", "log start offset")
    SLOT = word("number", "of the partition")
    NANOSECONDS = word("ns", "when it was complete, CLOCK_MONOTONIC")
    HELD_NS = word(
        "ns", "how long before that the write had finished: it waited for its sync or for replicas"
    )

    SLOT_ADVANCED = -1  # TOKEN of a completion for a slot whose waiter bit was set
    # ERROR of a transactional batch that would begin its producer's transaction on this partition:
    # the sender asks control (messages.VerifyTransaction) and appends again. No client ever sees
    # it. BASE_OFFSET is then the end of the producer's last transaction there.
    UNVERIFIED = -1000


class Counter(Row, writer="its process", shared="http"):
    """Counters of one process for a slot; the http process sums them over processes."""

    BYTES_IN = word("bytes", "produced")
    RECORDS_IN = word("count", "produced records")
    BATCHES_IN = word("count", "produced batches")
    BYTES_OUT = word("bytes", "fetched")
    FETCHES = word("count", "fetches")
    FAILED_PRODUCE = word("count", "refused batches")
    COLD_BYTES_OUT = word("bytes", "that the disk gave for fetches, and what was read ahead of them")
    FLUSHES = word("count", "syncs")
    EXPIRED = word("count", "records that kbroker.record.ttl.ms removed")
    WRITES = word(
        "count", "writes to the log; one has the batches of one drain", metric="kbroker_log_writes_total"
    )


class ProducerIds(Row, writer="control", shared="network and control", words=16):
    """The range that producer ids of idempotent producers are taken from."""

    NEXT = word("producer id", "the next one", writer="network and control")
    END = word("producer id", "the first one that is not in the range", line=1)


class FreeSpace(Row, writer="http", shared="the next http process", words=2):
    """A sample of a log dir's free bytes. The http process keeps those of an hour here, so that its
    successor knows the rate at which a disk fills."""

    AT_MS = word("ms", "CLOCK_MONOTONIC; 0: no sample")
    BYTES = word("bytes", "free on the file system")

    SAMPLES = 722  # of each log dir: one in five seconds, for an hour


class SensorCell(Row, writer="its process", shared="network and control"):
    """Usage of a client in one window."""

    WINDOW = word("number", "of the window")
    AMOUNT = word("amount", "used in it")


class SensorRow(Row, writer="its process", shared="network and control", words=4):
    """Usage of one client, found by its key among WAYS neighbours (`sensor_kernel.py`). SensorCells
    follow, one for each sample."""

    SENSORS = 4096  # a power of two
    WAYS = 16
    TABLE_ROWS = SENSORS + WAYS

    KEY_HIGH = word("bits", "of the key")
    KEY_LOW = word("bits", "of the key; 0 and 0: free")
    USED = word("number", "window of the last use")


def sensor_words(samples: int) -> int:
    """Words of a SensorRow with its cells."""
    return SensorRow.WORDS + SensorCell.WORDS * samples


class MessageHead(Struct, writer="network (requests), control (answers)", shared="network and control"):
    """The head of a request or an answer in a block (`block.py`)."""

    CALL_ROW_BITS = 24  # the low bits of a call: the connection's row

    MESSAGE_BYTES = field("int64", "bytes", "of the whole message, this head and padding included")
    CALL = field("int64", "number", "the request that is answered; 0: no client waits for an answer any more")
    PEER_BYTES = field("int32", "bytes", "of a request: of the peer. Of an answer: its status")
    FRAME_BYTES = field("int32", "bytes", "of the frame")
    STATUS = PEER_BYTES


class AnswerVersion(Row, writer="control", shared="network"):
    """Words that show whether a cached answer is still valid (`cached_answers.py`): it is, as long
    as its words have the values that they had when it was built."""

    TOPICS = word(
        "count", "grows with every change of topics, settings, quotas, credentials and places of logs"
    )
    TRANSACTIONS = word("count", "grows with every change of a transactional id")
    KEYED = word(
        "count",
        "each grows with what groups of one hash commit and what else happens to them, and with every change of "
        "transactional ids of that hash",
        count=1022,
    )


class Term(Row, writer="control; network in its copies", shared="network"):
    """The terms of a cached answer, after its frame in a block, from the next multiple of 8 on."""

    TOPICS = word("count", "value of AnswerVersion.TOPICS")
    WORD = word("number", "of a second word, AnswerVersion.TOPICS again when there is none")
    VALUE = word("count", "value of WORD")
    LOGS = word("count", "logs that the answer was read from; LogVersion of each follows the body")
    CODES = word("count", "error codes in the answer, all of them NONE")
    BODY_BYTES = word("bytes", "of the request's body, which follows")
    PARTS = word("count", "topics by which the answer can be taken apart, 0 when it cannot")


class LogVersion(Row, writer="control; network in its copies", shared="network"):
    """A log that an answer was read from, as it was before: after the body, from the next multiple
    of 8 on. An answer that has logs has no parts."""

    SLOT = word("number", "of the partition")
    SEQUENCE = word("count", "value of Slot.SEQUENCE")


class AnswerSplit(Row, writer="control", shared="network"):
    """The split of an answer into parts: after the body, from the next multiple of 8 on, if there
    are parts."""

    ARRAY = word("bytes", "position of the array of topics in the answer's frame")
    FIRST = word("bytes", "position of the first topic")
    END = word("bytes", "position after the last topic")
    ROOM = word("count", "maximum of partitions in an answer to a request with these options")
    CODES = word("count", "error codes outside of the topics")


class SplitPart(Row, writer="control", shared="network"):
    """A topic of such an answer, in their order in it. Its key follows, up to the next multiple of
    8."""

    BYTES = word("bytes", "of the topic in the frame")
    CODES = word("count", "error codes")
    PARTITIONS = word("count", "partitions")
    KEY_BYTES = word("bytes", "of what requests name it by, a name or an id")
