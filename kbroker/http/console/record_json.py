"""A record as JSON: UTF-8 as text, other bytes in base64; long values are cut."""

import base64
from typing import Any

from kbroker.http.console.schema import BOOL, INT, TEXT, fields, many, maybe
from kbroker.protocol.records import Record

CUT_AT = 16384
HEADERS = 64
BYTES = fields(text=TEXT, encoding=TEXT, size=INT, cut=BOOL)
NULLABLE = {**BYTES, "type": ["object", "null"]}
RECORD = fields(
    partition=INT,
    offset=INT,
    timestamp_ms=INT,
    key=NULLABLE,
    value=NULLABLE,
    headers=many(fields(name=TEXT, value=NULLABLE)),
    headers_cut=maybe(BOOL),
)


def shown(data: bytes | None, most: int = CUT_AT) -> dict[str, Any] | None:
    """None stays None; encoding is utf-8 or base64."""
    if data is None:
        return None
    head = data[:most]
    try:
        text, encoding = _text(head, len(data) > most), "utf-8"
    except UnicodeDecodeError:
        text, encoding = base64.b64encode(head).decode(), "base64"
    return {"text": text, "encoding": encoding, "size": len(data), "cut": len(data) > most}


def _text(head: bytes, is_cut: bool) -> str:
    if b"\0" in head:
        raise UnicodeDecodeError("utf-8", head, 0, 1, "binary")
    try:
        return head.decode()
    except UnicodeDecodeError as error:
        if is_cut and error.start >= len(head) - 3:  # the cut split a character
            return head[: error.start].decode()
        raise


def record_json(partition: int, record: Record, most: int = CUT_AT) -> dict[str, Any]:
    """One record."""
    return {
        "partition": partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": shown(record.key, most),
        "value": shown(record.value, most),
        "headers": [
            {"name": name[:CUT_AT], "value": shown(value, most)} for name, value in record.headers[:HEADERS]
        ],
        "headers_cut": len(record.headers) > HEADERS,
    }
