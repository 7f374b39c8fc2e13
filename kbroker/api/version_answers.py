"""Answers to ApiVersions from the features of control's last image.

It imports no handlers: network processes do not need them.
"""

import re
from collections.abc import Mapping

from kbroker.api.error_counts import ErrorCounts
from kbroker.api.versions import VERSIONS
from kbroker.control.metadata.features import finalized, offered
from kbroker.ipc.messages import ClientRequest, Image
from kbroker.net.api_versions import KnownRequest, Learn, key_of
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_response
from kbroker.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

KEY = ApiKey.API_VERSIONS
MAX_CACHED = 1024
"""Maximum number of cached requests: clients of the same software and client id send the same
bytes."""
MAX_REQUEST_BYTES = 512
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def respond(
    request: ApiVersionsRequest,
    version: int,
    features: Mapping[str, int],
    epoch: int,
    served: Mapping[int, tuple[int, int]] = VERSIONS,
) -> ApiVersionsResponse:
    """The answer of a broker whose stored feature levels are `features` (see FEATURES for the
    defaults)."""
    if not well_formed(request, version):
        return ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(
        api_keys=[ApiVersion(key, *served[key]) for key in sorted(served)],
        supported_features=[
            SupportedFeatureKey(name, feature.min_level, feature.max_level)
            for name, feature in offered(VERSIONS).items()
            if version >= 4 or feature.min_level > 0
        ],
        finalized_features_epoch=epoch,
        finalized_features=[
            FinalizedFeatureKey(name, level, level) for name, level in finalized(features, VERSIONS).items()
        ],
    )


def unsupported(client: ClientRequest) -> bytes:
    """The answer to an unknown version (KIP-511)."""
    own = ApiVersion(KEY, *VERSIONS[KEY])
    response = ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, [own])
    return encode_response(KEY, 0, client.correlation_id, response)


class LocalAnswers:
    """The answers of a network process: the first request of every connection. Runs in: network.
    Owner: its main."""

    def __init__(self, counts: ErrorCounts, served: Mapping[int, tuple[int, int]] = VERSIONS) -> None:
        self._counts = counts
        self._served = served
        self._features: Mapping[str, int] = {}
        self._epoch = 0
        self._good: dict[int, bytes] = {}
        """Version -> the whole answer to a valid request, for correlation id 0."""
        self._known: dict[bytes, KnownRequest] = {}

    def take(self, image: Image) -> None:
        """Drop the cached answers, because features may have changed."""
        self._features, self._epoch = image.features, image.features_epoch
        self._good.clear()
        self._known.clear()

    def known(self, frame: bytes) -> KnownRequest | None:
        """The cached answer to a request; the caller sends it. frame: the request without its
        size."""
        found = self._known.get(key_of(frame))
        if found is not None:
            self._counts.count_none(KEY)
        return found

    def answer(self, client: ClientRequest, frame: bytes | memoryview, learn: Learn) -> bytes:
        """The whole frame of the answer. frame: the request without its size. learn: called with
        name and version of the client's software. Raises ProtocolError for an invalid body."""
        lowest, highest = VERSIONS[KEY]
        if not lowest <= client.api_version <= highest:
            self._counts.count(client, ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION))
            return unsupported(client)
        request, _ = decode(ApiVersionsRequest, client.api_version, bytes(client.body))
        if not well_formed(request, client.api_version):
            refused = ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
            self._counts.count(client, refused)
            return encode_response(KEY, client.api_version, client.correlation_id, refused)
        known = KnownRequest(
            client.api_version,
            client.client_id,
            request.client_software_name,
            request.client_software_version,
            self._good_answer(request, client.api_version),
        )
        if len(self._known) < MAX_CACHED and len(frame) <= MAX_REQUEST_BYTES:
            self._known[key_of(bytes(frame))] = known
        self._counts.count_none(KEY)
        if known.software_name:
            learn(known.software_name, known.software_version)
        return known.answer_to(frame)

    def _good_answer(self, request: ApiVersionsRequest, version: int) -> bytes:
        good = self._good.get(version)
        if good is None:
            response = respond(request, version, self._features, self._epoch, self._served)
            good = self._good[version] = encode_response(KEY, version, 0, response)
        return good


def well_formed(request: ApiVersionsRequest, version: int) -> bool:
    """Whether name and version of the software are well-formed, as required from version 3 on
    (KIP-511)."""
    texts = (request.client_software_name, request.client_software_version)
    return version < 3 or all(_SOFTWARE.fullmatch(text) for text in texts)
