"""Tables of a network process: connections, produce requests and their results, chunks, topics,
events.

All are private to the process. A row's address is ``table + number * STRIDE``; `get` and `put`
access a word.
"""

from kbroker.kernels.row import Row, Values, word
from kbroker.net.rows.fetch_tables import ReadEnd


class Connection(Row, writer="network", words=32):
    """A connection that the pump serves."""

    FD = word("descriptor", "its socket; -1: the row is free")
    FLAGS = word("bits", "Flag")
    ARMED = word("bits", "epoll mask that is registered now")
    GENERATION = word("count", "grows each time the row is taken")
    CHUNK = word("number", "chunk of received bytes that are not handled yet, -1: none")
    START = word("arena offset", "first byte that is not handled")
    FILLED = word("arena offset", "end of the received bytes")
    LIMIT = word("arena offset", "end of the reserved room")
    HEAD = word("number", "first Request that waits for completions, -1: none")
    TAIL = word("number", "last Request that waits")
    QUEUED = word("count", "requests that wait for completions")
    DIRTY_NEXT = word("number", "next connection of Context.DIRTY")
    STALLED_NEXT = word("number", "next connection of Context.STALLED")
    LAST_NS = word("ns", "when bytes were last received or sent, CLOCK_MONOTONIC")
    BYTES_IN = word("bytes", "received")
    BYTES_OUT = word("bytes", "sent")
    REQUESTS = word("count", "requests so far")
    LAST_READ = word(ReadEnd, "where its last read without a session ended")
    BOX = word("address", "Box with the unsent rest of an answer (Flag.SENDING)")
    CALL = word("number", "the call that control is to answer, 0: none")
    API = word("bits", "of that request: API key | version << 16")
    REQUEST_BYTES = word("bytes", "of that request")
    BEGAN_NS = word("ns", "when it was received; of a Fetch: when it began to wait, or when sending began")
    QUEUED_NS = word(
        "ns", "how long it had waited then; of an answer that is being sent: time of all phases before"
    )
    PEER = word(
        "address",
        "client data that control gets with requests; 0: its requests go through Python, but for Flag.PEER_DUE",
    )
    PEER_BYTES = word("bytes", "of PEER")
    ACCESS = word("address", "its row of Access; 0: everything is allowed")
    ANSWER_SCOPE = word("number", "clients with the same number get the same answer to the same request")


class Flag(Values):
    """State of a connection."""

    OPEN = 1
    AUTHENTICATED = 2  # or no login is needed: the kernel receives, and serves Produce
    BUSY = 4  # Python is answering a request
    STALLED = 8  # in the stalled list
    DRAINING = 16  # a request that is not Produce waits for the queue to empty
    DIRTY = 32  # in the dirty list
    OUT_BLOCKED = 64  # Python holds bytes that the socket did not take
    CLOSING = 128  # an event asked Python to close it
    MUTED = 256  # Python wants no more bytes for now (throttled, full queue)
    FETCH = 512  # the kernel may serve Fetch
    VERIFYING = 1024  # control is asked whether a transaction is open
    SENDING = 2048  # the kernel continues an answer when the socket is writable
    QUOTA = 4096  # Python sends the answers to Produce, one request at a time: a quota may apply
    LENT = 8192  # a sender thread sends: no other thread does, and the socket is not closed
    PEER_DUE = 16384  # Python packs its peer (Connection.PEER) before a request goes to control
    NOT_READING = BUSY | STALLED | DRAINING | CLOSING | MUTED | OUT_BLOCKED | VERIFYING


class ForwardedApi(Row, writer="network"):
    """An API whose requests control serves, by API key: which of them may go into its block."""

    APIS = 96
    FRAME_BYTES = 1 << 16  # larger requests go through Python

    LOWEST = word("version", "lowest; above HIGHEST: none may")
    HIGHEST = word("version", "highest")
    FLEXIBLE = word("version", "first one whose header has tags")
    CACHED = word("flag", "1: some answers to it are cached")
    SERVED_LOWEST = word("version", "lowest that the broker serves at all; above SERVED_HIGHEST: none")
    SERVED_HIGHEST = word("version", "highest")


