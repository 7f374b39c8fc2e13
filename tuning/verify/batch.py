"""A record batch (format 2) that is sent again and again: the client's own cost is next to none."""

import os
import struct
import time

from crc32c import crc32c

MAGIC = 2
HEADER = struct.Struct(">qiibI")  # base offset, length, leader epoch, magic, checksum
REST = struct.Struct(">hiqqqhii")  # from the attributes on: what the checksum covers begins here


def record_batch(records: int, value_bytes: int) -> bytes:
    """Records without keys; their values are random, so that nothing gains by compressing them."""
    now_ms = time.time_ns() // 1_000_000
    body = b"".join(_record(number, os.urandom(value_bytes)) for number in range(records))
    rest = REST.pack(0, records - 1, now_ms, now_ms, -1, -1, -1, records) + body
    length = HEADER.size - 12 + len(rest)
    return HEADER.pack(0, length, -1, MAGIC, crc32c(rest)) + rest


def _record(number: int, value: bytes) -> bytes:
    """Attributes, timestamp and offset deltas, null key, value, no headers."""
    body = b"\0\0" + varint(number) + varint(-1) + varint(len(value)) + value + b"\0"
    return varint(len(body)) + body


def varint(value: int) -> bytes:
    """Zigzag, seven bits a byte."""
    left = value << 1 ^ value >> 63
    found = bytearray()
    while left > 127:
        found.append(left & 127 | 128)
        left >>= 7
    return bytes((*found, left))
