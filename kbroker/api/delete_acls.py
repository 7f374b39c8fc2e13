"""DeleteAcls (key 31), v1-3: delete the ACLs that filters match; without an authorizer the answer
is SECURITY_DISABLED.

v1 pattern types (KIP-290; v0 was removed in Kafka 4.0); v2 flexible; v3 user resources.
"""

from kbroker.api.context import RequestContext
from kbroker.api.describe_acls import filter_of, has_unknown
from kbroker.api.later import Answer, running
from kbroker.api.row import Api
from kbroker.config.acls import Acl
from kbroker.config.authorizer import Authorizer
from kbroker.control.changes.acl_change import delete_acls
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

API = Api(ApiKey.DELETE_ACLS, 1, 3)
NO_AUTHORIZER = "No Authorizer is configured."


def handle(ctx: RequestContext, request: DeleteAclsRequest) -> Answer:
    """The ACLs that each filter has deleted. Unknown enum numbers close the connection, as in
    Kafka."""
    if any(has_unknown(one) for one in request.filters):
        return None
    if ctx.broker.authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    return _delete(ctx, ctx.broker.authorizer, request)


@running
async def _delete(
    ctx: RequestContext, authorizer: Authorizer, request: DeleteAclsRequest
) -> DeleteAclsResponse:
    results = await delete_acls(ctx.broker, authorizer, [filter_of(one) for one in request.filters])
    return DeleteAclsResponse(filter_results=[_result(result) for result in results])


def _result(result: list[Acl] | KafkaError) -> DeleteAclsFilterResult:
    if isinstance(result, KafkaError):
        return DeleteAclsFilterResult(result.code, result.message)
    return DeleteAclsFilterResult(0, None, [DeleteAclsMatchingAcl(0, None, *acl) for acl in result])


def refuse(request: DeleteAclsRequest, error: KafkaError, version: int) -> DeleteAclsResponse:
    """The request failed as a whole: every filter carries the error."""
    results = [DeleteAclsFilterResult(error.code, error.message) for _ in request.filters]
    return DeleteAclsResponse(filter_results=results)
