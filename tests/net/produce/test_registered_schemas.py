"""Which schemas the network process knows, from the records of the topic."""

import base64
import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st

from kbroker.config.topic import SCHEMAS
from kbroker.ipc.layout import Slot, SlotState
from kbroker.ipc.messages import PartitionImage, TopicImage
from kbroker.ipc.schema_rules import Strategy
from kbroker.log import files
from kbroker.net.produce import registered_schemas
from kbroker.net.produce.registered_schemas import (
    MAX_VALUES,
    Registered,
    RegisteredSchemas,
    Unreadable,
    record_name,
)
from kbroker.protocol.compression import Codec
from kbroker.protocol.records import build_batch
from tests.net.produce.schema_records import ORDER, key, value

LOADS = json.loads


def has(known: Registered, id_: int, topic: str = "t", strategy: Strategy = Strategy.TOPIC_NAME) -> bool:
    return known.has(id_, strategy, topic, "value")


def test_an_id_is_only_valid_under_its_subject() -> None:
    known = Registered()
    assert known.is_empty
    known.apply(key("t-value", 1), value("t-value", 1, 7))
    assert has(known, 7)
    assert not has(known, 8)
    assert not has(known, 7, "u")
    assert not known.has(7, Strategy.TOPIC_NAME, "t", "key")
    assert not has(known, 7, strategy=Strategy.RECORD_NAME)


def test_record_strategies_take_the_name_of_the_schema() -> None:
    known = Registered()
    known.apply(key("shop.Order", 1), value("shop.Order", 1, 7))
    assert has(known, 7, strategy=Strategy.RECORD_NAME)
    assert not has(known, 7, strategy=Strategy.TOPIC_RECORD_NAME)
    known.apply(key("t-shop.Order", 1), value("t-shop.Order", 1, 7))
    assert has(known, 7, strategy=Strategy.TOPIC_RECORD_NAME)
    assert not has(known, 7, "u", Strategy.TOPIC_RECORD_NAME)


def test_deleted_versions_and_subjects_count_no_more() -> None:
    known = Registered()
    for version, id_ in ((1, 7), (2, 8), (3, 7)):
        known.apply(key("t-value", version), value("t-value", version, id_))
    known.apply(key("t-value", 1), value("t-value", 1, 7, deleted=True))
    assert has(known, 7)  # as version 3
    known.apply(key("t-value", 2), None)
    assert not has(known, 8)
    deleted = json.dumps({"keytype": "DELETE_SUBJECT", "subject": "t-value", "magic": 0}).encode()
    known.apply(deleted, json.dumps({"subject": "t-value", "version": 3}).encode())
    assert not has(known, 7)
    assert known.is_empty
    known.apply(key("t-value", 3), value("t-value", 3, 7))
    assert has(known, 7)


def test_other_contexts_do_not_count_and_the_default_one_may_be_named() -> None:
    known = Registered()
    known.apply(key(":.other:t-value", 1), value(":.other:t-value", 1, 7))
    assert not has(known, 7)
    known.apply(key(":.:t-value", 1), value(":.:t-value", 1, 7))
    assert has(known, 7)


JSONS: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["keytype", "subject", "version", "id", "schema", "schemaType", "deleted"]), inner
        )
    ),
)
KINDS = st.sampled_from([{"keytype": "SCHEMA"}, {"keytype": "DELETE_SUBJECT"}, {}])


@given(
    kind=KINDS,
    found=JSONS,
    content=st.none() | st.binary(max_size=20) | JSONS.map(lambda one: json.dumps(one).encode()),
)
def test_whatever_the_topic_holds_raises_nothing(kind: dict[str, str], found: Any, content: bytes) -> None:
    known = Registered()
    name = {"subject": "t-value", "version": 1} | (found if isinstance(found, dict) else {}) | kind
    known.apply(json.dumps(name).encode(), content)
    known.apply(content, content)
    known.apply(key("t-value", 1), value("t-value", 1, 7))
    assert has(known, 7)