class Request(Row, writer="network"):
    """A Produce request that is not answered yet."""

    CONNECTION = word("number", "its connection; -1: it has gone")
    NEXT = word("number", "in the connection's queue, or the free list")
    VERSION = word("version", "of the request")
    CORRELATION = word("number", "correlation id")
    ACKS = word("acks", "-1, 0 or 1")
    TOPICS = word("address", "the topic array in the frame")
    CHUNK = word("number", "the chunk that has the frame")
    RESULT = word("number", "first of its results, linked in the order of the request")
    PENDING = word("count", "partitions without a result")
    FAILED = word("flag", "1: some partition has an error")
    ANSWER = word("value", "AnswerBy")
    RECEIVED_NS = word("ns", "when it was received, CLOCK_MONOTONIC")
    BOUND = word("bytes", "that the answer does not exceed")
    FRAME = word("arena offset", "the request's header")
    FRAME_BYTES = word("bytes", "of header and body")
    TIMEOUT = word("ms", "of the request")
    QUEUED_NS = word("ns", "from its last byte until it was taken")
    WRITTEN_NS = word("ns", "when the last of its batches was written, 0: none was")
    ENDED_NS = word("ns", "when the last of them was complete, CLOCK_MONOTONIC; 0: none was")


class AnswerBy(Values):
    """The side that answers a Produce request."""

    KERNEL = 0
    PYTHON = 1  # Python builds the answer: record errors, an empty topic
    SENT_BY_PYTHON = 2  # the kernel builds it (Flag.QUOTA)


class Result(Row, writer="network"):
    """Result of one partition of a Produce request."""

    REQUEST = word("number", "its request")
    NEXT = word("number", "next result of the request, or of the free list")
    STATE = word("value", "ResultState")
    ERROR = word("error code", "of the partition")
    BASE_OFFSET = word("offset", "of the batch, -1 for none")
    APPEND_TIME = word("ms", "of LogAppendTime, -1 for CreateTime")
    LOG_START = word("offset", "of the partition, -1 for none")
    WORKER = word("number", "the IO worker that owns the partition")
    NUMBER = word("count", "of the entry in the worker's append ring")
    ADDRESS = word("arena offset", "the batch")
    LENGTH = word("bytes", "of the batch")
    SLOT = word("number", "of the partition")
    GENERATION = word("count", "of the slot")
    CHUNK = word("number", "chunk that Python put a rewritten batch into, -1: none")
    OPERATION = word("value", "Operation of its append entry")
    TRIES = word("count", "times that it was answered UNVERIFIED")


class ResultState(Values):
    """States of a result."""

    FREE = 0
    WAITING = 1  # its append entry has not completed
    IN_PYTHON = 2  # Python checks its batch
    DONE = 3


class Chunk(Row, writer="network", words=4):
    """A chunk of the arena."""

    RESERVED_SHARE = 16  # one chunk in this many is reserved for small requests

    REFS = word("count", "connections, requests and rewritten batches that hold it")
    RUN = word("count", "chunks of a contiguous run that starts here; 0 inside a run or free")
    TOUCHED = word("flag", "1: its pages may be in memory")


class Worker(Row, writer="network", words=8):
    """An IO worker, as this process sees it."""

    APPEND = word("address", "its append ring, shared")
    COMPLETION = word("address", "its completion ring, shared")
    LINE = word("address", "its row of Process, shared")
    EVENT_FD = word("descriptor", "that wakes it")
    PUSHED = word("count", "entries pushed since it was last woken")
    RECOVERED = word("count", "Ring.RECOVERED as last seen")


class Topic(Row, writer="network", words=8):
    """A topic."""

    NAME = word("address", "bytes of its name")
    NAME_LENGTH = word("bytes", "of the name")
    ID_HIGH = word("bits", "first half of the topic id's bytes, as a native word")
    ID_LOW = word("bits", "second half")
    PARTITIONS = word("number", "its first Partition")
    COUNT = word("count", "its partitions")
    INTERNAL = word("flag", "1: clients may not produce to it")


class Partition(Row, writer="network"):
    """A partition of a topic, in their order."""

    SLOT = word("number", "its slot")
    GENERATION = word("count", "of the slot")
    PLANNED = word("number", "its row of Plan in the last Fetch that read it")


class Event(Row, writer="network", words=8):
    """Events that the pump leaves to Python."""

    KIND = word("value", "EventKind")
    CONNECTION = word("number", "of the connection")
    A = word("see EventKind", "first argument")
    B = word("see EventKind", "second argument")
    C = word("see EventKind", "third argument")


