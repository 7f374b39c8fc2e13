"""The context of a network process: one row with the addresses of its tables and the state of its
pump.

Private to the process. The ``cx`` of a kernel is the address of this row.
"""

from kbroker.kernels.row import Row, Values, word
from kbroker.net.rows.answer_tables import AnswerTable


class Phase(Values):
    """Phases of Produce requests whose times `Context.RUNS` gathers."""

    QUEUE, APPEND, FLUSH, RESPOND, TOTAL = range(5)


class Run(Row, writer="network"):
    """Times of one phase that are not in its histogram yet."""

    NS = word("ns", "the time that each of them took")
    COUNT = word("count", "how many took it")


class Context(Row, writer="network"):
    """Addresses of everything else, limits, and the state of the pump."""

    CONNECTIONS = word("address", "rows of Connection")
    REQUESTS = word("address", "rows of Request")
    RESULTS = word("address", "rows of Result")
    FREE_REQUEST = word("number", "first free Request, -1: none")
    FREE_REQUESTS = word("count", "free rows of Request")
    FREE_RESULT = word("number", "first free Result, -1: none")
    FREE_RESULTS = word("count", "free rows of Result")
    DIRTY = word(
        "number", "first connection with answers to build, linked by Connection.DIRTY_NEXT; -1: none"
    )
    STALLED = word(
        "number", "first connection that waits for room, linked by Connection.STALLED_NEXT; -1: none"
    )
    EVENTS = word("address", "rows of Event, for Python")
    EVENT_CAPACITY = word("count", "rows of Event")
    EVENT_COUNT = word("count", "events that Python has not taken")

    ARENA = word("address", "first byte of the arena")
    CHUNKS = word("address", "rows of Chunk")
    CHUNK_COUNT = word("count", "chunks of the arena")
    CHUNK_BYTES = word("bytes", "size of a chunk")
    FREE_CHUNKS = word("address", "stack of the numbers of free chunks")
    FREE_CHUNK_COUNT = word("count", "free chunks")
    FREE_CHUNK_LOW = word(
        "count", "minimum since it was last set: chunks below it in the stack were not used meanwhile"
    )
    CURRENT = word("number", "chunk that small frames are received into, -1: none")
    BUMP = word("arena offset", "first unused byte of that chunk")
    RECEIVE_BYTES = word("bytes", "room that a receive wants")

    SLOTS = word("address", "rows of Slot, shared")
    COUNTERS = word("address", "rows of Counter of this process, shared")
    WORKERS = word("address", "rows of Worker")
    WORKER_COUNT = word("count", "IO workers")
    RING_ENTRIES = word("count", "entries of a ring")
    CLIENT = word("number", "of this process among the clients of the rings")
    TOKEN_EPOCH = word("bits", "low 16 bits of Process.EPOCH, shifted to where a token has them")
    PROCESS_LINE = word("address", "this process's row of Process, shared")
    EVENT_FD = word("descriptor", "that others write to wake this process")
    EPOLL_FD = word("descriptor", "the epoll of all sockets")
    EPOLL_EVENTS = word("address", "epoll_events that a wait fills")
    EPOLL_CAPACITY = word("count", "epoll_events that fit")
    ONE = word("address", "an int64 of 1, which wakes an eventfd")
    SCRATCH = word("address", "64 bytes for any function within a call")
    NOW_MS = word("ms", "wall clock of this turn")
    NOW_NS = word("ns", "CLOCK_MONOTONIC of this turn")
    MORE = word("flag", "1: the turn ended with work left")
    LEFT = word("flag", "1: more than events is left to Python: a block for control, or another turn")

    OUT = word("address", "scratch for answers")
    OUT_BYTES = word("bytes", "size of the scratch")
    OUT_USED = word(
        "bytes", "bytes at its start that Python has to send: what sockets did not take this turn"
    )
    MAX_FRAME = word("bytes", "socket.request.max.bytes")
    MAX_FIRST_FRAME = word(
        "bytes", "sasl.server.max.receive.size: for a connection that is not authenticated yet"
    )
    PIPELINE = word("count", "requests of one connection that may wait for completions")
    THROTTLE_MS = word("ms", "throttle time of the next answer to Produce; 0 but for a moment")

    TOPICS = word("address", "rows of Topic")
    TOPICS_VERSION = word("count", "grows when rows of Topic move or go")
    NAME_INDEX = word("address", "topics by name, open addressing: row + 1, 0 free, -1 deleted")
    ID_INDEX = word("address", "the same by topic id")
    INDEX_MASK = word("mask", "entries of either index - 1")
    NAME_KEY = word("bits", "of the hashes in NAME_INDEX")
    PARTITIONS = word("address", "rows of Partition")

    SCAN_ACKS = word("acks", "of the Produce request that was scanned")
    SCAN_TIMEOUT = word("ms", "its timeout")
    SCAN_TOPICS = word("address", "its topic array")
    SCAN_COUNT = word("count", "its partitions")
    SCAN_BOUND = word("bytes", "that its answer does not exceed")
    SCAN_REFUSED = word("error code", "that refuses the whole request, or 0")
    SCAN_ID = word("address", "transactional id of a request with transactional batches, 0: none")
    SCAN_ID_BYTES = word("bytes", "of SCAN_ID")
    SCAN_EMPTY = word("flag", "1: a topic of it names no partitions")
    WALK_MAX_TIMESTAMP = word("ms", "largest timestamp of the batch whose records were walked")
    WORK_LEFT = word("bytes", "of records that may still be checked in this turn of a connection")
    UNFINISHED = word("flag", "1: a connection's turn was over before its requests")
    PLAIN = word("address", "room for what a compressed batch decompresses to")
    PARTIAL = word("address", "words of the walk over it")
    LIBRARIES = word("address", "functions of the codecs (kernels/codec_libraries.py)")
    PRODUCER_IDS = word("address", "the range that producer ids are taken from, shared")

    SESSIONS = word("address", "rows of Session")
    SESSION_MASK = word("mask", "rows of Session - 1")
    READS = word("address", "rows of Read, by slot")
    SEGMENTS = word("address", "rows of Segment")
    SENDFILE_MIN = word("bytes", "kbroker.sendfile.min.bytes")
    FETCH_MAX_BYTES = word("bytes", "fetch.max.bytes")
    PLAN = word("address", "rows of Plan")
    PLAN_CAPACITY = word("count", "rows of Plan")
    PLAN_COUNT = word("count", "partitions of the request in progress")
    PLAN_MAX_WAIT = word("ms", "max_wait_ms of that request")
    PLAN_MIN_BYTES = word("bytes", "min_bytes of that request")
    PLAN_MAX_BYTES = word("bytes", "max_bytes of that request")
    PLAN_SESSION = word("address", "its row of Session, 0 without one")
    PLAN_COMMITTED = word("flag", "1: read_committed")
    PARTS = word("address", "rows of Part")
    PART_COUNT = word("count", "parts of the answer")
    SNAPSHOT = word("address", "a copy of one Slot")
    PROBE = word("flag", "1: cachestat works")

    BOXES = word("address", "rows of Box")
    FREE_BOX = word("number", "first free Box, -1: none")
    SENDER_MIN_BYTES = word("bytes", "of file ranges: an answer with as many is sent by a sender")
    JOBS = word("descriptor", "pipe to the senders")
    SENT = word("descriptor", "pipe from them")
    BACK = word("address", "Box.BACK_BYTES for what senders give back")

    FORWARDING = word("flag", "1: requests for control go into its block; 0: through Python, without a link")
    QUOTAS = word("flag", "1: quotas are set, so that requests for control go through Python")
    FORWARDED = word("address", "rows of ForwardedApi, by API key")
    LINK_OUT = word("address", "the block for control")
    LINK_BYTES = word("bytes", "size of that block")
    LINK_USED = word("bytes", "of it that hold messages")
    CALLS = word("count", "requests that went into blocks so far")

    CACHED_ANSWERS = word("address", "words of AnswerVersion, shared")
    DIR_ERRORS = word("address", "log dir errors, shared: while there is one, no cached answer is used")
    DIR_COUNT = word("count", "log dirs")
    COMPOSED = word("count", "attempts to compose an answer of parts")
    ANSWERS = word(AnswerTable, "whole answers")
    TOPIC_PARTS = word(AnswerTable, "parts of answers, by topic")
    VERSION_ANSWERS = word(AnswerTable, "answers to ApiVersions")

    METRICS = word("address", "this process's row of metric slots, shared")
    RUNS = word("rows of Run", "one for each Phase", count=5 * Run.WORDS)
    STAT_TURNS = word("count", "turns of the pump")
    STAT_REQUESTS = word("count", "requests")
    STAT_BYTES_IN = word("bytes", "received")
    STAT_BYTES_OUT = word("bytes", "sent")
    STAT_STALLS = word("count", "requests that had to wait for room")
    STAT_SENDER_BYTES = word("bytes", "that senders sent")
    STAT_SENDER_ANSWERS = word("count", "answers whose last byte a sender sent")
    STAT_SENDER_DISK = word("bytes", "that the disk gave for what senders sent")

    POLL_NS = word("ns", "kbroker.busy.poll.network.us: of polling after the last work, 0: none")
    POLLING = word("flag", "1: the last call ended because its time was over, and must be repeated")
    LAST_WORK_NS = word("ns", "NOW_NS of the last round that found something")
    POLLED_NS = word("ns", "CPU time of the thread up to which polling is counted, 0: it does not poll")
    STAT_POLLED_NS = word("ns", "CPU time of polling")


class Outcome(Values):
    """Outcome of a request."""

    TO_PYTHON = 0
    WAITING = 1  # not enough bytes yet
    READY = 2
    SERVED = 3
