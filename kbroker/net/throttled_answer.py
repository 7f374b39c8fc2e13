"""Reads and sets the throttle time of an answer that was built without knowing it."""

from typing import Any

from kbroker.protocol.codec import decode
from kbroker.protocol.frame import SIZE, encode_response, parse_response
from kbroker.protocol.messages import response_class
from kbroker.protocol.schema import ProtocolError


def throttle_time_ms(frame: bytes, api_key: int, version: int) -> int:
    """Throttle time of a whole answer; 0 when its API has none."""
    _, answer = _open(frame, api_key, version)
    return int(getattr(answer, "throttle_time_ms", 0))


def with_throttle_time(frame: bytes, api_key: int, version: int, throttle_ms: int) -> bytes:
    """The same answer with another throttle time, if its API and version have the field."""
    try:
        correlation_id, answer = _open(frame, api_key, version)
    except ProtocolError:  # ApiVersions answers versions that it does not know in v0's form
        return frame
    if not hasattr(answer, "throttle_time_ms"):
        return frame
    answer.throttle_time_ms = throttle_ms
    return encode_response(api_key, version, correlation_id, answer)


def _open(frame: bytes, api_key: int, version: int) -> tuple[int, Any]:
    body = memoryview(frame)[SIZE.size :]
    correlation_id, start = parse_response(body, api_key, version)
    answer, _ = decode(response_class(api_key), version, body, start)
    return correlation_id, answer
