"""Format strings and JSON lines show every byte of a record."""

import json
import sys
from base64 import b64decode
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.cli.consume import renderer_of
from kbroker.cli.failures import UsageFailed
from kbroker.cli.record_format import ConsumedRecord, compile_format, headers_of, to_json, unescape
from kbroker.cli.record_lines import parse_json

RECORD = ConsumedRecord("orders", 3, 42, 1700, b"key", b"value", [("a", b"1"), ("b", None)])
EMPTY = ConsumedRecord("orders", 0, 0, -1, None, None, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%t/%p/%o", b"orders/3/42"),
        ("%T %k=%s", b"1700 key=value"),
        ("%K %S", b"3 5"),
        ("%R%s", b"\0\0\0\x05value"),
        ("%h", b"a=1,b=NULL"),
        (r"100%%\t\x41\\\n", b"100%\tA\\\n"),
        ("", b""),
    ],
)
def test_fields_and_escapes_are_formatted(text: str, expected: bytes) -> None:
    assert compile_format(text)(RECORD) == expected


def test_null_is_empty_with_length_minus_one() -> None:
    assert compile_format("[%k] %K %S [%s]")(EMPTY) == b"[] -1 -1 []"


@pytest.mark.parametrize("text", ["%", "%q", r"\q", r"\x4", r"\xzz", "\\"])
def test_unknown_fields_and_escapes_are_refused(text: str) -> None:
    with pytest.raises(UsageFailed):
        compile_format(text)


@given(st.text(alphabet=st.characters(exclude_characters="\\", exclude_categories=["Cs"])))
def test_text_without_backslashes_is_itself(text: str) -> None:
    assert unescape(text) == text.encode()


blobs = st.none() | st.binary()
headers = st.lists(st.tuples(st.text(min_size=1, alphabet=st.characters(exclude_categories=["Cs"])), blobs))


@given(blobs, blobs, headers)
def test_records_shown_as_json_can_be_read_back(
    key: bytes | None, value: bytes | None, pairs: list[tuple[str, bytes | None]]
) -> None:
    back = parse_json(to_json(ConsumedRecord("t", 0, 0, 5, key, value, pairs)))
    assert (back.key, back.value, back.headers, back.timestamp) == (key, value, pairs, 5)


def test_bytes_that_are_no_text_are_base64() -> None:
    fields = json.loads(to_json(ConsumedRecord("t", 0, 0, -1, b"\xff", b"text", [])))
    assert b64decode(fields["key_base64"]) == b"\xff"
    assert "key" not in fields
    assert (fields["value"], fields["timestamp"]) == ("text", None)


def test_a_record_in_json_controls_no_terminal() -> None:
    line = to_json(ConsumedRecord("t", 0, 0, -1, "\x9b2J".encode(), b"\x1b\x7f", [("\x85", b"")]))
    assert line.decode().rstrip("\n").isprintable()
    assert json.loads(line)["key"] == "\x9b2J"


@pytest.mark.parametrize("on_terminal", [True, False])
def test_records_control_no_terminal_and_are_unchanged_elsewhere(
    monkeypatch: pytest.MonkeyPatch, on_terminal: bool
) -> None:
    """A record that is shown may clear the screen, or type into some terminals."""
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(isatty=lambda: on_terminal))
    printed = dict.fromkeys(("T", "po"), False) | dict.fromkeys(("h", "k"), True)
    key, value = b"k\x1b[2J\xff\x9b", "tab\tline\nC1 \x9b\u202e\r".encode()
    record = ConsumedRecord("t", 0, 0, -1, key, value, [("\x07h", b"\x1b")])
    plain = b"\x07h=\x1b|" + key + b"|" + value + b"\n"
    tame = b"\\x07h=\\x1b|k\\x1b[2J\\xff\\x9b|tab\tline\nC1 \\x9b\\u202e\\r\n"
    assert renderer_of(False, None, printed, b"|", b"\n")(record) == (tame if on_terminal else plain)
    formatted = renderer_of(False, r"%h|%k|%s\n", printed, b"", b"")(record)
    assert formatted == (tame if on_terminal else plain)
    colours = renderer_of(False, r"\x1b[1m%S\x1b[0m", printed, b"", b"")(record)
    assert colours == b"\x1b[1m%d\x1b[0m" % len(value)  # the operator's own


@pytest.mark.parametrize(
    "error",
    [
        SystemError("returned a result with an exception set"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    ],
)
def test_headers_that_the_library_does_not_read_end_no_command(error: Exception) -> None:
    """A client may write a name that is not UTF-8: `consume` ended with a traceback there."""

    def headers() -> None:
        raise error

    found = headers_of(SimpleNamespace(headers=headers))
    assert (
        compile_format("%h")(EMPTY._replace(headers=found)) == b"(headers with a name that is not UTF-8)=NULL"
    )
    assert headers_of(SimpleNamespace(headers=lambda: None)) == ()
    assert headers_of(SimpleNamespace(headers=lambda: [("a", b"1")])) == [("a", b"1")]
