"""Input is cut into records wherever its chunks happen to end."""

import io
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.cli import record_lines
from kbroker.cli.failures import UsageFailed
from kbroker.cli.record_lines import NewRecord, line_parser, parse_headers, parse_json, pieces


@given(
    st.lists(st.binary(max_size=20)), st.sampled_from([b"\n", b"\0", b"--"]), st.integers(1, 7), st.booleans()
)
def test_pieces_are_those_of_split(parts: list[bytes], delimiter: bytes, chunk: int, closed: bool) -> None:
    data = delimiter.join(parts) + (delimiter if closed else b"")
    expected = data.split(delimiter)
    if not expected[-1]:
        expected.pop()

    class Slow(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return self.read(chunk)

    assert list(pieces(Slow(data), delimiter)) == expected


def test_a_long_piece_is_not_copied_with_each_of_its_chunks() -> None:
    """64 MB: it took 32 GB of copies."""
    data = bytes(64 << 20)
    began_s = time.process_time()
    (piece,) = pieces(io.BytesIO(data), b"--")
    assert time.process_time() - began_s < 2
    assert piece == data


def test_a_line_is_headers_key_and_value() -> None:
    parse = line_parser(b"=", b"|", b"NULL", [("all", b"x")])
    assert parse(b"a=1,b|k=v=w") == NewRecord(b"k", b"v=w", [("all", b"x"), ("a", b"1"), ("b", None)])
    assert parse(b"|NULL=NULL") == NewRecord(None, None, [("all", b"x")])
    assert line_parser(None, None, None, [])(b"k=v") == NewRecord(None, b"k=v", [])


@pytest.mark.parametrize(("line", "said"), [(b"k=v", "after its headers"), (b"|kv", "after its key")])
def test_a_missing_separator_is_refused(line: bytes, said: str) -> None:
    with pytest.raises(UsageFailed, match=said):
        line_parser(b"=", b"|", None, [])(line)


def test_headers_need_a_name() -> None:
    assert parse_headers([b"a=", b"b"]) == [("a", b""), ("b", None)]
    with pytest.raises(UsageFailed, match="expected name=value"):
        parse_headers([b"=x"])
    with pytest.raises(UsageFailed, match="not UTF-8"):
        parse_headers([b"\xff=x"])


def test_documents_may_hold_structured_values() -> None:
    assert parse_json(b'{"value": {"n": 1}}').value == b'{"n": 1}'
    assert parse_json(b'{"key": 5}') == NewRecord(b"5", None, [])
    for bad in (b"[]", b"x", b'"text"'):
        with pytest.raises(UsageFailed):
            record_lines.parse_json(bad)


def test_a_document_of_kcat_is_a_record() -> None:
    line = (
        b'{"topic":"t","partition":1,"offset":7,"tstype":"create","ts":1234,"broker":1,'
        b'"headers":["a","1","b",null],"key":"k","payload":"v"}'
    )
    assert parse_json(line) == NewRecord(b"k", b"v", [("a", b"1"), ("b", None)], timestamp=1234)
    assert parse_json(b'{"ts":-1,"key":null,"payload":null}') == NewRecord(None, None, [])


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (b'{"payload": "v", "headers": ["a"]}', "a value after each name"),
        (b'{"payload": "v", "headers": [null, "a"]}', "a value after each name"),
        (b'{"payload": "v", "headers": ["a", {}]}', "names and values"),
        (b'{"payload": "v", "ts": "now"}', "milliseconds since 1970"),
        (b'{"payload": "v", "ts": -2}', "milliseconds since 1970"),
        (b'{"payload": "v", "ts": 0}', "replaces it by the present time"),
        (b'{"value": "v", "timestamp": 0}', "replaces it by the present time"),
        (b'{"vlaue": "v"}', "neither key nor value"),
        (b'{"payload": "\\ud800"}', "surrogate"),
        (b'{"payload": "v", "headers": ["\\ud800", "a"]}', "surrogate"),
        (b'{"value": "v", "headers": [{"name": "\\ud800", "value": "a"}]}', "surrogate"),
        (b"[" * 100_000, "not a JSON document"),
    ],
)
def test_a_wrong_document_is_refused(line: bytes, part: str) -> None:
    with pytest.raises(UsageFailed, match=part):
        parse_json(line)
