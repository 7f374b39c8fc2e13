"""Splits the input of `produce` into records: lines, or JSON documents of `consume --json` or
`kcat -J`. Pure."""

import json
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

from kbroker.cli.failures import UsageFailed

CHUNK_BYTES = 1 << 16
CONTENT = ("value", "value_base64", "payload", "key", "key_base64")
Parser = Callable[[bytes], "NewRecord"]
Headers = list[tuple[str, bytes | None]]


class NewRecord(NamedTuple):
    """A record to produce. partition, timestamp (ms): None lets the client choose."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int | None = None
    timestamp: int | None = None


def pieces(source: BinaryIO, delimiter: bytes) -> Iterator[bytes]:
    """Split the input at a delimiter, as it arrives. A last piece without a delimiter counts."""
    if delimiter == b"\n":
        for line in source:
            yield line[:-1] if line.endswith(b"\n") else line
        return
    rest = bytearray()
    read: Callable[[int], bytes] = getattr(source, "read1", source.read)
    while chunk := read(CHUNK_BYTES):
        unsearched = max(0, len(rest) - len(delimiter) + 1)
        rest += chunk
        if rest.find(delimiter, unsearched) >= 0:  # else a long piece would be copied with each chunk
            *whole, last = bytes(rest).split(delimiter)
            rest = bytearray(last)
            yield from whole
    if rest:
        yield bytes(rest)


def line_parser(
    key_separator: bytes | None, headers_separator: bytes | None, null_marker: bytes | None, headers: Headers
) -> Parser:
    """The format of a line: `[name=value,... <headers separator>][key <key separator>]value`.

    A key or value equal to null_marker is null. The parser raises UsageFailed for a line that lacks
    a separator."""

    def nullable(field: bytes) -> bytes | None:
        return None if null_marker is not None and field == null_marker else field

    def parse(line: bytes) -> NewRecord:
        own = headers
        if headers_separator is not None:
            before, found, line = line.partition(headers_separator)
            if not found:
                raise UsageFailed(
                    f"a line has no {_shown(headers_separator)} after its headers: {_shown(before)}"
                )
            own = headers + parse_headers(before.split(b",") if before else [])
        key: bytes | None = None
        if key_separator is not None:
            before, found, line = line.partition(key_separator)
            if not found:
                raise UsageFailed(f"a line has no {_shown(key_separator)} after its key: {_shown(before)}")
            key = nullable(before)
        return NewRecord(key, nullable(line), own)

    return parse


def _shown(text: bytes) -> str:
    """The beginning of a piece of input, for error messages."""
    return repr(text[:80].decode(errors="backslashreplace"))


def parse_headers(pairs: Iterable[bytes]) -> Headers:
    """Parse `name=value` pairs; a name without `=` has a null value. Raises UsageFailed for a
    missing name."""
    found: Headers = []
    for pair in pairs:
        name, equals, value = pair.partition(b"=")
        if not name:
            raise UsageFailed(f"header {_shown(pair)}: expected name=value")
        try:
            found.append((name.decode(), value if equals else None))
        except UnicodeDecodeError:
            raise UsageFailed(f"header {_shown(pair)}: its name is not UTF-8") from None
    return found


def parse_json(line: bytes) -> NewRecord:
    """Parse a document of `consume --json` or `kcat -J`; only `value` (kcat: `payload`) is
    required. Topic, partition and offset are ignored, so that records are partitioned by their key.
    Raises UsageFailed."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageFailed(f"not a JSON document: {_shown(line)}: {error}") from None
    if not isinstance(fields, dict):
        raise UsageFailed(f"not a JSON object: {_shown(line)}")
    if not fields.keys() & set(CONTENT):
        raise UsageFailed(
            f"neither key nor value: expected {', '.join(CONTENT)}, not {', '.join(fields)[:80]!r}"
        )
    timestamp = fields.get("timestamp", fields.get("ts"))
    if timestamp == -1:
        timestamp = None  # kcat's value for none
    if timestamp == 0:
        raise UsageFailed("timestamp: 0 cannot be written, librdkafka replaces it by the present time")
    if timestamp is not None and (type(timestamp) is not int or not 0 < timestamp < 1 << 63):
        raise UsageFailed(f"timestamp: expected milliseconds since 1970, not {str(timestamp)[:80]!r}")
    value = "payload" if "payload" in fields else "value"
    return NewRecord(_bytes(fields, "key"), _bytes(fields, value), _headers(fields), timestamp=timestamp)


def _headers(fields: dict[str, Any]) -> Headers:
    """Headers: a list of objects, or kcat's list name, value, name, value."""
    listed = fields.get("headers") or []
    if isinstance(listed, list) and listed and all(isinstance(header, str | None) for header in listed):
        if len(listed) % 2 or None in listed[::2]:
            raise UsageFailed("headers: expected a value after each name")
        pairs = zip(listed[::2], listed[1::2], strict=True)
        return [(_name(name), None if value is None else _encoded("headers", value)) for name, value in pairs]
    if not isinstance(listed, list) or not all(isinstance(header, dict) for header in listed):
        raise UsageFailed('headers: expected a list of {"name": ..., "value": ...}, or of names and values')
    return [(_name(str(header.get("name", ""))), _bytes(header, "value")) for header in listed]


def _name(text: str) -> str:
    """A header name in UTF-8: librdkafka crashes with others."""
    _encoded("headers", text)
    return text


def _bytes(fields: dict[str, Any], name: str) -> bytes | None:
    if (encoded := fields.get(f"{name}_base64")) is not None:
        try:
            return b64decode(encoded, validate=True)
        except (ValueError, TypeError):
            raise UsageFailed(f"{name}_base64: not base64: {str(encoded)[:80]!r}") from None
    content = fields.get(name)
    if content is None:
        return None
    return _encoded(name, content if isinstance(content, str) else json.dumps(content, ensure_ascii=False))


def _encoded(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise UsageFailed(f"{name}: half of a surrogate pair is not a character: {text[:80]!r}") from None