def test_names_are_those_of_records_messages_and_titles() -> None:
    assert record_name("AVRO", ORDER) == "shop.Order"
    assert record_name("AVRO", '{"type":"record","name":"a.Order","namespace":"shop"}') == "a.Order"
    assert record_name("AVRO", '"string"') is None
    assert record_name("JSON", '{"title":"Order"}') == "Order"
    assert record_name("JSON", '{"type":"object"}') is None
    text = '// message No {\nsyntax = "proto3"; package shop.v1; /* message No {} */ message Order { }'
    assert record_name("PROTOBUF", text) == "shop.v1.Order"
    assert record_name("PROTOBUF", "message Order { }") == "Order"
    options = r"""option a = "\" message No /* {name=orders/*}"; option b = '" message No';"""
    assert record_name("PROTOBUF", f"package shop; {options} message Order {{ }}") == "shop.Order"
    file = FileDescriptorProto(name="o.proto", package="shop", dependency=["x.proto"], syntax="proto3")
    file.message_type.add(name="Order")
    file.message_type.add(name="Other")
    encoded = base64.b64encode(file.SerializeToString()).decode()
    assert record_name("PROTOBUF", encoded) == "shop.Order"


@pytest.mark.parametrize("text", ["/*a", "\"'", '"\n', '\\"'])
def test_a_long_schema_is_read_once(text: str) -> None:
    """From each beginning of a comment its end was searched again: half an hour for this schema."""
    assert record_name("PROTOBUF", f"message Order {{ }} {text * 1_000_000}") == "Order"


