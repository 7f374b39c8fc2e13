"""The authorized-operations fields: bit n is set for operation n of Kafka's AclOperation.

Without an authorizer everyone may do everything, so the answer is every operation that the kind of
resource has.
"""

from typing import Final

from kbroker.config.acls import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER_ACTION,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    IDEMPOTENT_WRITE,
    READ,
    WRITE,
)

NOT_REQUESTED: Final = -(2**31)
"""The field's value if the client did not request it."""


def bits(*operations: int) -> int:
    """The field for a set of operations."""
    return sum(1 << operation for operation in operations)


ON_TOPIC: Final = bits(READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
ON_CLUSTER: Final = bits(
    CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE
)
ON_GROUP: Final = bits(READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
