"""Result words of a call of the copy kernel."""

from kbroker.kernels.row import Row, Values, word


class Copied(Row, writer="io", words=8):
    """Results of a call of the copy kernel."""

    BYTES = word("bytes", "of the buffer that are done with")
    STOP = word("value", "CopyStop")
    ERROR = word("errno", "of a failed write")
    MARKER = word("bytes", "position in the buffer of a written transaction marker, -1: none")
    PRODUCERS = word("count", "producers added to the table")
    RECORDS = word("count", "records that were written")
    LAST_OFFSET = word("offset", "of the marker")


class CopyStop(Values):
    """Why the copy kernel ended before the last whole batch."""

    END = 0  # nothing whole is left
    ROLL = 1  # the next batch needs a new segment
    EPOCH = 2  # the next batch is of another leader epoch than AppendRow.BATCH_EPOCH
    PRODUCERS = 3  # the producer table is full
    CORRUPT = 4  # the next batch is damaged, or not after the log's end
    FULL = 5  # the batch array is full, or a marker was written: call again
