"""Every offset of the shared memory, as plain integers that kernels and Python both import.

All words are int64 in native byte order; a "line" is 64 bytes (8 words). Nothing here is persisted.
"""

LINE = 64

# --- partition slot: 32 words (four lines). One writer a field. -------------------------------------
SLOT_WORDS = 32
# lines 0 and 1: written only by the partition's IO worker, as one group under SLOT_SEQUENCE
SLOT_SEQUENCE = 0  # odd while being written; readers retry until they see the same even value twice
SLOT_STATE = 1
SLOT_LEADER_EPOCH = 2
SLOT_LOG_START = 3
SLOT_LOG_END = 4  # next offset to be assigned (LEO)
SLOT_HIGH_WATERMARK = 5
SLOT_LAST_STABLE = 6
SLOT_DURABLE = 7  # every offset below is on disk (fdatasync has returned)
SLOT_ACTIVE_BASE = 8  # base offset of the active segment
SLOT_ACTIVE_END = 9  # bytes of the active segment's .log that hold whole batches
SLOT_HW_BASE = 10  # segment (base offset) and byte position where the high watermark stands
SLOT_HW_POSITION = 11
# Grows whenever the list of segment files changes (roll, delete, truncate, compaction); odd while files are being
# replaced: what was read from more than one file meanwhile may not fit together.
SLOT_SEGMENTS_VERSION = 12
SLOT_LOG_BYTES = 13  # bytes of all segments
SLOT_SEGMENT_COUNT = 14
SLOT_MAX_TIMESTAMP = 15
# line 2: written only by control, before the slot is assigned or when a config changes
SLOT_GENERATION = 16  # incarnation of this slot; a descriptor of an older one is refused
SLOT_OWNER = 17  # index of the IO worker
SLOT_FLAGS = 18
SLOT_MAX_MESSAGE_BYTES = 19
SLOT_TIMESTAMP_BEFORE_MAX_MS = 20
SLOT_TIMESTAMP_AFTER_MAX_MS = 21
SLOT_COMPRESSION = 22  # codec number every batch must have, or -1 for "producer"
SLOT_MIN_IN_SYNC_REPLICAS = 23
# line 3: written by many, atomically
SLOT_WAITERS = 24  # bit p: process p (arena owner number) wants a wake-up when this slot advances
# of the IO worker's group, too: no record behind this offset belongs to an aborted transaction; -1: none at all does
SLOT_LAST_ABORTED = 25
SLOT_START_EPOCH = (
    27  # of the IO worker's group, too: leader epoch of the log start offset, -1: of no known one
)
# of the IO worker's group, too: where the log ended when its leader's epoch began. A high watermark below it is behind
# what clients have been told (0: no other replica has a say in it); NOT_LED: it is a follower's
SLOT_EPOCH_START = 28
# set by control, as line 2 is, which has no room left
SLOT_COMPRESSION_LEVEL = 26  # of SLOT_COMPRESSION, as the topic has it

NOT_LED = 1 << 62

STATE_FREE = 0
STATE_RECOVERING = 1
STATE_ONLINE = 2
STATE_OFFLINE = 3  # its log dir failed: KAFKA_STORAGE_ERROR
STATE_DELETED = 4

FLAG_COMPACTED = 1  # cleanup.policy contains compact: a null key is INVALID_RECORD
FLAG_LOG_APPEND_TIME = 2  # message.timestamp.type=LogAppendTime
FLAG_DURABLE = 4  # write.caching=false: acks=all waits for fdatasync
FLAG_REPLICATED = 16  # several replicas: acks=all waits for the high watermark, which the in-sync ones move
FLAG_INTERNAL = 8  # only control may append (clients: INVALID_TOPIC_EXCEPTION handled by control's grant)

ACKS_WAIT = FLAG_DURABLE | FLAG_REPLICATED  # acks=all of such a slot is not answered by the drain kernel

# --- process line: 16 words for each process that owns rings ------------------------------------------
PROCESS_WORDS = 16
PROCESS_SLEEPING = 0  # 1: blocked in epoll (or about to), wants its eventfd written
PROCESS_EPOCH = 1  # incarnation, set by the supervisor before each fork, starting at 1
PROCESS_PID = 2
PROCESS_READY = 3  # incarnation that has finished starting
PROCESS_HEARTBEAT_NS = 4  # CLOCK_MONOTONIC of the last loop turn
PROCESS_CONNECTIONS = 5

# --- rings: single producer, single consumer; entries of one line ---------------------------------------
RING_HEADER_BYTES = 2 * LINE
RING_HEAD = 0  # byte offset of the producer's count (entries ever written)
RING_TAIL = LINE  # byte offset of the consumer's count (entries ever consumed)
RING_RECOVERED = (
    LINE + 8
)  # that count when the present consumer began: older entries are completed or never will be
ENTRY_WORDS = 8

# append ring, client process -> IO worker
REQUEST_OPERATION = 0
REQUEST_SLOT = 1
REQUEST_GENERATION = 2
REQUEST_ADDRESS = 3  # offset in the sender's arena of one record batch (its base offset field)
REQUEST_LENGTH = 4  # bytes of the batch
REQUEST_TOKEN = 5  # opaque to the IO worker; its high 16 bits are the low bits of PROCESS_EPOCH
REQUEST_ACKS = 6  # acks (-1, 0, 1) in the low 16 bits as signed, timeout_ms in the upper 48
REQUEST_NANOSECONDS = 7  # CLOCK_MONOTONIC when enqueued

OPERATION_APPEND = 1
OPERATION_READ_AHEAD = 2  # ADDRESS: byte position, LENGTH: bytes, GENERATION: segment base offset
OPERATION_APPEND_VERIFIED = 3  # an append that was answered UNVERIFIED and that control has allowed since
OPERATION_APPEND_ADDED = 4  # the same under transactions v2: control has added the partition as well
# The batch of a verified or added append carries in its base offset (which the IO worker overwrites) the LAST_OFFSET
# of the UNVERIFIED completion, so that an end of its producer's transaction is noticed; ANY_TRANSACTION: no matter.
ANY_TRANSACTION = -2
# Base offset of a marker of transactions v2, whose epoch must be newer than the partition's (else it is there already).
MARKER_WITH_NEW_EPOCH = 2
TOKEN_EPOCH_SHIFT = 48

# completion ring, IO worker -> client process
COMPLETION_TOKEN = 0
COMPLETION_ERROR = 1  # Kafka error code, or UNVERIFIED
COMPLETION_BASE_OFFSET = 2  # -1 on error (or the original offset of a duplicate, with error 0)
COMPLETION_APPEND_TIME_MS = 3  # -1 for CreateTime
COMPLETION_LOG_START = 4
COMPLETION_SLOT = 5
COMPLETION_NANOSECONDS = 6  # CLOCK_MONOTONIC when the write finished
COMPLETION_LAST_OFFSET = 7
# COMPLETION_ERROR of a transactional batch that would begin its producer's transaction on this partition: the sender
# asks control (messages.VerifyTransaction) and appends again. No client ever sees it.
UNVERIFIED = -1000

# --- per-partition counters: one writer process each, summed by the http process ------------------------
COUNTER_WORDS = 8
COUNTER_BYTES_IN = 0
COUNTER_RECORDS_IN = 1
COUNTER_BATCHES_IN = 2
COUNTER_BYTES_OUT = 3
COUNTER_FETCHES = 4
COUNTER_FAILED_PRODUCE = 5
COUNTER_COLD_BYTES_OUT = 6
COUNTER_FLUSHES = 7
