"""Kafka's text of a UUID."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.protocol import kafka_uuid
from kbroker.protocol.kafka_uuid import format_uuid, parse_uuid, random_uuid


@given(st.binary(min_size=16, max_size=16))
def test_a_text_is_parsed_to_its_bytes(value: bytes) -> None:
    text = format_uuid(value)
    assert len(text) == 22
    assert parse_uuid(text) == value


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 20, "A" * 24])
def test_a_text_of_another_length_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"16 bytes"):
        parse_uuid(text)


def test_no_random_id_begins_with_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [UUID(bytes=b"\xf8" + bytes(15)), UUID(bytes=bytes(16))]
    monkeypatch.setattr(kafka_uuid, "uuid4", lambda: drawn.pop(0))
    assert random_uuid() == "A" * 22
    assert not drawn