class EventKind(Values):
    """Kinds of events."""

    REQUEST = 1  # A: arena offset of the frame after its size, B: its bytes, C: chunk to release
    CLOSED = 2  # A: errno, 0 when the peer closed in order
    BAD_SIZE = 3  # A: the size announced
    BAD_REQUEST = 4  # A, B, C as REQUEST: a Produce that cannot be parsed
    CHECK_BATCH = 5  # A: result row, B: why (check_kernel.py), 0 when only its ring had no room
    ANSWER = 6  # A: request row
    UNSENT = 7  # A: address, B: bytes
    WRITABLE = 8
    FAILED = 9  # acks=0 and an error: close
    ADVANCED = 10  # A: slot
    READ_AHEAD = 11  # A: token
    WAIT = 12  # as REQUEST: a fetch that the kernel will serve when there are more bytes
    UNVERIFIED = 13  # A: result row, B: LAST_OFFSET of its completion
    UNSENT_FILE = 14  # A: descriptor of the log file, B: position, C: bytes
    ANSWER_REST = 15  # of control's block. A: position of what the socket did not take, B: bytes
    UNANSWERED = 16  # control has no answer. A: status of the message, B: API key
    RETURNED = 17  # a sender has returned the socket of a closed connection
    TRANSACTIONAL_ID = 18  # A: arena offset of an id that the connection may not be allowed, B: its bytes
    UNSERVED = 20  # a request has begun to arrive that the broker does not serve. A: API key, B: version
    DENIED = 19  # a Produce was refused for lack of a permission. A: topic row, B: partitions
    INTRODUCED = 21  # ApiVersions is answered. A: number of the request among the known ones
    PEER_DUE = 22  # a request waits until the peer of its connection is packed


class PartialRecord(Row, writer="network"):
    """The walk over the records of a compressed batch (partial_record_kernel.py)."""

    PHASE = word("value", "RecordPhase")
    SKIP = word("bytes", "to skip before the phase continues")
    LEFT = word("count", "records not seen yet; set to the header's count")
    OFFSET_DELTA = word("offset", "of the record that comes next")
    HEADERS = word("count", "of this record, not seen yet")
    BASE_TIMESTAMP = word("ms", "of the batch; set")
    OLDEST = word("ms", "oldest timestamp that is allowed beside -1, which is none; set")
    NEWEST = word("ms", "newest one; set")
    NEED_KEYS = word("flag", "1: each record must have a key; set")
    ORDERED = word("flag", "1: offset deltas must be 0, 1, 2, ...; set")
    SIZED = word("flag", "1: a record must have the size that its head says; set")
    LARGEST = word("ms", "largest timestamp; -1 when no record has one; set to -1")
    REFUSED = word("flag", "1: a record has an error of its own: a timestamp out of range or no key")
    ENDS = word("bytes", "of this record that are left by the size that its head says")
    DISORDERED = word("flag", "1: some offset delta is not the expected one, which is allowed")


class RecordPhase(Values):
    """Field of a record that is read next. Attributes are skipped after the size."""

    SIZE = 0
    TIMESTAMP = 1
    OFFSET = 2
    KEY = 3
    VALUE = 4
    HEADER_COUNT = 5
    HEADER_KEY = 6
    HEADER_VALUE = 7


class Access(Row, writer="network"):
    """Permissions of a connection, where there is an authorizer and it is no super user
    (net/security/access.py)."""

    GRANT = word("address", "row of Grant of its principal and host")
    ID = word("address", "the transactional id that was checked last")
    ID_BYTES = word("bytes", "of ID")
    ID_ALLOWED = word("flag", "1: it may be used")


class Grant(Row, writer="network"):
    """Permissions of a principal from a host."""

    TOPICS = word("address", "a byte of May for each row of Topic")
    PRODUCER_IDS = word("flag", "1: may write without a transactional id")


class May(Values):
    """Permissions on a topic."""

    WRITE = 1
    READ = 2
    DESCRIBE = 4


class Token(Values):
    """Tokens of append entries: the result row, above it low bits of the entry's number, above them
    the epoch."""

    READ_AHEAD = 1 << 40
    MASK = (1 << 48) - 1
    RESULT_BITS = 16
    NUMBER_MASK = (1 << 24) - 1


def signed(value: int) -> int:
    """An unsigned 64-bit number as the int64 that a table holds."""
    return value - (1 << 64) if value >= 1 << 63 else value
