"""What serializers wrote with a schema of the broker's own registry is shown as JSON, within
bounds."""

import io
import json
import struct
import time
from collections.abc import Callable
from decimal import Context, Decimal
from functools import partial
from typing import Any, NoReturn, cast

import avro.io
import avro.schema
import pytest

from kbroker.http.console.caller import Caller
from kbroker.http.registry import decoder
from kbroker.http.registry.decoder import AnswerDecoder, SchemaDecoder
from kbroker.http.registry.failure import Failure, busy, store_failed
from kbroker.http.registry.formats.avro_reader import MAX_DECIMAL_BYTES
from kbroker.http.registry.formats.decode import MAX_VALUES, UnknownType, decoder_of
from kbroker.http.registry.schema_cache import OVERHEAD, SchemaCache
from kbroker.http.registry.state import State
from kbroker.http.registry.topic import SchemaTopic
from kbroker.http.registry.topic_records import Reference, SchemaRow
from tests.callbacks import slowness

CALLER = cast("Caller", None)
ORDER = (
    '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},{"name":"by","type":"string"}]}'
)
NAME = "n" * 1000
WIDE = '{"type":"array","items":{"type":"record","name":"R","fields":[{"name":"' + NAME + '","type":"int"}]}}'
LETTER = {"type": "enum", "name": "Letter", "symbols": ["X", "Y"]}
COUNTS = {"type": "map", "values": {"type": "array", "items": "long"}}
PLACE = 'syntax = "proto3"; message Place { string city = 1; }'
SHOP = 'syntax = "proto3"; import "place.proto"; message Shop { Place place = 1; }'
ROWS = (
    SchemaRow("orders-value", 1, 1, ORDER),
    SchemaRow("place", 1, 2, PLACE, "PROTOBUF"),
    SchemaRow("shops-value", 1, 3, SHOP, "PROTOBUF", (Reference("place.proto", "place", 1),)),
    SchemaRow("json-value", 1, 4, "{}", "JSON"),
    SchemaRow("wide-value", 1, 5, WIDE),
    SchemaRow("empty-value", 1, 6, '{"type":"array","items":"null"}'),
    SchemaRow("wrong-value", 1, 7, '{"type":"nothing"}'),
)


