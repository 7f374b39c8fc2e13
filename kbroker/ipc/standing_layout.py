"""Answers that stand: the words that say for how long, and what control appends to such an answer in a block.

The words are shared; control alone writes them. An answer stands as long as its words have the values that they had
when it was made (`standing.py`).
"""

STANDING_WORDS = 1024
WORD_TOPICS = 0  # grows with every change of topics, settings, quotas, credentials and places of logs
WORD_TRANSACTIONS = 1  # grows with every change of a transactional id
FIRST_KEYED_WORD = 2
"""The others: each grows with what groups of one hash commit and what else happens to them, and with every change of
transactional ids of that hash."""

# --- behind the frame of an answer in a block (block.py), from the next multiple of 8 on --------------------------
TERM_TOPICS = 0  # value of WORD_TOPICS
TERM_WORD = 1  # number of a second word, WORD_TOPICS again when there is none
TERM_VALUE = 2  # its value
TERM_CODES = 3  # error codes in the answer, all of them NONE
TERM_BODY_BYTES = 4  # of the request's body, which follows
TERM_PARTS = 5  # topics by which the answer can be taken apart, 0 when it can not
TERM_WORDS = 6

# --- behind the body, from the next multiple of 8 on, if there are parts --------------------------------------------
CUT_ARRAY = (
    0  # position of the array of topics in the answer's frame, of the first one, of what is behind the last
)
CUT_FIRST = 1
CUT_END = 2
CUT_ROOM = 3  # most partitions in an answer to a request with these options
CUT_CODES = 4  # error codes outside of the topics
CUT_WORDS = 5
# then for each of them, in their order in the answer:
PART_BYTES = 0  # in the frame
PART_CODES = 1
PART_PARTITIONS = 2
PART_KEY_BYTES = (
    3  # of what requests name it by, a name or an id, which follows, up to the next multiple of 8
)
PART_WORDS = 4
