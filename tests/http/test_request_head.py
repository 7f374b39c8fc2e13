"""Heads of requests: what is read, and what two readers could understand in two ways."""

import io

import pytest

from kbroker.http.request_head import MAX_HEAD_BYTES, MAX_HEADERS, BadHead, Head, read_head

FIRST = b"POST /a HTTP/1.1\r\n"


def head(data: bytes) -> Head | None:
    first, rest = data[: data.index(b"\n") + 1], data[data.index(b"\n") + 1 :]
    source = io.BytesIO(rest)
    found = read_head(first, source)
    assert found is None or found.data + source.read() == rest
    return found


@pytest.mark.parametrize(
    ("lines", "length", "chunked"),
    [(b"", 0, False), (b"Content-Length: 7\r\n", 7, False), (b"content-length:\t7 \r\n", 7, False),
     (b"Content-Length: 007\r\nCONTENT-LENGTH: 007\r\n", 7, False), (b"Transfer-Encoding: chunked\r\n", 0, True),
     (b"X: a\xe4\x85\xa0b\r\nY:\r\nZ: a\tb:c\r\n", 0, False), (b"Content-Length: 5\n", 5, False)],
)  # fmt: skip
def test_the_body_has_the_length_that_the_head_says(lines: bytes, length: int, chunked: bool) -> None:
    found = head(FIRST + lines + b"\r\nrest")
    assert found is not None
    assert (found.length, found.chunked) == (length, chunked)


def test_a_length_of_many_digits_is_a_long_body() -> None:
    found = head(FIRST + b"Content-Length: " + b"9" * 15_000 + b"\r\n\r\n")
    assert found is not None
    assert found.length >= 10**18


@pytest.mark.parametrize("value", [b"-1", b"+5", b"0x5", b"1_0", b"\xb2", b"5,5", b"5 5", b"", b"5;"])
def test_a_length_that_is_no_number_is_refused(value: bytes) -> None:
    with pytest.raises(BadHead, match="not a number"):
        head(FIRST + b"Content-Length: " + value + b"\r\n\r\n")


@pytest.mark.parametrize(
    "lines",
    [b"Content-Length: 5\r\nContent-Length: 6\r\n", b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
     b"Transfer-Encoding: identity\r\ncontent-length: 0\r\n", b"Host: a\r\nHost: b\r\n",
     b"Content-Length : 5\r\n", b"Content-Length\t: 5\r\n", b" Content-Length: 5\r\n", b"X: a\r\n b\r\n",
     b"X: a\r\n\tb\r\n", b"X: a\rContent-Length: 5\r\n", b"X: a\0b\r\n", b"X\0: a\r\n", b"X: a\x0bb\r\n",
     b"X\xa0: a\r\n", b"no colon\r\n", b": a\r\n", b"X: a\r\r\n", b"\r\r\n"],
)  # fmt: skip
def test_lines_that_can_be_understood_in_two_ways_are_refused(lines: bytes) -> None:
    with pytest.raises(BadHead) as refused:
        head(FIRST + lines + b"\r\n")
    assert refused.value.status == 400


@pytest.mark.parametrize(
    "line",
    [b"GET /a", b"GET  /a HTTP/1.1", b"GET /a HTTP/1.1 ", b" GET /a HTTP/1.1", b"GET /a b HTTP/1.1",
     b"GET\t/a HTTP/1.1", b"GET\xa0/a HTTP/1.1", b"GET /a\rb HTTP/1.1", b"GET /a\0 HTTP/1.1",
     b"GET /a HTTP/\xb2.1", b"G(T /a HTTP/1.1", b"GET /a http/1.1", b"GET /a HTTP/1.10",
     b"GET /a HTTP/0.9"],
)  # fmt: skip
def test_a_malformed_first_line_is_refused(line: bytes) -> None:
    with pytest.raises(BadHead) as refused:
        head(line + b"\r\n\r\n")
    assert refused.value.status == 400


@pytest.mark.parametrize("sent", [b"", b"X", b"X: a", b"X: a\r\n", b"X: a\r\n\r"])
def test_a_head_without_its_end_is_no_head(sent: bytes) -> None:
    assert head(FIRST + sent) is None


@pytest.mark.parametrize("lines", [b"X: a\r\n" * (MAX_HEADERS + 1), b"X: " + b"a" * MAX_HEAD_BYTES + b"\r\n"])
def test_heads_are_bounded(lines: bytes) -> None:
    with pytest.raises(BadHead) as refused:
        head(FIRST + lines + b"\r\n")
    assert refused.value.status == 431