@pytest.mark.parametrize("text", [b"0,", b"[],", b'"",', b'"\\\\",'])
def test_a_record_of_very_many_values_is_ignored(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """8 MiB of them stopped the network process for 0.3 s."""
    known = Registered()
    found = value("t-value", 1, 7)
    known.apply(key("t-value", 1), found[:-1] + b',"metadata":[' + text * 1000 + b"0]}")
    assert has(known, 7)
    long = found[:-1] + b',"metadata":[' + text * MAX_VALUES + b"0]}"
    monkeypatch.setattr("json.loads", lambda text: pytest.fail("parsed") if len(text) > 1000 else LOADS(text))
    known.apply(key("t-value", 2), long.replace(b": 7", b": 8"))
    known.apply(long, found)
    assert not has(known, 8)
    assert record_name("AVRO", f'{{"name":"x","doc":[{text.decode() * MAX_VALUES}0]}}') is None


@pytest.mark.parametrize("text", ["/**/", "\\'", "''"])
def test_other_threads_run_while_a_schema_with_very_many_comments_is_read(text: str) -> None:
    """Such a schema of 8 MiB stopped the network process for 0.8 s."""
    schema = f"message Order {{ }} {text * 1_000_000}"
    reading = threading.Thread(target=record_name, args=("PROTOBUF", schema))
    turns = 0
    reading.start()
    while reading.is_alive():
        turns += 1
        time.sleep(0.001)
    assert turns > 10


class Log:
    """A partition of the topic in a folder, and the slot that says how far it is written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.slots = Slot.table(2)
        self.line = self.slots[1]
        self.by_name: dict[str, TopicImage] = {}
        self.now = 0.0
        self.offset = 0
        self.schemas = RegisteredSchemas(self.slots, self, lambda: self.now)

    def begin(self, generation: int) -> None:
        part = PartitionImage(0, 1, generation, str(self.folder))
        self.by_name[SCHEMAS] = TopicImage(SCHEMAS, bytes(16), False, (part,))
        self.line[Slot.GENERATION], self.line[Slot.STATE] = generation, SlotState.ONLINE
        self.line[Slot.HIGH_WATERMARK] = self.line[Slot.HW_POSITION] = self.offset = 0
        Path(files.path(str(self.folder), 0, files.LOG)).write_bytes(b"")

    def write(self, *rows: tuple[bytes, bytes | None], codec: Codec = Codec.NONE) -> None:
        batch = build_batch([(*row, (), 1) for row in rows], base_offset=self.offset, codec=codec)
        with Path(files.path(str(self.folder), 0, files.LOG)).open("ab") as file:
            file.write(batch)
        self.offset += len(rows)
        self.line[Slot.HIGH_WATERMARK] = self.offset
        self.line[Slot.HW_POSITION] += len(batch)


@pytest.fixture
def topic(tmp_path: Path) -> Log:
    return Log(tmp_path)


def test_without_the_topic_nothing_is_registered(topic: Log) -> None:
    known = topic.schemas.at_once()
    assert known is not None
    assert known.is_empty
    assert topic.schemas.read().is_empty


def test_new_schemas_are_read_before_the_next_answer(topic: Log) -> None:
    topic.begin(5)
    topic.write((key("t-value", 1), value("t-value", 1, 7)))
    assert topic.schemas.at_once() is None
    assert has(topic.schemas.read(), 7)
    known = topic.schemas.at_once()
    assert known is not None
    assert not has(known, 8)
    topic.write((key("t-value", 2), value("t-value", 2, 8)))
    assert topic.schemas.at_once() is None
    assert has(topic.schemas.read(), 8)
    assert topic.schemas.at_once() is known  # only what came was read


def test_schemas_above_the_high_watermark_do_not_count(topic: Log) -> None:
    topic.begin(5)
    topic.write((key("t-value", 1), value("t-value", 1, 7)))
    before = topic.line.copy()
    topic.write((key("t-value", 2), value("t-value", 2, 8)))
    topic.line[:] = before
    known = topic.schemas.read()
    assert (has(known, 7), has(known, 8)) == (True, False)


def test_a_recreated_topic_starts_empty(topic: Log) -> None:
    topic.begin(5)
    topic.write((key("t-value", 1), value("t-value", 1, 7)))
    assert has(topic.schemas.read(), 7)
    topic.begin(6)
    topic.write((key("t-value", 1), value("t-value", 1, 8)))
    assert topic.schemas.at_once() is None
    known = topic.schemas.read()
    assert (has(known, 7), has(known, 8)) == (False, True)


def test_after_an_hour_the_topic_is_read_from_its_start(topic: Log) -> None:
    topic.begin(5)
    topic.write((key("t-value", 1), value("t-value", 1, 7)))
    assert has(topic.schemas.read(), 7)
    log = Path(files.path(str(topic.folder), 0, files.LOG))
    first = build_batch([(b"{}", b"{}", (), 1)], base_offset=0)
    log.write_bytes(first)  # as compaction does once the tombstone is old
    topic.line[Slot.HW_POSITION], topic.offset = len(first), 1
    topic.now = 3601
    topic.write((key("t-value", 2), value("t-value", 2, 8)))
    known = topic.schemas.read()
    assert (has(known, 7), has(known, 8)) == (False, True)


def test_a_batch_that_is_very_long_in_plain_is_ignored_and_the_others_count(
    topic: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte may stand for a gigabyte, which the process would hold and parse."""
    monkeypatch.setattr(registered_schemas, "BATCH_BYTES", 1000)
    topic.begin(5)
    topic.write((key("t-value", 1), value("t-value", 1, 7)), codec=Codec.ZSTD)
    topic.write((key("t-value", 2), value("t-value", 2, 8, more="x" * 1000)), codec=Codec.ZSTD)
    topic.write((key("t-value", 3), value("t-value", 3, 9)), codec=Codec.ZSTD)
    known = topic.schemas.read()
    assert [has(known, each) for each in (7, 8, 9)] == [True, False, True]
    assert topic.schemas.at_once() is known


def test_an_unreadable_topic_is_reported_and_read_later(topic: Log) -> None:
    topic.begin(5)
    topic.write((key("t-value", 1), value("t-value", 1, 7)))
    topic.line[Slot.STATE] = SlotState.RECOVERING
    assert topic.schemas.at_once() is None
    with pytest.raises(Unreadable):
        topic.schemas.read()
    topic.line[Slot.STATE] = SlotState.ONLINE
    log = Path(files.path(str(topic.folder), 0, files.LOG))
    whole = log.read_bytes()
    log.write_bytes(whole[:16] + b"\0" + whole[17:])  # the format of another age
    with pytest.raises(Unreadable):
        topic.schemas.read()
    log.write_bytes(whole)
    assert has(topic.schemas.read(), 7)
    assert np.all(topic.slots[0] == Slot.table(1)[0])
