"""ApiVersions (key 18), v0-4: which APIs and versions this broker serves, and the features in force.

v1 throttle time; v3 flexible, client software name and version, features (KIP-511, KIP-584); v4 supported features may
have a minimum of 0 (v3 leaves those out, KAFKA-17011). A version that is not known is answered in v0's form with error
35 and this API's own range, so that the client can try again. The response header has no tags in any version.
Served by network processes themselves through `answer`, by control as well.
"""

import re
from collections.abc import Mapping

from kbroker.api.context import RequestContext
from kbroker.api.row import SERVED, Api
from kbroker.control.features import finalized, offered
from kbroker.ipc.messages import ClientRequest
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.frame import encode_response
from kbroker.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

API = Api(ApiKey.API_VERSIONS, 0, 4)
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(ctx: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """All APIs with their versions; INVALID_REQUEST for a malformed software name or version."""
    return respond(request, ctx.version, ctx.broker.features, ctx.broker.features_epoch)


def respond(
    request: ApiVersionsRequest, version: int, features: Mapping[str, int], epoch: int
) -> ApiVersionsResponse:
    """The answer of a broker whose stored feature levels are `features` (see FEATURES for the defaults)."""
    if version >= 3:
        texts = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE.fullmatch(text) for text in texts):
            return ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(key, SERVED[key].min_version, SERVED[key].max_version) for key in sorted(SERVED)
        ],
        supported_features=[
            SupportedFeatureKey(name, feature.min_level, feature.max_level)
            for name, feature in offered(SERVED).items()
            if version >= 4 or feature.min_level > 0
        ],
        finalized_features_epoch=epoch,
        finalized_features=[
            FinalizedFeatureKey(name, level, level) for name, level in finalized(features, SERVED).items()
        ],
    )


def unsupported(client: ClientRequest) -> bytes:
    """The answer to a version that is not known (KIP-511)."""
    own = ApiVersion(API.key, API.min_version, API.max_version)
    response = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, [own])
    return encode_response(API.key, 0, client.correlation_id, response)


def answer(client: ClientRequest, features: Mapping[str, int], epoch: int) -> bytes:
    """The whole frame, for a network process. Raises ProtocolError for a body that can not be read."""
    if not API.accepts(client.api_version):
        return unsupported(client)
    request, _ = decode(ApiVersionsRequest, client.api_version, client.body)
    response = respond(request, client.api_version, features, epoch)
    return encode_response(API.key, client.api_version, client.correlation_id, response)


def refuse(request: ApiVersionsRequest, error: KafkaError, version: int) -> ApiVersionsResponse:
    """The request failed as a whole."""
    return ApiVersionsResponse(error.code)
