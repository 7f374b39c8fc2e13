"""The format of a load test's records: each record contains everything that its judge needs.

Value, big endian, 40 bytes of header and then the body:

    0   checksum       u32   CRC-32C of value[4:]
    4   magic          u16   0x4B4C ("KL")
    6   version        u8    1
    7   flags          u8    bit 0: inside a transaction; bit 1: the producer means to abort that transaction;
                             bit 2: a tombstone, whose value is null and whose first header holds
                             these 40 bytes
    8   run            u32   run id, 31 bits
    12  producer       u32   producer id, unique in the run: a restarted client gets a new one
    16  seq            u64   0, 1, 2 ... per producer
    24  partition_seq  u64   0, 1, 2 ... per (producer, partition)
    32  intended_ns    u64   when the schedule wanted it sent, nanoseconds since the epoch

Key: 8 bytes of ASCII, "k" and seven decimal digits. A key always goes to partition
`key % partitions`, chosen by the producer, so order per key follows from order per (producer,
partition).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from crc32c import crc32c

HEADER_BYTES = 40
CHECKED_FROM = 4  # the checksum covers value[4:]
MAGIC = 0x4B4C
VERSION = 1
TRANSACTIONAL = 1
MEANT_TO_ABORT = 2
TOMBSTONE = 4  # the record has no value; these bytes are the value of its first header, IDENTITY_HEADER
IDENTITY_HEADER = "kl"
KEY_BYTES = 8
MAX_KEYS = 10_000_000

HEADER = np.dtype(
    [
        ("checksum", ">u4"),
        ("magic", ">u2"),
        ("version", "u1"),
        ("flags", "u1"),
        ("run", ">u4"),
        ("producer", ">u4"),
        ("seq", ">u8"),
        ("partition_seq", ">u8"),
        ("intended_ns", ">u8"),
    ]
)


Header = tuple[str, bytes | None]


def varint(value: int) -> bytes:
    """Zigzag, as lengths inside a record are."""
    rest, made = (value << 1) ^ (value >> 63), bytearray()
    while rest > 0x7F:
        made.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*made, rest])


def header_bytes(headers: Sequence[Header]) -> bytes:
    """Headers as a record in a log has them: their count, then names and values in order; null has
    length -1."""
    parts = [varint(len(headers))]
    for name, value in headers:
        parts += [varint(len(name.encode())), name.encode()]
        parts += [varint(-1)] if value is None else [varint(len(value)), value]
    return b"".join(parts)


def header_sum(headers: Sequence[Header]) -> int:
    """CRC-32C of `header_bytes`; 0 without headers."""
    return crc32c(header_bytes(headers)) if headers else 0


class NotOurs(ValueError):
    """A value that is not of a load test: too short, or with another magic or version."""


def key_bytes(key: int) -> bytes:
    return b"k%07d" % key


def key_number(key: bytes | None) -> int:
    """The key's number; -1 for a key that no load test wrote."""
    if key is None or len(key) != KEY_BYTES or key[:1] != b"k" or not key[1:].isdigit():
        return -1
    return int(key[1:])


def sealed(rest: bytes) -> bytes:
    """The value whose bytes from CHECKED_FROM on are `rest`: its checksum goes in front."""
    return int.to_bytes(crc32c(rest), 4, "big") + rest


def intact(value: bytes) -> bool:
    """Whether the checksum of a value is right."""
    return len(value) >= HEADER_BYTES and crc32c(value[CHECKED_FROM:]) == int.from_bytes(value[:4], "big")


def header_of(value: bytes) -> Any:
    """The header of one value as a numpy record (field names as above). Raises NotOurs; checks no
    checksum."""
    if len(value) < HEADER_BYTES:
        raise NotOurs(f"{len(value)} bytes are not a value of a load test")
    header = np.frombuffer(value, HEADER, 1)[0]
    if header["magic"] != MAGIC or header["version"] != VERSION:
        raise NotOurs(f"magic {int(header['magic']):#x}, version {int(header['version'])}")
    return header
