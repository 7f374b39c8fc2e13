"""Encodes and decodes the generated structs. A (struct, version) is compiled on first use and kept.

The only error is ProtocolError: truncated or malformed input, a value that does not fit its field,
an unknown version. Tagged fields that the version does not know are skipped. Encoding drops fields
that the version lacks, as Kafka does with ignorable ones.
"""

import struct
from collections.abc import Callable
from typing import Any, TypeVar

from kbroker.protocol.compile_decode import DecoderSource
from kbroker.protocol.compile_encode import EncoderSource
from kbroker.protocol.long_frame import TooLarge
from kbroker.protocol.schema import ProtocolError, Struct
from kbroker.protocol.slices import is_sliced

S = TypeVar("S", bound=Struct)
Decoder = Callable[[bytes | memoryview, int, int], tuple[Any, int]]
Encoder = Callable[[bytearray, Any], None]

_decoders: dict[tuple[type[Struct], int], Decoder] = {}
_encoders: dict[tuple[type[Struct], int], Encoder] = {}
_sliced_decoders: dict[tuple[type[Struct], int], Decoder] = {}
_sliced_encoders: dict[tuple[type[Struct], int], Encoder] = {}


def _check_version(cls: type[Struct], version: int) -> None:
    first, last = cls.SCHEMA.versions
    if not first <= version <= last:
        raise ProtocolError(f"{cls.__name__} has versions {first}-{last}, not {version}")


def decoder(cls: type[Struct], version: int) -> Decoder:
    """The compiled decoder; raises what compile_decode says. Most callers want `decode`."""
    try:
        return _decoders[cls, version]
    except KeyError:
        _check_version(cls, version)
        made = _decoders[cls, version] = DecoderSource(cls, version).compile()
        return made


def encoder(cls: type[Struct], version: int) -> Encoder:
    """The compiled encoder; raises what compile_encode says. Most callers want `encode`."""
    try:
        return _encoders[cls, version]
    except KeyError:
        _check_version(cls, version)
        made = _encoders[cls, version] = EncoderSource(cls, version).compile()
        return made


def sliced_decoder(cls: type[Struct], version: int) -> Decoder:
    """As `decoder`, for work in slices."""
    made = _sliced_decoders.get((cls, version))
    if made is None:
        _check_version(cls, version)
        made = _sliced_decoders[cls, version] = DecoderSource(cls, version, sliced=True).compile()
    return made


def sliced_encoder(cls: type[Struct], version: int) -> Encoder:
    """As `encoder`, for work in slices. Raises TooLarge."""
    made = _sliced_encoders.get((cls, version))
    if made is None:
        _check_version(cls, version)
        made = _sliced_encoders[cls, version] = EncoderSource(cls, version, sliced=True).compile()
    return made


def decode(cls: type[S], version: int, buf: bytes | memoryview, offset: int = 0) -> tuple[S, int]:
    """The struct at `offset` and the position after it. Fields of type records are slices of
    `buf`."""
    run = sliced_decoder(cls, version) if is_sliced() else decoder(cls, version)
    try:
        return run(buf, offset, len(buf))
    except (struct.error, IndexError) as error:
        raise ProtocolError(f"{cls.__name__} v{version}: truncated at {len(buf)} bytes") from error
    except UnicodeDecodeError as error:
        raise ProtocolError(f"{cls.__name__} v{version}: a string is not UTF-8 ({error.reason})") from error


def decode_exact(cls: type[S], version: int, buf: bytes | memoryview, offset: int = 0) -> S:
    """The struct that fills the buffer from `offset` to its end."""
    found, end = decode(cls, version, buf, offset)
    if end != len(buf):
        raise ProtocolError(f"{cls.__name__} v{version}: {len(buf) - end} bytes after its end")
    return found


def encode_into(out: bytearray, message: Struct, version: int) -> None:
    """Appends the struct to `out`; on error `out` keeps its length, if it has not spilled."""
    run = sliced_encoder(type(message), version) if is_sliced() else encoder(type(message), version)
    start = len(out)
    try:
        run(out, message)
    except (struct.error, TypeError, AttributeError, UnicodeEncodeError) as error:
        del out[start:]
        raise ProtocolError(f"{type(message).__name__} v{version}: {error}") from error
    except (ProtocolError, TooLarge):
        del out[start:]
        raise


def encode(message: Struct, version: int) -> bytes:
    """The bytes of the struct in a version of its message."""
    out = bytearray()
    encode_into(out, message, version)
    return bytes(out)
