"""DescribeAcls (key 29), v1-3: the ACLs that a filter matches; without an authorizer the answer is
SECURITY_DISABLED.

v1 pattern types (KIP-290; v0 was removed in Kafka 4.0); v2 flexible; v3 user resources.
"""

from kbroker.api.context import RequestContext
from kbroker.api.row import Api
from kbroker.config.acls import AclFilter
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.delete_acls import DeleteAclsFilter
from kbroker.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from kbroker.protocol.slices import paced

API = Api(ApiKey.DESCRIBE_ACLS, 1, 3)
NO_AUTHORIZER = "No Authorizer is configured on the broker"


def handle(ctx: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse | None:
    """ACLs by resource. Unknown enum numbers close the connection, as in Kafka."""
    if has_unknown(request):
        return None
    if ctx.broker.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    acl_filter = filter_of(request)
    for acl in paced(list(ctx.broker.authorizer.acls)):
        if not acl_filter.matches(acl):
            continue
        key = acl.resource_type, acl.resource_name, acl.pattern_type
        resource = resources.setdefault(key, DescribeAclsResource(*key))
        resource.acls.append(AclDescription(acl.principal, acl.host, acl.operation, acl.permission))
    return DescribeAclsResponse(resources=list(resources.values()))


def has_unknown(acl_filter: DescribeAclsRequest | DeleteAclsFilter) -> bool:
    """Whether a field has Kafka's number for unknown."""
    return 0 in (
        acl_filter.resource_type_filter,
        acl_filter.pattern_type_filter,
        acl_filter.operation,
        acl_filter.permission_type,
    )


def filter_of(acl_filter: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """The filter of a request."""
    return AclFilter(
        acl_filter.resource_type_filter,
        acl_filter.resource_name_filter,
        acl_filter.pattern_type_filter,
        acl_filter.principal_filter,
        acl_filter.host_filter,
        acl_filter.operation,
        acl_filter.permission_type,
    )


def refuse(request: DescribeAclsRequest, error: KafkaError, version: int) -> DescribeAclsResponse:
    """The request failed as a whole."""
    return DescribeAclsResponse(error_code=error.code, error_message=error.message)
