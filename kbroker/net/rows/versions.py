"""Request versions at which the fields that kernels read or write changed."""

from kbroker.kernels.row import Values
from kbroker.protocol import isolation


class ProduceVersion(Values):
    """Versions of Produce."""

    FIRST = 3
    LAST = 13
    LOG_START_OFFSET = 5
    ZSTD = 7  # from here on batches may have this codec
    RECORD_ERRORS = 8
    FLEXIBLE = 9
    TOPIC_IDS = 13


class FetchVersion(Values):
    """Versions of Fetch."""

    FIRST = 4
    LAST = 18
    LOG_START = 5
    SESSIONS = 7
    LEADER_EPOCH = 9
    PREFERRED_REPLICA = 11
    FLEXIBLE = 12
    LAST_FETCHED_EPOCH = 12
    TOPIC_IDS = 13
    REPLICA_TAG = 15  # from here on the replica id is a tagged field


class ListOffsetsVersion(Values):
    """Versions of ListOffsets."""

    WITH_ISOLATION = 2  # and throttle time
    WITH_EPOCHS = 4
    FLEXIBLE = 6
    WITH_LOCAL = 8
    WITH_TIMEOUT = 10


class ProducerIdVersion(Values):
    """Versions of InitProducerId."""

    FLEXIBLE = 2
    WITH_PRODUCER = 3


class CoordinatorVersion(Values):
    """Versions of FindCoordinator."""

    WITH_TYPE = 1
    FLEXIBLE = 3
    MANY_KEYS = 4


class MetadataVersion(Values):
    """Versions of Metadata."""

    FLEXIBLE = 9
    WITH_IDS = 10


class Isolation(Values):
    """Isolation levels of reading."""

    READ_COMMITTED = isolation.READ_COMMITTED
