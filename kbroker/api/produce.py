"""Produce (key 0), v0-13, of which v0-2 are advertised and closed upon.

v0-2: record format 0 and 1, removed in Kafka 4.0; still in the advertised range because librdkafka
before 2.4 drops compression otherwise (KAFKA-18659). v3 transactional id, record batches of format
2; v5 log start offset; v7 zstd; v8 record errors and their text (KIP-467); v9 flexible; v10 current
leader and node endpoints (KIP-951); v11 transaction verification; v12 implicit AddPartitionsToTxn
(KIP-890); v13 topic ids instead of names (KIP-516). Served by the network processes, see
kbroker/net. A partition that a request names twice gets both batches; Apache Kafka appends the last
one only, and answers as if there were no other.
"""

from kbroker.api.row import Api, FastPath, Owner
from kbroker.protocol.api_keys import ApiKey

API = Api(
    ApiKey.PRODUCE,
    0,
    13,
    Owner.NETWORK,
    accepted_from=3,
    fast_paths=(FastPath("net/produce/admit_kernel.py", "all but oversized requests"),),
)
