"""Records whose keys or values must name a registered schema."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.ipc.schema_rules import SchemaRules, Strategy
from kbroker.net.produce import record_checks
from kbroker.net.produce.record_checks import AT_ONCE_RECORDS, Rules, ValidationResult, check
from kbroker.net.produce.record_stream import PREFIX_BYTES, prefixes
from kbroker.net.produce.record_walk import TooLong
from kbroker.net.produce.registered_schemas import Registered
from kbroker.net.produce.schema_checks import SchemaDemand
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.compression import Codec, compress
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.records import build_batch, read_batches, read_records
from tests.net.produce.compressed_cases import RECORDS, with_body
from tests.net.produce.schema_records import key, value
from tests.net.requests import now_ms

GOOD = b"\0\0\0\0\7rest"
BOTH = SchemaRules(Strategy.TOPIC_NAME, Strategy.TOPIC_NAME)
VALUE = SchemaRules(None, Strategy.TOPIC_NAME)
KEEP = Rules("t-0", False, True, 1 << 62, 1 << 62, 1 << 30, -1, 0)
CODECS = list(Codec)


def known() -> Registered:
    found = Registered()
    found.apply(key("t-value", 1), value("t-value", 1, 7))
    found.apply(key("t-key", 1), value("t-key", 1, 9))
    found.apply(key("u-value", 1), value("u-value", 1, 8))
    return found


def look(data: bytes, rules: SchemaRules = VALUE, **options: Any) -> ValidationResult:
    demand = SchemaDemand("t", rules, known())
    whole = Rules("t-0", False, True, 1 << 62, 1 << 62, 1 << 30, -1, 0, rules)
    return check(data, whole, now_ms(), demand=demand, **options)


def of(*values: bytes | None, codec: Codec = Codec.NONE) -> bytes:
    return build_batch([(b"k", one, (), now_ms()) for one in values], codec=codec)


@pytest.mark.parametrize("codec", CODECS)
def test_values_that_name_a_schema_of_the_subject_and_tombstones_pass(codec: Codec) -> None:
    assert look(of(GOOD, GOOD[:5], None, GOOD + bytes(70_000), GOOD, codec=codec)) == ValidationResult()


@pytest.mark.parametrize("codec", CODECS)
def test_every_other_record_is_named_in_the_answer(codec: Codec) -> None:
    values = (GOOD, b"raw", b"", b"\0\0\0\0", GOOD, b"\1\0\0\0\7", b"\0\0\0\0\x08", b"\0\xff\0\0\x08")
    validation = look(of(*values, codec=codec))
    assert validation.error is ErrorCode.INVALID_RECORD
    assert [index for index, _ in validation.record_errors] == [1, 2, 3, 5, 6, 7]
    texts = [text for _, text in validation.record_errors]
    unnamed = "The value does not begin with the id of a schema, which topic t requires"
    assert texts[:4] == [unnamed] * 4
    assert texts[4] == "Schema 8 is not registered for the value in topic t (TopicNameStrategy)"
    assert validation.message is not None
    assert "6 record errors in total" in validation.message


def test_an_answer_names_so_many_errors_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_checks, "MAX_ERRORS", 3)
    validation = look(of(b"raw", GOOD, b"raw", b"raw", b"raw", b"raw"))
    assert [index for index, _ in validation.record_errors] == [0, 2, 3]
    monkeypatch.setattr(record_checks, "MAX_RECORDS", 5)
    validation = look(of(*[GOOD] * 6))
    assert (validation.error, validation.record_errors) == (ErrorCode.INVALID_RECORD, ())
    assert look(of(*[GOOD] * 5)) == ValidationResult()


def test_keys_are_checked_on_request() -> None:
    batch = build_batch(
        [(b"\0\0\0\0\x09", b"raw", (), 1), (None, b"raw", (), 1), (b"\0\0\0\0\7", GOOD, (), 1)]
    )
    validation = look(batch, SchemaRules(Strategy.TOPIC_NAME, None))
    text = "Schema 7 is not registered for the key in topic t (TopicNameStrategy)"
    assert validation.record_errors == ((2, text),)
    assert [index for index, _ in look(batch, BOTH).record_errors] == [0, 1, 2]


def test_a_missing_schema_is_named_in_the_answer() -> None:
    demand = SchemaDemand("t", VALUE, Registered())
    validation = check(of(GOOD), KEEP, now_ms(), demand=demand)
    assert "No schema is registered" in validation.record_errors[0][1]


def test_a_loop_looks_at_few_records() -> None:
    assert look(of(*[GOOD] * AT_ONCE_RECORDS), at_once=True) == ValidationResult()
    with pytest.raises(TooLong):
        look(of(*[GOOD] * (AT_ONCE_RECORDS + 1)), at_once=True)


@given(records=RECORDS, codec=st.sampled_from(CODECS))
def test_first_bytes_are_those_of_the_complete_records(records: list[Any], codec: Codec) -> None:
    batch = next(read_batches(build_batch(records, codec=codec)))
    whole = [
        tuple(part if part is None else bytes(part[:PREFIX_BYTES]) for part in (one.key, one.value))
        for one in read_records(batch)
    ]
    assert list(prefixes(batch)) == whole


def test_large_keys_and_values_are_passed_over() -> None:
    sizes = (3 << 20, 0, 1 << 20)
    records = [(b"key%d" % i + bytes(size), GOOD + bytes(size), (), 7) for i, size in enumerate(sizes)]
    batch = next(read_batches(build_batch(records, codec=Codec.ZSTD)))
    assert list(prefixes(batch)) == [(b"key0\0", GOOD[:5]), (b"key1", GOOD[:5]), (b"key2\0", GOOD[:5])]


@given(records=RECORDS, codec=st.sampled_from(CODECS), data=st.data())
def test_damaged_records_raise_nothing(records: list[Any], codec: Codec, data: st.DataObject) -> None:
    plain = bytearray(build_batch(records)[rb.RECORDS :])
    for _ in range(data.draw(st.integers(1, 3))):
        plain[data.draw(st.integers(0, len(plain) - 1))] = data.draw(st.integers(0, 255))
    batch = with_body(build_batch(records, codec=codec), compress(codec, bytes(plain)))
    assert look(batch, BOTH).error in (
        ErrorCode.NONE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    )
