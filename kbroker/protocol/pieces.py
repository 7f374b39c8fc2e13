"""A message encoded in pieces: before one of its arrays, each element of the array, and after
it."""

import struct
from typing import NamedTuple

from kbroker.protocol.codec import Encoder, encode, encoder
from kbroker.protocol.compile_encode import write_uvarint
from kbroker.protocol.schema import Field, ProtocolError, Struct
from kbroker.protocol.slices import paced

_made: dict[tuple[type[Struct], str, int], tuple[Encoder, Encoder]] = {}


class Pieces(NamedTuple):
    """The bytes of a message. length: of the array, as it is written."""

    before: bytes
    length: bytes
    elements: list[bytes]
    after: bytes


def encode_in_pieces(message: Struct, array: str, version: int) -> Pieces:
    """All pieces together equal the result of `encode`. array: a field of structs that is not
    null."""
    before, after = _encoders(type(message), array, version)
    head, length, tail = bytearray(), bytearray(), bytearray()
    before(head, message)
    after(tail, message)
    elements = [encode(each, version) for each in paced(getattr(message, array))]
    if message.SCHEMA.is_flexible(version):
        del head[-1]  # tags come last
        write_uvarint(length, len(elements) + 1)
    else:
        length += struct.pack(">i", len(elements))
    return Pieces(bytes(head), bytes(length), elements, bytes(tail))


def _encoders(cls: type[Struct], array: str, version: int) -> tuple[Encoder, Encoder]:
    found = _made.get((cls, array, version))
    if found is None:
        found = _made[cls, array, version] = _make(cls, array, version)
    return found


def _make(cls: type[Struct], array: str, version: int) -> tuple[Encoder, Encoder]:
    fields = cls.SCHEMA.fields
    at = next(number for number, field in enumerate(fields) if field.name == array)
    if any(field.is_tagged(version) for field in fields[: at + 1]):
        raise ProtocolError(f"{cls.__name__}: {array} is tagged, or has tagged fields before it")
    return _encoder(cls, fields[:at], version), _encoder(cls, fields[at + 1 :], version)


def _encoder(cls: type[Struct], fields: tuple[Field, ...], version: int) -> Encoder:
    some = type(f"{cls.__name__} in part", (Struct,), {"SCHEMA": cls.SCHEMA._replace(fields=fields)})
    return encoder(some, version)
