"""The head of an HTTP/1 request, read to its blank line, and refused where two readers could
interpret it differently (RFC 9112, sections 2.2, 5 and 6): a proxy and this server must see the
same requests on one connection."""

import re
from http import HTTPStatus
from io import BufferedIOBase
from typing import Final

from msgspec import Struct

MAX_HEAD_BYTES: Final = 16384
"""Other servers take 8 KiB to 32 KiB. A longer head costs time before any login."""
MAX_HEADERS: Final = 100
_DIGITS: Final = 18
_REQUEST_LINE: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+ [^\x00-\x20\x7f]+ HTTP/[1-9]\.[0-9]")
"""Version 0.9 has answers without a head, which no client of today expects."""
_HEADER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\x00-\x08\x0a-\x1f\x7f]*)")


class BadHead(Exception):
    """The request is refused because of its head."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class Head(Struct, frozen=True):
    """data: the lines after the first, including the blank one. length: bytes of the body. chunked:
    the body has a Transfer-Encoding and no length."""

    data: bytes
    length: int
    chunked: bool


def read_head(request_line: bytes, source: BufferedIOBase) -> Head | None:
    """Read the rest of the head after its first line; None if the connection ends within it. Raises
    BadHead."""
    if not request_line.endswith(b"\n"):
        return None
    if not _REQUEST_LINE.fullmatch(_content(request_line)):
        raise _malformed("the request line is malformed")
    lines: list[bytes] = []
    left = MAX_HEAD_BYTES
    while True:
        line = source.readline(left + 1)
        left -= len(line)
        if left < 0 or len(lines) > MAX_HEADERS:
            raise BadHead(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too long")
        if not line.endswith(b"\n"):
            return None
        lines.append(line)
        if line in (b"\r\n", b"\n"):
            return _framed(lines)


def _framed(lines: list[bytes]) -> Head:
    lengths: set[bytes] = set()
    hosts = 0
    chunked = False
    for line in lines[:-1]:
        found = _HEADER.fullmatch(_content(line))
        if found is None:
            raise _malformed("a header is malformed")
        name = found[1].lower()
        hosts += name == b"host"
        chunked |= name == b"transfer-encoding"
        if name == b"content-length":
            lengths.add(found[2].strip(b" \t"))
    if hosts > 1:
        raise _malformed("there is more than one Host")
    if len(lengths) > 1 or (lengths and chunked):
        raise _malformed("the length of the body is given in two ways")
    return Head(b"".join(lines), _length(*lengths), chunked)


def _length(text: bytes = b"0") -> int:
    if not text.isdigit():  # of bytes: only ASCII digits
        raise _malformed("Content-Length is not a number")
    digits = text.lstrip(b"0") or b"0"
    return int(digits) if len(digits) <= _DIGITS else 10**_DIGITS


def _content(line: bytes) -> bytes:
    """A line without its end, CRLF or LF."""
    return line.removesuffix(b"\n").removesuffix(b"\r")


def _malformed(text: str) -> BadHead:
    return BadHead(HTTPStatus.BAD_REQUEST, text)
