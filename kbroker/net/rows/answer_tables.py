"""Tables of cached answers (ipc/cached_answers.py) in a network process: whole, and in parts by
topic."""

from kbroker.kernels.row import Row, word


class AnswerTable(Row, writer="network"):
    """A table of answers: rows of Answer, an index, and one pool of bytes
    (answer_table_kernel.py)."""

    MAX_ANSWERS = 2048
    MAX_PARTS = 8192
    MAX_POOL_BYTES = 4 << 20

    ROWS = word("address", "rows of Answer")
    COUNT = word("count", "rows in use")
    CAPACITY = word("count", "rows of ROWS")
    INDEX = word("address", "open addressing: row + 1, 0 free")
    INDEX_ENTRIES = word("count", "a power of two")
    POOL = word("address", "keys and answers")
    POOL_BYTES = word("bytes", "size of the pool")
    POOL_USED = word("bytes", "of the pool in use")
    HASH_KEY = word("bits", "of the hashes in INDEX")


class Answer(Row, writer="network", words=16):
    """A cached answer, or a part of one."""

    MAX_BYTES = 1 << 19  # of a body and its answer; control makes larger ones each time

    HASH = word("bits", "of kind and key")
    KIND = word("bits", "api | version << 16 | Connection.ANSWER_SCOPE << 32; of parts: topic_part_kernel.py")
    BODY = word("address", "the key: a request's body, its options, or what it names a topic by")
    BODY_BYTES = word("bytes", "of the key")
    ANSWER = word("address", "the frame, its size included, or the part; LogVersion of its logs follows")
    ANSWER_BYTES = word("bytes", "of ANSWER")
    ROOM = word("bytes", "that ANSWER has room for")
    TERMS = word(
        "words of Term", "TOPICS, WORD, VALUE, LOGS and CODES: it is valid as long as they hold", count=5
    )
    PARTITIONS = word("count", "in a part; of a head: the maximum of an answer")
    HEAD_BYTES = word("bytes", "of a head: those before the topics; the others follow them")
    USED = word("count", "Context.COMPOSED of the last answer that was made of this part")
    FOLLOWING = word("address", "the next part in that answer, 0 after the last")
