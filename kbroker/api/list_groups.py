"""ListGroups (key 16), v0-5: the groups of this broker.

v1 throttle time; v3 flexible; v4 filter by state (KIP-518); v5 filter by type (KIP-848).
"""

from kbroker.api.context import RequestContext
from kbroker.api.row import Api
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

API = Api(ApiKey.LIST_GROUPS, 0, 5)


def handle(ctx: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """All groups that pass the filters."""
    groups = ctx.services.groups.listed(request.states_filter, request.types_filter)
    return ListGroupsResponse(groups=groups)


def refuse(request: ListGroupsRequest, error: KafkaError, version: int) -> ListGroupsResponse:
    """The request failed as a whole."""
    return ListGroupsResponse(error_code=error.code)
