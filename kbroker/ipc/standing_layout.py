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
TERM_WORDS = 5
