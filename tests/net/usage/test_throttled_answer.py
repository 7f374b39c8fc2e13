"""Throttle times of answers that are encoded already."""

import pytest

from kbroker.net.usage.throttled_answer import throttle_time_ms, with_throttle_time
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import encode_response
from kbroker.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from kbroker.protocol.messages.heartbeat import HeartbeatResponse
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateResponse


@pytest.mark.parametrize("version", [1, 3, 4])
def test_a_throttle_time_at_the_start_of_an_answer_is_replaced_in_its_place(version: int) -> None:
    answer = HeartbeatResponse(throttle_time_ms=7, error_code=27)
    frame = encode_response(ApiKey.HEARTBEAT, version, 9, answer)
    assert throttle_time_ms(frame, ApiKey.HEARTBEAT, version) == 7
    expected = encode_response(ApiKey.HEARTBEAT, version, 9, HeartbeatResponse(2000, 27))
    for whole in (True, False):
        assert with_throttle_time(frame, ApiKey.HEARTBEAT, version, 2000, whole) == expected


def test_a_version_without_the_field_stays_as_it_is() -> None:
    frame = encode_response(ApiKey.HEARTBEAT, 0, 9, HeartbeatResponse(error_code=27))
    assert throttle_time_ms(frame, ApiKey.HEARTBEAT, 0) == 0
    assert with_throttle_time(frame, ApiKey.HEARTBEAT, 0, 2000) == frame


@pytest.mark.parametrize("version", [1, 3])
def test_a_later_throttle_time_is_replaced_in_a_whole_answer_alone(version: int) -> None:
    answer = ApiVersionsResponse(api_keys=[ApiVersion(3, 0, 13)], throttle_time_ms=7)
    frame = encode_response(ApiKey.API_VERSIONS, version, 9, answer)
    assert throttle_time_ms(frame, ApiKey.API_VERSIONS, version) == 7
    answer.throttle_time_ms = 2000
    expected = encode_response(ApiKey.API_VERSIONS, version, 9, answer)
    assert with_throttle_time(frame, ApiKey.API_VERSIONS, version, 2000) == expected
    assert with_throttle_time(frame, ApiKey.API_VERSIONS, version, 2000, whole=False) == frame


def test_an_answer_to_an_unknown_version_stays_as_it_is() -> None:
    """ApiVersions answers it in the form of version 0."""
    frame = encode_response(ApiKey.API_VERSIONS, 0, 9, ApiVersionsResponse(error_code=35))
    assert with_throttle_time(frame, ApiKey.API_VERSIONS, 99, 2000) == frame


def test_an_api_without_a_throttle_time_stays_as_it_is() -> None:
    frame = encode_response(ApiKey.SASL_AUTHENTICATE, 1, 9, SaslAuthenticateResponse())
    assert throttle_time_ms(frame, ApiKey.SASL_AUTHENTICATE, 1) == 0
    assert with_throttle_time(frame, ApiKey.SASL_AUTHENTICATE, 1, 2000) == frame
