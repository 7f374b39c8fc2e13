"""Tables of the compiled fetch path, as words of int64 rows (see layout.py).

The kernel serves what is common: sessionless requests and incremental ones of a session it knows, on partitions without
any error, with bytes that are there and in the page cache. Everything else goes to Python, before anything has changed.
"""

# --- context words -----------------------------------------------------------------------------------------------
CX_TOPICS_VERSION = 72  # grows when rows of the topic table move or go
CX_PLAN = 73  # address of the plan rows
CX_PLAN_CAPACITY = 74
CX_PLAN_COUNT = 75
CX_PLAN_MAX_WAIT = 76
CX_PLAN_MIN_BYTES = 77
CX_PLAN_MAX_BYTES = 78
CX_PLAN_SESSION = 79  # address of the session's row, 0 without one
CX_PLAN_TOTAL = 80  # bytes of records
CX_PARTS = 81  # address of the part rows
CX_PART_COUNT = 82
CX_SNAPSHOT = 83  # address of SLOT_WORDS words
CX_PROBE = 84  # 1: cachestat works
CX_FETCHED = 85  # requests served by the kernel
CX_PLAN_COMMITTED = 86  # 1: read_committed

# --- plan: one row for each partition of the request under way -----------------------------------------------------
PLAN_WORDS = 20
PL_TOPIC = 0  # address of the topic's row
PL_INDEX = 1
PL_SLOT = 2
PL_GENERATION = 3
PL_OFFSET = 4
PL_MAX_BYTES = 5
PL_EPOCH = 6
PL_LAST_EPOCH = 7
PL_ENTRY = 8  # address of the session's entry, 0 without one
PL_HIGH_WATERMARK = 9
PL_LAST_STABLE = 10
PL_LOG_START = 11
PL_SEGMENT = 12  # row of the segment, -1 without bytes
PL_POSITION = 13
PL_LENGTH = 14
PL_SELECTED = 15  # 1: it is in the answer
PL_VERSION = 16  # SLOT_SEGMENTS_VERSION
PL_TO_END = 17  # 1: the bytes end at PL_END
PL_END = (
    18  # offset up to which may be read: the high watermark, or with read_committed the last stable offset
)

# --- session and its entries ---------------------------------------------------------------------------------------
SESSION_WORDS = 8
SS_ID = 0  # 0: not served by the kernel now
SS_EPOCH = 1  # that the client must send
SS_USES_IDS = 2
SS_ENTRIES = 3  # address of the entries
SS_ORDER = 4  # address of entry numbers in the order in which they are read
SS_COUNT = 5
SS_TOPICS_VERSION = 6
SS_USED_MS = 7
ENTRY_WORDS = 14
SE_TOPIC = 0  # number of the topic's row
SE_INDEX = 1
SE_OFFSET = 2
SE_MAX_BYTES = 3
SE_EPOCH = 4
SE_LAST_EPOCH = 5
SE_TOLD_HIGH_WATERMARK = 6
SE_TOLD_LOG_START = 7
SE_NEXT = 8  # where the last read ended: four words as CN_NEXT

# --- where the last read of a connection without session ended: words of its row -------------------------------------
CN_NEXT = 24
NEXT_SLOT = 0  # relative to SE_NEXT or CN_NEXT; SLOT + 1, 0 for nothing
NEXT_OFFSET = 1
NEXT_SEGMENT = 2
NEXT_POSITION = 3
NEXT_VERSION = 4

# --- rest of an answer that the kernel goes on sending (FLAG_SENDING): a word of the connection's row -----------------
CN_BOX = 17  # address of its outbox

# --- segments of the slots that are read -----------------------------------------------------------------------------
READ_WORDS = 8
RD_GENERATION = 0
RD_VERSION = 1  # SLOT_SEGMENTS_VERSION of the list
RD_FIRST = 2
RD_COUNT = 3  # 0: Python has not listed them
RD_ASKED = 4  # 1: Python has been asked for the times of its segments
SEGMENT_WORDS = 8
SG_BASE = 0
SG_LOG_FD = 1  # -1: Python has not opened it
SG_INDEX_FD = 2
SG_TIME_FD = 3
SG_LARGEST = 4  # timestamp of the bytes up to SG_WALKED, -1: none
SG_LARGEST_OFFSET = 5  # last offset of the first batch that has it
SG_WALKED = 6  # position; CLOSED: all of it, and no more will come; NOT_WALKED
CLOSED = 1 << 62
NOT_WALKED = -1

# --- parts of an answer --------------------------------------------------------------------------------------------
PART_WORDS = 4
PA_SEGMENT = 0  # -1: memory
PA_START = 1  # address or byte position
PA_LENGTH = 2
PA_FD = 3
PARTS = 512

# what became of a request
TO_PYTHON = 0
WAITING = 1  # not enough bytes yet
READY = 2
SERVED = 3
