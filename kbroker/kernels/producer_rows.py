"""The table of producers that an IO worker's drain kernel checks and updates, see
`producers.py`."""

from kbroker.kernels.row import Row, Values, word


class ProducerBatch(Row, writer="io"):
    """A batch that a producer sent."""

    FIRST_SEQUENCE = word("sequence", "of its first record")
    LAST_SEQUENCE = word("sequence", "of its last record")
    BASE_OFFSET = word("offset", "of its first record")
    LAST_OFFSET = word("offset", "of its last record")
    TIMESTAMP = word("ms", "its max timestamp")


class Producer(Row, writer="io", words=32):
    """State of a producer in a partition."""

    MAX_BATCHES = 5
    # TXN_FIRST_OFFSET after a transaction: this minus its marker's offset. So the word changes with
    # each end; -2 is AppendEntry.ANY_TRANSACTION.
    ENDED = -3

    KEY = word("number", "slot + 1; 0 empty, -1 deleted")
    ID = word("producer id", "of the producer; of the last row the key of the table's hash")
    HASH_KEY = ID
    EPOCH = word("epoch", "of the producer")
    COORDINATOR_EPOCH = word("epoch", "of the last marker")
    LAST_TIMESTAMP = word("ms", "of the last batch")
    TXN_FIRST_OFFSET = word("offset", "of the open transaction; below 0 outside of one: -1, or see ENDED")
    BATCH_COUNT = word("count", "remembered batches, oldest first; of the last row, see ROOM")
    # Of the last row: producers that may be added before the table grows, or fewer: it stays at
    # most half full, and a deleted row that is claimed again counts twice.
    ROOM = BATCH_COUNT
    BATCHES = word("rows of ProducerBatch", "the last batches", count=MAX_BATCHES * ProducerBatch.WORDS)


class Sequence(Values):
    """Outcomes of `check_sequence` besides error codes, and a sequence that is none."""

    IN_SEQUENCE = 0
    DUPLICATE = -2
    NONE = -1  # of batches that a coordinator appends for a producer
    LIMIT = 1 << 31
