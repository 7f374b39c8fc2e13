"""Layout of the arrays that the drain kernel works on. Private memory of one IO worker."""

# environment: one int64 array of addresses and limits
ENV_WORDS = 16
ENV_CAPACITY = 0  # entries of a ring
ENV_ONE = 1  # address of an int64 that holds 1 (what an eventfd write sends)
ENV_IOV = 2  # address of MAX_IOV iovecs (16 bytes each)
ENV_INDEX_BYTES = 3  # address of scratch for .index entries of one partition and call
ENV_TIME_INDEX_BYTES = 4  # the same for .timeindex
ENV_CLOCK = 5  # address of a timespec
ENV_METRICS = 6  # address of this process's row of metric slots
ENV_DELAYED_FREE = 7  # number of the first free row of delayed produces
ENV_DELAYED_COUNT = 8  # delayed produces
ENV_DELAYED_DUE_MS = 9  # no delayed produce expires before; CLOCK_MONOTONIC
ENV_SYNC_JOBS = 10  # end of the pipe to the threads that sync, -1 while there are none
ENV_SYNC_RESULTS = 11  # end of the pipe from them
ENV_SYNC_SCRATCH = 12  # address of SYNC_SCRATCH_BYTES

# one row for each client process
CLIENT_WORDS = 8
CLIENT_APPEND_RING = 0
CLIENT_COMPLETION_RING = 1
CLIENT_ARENA = 2
CLIENT_ARENA_BYTES = 3
CLIENT_PROCESS_LINE = 4
CLIENT_EVENT_FD = 5
CLIENT_CONSUMED = 6  # entries that this call has dealt with
CLIENT_COMPLETED = 7  # completions that this call has pushed

# one row for each ring entry of a call
BATCH_WORDS = 20
BATCH_CLIENT = 0
BATCH_TOKEN = 1
BATCH_SLOT = 2
BATCH_ADDRESS = 3  # absolute
BATCH_LENGTH = 4
BATCH_ACKS = 5  # acks and timeout as in the ring entry
BATCH_ERROR = 6
BATCH_BASE_OFFSET = 7
BATCH_LAST_OFFSET = 8
BATCH_NEXT = 9  # next accepted batch of the same slot in this call, or -1
BATCH_APPEND_TIME = 10  # -1 for CreateTime
BATCH_HELD = 11  # HELD_*: Python completes it
BATCH_MAX_TIMESTAMP = 12
BATCH_RECORDS = 13
BATCH_ENQUEUED_NS = 14
BATCH_PRODUCER_ROW = 15
BATCH_OPERATION = 16
BATCH_GENERATION = 17
MAX_BATCHES = 1024
HELD_APPEND = 1  # waits for a sync or for replicas: a delayed produce
HELD_CONTROL = 2  # a written transaction marker
HELD_READ_AHEAD = 3
MAX_IOV = 1000  # below Linux's IOV_MAX of 1024

# one row for each slot, valid during a call for touched slots
CHAIN_WORDS = 5
CHAIN_HEAD = 0  # first accepted batch of this call, -1 for untouched
CHAIN_TAIL = 1
CHAIN_POSITION = 2  # file position and next offset as they will be after the write
CHAIN_NEXT_OFFSET = 3
CHAIN_MARKED = 4  # 1: a transaction marker is in the chain, so nothing more is taken for this slot

# one row for each slot: its sync that is under way
SYNC_WORDS = 8
SYNC_STATE = 0
SYNC_AGAIN = 1  # 1: something was appended since, so another one follows
SYNC_GENERATION = 2
SYNC_FD = 3  # the sync's own descriptor
SYNC_NEXT_OFFSET = 4  # what is on disk then, and where it lies
SYNC_SEGMENT_BASE = 5
SYNC_POSITION = 6
SYNC_CUTS = 7
SYNC_IDLE = 0
SYNC_PLAIN = 1  # one fdatasync, asked for by the kernel
SYNC_WHOLE = 2  # a FlushJob of Python's
# records of both pipes: token, descriptor, 0; and token, errno, nanoseconds. A plain sync's token is -1 - slot.
SYNC_RECORD_BYTES = 24
SYNC_NOT_BEGUN = -1  # as errno: the slot's next sync is to be made by Python
SYNC_NOT_TOLD = -2  # as errno: a waiting client process had no room for the news
SYNC_RECORDS = 512  # that are read or written at a time
SYNC_SCRATCH_BYTES = SYNC_RECORD_BYTES * SYNC_RECORDS

# results of a call
OUT_WORDS = 16
OUT_COUNT = 0  # rows of the batch array
OUT_STOP = 1  # why planning stopped early
OUT_STOP_SLOT = 2
OUT_TOUCHED = 3
OUT_FAILED = 4  # slots whose write failed, in the failed array as (slot, errno)
OUT_HELD = 5
OUT_NOTIFY_AGAIN = 7  # waiter bits that found a full completion ring
OUT_DURABLE = 8  # WANTS_*: some touched slot wants a flush now, or is replicated
OUT_BYTES = 9
OUT_NOW_MS = 10
OUT_NOW_NS = 11
OUT_PRODUCERS = 12  # producers added to the table

WANTS_FLUSH = 1  # of a slot whose sync is more than one fdatasync
WANTS_REPLICAS = 2

STOP_NONE = 0
STOP_ROLL = 1  # OUT_STOP_SLOT needs a new segment; its batch is still in the ring
STOP_PRODUCERS = 2  # the producer table has no room
STOP_MARKER = 3  # an entry would go behind a transaction marker: Python ends its transaction first
STOP_FILES = 4  # the files of OUT_STOP_SLOT are not open; its batch is still in the ring

OPERATION_APPEND_BY_CONTROL = 5  # BATCH_OPERATION of control's own appends, which nobody checks again
