"""Tables of a network process, as words of int64 rows that its kernels and its Python side share.

All are private to the process. A row's address is ``table + index * WORDS * 8``; ``get`` and ``put`` access a word.
"""

# --- context: one row a process; addresses of everything else, and the state of the pump ------------------
CONTEXT_WORDS = 138
CX_CONNECTIONS = 0
CX_REQUESTS = 1
CX_RESULTS = 2
CX_EVENTS = 3
CX_EVENT_CAPACITY = 4
CX_EVENT_COUNT = 5
CX_CHUNKS = 6
CX_FREE_CHUNKS = 7  # address of the stack of free chunk numbers
CX_FREE_CHUNK_COUNT = 8
CX_FREE_CHUNK_LOW = 9  # lowest count since it was last set: deeper chunks have not been used meanwhile
CX_CHUNK_COUNT = 10
CX_CHUNK_BYTES = 11
CX_ARENA = 12  # address of the arena's first byte
CX_CURRENT = 13  # chunk that small frames are received into, -1 for none
CX_BUMP = 14  # arena offset of its first unused byte
CX_SLOTS = 15
CX_WORKERS = 16  # rows of WORKER_WORDS
CX_WORKER_COUNT = 17
CX_RING_ENTRIES = 18
CX_OUT = 19  # scratch for answers
CX_OUT_BYTES = 20
CX_OUT_USED = 21  # bytes kept for Python: what a socket did not take this turn
CX_EPOLL_FD = 22
CX_EPOLL_EVENTS = 23
CX_EPOLL_CAPACITY = 24
CX_EVENT_FD = 25
CX_PROCESS_LINE = 26
CX_TOKEN_EPOCH = 27  # PROCESS_EPOCH's low 16 bits, shifted
CX_MAX_FRAME = 28  # socket.request.max.bytes
CX_FREE_REQUEST = 29  # heads and lengths of the free lists
CX_FREE_REQUESTS = 30
CX_FREE_RESULT = 31
CX_FREE_RESULTS = 32
CX_DIRTY = 33  # connections with answers to build, linked by CN_DIRTY_NEXT
CX_STALLED = 34  # connections that wait for room, linked by CN_STALLED_NEXT
CX_ONE = 35  # address of an int64 of 1
CX_SCRATCH = 36  # address of 64 bytes
CX_NOW_MS = 37
CX_NOW_NS = 38
CX_MORE = 39  # 1: the turn ended with work left
CX_COUNTERS = 40  # partition counters of this process
CX_TOPICS = 41  # rows of TOPIC_WORDS
CX_NAME_INDEX = 42  # open addressing: topic row + 1, 0 free, -1 deleted
CX_ID_INDEX = 43
CX_INDEX_MASK = 44
CX_PARTITIONS = 45  # rows of PARTITION_WORDS
CX_SCAN_ACKS = 46  # what the scan of a produce request found
CX_SCAN_TIMEOUT = 47
CX_SCAN_TOPICS = 48  # address of the topic array
CX_SCAN_COUNT = 49  # partitions
CX_SCAN_BOUND = 50  # bytes its answer can not exceed
CX_SCAN_REFUSED = 51  # error that refuses the whole request, or 0
CX_SCAN_ID = 136  # transactional id of a request with transactional batches: address (0: none), bytes
CX_SCAN_ID_BYTES = 137
CX_WALK_MAX_TIMESTAMP = 52
CX_PIPELINE = 53  # requests of one connection that may wait for completions
CX_STAT_TURNS = 54
CX_STAT_REQUESTS = 55
CX_STAT_BYTES_IN = 56
CX_STAT_BYTES_OUT = 57
CX_STAT_STALLS = 58
CX_CLIENT = 59  # number of this process among the clients of the rings
CX_SESSIONS = 60  # fetch tables, see fetch_layout.py
CX_SESSION_MASK = 62
CX_READS = 63
CX_SEGMENTS = 64
CX_SENDFILE_MIN = 65
CX_FETCH_MAX_BYTES = 66
CX_MAX_FIRST_FRAME = 67  # sasl.server.max.receive.size: of a connection that is not FLAG_HOT yet
CX_THROTTLE_MS = 68  # what the next answer to Produce says; 0 but for a moment
CX_RECEIVE_BYTES = 70
CX_METRICS = 71  # address of this process's row of metric slots
# 61, 69, 87, 94-96: outbox_layout.py; 107-115, 120-135: answer_layout.py
# 72-86: fetch_layout.py
CX_HANDING = 88  # 1: requests for control go into its block; 0: all through Python (no link, quotas)
CX_HANDED = 89  # rows of HANDED_WORDS by API key: what may go there
CX_LINK_OUT = 90  # the block for control
CX_LINK_BYTES = 91
CX_LINK_USED = 92
CX_CALLS = 93  # requests handed on so far
CX_RUNS = 97  # times of Produce requests that are not in their histograms yet, RUN_* * RUN_WORDS words on
CX_PLAIN = 116  # room for what a compressed batch stands for
CX_PARTIAL = 117  # words of the walk over it
CX_LIBRARIES = 118  # kernels/codec_libraries.py
CX_PRODUCER_IDS = 119  # address of the range that ids of idempotent producers are taken from
RUN_QUEUE, RUN_APPEND, RUN_RESPOND, RUN_TOTAL = range(4)
RUN_NS, RUN_COUNT = range(2)
RUN_WORDS = 2

