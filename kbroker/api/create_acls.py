"""CreateAcls (key 30), v1-3: without an authorizer the answer is SECURITY_DISABLED, as Kafka's.

v1 pattern types (KIP-290; v0 is gone since Kafka 4.0); v2 flexible; v3 user resources.
"""

from kbroker.api.context import RequestContext
from kbroker.api.row import Api
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

API = Api(ApiKey.CREATE_ACLS, 1, 3)


def handle(ctx: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """There is no authorizer that could be told."""
    raise KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


def refuse(request: CreateAclsRequest, error: KafkaError, version: int) -> CreateAclsResponse:
    """The request failed as a whole: every ACL carries the error."""
    return CreateAclsResponse(
        results=[AclCreationResult(error.code, error.message) for _ in request.creations]
    )
