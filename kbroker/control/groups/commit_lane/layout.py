"""Tables of the commit lane, as words of int64 rows that its kernels and its Python side share.

All are private to control and made by `groups/commit_lane.py`. A *pass* is the verdict that requests with one beginning
(group, generation, member, ...) may commit; a *row* is a committed offset that exists.
"""

# --- context: addresses and sizes of the tables ----------------------------------------------------------------
CONTEXT_WORDS = 40
CM_PASSES = 0
CM_PASS_INDEX = 1  # open addressing: number + 1, 0 free; dead rows stay in it until it is made anew
CM_PASS_MASK = 2
CM_ROWS = 3
CM_ROW_INDEX = 4
CM_ROW_MASK = 5
CM_IN_FLIGHT = 6  # commits of each group that are being written
CM_METADATA_LIMIT = 7
CM_SEQUENCE = 8  # address of the store's counter of replayed offsets
CM_COMMITS = 9
CM_COMMIT_ROOM = 10
CM_ENTRIES = 11
CM_ENTRY_ROOM = 12
CM_ANSWERS = 13
CM_ANSWER_ROOM = 14
CM_BATCHES = 15
CM_RECORDS = 16  # bytes of the batches
CM_RECORD_ROOM = 17
CM_HEADS = 18  # first and last commit of each offsets partition, two words each
CM_SCRATCH = 19  # a key
CM_MAX_BATCH = 20
CM_TOPIC_COUNT = 21  # offsets partitions
CM_TOUCHED = 23  # passes used since their timers were looked at: their numbers, and how many
CM_TOUCHED_COUNT = 24
CM_READY = 25  # answers in the order of their batches
CM_NOW = 26  # of this block: wall clock for records, CLOCK_MONOTONIC for sessions, in ms
CM_NOW_MONOTONIC = 27

CM_PLAIN = 28  # answers that wait for no append
CM_PLAIN_ROOM = 29
CM_PLAIN_USED = 30
CM_PLAIN_COUNT = 31  # of classic groups; of consumer groups:
CM_PLAIN_CONSUMER_COUNT = 32

PASS_WORDS = 12
PA_LIVE = 0
PA_HASH = 1
PA_KIND = 2  # API key << 8 | version
PA_PREFIX = 3  # address of the beginning of the body; of all of it for a heartbeat, of a consumer group with client id
PA_PREFIX_BYTES = 4
PA_GROUP = 5  # number of its counter in CM_IN_FLIGHT
PA_PARTITION = 6  # of __consumer_offsets
PA_TOUCHED_MS = 7  # last use, 0 when its timer knows
PA_ANSWER = 8  # to a heartbeat: address of what follows the correlation id
PA_ANSWER_BYTES = 9
PA_PEER = 10  # address of the peer as it stands in the block, whose alone the answer is; none: anybody's
PA_PEER_BYTES = 11

ROW_WORDS = 48
RO_LIVE = 0
RO_HASH = 1
RO_ID_HASH = 2
RO_SEQUENCE = 3
RO_KEY_BYTES = 4
RO_VALUE_BYTES = 5
RO_TOPIC_ID = 6  # two words
RO_KEY = 8
KEY_ROOM = 144
RO_VALUE = 26

COMMIT_WORDS = 8
CO_NEXT = 0  # of the same offsets partition
CO_GROUP = 1
CO_MESSAGE = 2  # position in the block
CO_ENTRY = 3
CO_ENTRIES = 4
CO_ANSWER = 5  # address
CO_ANSWER_BYTES = 6
CO_BOUND = 7

ENTRY_WORDS = 8
EN_ROW = 0
EN_OFFSET = 1
EN_LEADER_EPOCH = 2
EN_METADATA = 3
EN_METADATA_BYTES = 4
EN_VALUE = 5  # position in its batch
EN_VALUE_BYTES = 6

BATCH_WORDS = 8
BA_PARTITION = 0
BA_BYTES = 1
BA_BYTES_AT = 2  # position in CM_RECORDS
BA_ANSWERS_AT = 3  # position in CM_READY
BA_ANSWERS_BYTES = 4
BA_COMMIT = 5  # first commit; the others follow by CO_NEXT
BA_COMMITS = 6
BA_CODES = 7  # error codes in its answers

HEAD_BYTES = 24  # of a message, see ipc/block.py
HEARTBEAT = 12
FLEXIBLE_HEARTBEAT = 4
LAST_HEARTBEAT = 4
CONSUMER_HEARTBEAT = 68
LAST_CONSUMER_HEARTBEAT = 1
CLIENT_ID_AT = 8  # of a frame without its size
OFFSET_COMMIT = 8
FIRST_VERSION = 2
LAST_VERSION = 10
WITH_THROTTLE = 3
WITH_RETENTION = 4
WITH_EPOCH = 6
WITH_INSTANCE = 7
FLEXIBLE = 8
WITH_TOPIC_ID = 10
MAX_METADATA = 100
VALUE_FIXED = 46  # version, offset, epoch, length, timestamp, tags
RECORD_FIXED = 24
MULTIPLIER = -7046029254386353131
