"""Frames: request headers in, response headers out. A frame is an int32 size and that many bytes.

Request header v1 has a client id, v2 also a tag section (its client id stays a legacy string, so
that any broker can read an ApiVersions request). Response header v1 has a tag section; ApiVersions
answers with v0 at any version (KIP-511).
"""

import struct
from typing import Final, NamedTuple

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import encode_into
from kbroker.protocol.compile_decode import read_uvarint
from kbroker.protocol.long_frame import Frame, Spilled
from kbroker.protocol.messages.index import APIS
from kbroker.protocol.schema import MAX_HEADER_TAGS, ProtocolError, Struct

SIZE: Final = struct.Struct(">i")
_FIXED: Final = struct.Struct(">hhi")
_LENGTH: Final = struct.Struct(">h")
_FIXED_AND_LENGTH: Final = struct.Struct(">hhih")
_RESPONSE_V0: Final = struct.Struct(">ii")
_RESPONSE_V1: Final = struct.Struct(">iix")
_FLEXIBLE_FROM: Final = {key: 32767 if api.flexible is None else api.flexible for key, api in APIS.items()}


class RequestHeader(NamedTuple):
    """Header of a request, any version. `client_id` may be None."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def flexible(api_key: int, version: int) -> bool:
    """Whether a version, known or newer, has compact lengths and tags; KeyError for an unknown
    API."""
    return version >= _FLEXIBLE_FROM[api_key]


def response_header_version(api_key: int, version: int) -> int:
    return 1 if version >= _FLEXIBLE_FROM[api_key] and api_key != ApiKey.API_VERSIONS else 0


def parse_request(frame: bytes | memoryview) -> tuple[RequestHeader, int]:
    """The header of a request without its size, and where the body starts. ProtocolError for an
    unknown key."""
    try:
        api_key, version, correlation_id, length = _FIXED_AND_LENGTH.unpack_from(frame)
        if api_key not in _FLEXIBLE_FROM:
            raise ProtocolError(f"request header: there is no API with key {api_key}")
        pos = _FIXED_AND_LENGTH.size
        client_id = None
        if length >= 0:
            end = pos + length
            if end > len(frame):
                raise ProtocolError("request header: client_id ends after the message")
            client_id = str(frame[pos:end], "utf-8", "replace")
            pos = end
        if version >= _FLEXIBLE_FROM[api_key]:
            pos = _skip_tags(frame, pos)
    except (struct.error, IndexError) as error:
        raise ProtocolError(f"request header: truncated at {len(frame)} bytes") from error
    return RequestHeader(api_key, version, correlation_id, client_id), pos


def _skip_tags(frame: bytes | memoryview, pos: int) -> int:
    if not frame[pos]:  # nearly always
        return pos + 1
    count, pos = read_uvarint(frame, pos)
    if count > MAX_HEADER_TAGS:
        raise ProtocolError(f"header: {count} tagged fields")
    for _ in range(count):
        _, pos = read_uvarint(frame, pos)
        size, pos = read_uvarint(frame, pos)
        pos += size
        if pos > len(frame):
            raise ProtocolError("request header: a tagged field ends after the message")
    return pos


def client_id_bytes(client_id: str | None) -> bytes:
    """A client id as it is encoded in a request header."""
    text = b"" if client_id is None else client_id.encode()
    return _LENGTH.pack(-1 if client_id is None else len(text)) + text


def encode_request(
    api_key: int, version: int, correlation_id: int, client_id: str | None, request: Struct
) -> bytes:
    """A whole request frame with its size, as a client sends it."""
    out = bytearray(SIZE.size)
    out += _FIXED.pack(api_key, version, correlation_id)
    out += client_id_bytes(client_id)
    if flexible(api_key, version):
        out.append(0)
    encode_into(out, request, version)
    SIZE.pack_into(out, 0, len(out) - SIZE.size)
    return bytes(out)


def encode_response(api_key: int, version: int, correlation_id: int, response: Struct) -> bytes:
    """A whole response frame with its size."""
    out = bytearray()
    encode_response_into(out, api_key, version, correlation_id, response)
    SIZE.pack_into(out, 0, len(out) - SIZE.size)
    return bytes(out)


def encode_long_response(api_key: int, version: int, correlation_id: int, response: Struct) -> Frame:
    """As `encode_response`, in slices; in parts if it is long. Raises TooLarge."""
    out = Spilled()
    encode_response_into(out, api_key, version, correlation_id, response)
    return out.framed()


def encode_response_into(
    out: bytearray, api_key: int, version: int, correlation_id: int, response: Struct
) -> None:
    """Append a response frame whose size is not known yet: 0 so far."""
    header = _RESPONSE_V1 if response_header_version(api_key, version) else _RESPONSE_V0
    out += header.pack(0, correlation_id)
    encode_into(out, response, version)


def framed_response(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    """As `encode_response`, of a response that is encoded already."""
    header = _RESPONSE_V1 if response_header_version(api_key, version) else _RESPONSE_V0
    return header.pack(header.size + len(body) - SIZE.size, correlation_id) + body


def parse_response(frame: bytes | memoryview, api_key: int, version: int) -> tuple[int, int]:
    """(correlation id, where the body starts) of a response frame without its size, as a client
    reads it."""
    try:
        (correlation_id,) = SIZE.unpack_from(frame, 0)
        pos = SIZE.size
        if response_header_version(api_key, version):
            pos = _skip_tags(frame, pos)
    except (struct.error, IndexError) as error:
        raise ProtocolError(f"response header: truncated at {len(frame)} bytes") from error
    return correlation_id, pos
