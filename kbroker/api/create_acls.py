"""CreateAcls (key 30), v1-3: add ACLs (KIP-140); without an authorizer the answer is
SECURITY_DISABLED.

v1 pattern types (KIP-290; v0 was removed in Kafka 4.0); v2 flexible; v3 user resources.
"""

from kbroker.api.context import RequestContext
from kbroker.api.later import Answer, running
from kbroker.api.row import Api
from kbroker.config.acls import Acl
from kbroker.config.authorizer import Authorizer
from kbroker.control.changes.acl_change import create_acls
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

API = Api(ApiKey.CREATE_ACLS, 1, 3)
NO_AUTHORIZER = "No Authorizer is configured."


def handle(ctx: RequestContext, request: CreateAclsRequest) -> Answer:
    """One result per ACL. Unknown enum numbers close the connection, as in Kafka."""
    authorizer = ctx.broker.authorizer
    if any(
        0 in (one.resource_type, one.resource_pattern_type, one.operation, one.permission_type)
        for one in request.creations
    ):
        return None
    if authorizer is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    return _create(ctx, authorizer, request)


@running
async def _create(
    ctx: RequestContext, authorizer: Authorizer, request: CreateAclsRequest
) -> CreateAclsResponse:
    acls = [
        Acl(
            one.resource_type,
            one.resource_name,
            one.resource_pattern_type,
            one.principal,
            one.host,
            one.operation,
            one.permission_type,
        )
        for one in request.creations
    ]
    errors = await create_acls(ctx.broker, authorizer, acls)
    return CreateAclsResponse(
        results=[
            AclCreationResult() if error is None else AclCreationResult(error.code, error.message)
            for error in errors
        ]
    )


def refuse(request: CreateAclsRequest, error: KafkaError, version: int) -> CreateAclsResponse:
    """The request failed as a whole: every ACL carries the error."""
    return CreateAclsResponse(
        results=[AclCreationResult(error.code, error.message) for _ in request.creations]
    )
