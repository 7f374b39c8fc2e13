"""Record batches as bytes, made from Kafka's format description without any code of the broker."""

import struct
import zlib
from collections.abc import Sequence

import crc32c as reference


def varint(value: int) -> bytes:
    """Zigzag variable-length integer."""
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value & ~0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def padded(value: int, width: int) -> bytes:
    """Zigzag variable-length integer of so many bytes, more than it takes."""
    value = (value << 1) ^ (value >> 63)
    return bytes((value >> 7 * n) & 0x7F | (0x80 if n < width - 1 else 0) for n in range(width))


FIELDS = ("size", "timestamp", "offset", "key", "value", "headers", "name", "content")
"""The numbers of a record with one header, in their order."""


def padded_record(widths: dict[str, int]) -> bytes:
    """A record with one header whose numbers take so many bytes, else one."""
    values = {"timestamp": 5, "key": 1, "value": 1, "headers": 1, "name": 1, "content": 1}
    texts = {"key": b"k", "value": b"v", "name": b"n", "content": b"c"}
    body = b"\0" + b"".join(
        padded(values.get(name, 0), widths.get(name, 1)) + texts.get(name, b"") for name in FIELDS[1:]
    )
    return padded(len(body), max(widths.get("size", 1), 1 if len(body) < 64 else 2)) + body


def record(delta: int, key: bytes | None, value: bytes | None, timestamp_delta: int = 0) -> bytes:
    body = b"\0" + varint(timestamp_delta) + varint(delta)
    for part in (key, value):
        body += varint(-1) if part is None else varint(len(part)) + part
    body += varint(0)
    return varint(len(body)) + body


def batch(
    base_offset: int = 0,
    values: Sequence[bytes] = (b"value",),
    timestamps: Sequence[int] | None = None,
    *,
    leader_epoch: int = 0,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    keys: Sequence[bytes | None] | None = None,
    last_offset_delta: int | None = None,
    payload: bytes | None = None,
    count: int | None = None,
    magic: int = 2,
) -> bytes:
    """One batch of uncompressed records (or of a ready `payload`)."""
    times = list(timestamps) if timestamps is not None else [1_700_000_000_000] * len(values)
    base_ms = times[0] if times else -1
    if payload is None:
        payload = b"".join(
            record(i, keys[i] if keys else None, value, times[i] - base_ms) for i, value in enumerate(values)
        )
    covered = struct.pack(
        ">hiqqqhii",
        attributes,
        len(values) - 1 if last_offset_delta is None else last_offset_delta,
        base_ms,
        max(times, default=-1),
        producer_id,
        producer_epoch,
        base_sequence,
        len(values) if count is None else count,
    )
    covered += payload
    crc = reference.crc32c(covered)
    return struct.pack(">qiibI", base_offset, len(covered) + 9, leader_epoch, magic, crc) + covered


def old_record(offset: int, magic: int = 1, value: bytes = b"value") -> bytes:
    """A record of format 0 or 1."""
    covered = struct.pack(">bb", magic, 0) + struct.pack(">q", 1_700_000_000_000) * magic
    covered += struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, len(covered) + 4, zlib.crc32(covered)) + covered


def end_marker(
    base_offset: int,
    producer_id: int,
    producer_epoch: int,
    commit: bool,
    coordinator_epoch: int = 0,
    timestamp: int = 1_700_000_000_000,
) -> bytes:
    """A control batch that ends a transaction."""
    return batch(
        base_offset,
        [struct.pack(">hi", 0, coordinator_epoch)],
        [timestamp],
        attributes=0x30,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        keys=[struct.pack(">hh", 0, int(commit))],
    )
