"""Tables of the replay of a coordinator's partition, private to control."""

from kbroker.kernels.row import Row, Values, word


class ReplayWindow(Row, writer="control"):
    """A window: a piece of a segment, and the records in it."""

    BUFFER = word("address", "bytes of the segment")
    END = word("bytes", "in BUFFER")
    POSITION = word("bytes", "in the window, of the next batch")
    NEXT_OFFSET = word("offset", "batches below it are not replayed again")
    ROWS = word("address", "rows of ReplayRow")
    ROOM = word("count", "rows of ReplayRow")
    COUNT = word("count", "rows in use")
    INDEX = word("address", "first row of each key, by hash")
    MASK = word("mask", "entries of INDEX - 1")
    BARRIERS = word("address", "a word by hash of the group: earlier rows are in no chain with later ones")
    BARRIER = word("number", "the same for all groups")
    TYPES = word("bits", "the record types that may be in chains: 1 << type")
    SEED = word("bits", "key of hashes")


class ReplayRow(Row, writer="control"):
    """A record, or a batch that Python decodes.

    A chain has records of one key, of which the last valid one has the effect of all.
    """

    KIND = word("number", "of ReplayKind")
    POSITION = word("bytes", "in the window, of the key or of the batch")
    BYTES = word("bytes", "of the key or the batch")
    VALUE = word("bytes", "position of the value")
    VALUE_BYTES = word("bytes", "of the value; -1: a tombstone")
    TIMESTAMP = word("ms", "of the record")
    OFFSET = word("offset", "of the record")
    PRODUCER_ID = word("number", "of the batch")
    HASH = word("bits", "of the key")
    CHAIN = word("number", "of a row in INDEX: the first row of the key's present chain")
    LAST = word("number", "of a chain's first row: the last row")
    PREVIOUS = word("number", "the row before in the chain; -1: it is the first, or in none")


class ReplayKind(Values):
    """Kinds of a ReplayRow."""

    RECORD = 0
    TRANSACTIONAL = 1
    BATCH = 2


class ReplayStop(Values):
    """The reason why a walk over a window ended."""

    SHORT = 0  # the next batch ends after the window
    FULL = 1  # there is no row left
    ODD = 2  # there is no batch where one must be


class ReplayGroups(Values):
    """Places for hashes of groups. Groups with the same place share their barriers."""

    PLACES = 1 << 16
