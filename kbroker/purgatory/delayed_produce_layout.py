"""Tables of delayed produces, which kernels watch, complete and expire (Kafka's DelayedProduce). Words are int64.

Private memory of one IO worker: an append waits here for its sync or for replicas, at a cost of nanoseconds.
"""

# one row for each delayed produce: an answer that waits for the disk or for replicas. Row 0 is nobody's: 0 is "none"
DELAYED_WORDS = 12
DELAYED_NEXT = 0  # the slot's next one, in the order of offsets; of a free row: the next free one
DELAYED_SLOT = 1  # -1: a free row
DELAYED_CLIENT = 2
DELAYED_TOKEN = 3
DELAYED_BASE_OFFSET = 4
DELAYED_LAST_OFFSET = 5
DELAYED_APPEND_TIME = 6
DELAYED_ACKS = 7
DELAYED_EXPIRY_MS = 8  # CLOCK_MONOTONIC
DELAYED_ENQUEUED_NS = 9
DELAYED_ERROR = 10  # of one that has its answer, but whose client has no room for it
# lists of them: one row for each slot, the last one for those that have their answer
LIST_WORDS = 2
LIST_HEAD = 0
LIST_TAIL = 1

NEVER = 1 << 62  # as a time
