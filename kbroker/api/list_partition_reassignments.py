"""ListPartitionReassignments (key 46), v0: ongoing reassignments. One node has none, so the list is always empty."""

from kbroker.api.context import RequestContext
from kbroker.api.row import Api
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

API = Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0)


def handle(
    ctx: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Nothing is ever being moved between nodes."""
    return ListPartitionReassignmentsResponse(error_message=None)


def refuse(
    request: ListPartitionReassignmentsRequest, error: KafkaError, version: int
) -> ListPartitionReassignmentsResponse:
    """The request failed as a whole."""
    return ListPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)
