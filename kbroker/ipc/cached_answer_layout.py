"""Layout of cached answers: the words that decide their validity, and the terms that control
appends to them in a block.

The words are shared; control alone writes them. An answer is valid as long as its words have the
values that they had when it was built (`cached_answers.py`).
"""

from kbroker.kernels.row import Row, word


class AnswerVersion(Row, writer="control", shared="network"):
    """Words that show whether a cached answer is still valid."""

    TOPICS = word(
        "count", "grows with every change of topics, settings, quotas, credentials and places of logs"
    )
    TRANSACTIONS = word("count", "grows with every change of a transactional id")
    KEYED = word(
        "count",
        "each grows with what groups of one hash commit and what else happens to them, and with every change of "
        "transactional ids of that hash",
        count=1022,
    )


class Term(Row, writer="control; network in its copies", shared="network"):
    """The terms of a cached answer, after its frame in a block, from the next multiple of 8 on."""

    TOPICS = word("count", "value of AnswerVersion.TOPICS")
    WORD = word("number", "of a second word, AnswerVersion.TOPICS again when there is none")
    VALUE = word("count", "its value")
    LOGS = word("count", "logs that the answer was read from; LogVersion of each is behind the body")
    CODES = word("count", "error codes in the answer, all of them NONE")
    BODY_BYTES = word("bytes", "of the request's body, which follows")
    PARTS = word("count", "topics by which the answer can be taken apart, 0 when it cannot")


class LogVersion(Row, writer="control; network in its copies", shared="network"):
    """A log that an answer was read from, as it was before: after the body, from the next multiple
    of 8 on. An answer that has logs has no parts."""

    SLOT = word("number", "of the partition")
    SEQUENCE = word("count", "value of Slot.SEQUENCE")


class Cut(Row, writer="control", shared="network"):
    """The split of an answer into parts: after the body, from the next multiple of 8 on, if there
    are parts."""

    ARRAY = word("bytes", "position of the array of topics in the answer's frame")
    FIRST = word("bytes", "position of the first topic")
    END = word("bytes", "position of what is behind the last topic")
    ROOM = word("count", "most partitions in an answer to a request with these options")
    CODES = word("count", "error codes outside of the topics")


class CutPart(Row, writer="control", shared="network"):
    """A topic of such an answer, in their order in it. Its key follows, up to the next multiple of
    8."""

    BYTES = word("bytes", "of the topic in the frame")
    CODES = word("count", "error codes")
    PARTITIONS = word("count", "partitions")
    KEY_BYTES = word("bytes", "of what requests name it by, a name or an id")
