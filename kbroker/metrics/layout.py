"""Slot numbers that kernels compile in: the front of each process's row of metric slots.

They are the first rows of the catalogue, in its order (a test holds the two together); everything
after FRONT_WORDS is addressed by name through ``slots.bind``.
"""

# --- histogram: log buckets, 8 in each octave, and the sum in ns ------------------------------------------
# bucket b holds (bound(b - 1), bound(b)] ns; 100 us * 2^k is a bound for each k from -7 to 19, so
# that histograms merge exactly into any choice of those bounds
HISTOGRAM_BUCKETS = 217  # the last one is above 52.4 s
HISTOGRAM_SUM = 217
HISTOGRAM_WORDS = 224
SUB_BUCKET_BITS = 3
SUB_BUCKETS = 1 << SUB_BUCKET_BITS
UNIT_NUMERATOR = 32  # a unit is 3125/32 ns, so 100 us are 2^10 units
UNIT_DENOMINATOR = 3125

# --- value sets of labels ------------------------------------------------------------------------------------
API_COUNT = 96  # index: API key
VERSION_COUNT = 20  # index: version; higher ones count as the last
ERROR_COUNT = 136  # index: error code + 1
PHASE_COUNT = 9

PHASE_TOTAL = 0
PHASE_QUEUE = 1
PHASE_LOCAL = 2
PHASE_APPEND = 3
PHASE_FLUSH = 4
PHASE_PURGATORY = 5
PHASE_COLD_READ = 6
PHASE_RESPOND = 7
PHASE_SEND = 8

# --- slots ------------------------------------------------------------------------------------------------------
REQUESTS = 0  # + api * VERSION_COUNT + version
ERRORS = REQUESTS + API_COUNT * VERSION_COUNT  # + api * ERROR_COUNT + code + 1
REQUEST_BYTES = ERRORS + API_COUNT * ERROR_COUNT  # + api
RESPONSE_BYTES = REQUEST_BYTES + API_COUNT
APPENDED_BYTES = RESPONSE_BYTES + API_COUNT
APPENDED_RECORDS = APPENDED_BYTES + 1
APPENDED_BATCHES = APPENDED_RECORDS + 1
FETCHED_BYTES = APPENDED_BATCHES + 1
SENT_BY_SENDFILE = FETCHED_BYTES + 1
SENT_BY_COPY = SENT_BY_SENDFILE + 1
REJECTED_BYTES = SENT_BY_COPY + 1
NETWORK_TURNS = REJECTED_BYTES + 1
NETWORK_STALLS = NETWORK_TURNS + 1
IDLE_NS = NETWORK_STALLS + 1
DRAINS = IDLE_NS + 1
DRAIN_SECONDS = DRAINS + 1  # histograms
APPEND_SECONDS = DRAIN_SECONDS + HISTOGRAM_WORDS
PARSE_SECONDS = APPEND_SECONDS + HISTOGRAM_WORDS
PHASE_SECONDS = PARSE_SECONDS + HISTOGRAM_WORDS  # + (api * PHASE_COUNT + phase) * HISTOGRAM_WORDS
FRONT_WORDS = PHASE_SECONDS + API_COUNT * PHASE_COUNT * HISTOGRAM_WORDS
