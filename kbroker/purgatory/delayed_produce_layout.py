"""Tables of delayed produces, which kernels watch, complete and expire (Kafka's DelayedProduce).

Private memory of one IO worker: an append waits here for its sync or for replicas.
"""

from kbroker.kernels.row import Row, word


class DelayedProduce(Row, writer="io", words=12):
    """An answer that waits for the disk or for replicas. Row 0 is never used: 0 is "none"."""

    NEVER = 1 << 62  # as a time

    NEXT = word("number", "the slot's next delayed produce, by offset; of a free row: the next free row")
    SLOT = word("number", "-1: a free row")
    CLIENT = word("number", "of the client process")
    TOKEN = word("bits", "of its append entry")
    BASE_OFFSET = word("offset", "of the batch")
    LAST_OFFSET = word("offset", "of the batch")
    APPEND_TIME = word("ms", "-1 for CreateTime")
    ACKS = word("acks", "of the request")
    EXPIRY_MS = word("ms", "CLOCK_MONOTONIC")
    WRITTEN_NS = word("ns", "when it began to wait, CLOCK_MONOTONIC")
    ERROR = word("error code", "of a completed produce whose client's completion ring is full")


class DelayedList(Row, writer="io"):
    """A list of delayed produces: one for each slot, and a last one for completed produces."""

    HEAD = word("number", "the first, 0: none")
    TAIL = word("number", "the last, 0: none")
