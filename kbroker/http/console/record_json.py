"""A record as JSON: UTF-8 as text, other bytes in base64; long values are cut."""

import base64
from collections.abc import Callable
from typing import Any

from kbroker.http.console.schema import BOOL, INT, TEXT, fields, many, maybe
from kbroker.protocol.records import Record

CUT_AT = 16384
HEADERS = 64
SCHEMA = fields(id=INT, type=TEXT)
BYTES = fields(text=TEXT, encoding=TEXT, size=INT, cut=BOOL, schema=maybe(SCHEMA))
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


Decoded = tuple[str, bool, dict[str, Any]]
"""JSON, whether it is cut, id and type of the schema."""
Decoder = Callable[[bytes, int], Decoded | None]


def shown(data: bytes | None, cut_at: int = CUT_AT, decoder: Decoder | None = None) -> dict[str, Any] | None:
    """A key or value for the page, None for null. Members: text, encoding (utf-8 or base64), size
    in bytes, cut (whether text lacks an end), schema. decoder: of data with a registered schema."""
    if data is None:
        return None
    if decoder is not None and (found := decoder(data, cut_at)) is not None:
        text, cut, schema = found
        return {"text": text, "encoding": "utf-8", "size": len(data), "cut": cut, "schema": schema}
    head = data[:cut_at]
    try:
        text, encoding = _text(head, len(data) > cut_at), "utf-8"
    except UnicodeDecodeError:
        text, encoding = base64.b64encode(head).decode(), "base64"
    return {"text": text, "encoding": encoding, "size": len(data), "cut": len(data) > cut_at, "schema": None}


def _text(head: bytes, is_cut: bool) -> str:
    if b"\0" in head:
        raise UnicodeDecodeError("utf-8", head, 0, 1, "binary")
    try:
        return head.decode()
    except UnicodeDecodeError as error:
        if is_cut and error.start >= len(head) - 3:  # the cut split a character
            return head[: error.start].decode()
        raise


def record_json(
    partition: int, record: Record, cut_at: int = CUT_AT, decoder: Decoder | None = None
) -> dict[str, Any]:
    """One record."""
    return {
        "partition": partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": shown(record.key, cut_at, decoder),
        "value": shown(record.value, cut_at, decoder),
        "headers": [
            {"name": name[:CUT_AT], "value": shown(value, cut_at)} for name, value in record.headers[:HEADERS]
        ],
        "headers_cut": len(record.headers) > HEADERS,
    }
