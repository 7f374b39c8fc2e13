"""Tables of the cleaner's kernels."""

from kbroker.kernels.row import Row, Values, word


class KeyMap(Row, writer="cleaner"):
    """State of an offset map."""

    SEED = word("bits", "key of the hash")
    SLOTS = word("count", "rows of the table that are in use")
    LIMIT = word("count", "keys that may be in it")
    COUNT = word("count", "keys that are in it")
    START = word("offset", "first dirty one: records before it are not read")
    LATEST = word("offset", "every batch up to this one is in the map")
    POSITION = word("bytes", "in the buffer: batches before it have been taken")
    NEXT_SIZE = word("bytes", "of the batch at POSITION, when the buffer ends within it")
    RECORDS = word("count", "records seen")


class Retain(Row, writer="cleaner"):
    """State that is carried from batch to batch in one cleaning."""

    POSITION = word("bytes", "in the buffer: batches before it are done")
    NEXT_SIZE = word("bytes", "of the batch at POSITION, when the buffer ends within it")
    OUT = word("bytes", "written to the out buffer")
    FILE_POSITION = word("bytes", "of the out buffer's start in the cleaned file")
    ROWS = word("count", "rows written")
    NOW = word("ms", "wall clock")
    NEW_HORIZON = word("ms", "delete horizon of batches that get one now; -1: none do")
    KEEP_END = word("bytes", "of the buffer: the batch that ends there stays, if only as a header; -1: none")
    RECORDS_READ = word("count", "records read")
    RECORDS_KEPT = word("count", "records kept")
    WITHOUT_KEY = word("count", "records without a key")
    CHANGED = word("count", "batches that were not copied as they are")
    KEPT = word("count", "records of this batch that stay")
    TOMBSTONES = word("flag", "1: some of them are tombstones")
    MAX_TIMESTAMP = word("ms", "largest timestamp of them")


class CleanStop(Values):
    """The reason why a walk over a buffer stopped."""

    TAKEN = 0  # up to its end, or to a batch that ends beyond it (NEXT_SIZE, 0 when not even that is there)
    SPECIAL = 1  # compressed, transactional or control: Python decodes it
    FULL = 2
    DAMAGED = 3
    WHOLE = 4  # it did not: a plain or special batch is there
    OUT_FULL = 5  # the out buffer lacks room for NEXT_SIZE bytes, or a row
    UNORDERED = 6  # offsets of a batch's records do not rise within it: the batch stays as it is
