"""Tables of the commit cache, private to control.

A *cached decision* says that requests with the same first bytes (group, generation, member, ...)
may commit; a *committed* row is a committed offset that exists.
"""

from kbroker.kernels.row import Row, Values, word


class CacheTables(Row, writer="control", words=40):
    """Addresses and sizes of the tables. The ``cache`` of a kernel is the address of this row."""

    DECISIONS = word("address", "rows of CachedDecision")
    DECISION_INDEX = word(
        "address", "open addressing: number + 1, 0 free; dead rows stay until it is rebuilt"
    )
    DECISION_MASK = word("mask", "entries of DECISION_INDEX - 1")
    ROWS = word("address", "rows of Committed")
    ROW_INDEX = word("address", "the same by key of the offset")
    ROW_MASK = word("mask", "entries of ROW_INDEX - 1")
    IN_FLIGHT = word("address", "commits of each group that are being written")
    METADATA_LIMIT = word("bytes", "offset.metadata.max.bytes")
    SEQUENCE = word("address", "the store's counter of replayed offsets")
    COMMITS = word("address", "rows of Commit")
    COMMIT_ROOM = word("count", "rows of Commit")
    ENTRIES = word("address", "rows of CommitEntry")
    ENTRY_ROOM = word("count", "rows of CommitEntry")
    ANSWERS = word("address", "answers of commits")
    ANSWER_ROOM = word("bytes", "size of ANSWERS")
    BATCHES = word("address", "rows of CommitBatch")
    RECORDS = word("address", "bytes of the batches")
    RECORD_ROOM = word("bytes", "size of RECORDS")
    HEADS = word("address", "first and last commit of each offsets partition, two words each")
    SCRATCH = word("address", "a key")
    MAX_BATCH = word("bytes", "of a batch")
    TOPIC_COUNT = word("count", "offsets partitions")
    TOUCHED = word("address", "numbers of decisions used since their sessions were last extended")
    TOUCHED_COUNT = word("count", "numbers in TOUCHED")
    READY = word("address", "answers in the order of their batches")
    NOW = word("ms", "wall clock of this block, for records")
    NOW_MONOTONIC = word("ms", "CLOCK_MONOTONIC of this block, for sessions")
    HEARTBEAT_ANSWERS = word("address", "answers to heartbeats, which wait for no append")
    HEARTBEAT_ROOM = word("bytes", "size of HEARTBEAT_ANSWERS")
    HEARTBEAT_BYTES = word("bytes", "of HEARTBEAT_ANSWERS in use")
    HEARTBEATS = word("count", "answers there to members of classic groups")
    CONSUMER_HEARTBEATS = word("count", "answers there to members of consumer groups")
    HASH_KEY = word("bits", "of the hashes in the indexes")
    DECISION_COUNT = word("count", "valid decisions")
    LEFT = word("count", "requests of this block that are left to Python")
    VERSIONS = word("address", "words of AnswerVersion, shared")
    GROUP_VERSIONS = word("address", "number of each group's word there")


class CachedDecision(Row, writer="control"):
    """A decision that requests with the same first bytes may commit, or get the answer of the last
    one."""

    LIVE = word("flag", "1: it is valid")
    HASH = word("bits", "of PREFIX")
    KIND = word("bits", "API key << 8 | version")
    PREFIX = word(
        "address", "first bytes of the body; of a heartbeat the whole, of a consumer group's with client id"
    )
    PREFIX_BYTES = word("bytes", "of PREFIX")
    GROUP = word("number", "of its counter in CacheTables.IN_FLIGHT")
    PARTITION = word("number", "of __consumer_offsets")
    TOUCHED_MS = word("ms", "last use, 0 when the session has been extended since")
    ANSWER = word("address", "of a heartbeat: what follows the correlation id")
    ANSWER_BYTES = word("bytes", "of ANSWER")
    PEER = word("address", "the only peer that it is for, as in the block; none: for all")
    PEER_BYTES = word("bytes", "of PEER")


class Committed(Row, writer="control"):
    """A committed offset."""

    KEY_ROOM = 144
    VALUE_ROOM = 176

    LIVE = word("flag", "1: it exists")
    HASH = word("bits", "of its key")
    ID_HASH = word("bits", "the same with the topic's id")
    SEQUENCE = word("count", "replayed offsets when it was written")
    KEY_BYTES = word("bytes", "of KEY")
    VALUE_BYTES = word("bytes", "of VALUE")
    TOPIC_ID = word("bits", "the topic id's bytes", count=2)
    KEY = word("bytes", "key of its record", count=KEY_ROOM // 8)
    VALUE = word("bytes", "value of its record", count=VALUE_ROOM // 8)


class Commit(Row, writer="control"):
    """An OffsetCommit request of the block."""

    NEXT = word("number", "of the same offsets partition")
    GROUP = word("number", "of its counter in CacheTables.IN_FLIGHT")
    MESSAGE = word("bytes", "position in the block")
    ENTRY = word("number", "its first CommitEntry")
    ENTRIES = word("count", "its rows of CommitEntry")
    ANSWER = word("address", "its answer")
    ANSWER_BYTES = word("bytes", "of ANSWER")
    BOUND = word("bytes", "that its records do not exceed")


class CommitEntry(Row, writer="control", words=8):
    """An offset that is being committed."""

    ROW = word("number", "its Committed")
    OFFSET = word("offset", "to commit")
    LEADER_EPOCH = word("epoch", "of the record")
    METADATA = word("address", "its metadata")
    METADATA_BYTES = word("bytes", "of METADATA")
    VALUE = word("bytes", "position of the record's value in its batch")
    VALUE_BYTES = word("bytes", "of the record's value")


class CommitBatch(Row, writer="control"):
    """A record batch for one offsets partition."""

    PARTITION = word("number", "of __consumer_offsets")
    BYTES = word("bytes", "of the batch")
    BYTES_AT = word("bytes", "position in CacheTables.RECORDS")
    ANSWERS_AT = word("bytes", "position in CacheTables.READY")
    ANSWERS_BYTES = word("bytes", "of its answers")
    COMMIT = word("number", "first Commit; the others follow by its NEXT")
    COMMITS = word("count", "its rows of Commit")
    ENTRIES = word("count", "its rows of CommitEntry: as many error codes are in its answers")


class CommitVersion(Values):
    """Versions of OffsetCommit."""

    FIRST = 2
    LAST = 10
    WITH_THROTTLE = 3
    WITH_RETENTION = 4
    WITH_EPOCH = 6
    WITH_INSTANCE = 7
    FLEXIBLE = 8
    WITH_TOPIC_ID = 10


class HeartbeatVersion(Values):
    """Versions of Heartbeat and ConsumerGroupHeartbeat."""

    LAST = 4
    FLEXIBLE = 4
    LAST_CONSUMER = 1


class CommitLimit(Values):
    """Bytes of requests and records."""

    CLIENT_ID_AT = 8  # of a frame without its size
    MAX_METADATA = 100
    VALUE_FIXED = 46  # version, offset, epoch, length, timestamp, tags
    RECORD_FIXED = 24
