"""Records as JSON."""

import base64
import json

from hypothesis import given
from hypothesis import strategies as st

from kbroker.http.console.record_json import HEADERS, RECORD, record_json, shown
from kbroker.protocol.records import Record
from tests.http.console.schemas import problems


def test_text_stays_text_and_the_rest_is_base64() -> None:
    assert shown(b"gr\xc3\xbcn") == {
        "text": "grün",
        "encoding": "utf-8",
        "size": 5,
        "cut": False,
        "schema": None,
    }
    assert shown(b"\xff\0") == {"text": "/wA=", "encoding": "base64", "size": 2, "cut": False, "schema": None}
    assert shown(None) is None


def test_a_long_text_is_cut_between_characters() -> None:
    found = shown("ü".encode() * 10, 5)
    assert found == {"text": "üü", "encoding": "utf-8", "size": 20, "cut": True, "schema": None}


@given(st.binary(max_size=40), st.integers(1, 50))
def test_any_bytes_are_shown_within_bounds(data: bytes, most: int) -> None:
    found = shown(data, most)
    assert found is not None
    assert found["size"] == len(data)
    text = base64.b64decode(found["text"]) if found["encoding"] == "base64" else found["text"].encode()
    assert data.startswith(text)
    assert len(text) <= most


def test_headers_are_bounded() -> None:
    record = Record(5, 1000, b"k", None, tuple((f"h{number}", None) for number in range(HEADERS + 1)))
    found = record_json(3, record)
    assert len(found["headers"]) == HEADERS
    assert found["headers_cut"]
    assert problems(found, RECORD) == []
    json.dumps(found)