class Topic(SchemaTopic):
    """Schemas without a broker. refused: as if the caller's ACLs did not allow it."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = False
        self.lookups = 0
        for row in ROWS:
            self.state._put(row)

    def refresh(self, caller: Caller) -> State:
        self.lookups += 1
        if self.refused:
            raise store_failed("not for you")
        return self.state


@pytest.fixture
def topic() -> Topic:
    return Topic()


def test_a_schema_is_used_once_its_compiler_is_free(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    schemas = SchemaDecoder(topic)

    def compiler_is_busy(*_: object) -> NoReturn:
        raise busy("schemas are compiled")

    with monkeypatch.context() as occupied:
        occupied.setattr(decoder, "decoder_of", compiler_is_busy)
        with pytest.raises(Failure, match="try again"):
            schemas.find(topic.state, 2)
    assert schemas.find(topic.state, 2) is not None


def test_a_schema_is_used_once_its_references_are_registered(topic: Topic) -> None:
    """Also where the referenced schema has changed since."""
    schemas = SchemaDecoder(topic)
    place = framed(b"\x00\x0a\x06\x0a\x04Bern", 3)
    topic.state._schema("place", 1, None)
    assert schemas.answer(CALLER)(place, 1000) is None
    topic.state._put(SchemaRow("place", 1, 2, "no schema", "PROTOBUF"))
    assert schemas.answer(CALLER)(place, 1000) is None
    topic.state._put(SchemaRow("place", 1, 2, PLACE, "PROTOBUF"))
    assert schemas.answer(CALLER)(place, 1000) is not None
    topic.state._put(SchemaRow("place", 1, 2, PLACE.replace("city", "town"), "PROTOBUF"))
    found = schemas.answer(CALLER)(place, 1000)
    assert found is not None
    assert found[0] == '{"place": {"town": "Bern"}}'


def framed(data: bytes, schema_id: int) -> bytes:
    return struct.pack(">BI", 0, schema_id) + data


def one(topic: Topic) -> AnswerDecoder:
    return SchemaDecoder(topic).answer(CALLER)


def long_of(number: int) -> bytes:
    number, out = number << 1, b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


@pytest.mark.parametrize(
    ("data", "schema_id", "text", "kind"),
    [
        (b"\x0e\x04ab", 1, '{"id": 7, "by": "ab"}', "AVRO"),
        (b"\x00\x0a\x06\x0a\x04Bern", 3, '{"place": {"city": "Bern"}}', "PROTOBUF"),
        (b'{"a":"\xc3\xbc"}', 4, '{"a": "\xfc"}', "JSON"),
    ],
)
def test_each_format_becomes_json(topic: Topic, data: bytes, schema_id: int, text: str, kind: str) -> None:
    assert one(topic)(framed(data, schema_id), 1000) == (text, False, {"id": schema_id, "type": kind})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0\0\0",
        b"plain text",
        framed(b"\x0e\x04ab", 99),
        framed(b"\x0e\x04a", 1),
        framed(b"", 7),
        framed(b'{"a": NaN}', 4),
        framed(b"[" * 5000, 4),
    ],
)
def test_a_value_without_a_known_schema_stays_as_it_is(topic: Topic, data: bytes) -> None:
    assert one(topic)(data, 1000) is None


def test_schemas_are_read_once_for_an_answer_and_only_when_a_value_names_one(topic: Topic) -> None:
    decode = one(topic)
    decode(b"plain text", 1000)
    assert topic.lookups == 0
    for _ in range(3):
        assert decode(framed(b"\x0e\x04ab", 1), 1000)
    assert topic.lookups == 1


def test_a_caller_who_may_not_read_schemas_gets_the_bytes(topic: Topic) -> None:
    topic.refused = True
    assert one(topic)(framed(b"\x0e\x04ab", 1), 1000) is None


def test_an_id_that_has_got_another_schema_is_read_with_that(topic: Topic) -> None:
    schemas = SchemaDecoder(topic)
    assert schemas.answer(CALLER)(framed(b"\x0e\x04ab", 1), 1000)
    topic.state._schema("orders-value", 1, None)
    topic.state._put(SchemaRow("orders-value", 1, 1, '"long"'))
    assert schemas.answer(CALLER)(framed(b"\x0e", 1), 1000) == ("7", False, {"id": 1, "type": "AVRO"})


def test_long_names_repeated_are_cut(topic: Topic) -> None:
    items = 5000
    found = one(topic)(framed(long_of(items) + b"\x02" * items + b"\0", 5), 16384)
    assert found is not None
    text, cut, _ = found
    assert len(text) == 16384
    assert cut


def test_many_items_of_no_bytes_are_not_built(topic: Topic) -> None:
    assert one(topic)(framed(long_of(10) + b"\0", 6), 1000) is not None
    assert one(topic)(framed(long_of(1_000_000) + b"\0", 6), 1000) is None


def test_each_value_has_the_full_bound() -> None:
    read = decoder_of("AVRO", '{"type":"array","items":"null"}', {})
    data = long_of(MAX_VALUES - 1) + b"\0"
    for _ in range(2):
        assert len(read(data)) == MAX_VALUES - 1
    with pytest.raises(ValueError, match=str(MAX_VALUES)):
        read(long_of(MAX_VALUES) + b"\0")


@pytest.mark.parametrize("fixed", [False, True])
def test_a_decimal_of_many_bytes_is_not_read(fixed: bool) -> None:
    """The library needs the square of its bytes: minutes for one of a mebibyte."""
    kind = '"fixed","name":"F","size":%d' if fixed else '"bytes"'
    for size in (MAX_DECIMAL_BYTES, MAX_DECIMAL_BYTES + 1):
        schema = kind.replace("%d", str(size))
        read = decoder_of(
            "AVRO", f'{{"type":{schema},"logicalType":"decimal","precision":2400,"scale":2}}', {}
        )
        data = (b"" if fixed else long_of(size)) + b"\x01" * size
        if size <= MAX_DECIMAL_BYTES:
            assert read(data) == Decimal(int.from_bytes(b"\x01" * size)).scaleb(-2, Context(prec=2400))
            continue
        with pytest.raises(ValueError, match=f"a decimal of {size} bytes"):
            read(data)


def test_a_value_that_the_library_wrote_is_read() -> None:
    text = json.dumps(
        {
            "type": "record",
            "name": "R",
            "fields": [
                {"name": "a", "type": {"type": "array", "items": ["null", "int", LETTER, COUNTS]}},
                {"name": "b", "type": "Letter"},
            ],
        }
    )
    value = {"a": [None, -3, "Y", {"k": [1, -2], "l": []}, "X"], "b": "Y"}
    out = io.BytesIO()
    avro.io.DatumWriter(avro.schema.parse(text)).write(value, avro.io.BinaryEncoder(out))
    assert decoder_of("AVRO", text, {})(out.getvalue()) == value
    sized = bytes([3, 4]) + long_of(1) + long_of(2) + bytes([0])  # a block with its length in bytes
    assert decoder_of("AVRO", '{"type":"array","items":"long"}', {})(sized) == [1, 2]


def test_a_branch_or_a_symbol_that_a_schema_does_not_have_is_an_error() -> None:
    for schema in ('["null","int"]', json.dumps(LETTER)):
        for number in (b"\x04", b"\x01"):
            with pytest.raises(ValueError, match="number"):
                decoder_of("AVRO", schema, {})(number)


def took_s(read: Callable[[bytes], Any], data: bytes) -> float:
    began_s = time.thread_time()
    read(data)
    return time.thread_time() - began_s


def test_a_schema_of_records_that_are_used_twice_is_no_work_without_data() -> None:
    """The library went through each use: 40 records took it years."""
    schema: Any = "int"
    for number in range(22):
        name = schema if isinstance(schema, str) else schema["name"]
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": name}]
        schema = {"type": "record", "name": f"R{number}", "fields": fields}
    for kind in ({"type": "array", "items": schema}, {"type": "map", "values": schema}):
        assert took_s(decoder_of("AVRO", json.dumps(kind), {}), b"\0") < slowness()


def test_a_value_of_a_wide_union_is_compared_with_no_other_branch() -> None:
    """The library compared all branches with each value."""
    branches = [{"type": "fixed", "name": f"F{number}", "size": 0} for number in range(2000)]
    read = decoder_of("AVRO", json.dumps({"type": "array", "items": branches}), {})
    assert took_s(read, long_of(1000) + long_of(1999) * 1000 + b"\0") < 2 * slowness()


def test_an_unknown_type_of_schema_is_named() -> None:
    with pytest.raises(UnknownType, match="THRIFT"):
        decoder_of("THRIFT", "", {})


def test_an_answer_has_so_much_time_for_it(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(100))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(now)))
    decode = one(topic)
    data: Any = framed(b"\x0e\x04ab", 1)
    assert decode(data, 1000) is not None
    assert decode(data, 1000) is None


def test_few_schemas_are_kept(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "SchemaCache", partial(SchemaCache, 2 * OVERHEAD - 1))
    schemas = SchemaDecoder(topic)
    for _ in range(2):
        for schema_id, data in ((1, b"\x0e\x04ab"), (4, b"{}")):
            assert schemas.answer(CALLER)(framed(data, schema_id), 1000)
    assert len(schemas._known) == 1
