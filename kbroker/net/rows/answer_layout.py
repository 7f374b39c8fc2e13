"""Answers that stand (ipc/standing.py), as a network process keeps them: whole, and in parts by topic."""

# --- context words ------------------------------------------------------------------------------------------------
CX_STANDING = 107  # the shared words
CX_DIR_ERRORS = 108  # words of the log dirs: while one has failed, no answer is kept or repeated
CX_DIR_COUNT = 109  # their number
CX_COMPOSED = 110  # answers tried to make of parts
CX_REPEATED = 115  # answers given from here
CX_ANSWERS = 120  # a table
CX_TOPIC_PARTS = 128  # a table

# --- table: answer_table_kernel.py ---------------------------------------------------------------------
TABLE_WORDS = 8
TB_ROWS = 0
TB_COUNT = 1
TB_MOST = 2
TB_INDEX = 3  # open addressing: row + 1, 0 free
TB_INDEX_ENTRIES = 4
TB_POOL = 5
TB_POOL_BYTES = 6
TB_POOL_USED = 7

MOST_ANSWERS = 2048
MOST_PARTS = 8192
POOL_BYTES = 4 << 20
MOST_ANSWER_BYTES = 1 << 16  # of a body and its answer; what is larger is made by control each time

# --- row -------------------------------------------------------------------------------------------------------------
ANSWER_WORDS = 16
AN_HASH = 0
AN_KIND = 1  # api | version << 16 | audience << 32; of a row of parts: topic_part_kernel.py
AN_BODY = 2  # address of the key: a request's body, its options, or what it names a topic by
AN_BODY_BYTES = 3
AN_ANSWER = 4  # address of the frame, its size included, or of the part
AN_ANSWER_BYTES = 5
AN_ROOM = 6  # bytes that AN_ANSWER has room for
AN_TERMS = 7  # TERM_TOPICS, TERM_WORD, TERM_VALUE, TERM_CODES
AN_PARTITIONS = 11  # in a part; of a head: the most of an answer
AN_HEAD_BYTES = 12  # of a head: those before the topics; the others are behind them
AN_USED = 13  # CX_COMPOSED of the last answer that was made of this part
AN_FOLLOWING = 14  # address of the part behind this one in it, 0 behind the last
