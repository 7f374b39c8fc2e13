"""Decompression of what a client has pushed, in bounds."""

from kbroker.protocol.compression import Codec, pieces
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.schema import ProtocolError


def plain(codec: int, data: bytes, most_bytes: int) -> bytes:
    """The payload. Raises TELEMETRY_TOO_LARGE as soon as it has more bytes, INVALID_RECORD for
    damage."""
    if codec == Codec.NONE:
        return data
    found = bytearray()
    try:
        for piece in pieces(codec, data, min(most_bytes + 1, 1 << 16)):
            found += piece
            if len(found) > most_bytes:
                raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE)
    except (ProtocolError, MemoryError) as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from None
    return bytes(found)
