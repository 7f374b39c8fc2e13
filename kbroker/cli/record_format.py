r"""Format strings of `consume -f`, as of kcat: %t topic, %p partition, %o offset, %k key, %s value,
...

Pure: a record is any object with the fields of `ConsumedRecord`, the output is bytes.
"""

import json
import re
import struct
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from kbroker.cli.failures import UsageFailed
from kbroker.cli.output import json_text

Part = Callable[["ConsumedRecord"], bytes]

FORMAT_HELP = (
    "%t topic, %p partition, %o offset, %T timestamp (ms), %k key, %K its length, %s value, %S its length, "
    "%R its length as 4 bytes, %h headers, %% a percent sign; \\n \\t \\r \\xHH. A length is -1 for null."
)


class ConsumedRecord(NamedTuple):
    """A consumed record for formats. timestamp: ms, -1 for none; headers: (name, value) pairs."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


UNREADABLE: Final = (("(headers with a name that is not UTF-8)", None),)
"""Stands for headers of which one has such a name: the library returns none of them."""


def headers_of(message: Any) -> Any:
    """The headers, or UNREADABLE. A client may have written any bytes."""
    try:
        return message.headers() or ()
    except (SystemError, UnicodeDecodeError):
        return UNREADABLE


class Decoded(bytes):
    """A key or value that was decoded by its schema: a JSON document, embedded as such in JSON
    output."""


def _headers(record: ConsumedRecord) -> bytes:
    return b",".join(
        name.encode() + b"=" + (value if value is not None else b"NULL") for name, value in record.headers
    )


def _size(field: bytes | None) -> int:
    return -1 if field is None else len(field)


_CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Characters that control a terminal or turn the direction of a line; not tab and the line's
end."""


def tamed(content: bytes) -> bytes:
    """Bytes of a client for a terminal: with escapes for those that would control it."""
    text = content.decode(errors="backslashreplace")
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text).encode()


_OF_CLIENTS = ("k", "s", "h")
_FIELDS: dict[str, Part] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp,
    "k": lambda record: record.key or b"",
    "K": lambda record: b"%d" % _size(record.key),
    "s": lambda record: record.value or b"",
    "S": lambda record: b"%d" % _size(record.value),
    "R": lambda record: struct.pack(">i", _size(record.value)),
    "h": _headers,
}
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


def unescape(text: str) -> bytes:
    r"""Bytes of a text with \n, \t, \r, \0, \xHH escapes. Raises UsageFailed."""
    out = bytearray()
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\":
            out += char.encode()
            continue
        code = text[position : position + 1]
        position += 1
        if code == "x":
            digits = text[position : position + 2]
            position += 2
            if not re.fullmatch("[0-9a-fA-F]{2}", digits):
                raise UsageFailed(f"{text!r}: \\x needs two hexadecimal digits")
            out.append(int(digits, 16))
        elif code in _ESCAPES:
            out += _ESCAPES[code]
        else:
            raise UsageFailed(f"{text!r}: unknown escape \\{code}")
    return bytes(out)


def compile_format(text: str, clean: Callable[[bytes], bytes] = bytes) -> Part:
    """The function that renders a record. clean: of contents that clients chose. Raises UsageFailed
    for an unknown field or escape."""
    parts: list[Part] = []
    literal = ""
    position = 0

    def flush() -> None:
        if literal:
            content = unescape(literal)
            parts.append(lambda _record: content)

    while position < len(text):
        char = text[position]
        if char == "\\":
            literal += text[position : position + 2]
            position += 2
            continue
        position += 1
        if char != "%":
            literal += char
            continue
        field = text[position : position + 1]
        position += 1
        if field == "%":
            literal += "%"
        elif field in _FIELDS:
            flush()
            literal = ""
            parts.append(_cleaned(_FIELDS[field], clean) if field in _OF_CLIENTS else _FIELDS[field])
        else:
            raise UsageFailed(f"{text!r}: unknown field %{field}; known: {FORMAT_HELP}")
    flush()
    return lambda record: b"".join(part(record) for part in parts)


def _cleaned(part: Part, clean: Callable[[bytes], bytes]) -> Part:
    return lambda record: clean(part(record))


def to_json(record: ConsumedRecord) -> bytes:
    """One line of JSON; bytes that are not UTF-8 become base64, with the suffix _base64 in the
    name."""
    fields: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp if record.timestamp >= 0 else None,
        "headers": [_text("value", value) | {"name": name} for name, value in record.headers],
    }
    fields |= _text("key", record.key) | _text("value", record.value)
    return json_text(fields).encode() + b"\n"


def _text(name: str, content: bytes | None) -> dict[str, Any]:
    if content is None:
        return {name: None}
    if isinstance(content, Decoded):
        return {name: json.loads(content)}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(content).decode()}
