"""Reads and sets the throttle time of an answer that was built before the throttle time was
known."""

import struct
from typing import Any, Final

from kbroker.protocol.codec import decode
from kbroker.protocol.frame import SIZE, encode_response, parse_response
from kbroker.protocol.messages import response_class
from kbroker.protocol.schema import ProtocolError

FIELD: Final = "throttle_time_ms"
_MS: Final = struct.Struct(">i")


def throttle_time_ms(frame: bytes, api_key: int, version: int) -> int:
    """Throttle time of an answer; 0 when its API has none. The first part of a long answer is
    enough, because the field comes first."""
    place = _place(frame, api_key, version)
    if place:
        return int(_MS.unpack_from(frame, place)[0])
    _, answer = _open(frame, api_key, version)
    return int(getattr(answer, FIELD, 0))


def with_throttle_time(
    frame: bytes, api_key: int, version: int, throttle_ms: int, whole: bool = True
) -> bytes:
    """The answer with a new throttle time, if its API and version have the field. whole: False for
    the first part of a long answer, which may lack the field."""
    place = _place(frame, api_key, version)
    if place:
        return frame[:place] + _MS.pack(throttle_ms) + frame[place + _MS.size :]
    if not whole:
        return frame
    try:
        correlation_id, answer = _open(frame, api_key, version)
    except ProtocolError:  # ApiVersions answers versions that it does not know in v0's form
        return frame
    if not hasattr(answer, FIELD):
        return frame
    answer.throttle_time_ms = throttle_ms
    return encode_response(api_key, version, correlation_id, answer)


def _place(frame: bytes, api_key: int, version: int) -> int:
    """The position of the field in an answer whose body begins with it, else 0."""
    schema = response_class(api_key).SCHEMA
    if not schema.versions[0] <= version <= schema.versions[1]:
        return 0
    first = next((each for each in schema.fields if each.present(version)), None)
    if first is None or first.name != FIELD:
        return 0
    return SIZE.size + parse_response(memoryview(frame)[SIZE.size :], api_key, version)[1]


def _open(frame: bytes, api_key: int, version: int) -> tuple[int, Any]:
    body = memoryview(frame)[SIZE.size :]
    correlation_id, start = parse_response(body, api_key, version)
    answer, _ = decode(response_class(api_key), version, body, start)
    return correlation_id, answer
