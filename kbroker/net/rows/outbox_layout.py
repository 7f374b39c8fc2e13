"""Outboxes: what is left to send of a fetch answer with large file ranges, as rows of int64 words (see layout.py).

A row is with one thread at a time: the network process's own, or a sender (senders.py) from the job that names the row
until the same row comes back. Rows never move.
"""

# --- context words -------------------------------------------------------------------------------------------------
CX_APART_BYTES = 61  # file bytes from which on a sender sends an answer
CX_BACK = 69  # address of BACK_BYTES for what senders give back
CX_FREE_BOX = 87  # number of the first free row, -1 for none
CX_JOBS = 94  # pipe to the senders
CX_SENT = 95  # pipe from them
CX_BOXES = 96  # address of the rows
CX_STAT_SENDER_BYTES = 105  # that senders moved
CX_STAT_SENDER_ANSWERS = 106  # whose last byte a sender moved

# --- row -----------------------------------------------------------------------------------------------------------
BOXES = 512
BOX_WORDS = 512
BX_FREE = 0  # link of the free list
BX_SOCKET = 1  # -1: a sender that takes it ends
BX_CONNECTION = 2  # number of its row
BX_COUNT = 3  # parts; 0: the row is free
BX_NEXT = 4  # the first part that has not left
BX_MOVED = 5  # bytes that left at the last try
BX_ERROR = 6  # errno of the last try, 0 when the socket is full or all has left
BX_FILE_LEFT = 7  # bytes of files that have not left
BX_POSITION = 8  # sendfile's
BX_PARTS = 9
BOX_PART_WORDS = 3
BP_FILE = 0  # descriptor, -1: memory
BP_START = 1  # byte position or address
BP_LENGTH = 2
BOX_PARTS = 33
BX_MEMORY = BX_PARTS + BOX_PARTS * BOX_PART_WORDS
MEMORY_BYTES = (BOX_WORDS - BX_MEMORY) * 8

RECORD_BYTES = 8  # of both pipes: the address of a row
BACK_BYTES = 64 * RECORD_BYTES
