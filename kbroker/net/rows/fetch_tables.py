"""Tables of the compiled fetch path, private to a network process.

The kernel serves the common case: sessionless requests, and incremental ones of a session it knows,
on partitions without any error, whose bytes exist and are in the page cache. Everything else goes
to Python, before anything has changed.
"""

from kbroker.kernels.row import Row, word


class ReadEnd(Row, writer="network"):
    """End of the last read of a partition."""

    SLOT = word("number", "slot + 1; 0: nothing is known")
    OFFSET = word("offset", "the next one")
    SEGMENT = word("number", "its segment")
    POSITION = word("bytes", "its place in that segment")
    VERSION = word("count", "Slot.SEGMENTS_VERSION then")


class Plan(Row, writer="network", words=20):
    """One partition of the Fetch request in progress."""

    TOPIC = word("address", "row of the topic")
    INDEX = word("number", "of the partition")
    SLOT = word("number", "its slot")
    GENERATION = word("count", "of the slot")
    OFFSET = word("offset", "from which is read")
    MAX_BYTES = word("bytes", "of its records")
    CURRENT_LEADER_EPOCH = word("epoch", "leader epoch that the client knows, -1: none")
    LAST_FETCHED_EPOCH = word("epoch", "of the client's last record, -1: none")
    ENTRY = word("address", "its row of SessionEntry, 0 without one")
    HIGH_WATERMARK = word("offset", "of the answer")
    LAST_STABLE = word("offset", "of the answer")
    LOG_START = word("offset", "of the answer")
    SEGMENT = word("number", "of the segment, -1 without bytes")
    POSITION = word("bytes", "where the range begins")
    LENGTH = word("bytes", "of the range")
    SELECTED = word("flag", "1: it is in the answer")
    VERSION = word("count", "Slot.SEGMENTS_VERSION")
    TO_END = word("flag", "1: the bytes end at END")
    END = word("offset", "up to which may be read: high watermark, or last stable offset for read_committed")


class Session(Row, writer="network"):
    """A fetch session."""

    ID = word("number", "0: the kernel does not serve it now")
    EPOCH = word("count", "that the client must send")
    USES_IDS = word("flag", "1: topics are named by id")
    ENTRIES = word("address", "rows of SessionEntry")
    ORDER = word("address", "numbers of entries in the order in which they are read")
    COUNT = word("count", "entries")
    TOPICS_VERSION = word("count", "Context.TOPICS_VERSION for which entries name rows of Topic")
    USED_NS = word("ns", "last use, by CLOCK_MONOTONIC")


class SessionEntry(Row, writer="network", words=14):
    """A partition of a fetch session."""

    TOPIC = word("number", "row of the topic")
    INDEX = word("number", "of the partition")
    OFFSET = word("offset", "fetch offset")
    MAX_BYTES = word("bytes", "of its records")
    CURRENT_LEADER_EPOCH = word("epoch", "leader epoch that the client knows, -1: none")
    LAST_FETCHED_EPOCH = word("epoch", "of the client's last record, -1: none")
    SENT_HIGH_WATERMARK = word("offset", "high watermark of the last answer")
    SENT_LOG_START = word("offset", "log start offset of the last answer")
    LAST_READ = word(ReadEnd, "where its last read ended")


class Read(Row, writer="network"):
    """The segments of a slot that is read, by slot number."""

    GENERATION = word("count", "of the slot")
    VERSION = word("count", "Slot.SEGMENTS_VERSION of the list")
    FIRST = word("number", "first row of Segment")
    COUNT = word("count", "0: Python has not listed them")


class Segment(Row, writer="network", words=4):
    """A segment that is read."""

    BASE = word("offset", "base offset")
    LOG_FD = word("descriptor", "-1: Python has not opened it")
    INDEX_FD = word("descriptor", "of its offset index")


class Part(Row, writer="network"):
    """A part of an answer to Fetch."""

    ROWS = 512

    SEGMENT = word("number", "of the segment; -1: memory")
    START = word("bytes", "position in the segment, or address")
    LENGTH = word("bytes", "of the part")
    FD = word("descriptor", "of the file")
    SLOT = word("number", "of the partition; -1: memory")


class BoxPart(Row, writer="network or sender"):
    """A part of the answer in an outbox."""

    FILE = word("descriptor", "-1: memory")
    START = word("bytes", "position in the file, or address")
    LENGTH = word("bytes", "that have not left")
    SLOT = word("number", "of the partition; -1: memory")
    FROM_DISK = word("bytes", "read from disk by a sender for it, not yet counted")


class Box(Row, writer="network or sender", words=512):
    """Outbox: what is left to send of an answer with large file ranges.

    One thread at a time owns a row: the network process's own, or a sender (senders.py) from the
    job that names the row until the sender returns it. Rows never move.
    """

    ROWS = 512
    MAX_PARTS = 33
    RECORD_BYTES = 8  # of a job and of what comes back: the address of a row
    BACK_BYTES = 64 * RECORD_BYTES

    FREE = word("number", "link of the free list")
    SOCKET = word("descriptor", "-1: a sender that takes it ends")
    CONNECTION = word("number", "of its connection")
    COUNT = word("count", "parts; 0: the row is free")
    NEXT = word("number", "the first part that has not left")
    MOVED = word("bytes", "that have left since the sender got it")
    ERROR = word("errno", "of the last try, 0 when the socket is full or all has left")
    FILE_LEFT = word("bytes", "of files that have not left")
    POSITION = word("bytes", "sendfile's")
    PARTS = word("rows of BoxPart", "the parts", count=MAX_PARTS * BoxPart.WORDS)
    MEMORY = word("bytes", "contents of the parts in memory", count=338)
    MEMORY_BYTES = 338 * 8