# --- connection ---------------------------------------------------------------------------------------------
CONNECTION_WORDS = 40
CN_FD = 0  # -1: free
CN_FLAGS = 1
CN_ARMED = 2  # epoll mask now registered
CN_CHUNK = 3  # chunk of received bytes not yet handled, -1 for none
CN_START = 4  # arena offsets: first byte not handled, end of received bytes, end of reserved room
CN_FILLED = 5
CN_LIMIT = 6
CN_HEAD = 7  # queue of requests that wait for completions, -1 for none
CN_TAIL = 8
CN_QUEUED = 9
CN_DIRTY_NEXT = 10
CN_STALLED_NEXT = 11
CN_LAST_NS = 12  # when bytes last moved
CN_BYTES_IN = 13
CN_BYTES_OUT = 14
CN_REQUESTS = 15
CN_GENERATION = 16  # grows each time the row is taken
# 17, 24-28: fetch_layout.py; 18: access_layout.py
CN_CALL = 32  # the call that control is to answer, 0 for none
CN_API = 33  # of that request: key | version << 16
CN_REQUEST_BYTES = 34
CN_BEGAN_NS = 35
CN_QUEUED_NS = 36
CN_PEER = 37  # address of what control is told of the client; 0: its requests go through Python
CN_PEER_BYTES = 38
CN_AUDIENCE = 39  # clients with the same number get the same answer to the same question

FLAG_OPEN = 1
FLAG_HOT = 2  # plaintext and past authentication: the kernel receives, and serves Produce
FLAG_BUSY = 4  # Python is answering a request
FLAG_STALLED = 8  # in the stalled list
FLAG_DRAINING = 16  # a request that is not Produce waits for the queue to empty
FLAG_DIRTY = 32  # in the dirty list
FLAG_OUT_BLOCKED = 64  # Python holds bytes that the socket did not take
FLAG_CLOSING = 128  # an event asked Python to close it
FLAG_MUTED = 256  # Python wants no more bytes for now (throttled, full queue)
FLAG_FETCH = 512  # the kernel may serve Fetch
FLAG_VERIFYING = 1024  # control is asked whether a transaction is open
FLAG_SENDING = 2048  # the kernel goes on with an answer when the socket is writable
FLAG_LENT = 8192  # a sender has the socket: nobody else sends, and it is not closed
FLAG_QUOTA = 4096  # Python sends the answers to Produce, one request at a time: a quota may hold
FLAGS_NOT_READING = (
    FLAG_BUSY | FLAG_STALLED | FLAG_DRAINING | FLAG_CLOSING | FLAG_MUTED | FLAG_OUT_BLOCKED | FLAG_VERIFYING
)

# --- APIs that control serves -------------------------------------------------------------------------------
HANDED_APIS = 96
HANDED_WORDS = 4
HANDED_LOWEST = 0  # versions; lowest above highest: not handed on
HANDED_HIGHEST = 1
HANDED_FLEXIBLE = 2  # first version whose header has tags
HANDED_STANDS = 3  # 1: answers to it are among those that stand
HANDED_FRAME_BYTES = 1 << 16  # larger requests go through Python

# --- produce request ----------------------------------------------------------------------------------------
REQUEST_WORDS = 16
RQ_CONNECTION = 0  # -1: the connection has gone
RQ_NEXT = 1  # in the connection's queue, or the free list
RQ_VERSION = 2
RQ_CORRELATION = 3
RQ_ACKS = 4
RQ_TOPICS = 5  # address of the topic array in the frame
RQ_CHUNK = 6
RQ_RESULT = 7  # first of the results, linked in the order of the request
RQ_PENDING = 8
RQ_FAILED = 9  # 1: some partition has an error
RQ_PYTHON = 10  # 1: Python builds the answer (record errors), 2: Python sends it (FLAG_QUOTA)
RQ_RECEIVED_NS = 11
RQ_BOUND = 12  # bytes the answer can not exceed
RQ_FRAME = 13  # arena offset of the request's header
RQ_BYTES = 14
RQ_TIMEOUT = 15

