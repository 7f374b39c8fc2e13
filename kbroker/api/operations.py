"""The authorized-operations fields: bit n is set for operation n of Kafka's AclOperation.

Without an authorizer everyone may do everything, so the answer is every operation that the kind of
resource has.
"""

from typing import Final

from kbroker.config.acls import CLUSTER, GROUP, SUPPORTED, TOPIC

NOT_REQUESTED: Final = -(2**31)
"""The field's value if the client did not request it."""


def bits(*operations: int) -> int:
    """The field for a set of operations."""
    return sum(1 << operation for operation in operations)


ON_TOPIC: Final = bits(*SUPPORTED[TOPIC])
ON_CLUSTER: Final = bits(*SUPPORTED[CLUSTER])
ON_GROUP: Final = bits(*SUPPORTED[GROUP])
