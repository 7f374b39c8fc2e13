"""ApiVersions (key 18), v0-4: which APIs and versions this broker serves, and the features in
force.

v1 throttle time; v3 flexible, client software name and version, features (KIP-511, KIP-584); v4
supported features may have a minimum of 0 (v3 leaves those out, KAFKA-17011). A version that is not
known is answered in v0's form with error 35 and this API's own range, so that the client can try
again. The response header has no tags in any version. Network processes serve it themselves
(`version_answers`); this handler is that of control.
"""

from kbroker.api.context import RequestContext
from kbroker.api.row import Api, FastPath
from kbroker.api.version_answers import respond
from kbroker.api.versions import served
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

API = Api(
    ApiKey.API_VERSIONS,
    0,
    4,
    fast_paths=(FastPath("net/local_answers/api_versions_kernel.py", "repeated requests"),),
)


def handle(ctx: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """All APIs with their versions; INVALID_REQUEST for a malformed software name or version."""
    broker = ctx.broker
    return respond(request, ctx.version, broker.features, broker.features_epoch, served(broker.config))


def refuse(request: ApiVersionsRequest, error: KafkaError, version: int) -> ApiVersionsResponse:
    """The request failed as a whole."""
    return ApiVersionsResponse(error.code)