# --- result of one partition of a produce request -------------------------------------------------------------
RESULT_WORDS = 16
RS_REQUEST = 0
RS_NEXT = 1
RS_STATE = 2
RS_ERROR = 3
RS_BASE_OFFSET = 4
RS_APPEND_TIME = 5
RS_LOG_START = 6
RS_WORKER = 7
RS_NUMBER = 8  # of the entry in the worker's append ring
RS_ADDRESS = 9  # of the batch in the arena (offset)
RS_LENGTH = 10
RS_SLOT = 11
RS_GENERATION = 12
RS_CHUNK = 13  # chunk that Python put a rewritten batch into, -1 for none
RS_OPERATION = 14  # of its append entry
RS_TRIES = 15  # times that it was answered UNVERIFIED

RESULT_FREE = 0
RESULT_WAITING = 1  # its append entry has not completed
RESULT_DEEP = 2  # Python looks at its records
RESULT_DONE = 3

# --- chunk --------------------------------------------------------------------------------------------------------
CHUNK_WORDS = 4
CH_REFS = 0
CH_RUN = 1  # chunks of a contiguous run that starts here; 0 inside a run or free
CH_TOUCHED = 2  # its pages may be in memory

# --- worker -------------------------------------------------------------------------------------------------------
WORKER_WORDS = 8
WK_APPEND = 0  # rings
WK_COMPLETION = 1
WK_LINE = 2
WK_EVENT_FD = 3
WK_PUSHED = 4  # entries pushed since the last wake-up
WK_RECOVERED = 5  # RING_RECOVERED as last seen

# --- topic and partition --------------------------------------------------------------------------------------------
TOPIC_WORDS = 8
TP_NAME = 0  # address of the name's bytes
TP_NAME_LENGTH = 1
TP_ID_HIGH = 2  # the topic id's bytes as two native words
TP_ID_LOW = 3
TP_PARTITIONS = 4  # first row in the partition table
TP_COUNT = 5
TP_INTERNAL = 6
PARTITION_WORDS = 2
PT_SLOT = 0
PT_GENERATION = 1

# --- events for Python ------------------------------------------------------------------------------------------------
EVENT_WORDS = 8
EV_KIND = 0
EV_CONNECTION = 1
EV_A = 2
EV_B = 3
EV_C = 4

EVENT_REQUEST = 1  # A: arena offset of the frame after its size, B: its bytes, C: chunk to release
EVENT_CLOSED = 2  # A: errno, 0 when the peer closed in order
EVENT_BAD_SIZE = 3  # A: the size announced
EVENT_BAD_REQUEST = 4  # A, B, C as EVENT_REQUEST: a Produce that can not be parsed
EVENT_DEEP = 5  # A: result row, B: 0 when it only found no room in a ring
EVENT_ANSWER = 6  # A: request row
EVENT_UNSENT = 7  # A: address, B: bytes
EVENT_WRITABLE = 8
EVENT_FAILED = 9  # acks=0 and an error: close
EVENT_ADVANCED = 10  # A: slot
EVENT_READ_AHEAD = 11  # A: token
EVENT_WAIT = 12  # as EVENT_REQUEST: a fetch that the kernel will serve when there are more bytes
EVENT_UNVERIFIED = 13  # A: result row, B: LAST_OFFSET of its completion
EVENT_UNSENT_FILE = 14  # A: segment row, B: position, C: bytes
EVENT_ANSWER_REST = 15  # of control's block. A: position of what the socket did not take, B: bytes
EVENT_RETURNED = 17  # a closed connection was lent, and is not any more
EVENT_UNANSWERED = 16  # control has no answer. A: status of the message, B: API key
EVENT_TRANSACTIONAL_ID = 19  # A: arena offset of an id that the connection may not be allowed, B: its bytes
EVENT_TIMES = 18  # A: slot whose segments' times are not known, B: the timestamp asked for

TOKEN_READ_AHEAD = 1 << 40
TOKEN_MASK = (1 << 48) - 1
TOKEN_RESULT_BITS = 16  # a token holds the result row, and low bits of the entry's number above it
TOKEN_NUMBER_MASK = (1 << 24) - 1

EPOLLIN = 1
EPOLLOUT = 4
EPOLLERR = 8
EPOLLHUP = 16
EPOLLRDHUP = 0x2000
EPOLLET = 1 << 31
EPOLL_ADD = 1
EPOLL_MODIFY = 3


def signed(value: int) -> int:
    """An unsigned 64-bit number as the int64 that a table holds."""
    return value - (1 << 64) if value >= 1 << 63 else value
