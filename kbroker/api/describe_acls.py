"""DescribeAcls (key 29), v1-3: without an authorizer the answer is SECURITY_DISABLED, as Kafka's.

v1 pattern types (KIP-290; v0 is gone since Kafka 4.0); v2 flexible; v3 user resources.
"""

from kbroker.api.context import RequestContext
from kbroker.api.row import Api
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

API = Api(ApiKey.DESCRIBE_ACLS, 1, 3)
NO_AUTHORIZER = "No Authorizer is configured on the broker"


def handle(ctx: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """There is no authorizer that could be asked."""
    raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


def refuse(request: DescribeAclsRequest, error: KafkaError, version: int) -> DescribeAclsResponse:
    """The request failed as a whole."""
    return DescribeAclsResponse(error_code=error.code, error_message=error.message)
