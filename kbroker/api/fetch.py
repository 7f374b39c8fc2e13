"""Fetch (key 1), v4-18.

v4 isolation level, aborted transactions (KIP-98); v5 log start offset; v7 sessions (KIP-227); v9
current leader epoch (KIP-320); v10 zstd; v11 rack, preferred read replica (KIP-392); v12 flexible,
diverging epoch (KIP-595); v13 topic ids (KIP-516); v14 tiered storage errors; v15 replica state as
a tagged field (KIP-903); v16 node endpoints (KIP-951); v17 replica directory id (KIP-853); v18 high
watermark of followers (KIP-1166). Served by the network processes, see kbroker/net.
"""

from kbroker.api.row import Api, FastPath, Owner
from kbroker.protocol.api_keys import ApiKey

API = Api(
    ApiKey.FETCH,
    4,
    18,
    Owner.NETWORK,
    fast_paths=(
        FastPath(
            "net/fetch/fetch_kernel.py", "reads of cached bytes without an error, and of known sessions"
        ),
    ),
)
