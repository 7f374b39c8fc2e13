"""Answers that stand (ipc/standing.py), as a network process keeps them: rows, their index, and one pool of bytes.

A row's body and answer lie behind one another in the pool. When rows or pool are full, all are forgotten at once.
"""

# --- context words ------------------------------------------------------------------------------------------------
CX_STANDING = 107  # the shared words
CX_DIR_ERRORS = 108  # words of the log dirs: while one has failed, no answer is kept or repeated
CX_DIR_COUNT = 109  # their number
CX_ANSWERS = 110  # rows
CX_ANSWER_COUNT = 111
CX_ANSWER_INDEX = 112  # open addressing: row + 1, 0 free
CX_ANSWER_POOL = 113
CX_ANSWER_POOL_USED = 114
CX_REPEATED = 115  # answers given from here

MOST_ANSWERS = 2048
INDEX_ENTRIES = 4 * MOST_ANSWERS
POOL_BYTES = 4 << 20
MOST_ANSWER_BYTES = 1 << 16  # of a body and its answer; what is larger is made by control each time

# --- row -------------------------------------------------------------------------------------------------------------
ANSWER_WORDS = 12
AN_HASH = 0
AN_KIND = 1  # api | version << 16 | audience << 32
AN_BODY = 2  # address
AN_BODY_BYTES = 3
AN_ANSWER = 4  # address of the frame, its size included
AN_ANSWER_BYTES = 5
AN_ROOM = 6  # bytes that AN_ANSWER has room for
AN_TERMS = 7  # TERM_TOPICS, TERM_WORD, TERM_VALUE, TERM_CODES
