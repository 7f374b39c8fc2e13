"""Offset records by hand are the generated classes' bytes, and Kafka's older versions are read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.control.groups.offset_record import (
    CommittedOffset,
    check_offset,
    decode_offset,
    decode_offset_key,
    encode_offset,
    encode_offset_key,
)
from kbroker.protocol.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kbroker.protocol.record_types import encode_key, encode_value
from kbroker.protocol.schema import ZERO_UUID, ProtocolError

LONG = st.integers(-(2**63), 2**63 - 1)
OFFSETS = st.builds(
    CommittedOffset,
    LONG,
    st.integers(-1, 2**31 - 1),
    st.text(max_size=300),
    LONG,
    expire_timestamp=st.just(-1),
    topic_id=st.just(ZERO_UUID) | st.binary(min_size=16, max_size=16),
)


def value_of(offset: CommittedOffset) -> OffsetCommitValue:
    return OffsetCommitValue(
        offset.offset,
        offset.leader_epoch,
        offset.metadata,
        offset.commit_timestamp,
        offset.expire_timestamp,
        offset.topic_id,
    )


@given(OFFSETS)
def test_values_are_those_of_the_generated_class(offset: CommittedOffset) -> None:
    assert encode_offset(offset) == encode_value(value_of(offset), 4)
    assert decode_offset(encode_offset(offset)) == offset


@given(OFFSETS, st.integers(0, 3))
def test_older_versions_are_read(offset: CommittedOffset, version: int) -> None:
    found = decode_offset(encode_value(value_of(offset), version))
    epoch = offset.leader_epoch if version >= 3 else -1
    assert found == offset._replace(leader_epoch=epoch, topic_id=ZERO_UUID)


@given(st.text(max_size=200), st.text(max_size=200), st.integers(0, 2**31 - 1))
def test_keys_are_those_of_the_generated_class(group: str, topic: str, partition: int) -> None:
    key = encode_offset_key(group, topic, partition)
    assert key == encode_key(OffsetCommitKey(group, topic, partition))
    assert decode_offset_key(key) == (group, topic, partition)


def test_an_expiry_of_its_own_survives() -> None:
    offset = CommittedOffset(1, -1, "m", 2, 99)
    assert decode_offset(encode_offset(offset)) == offset


def test_tags_of_a_later_version_are_passed_over() -> None:
    offset = CommittedOffset(1, 2, "m", 3, topic_id=b"i" * 16)
    later = encode_offset(offset).replace(b"\1\0\x10" + b"i" * 16, b"\2\0\x10" + b"i" * 16 + b"\7\1x")
    assert decode_offset(later) == offset


@given(st.binary(max_size=60))
def test_damage_is_reported(data: bytes) -> None:
    try:
        decode_offset(b"\0\4" + data)
    except ProtocolError:
        pass


def test_damaged_values_have_no_offset() -> None:
    with pytest.raises(ProtocolError):
        decode_offset(b"\0\4\0")


@given(OFFSETS, st.integers(0, 3))
def test_a_check_refuses_nothing_that_can_be_read(offset: CommittedOffset, version: int) -> None:
    check_offset(encode_offset(offset))
    check_offset(encode_value(value_of(offset), version))


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_382, 16_383])
def test_metadata_of_every_length_is_written_and_checked(size: int) -> None:
    offset = CommittedOffset(7, 3, "m" * size, 9)
    value = encode_offset(offset)
    assert value == encode_value(value_of(offset), 4)
    check_offset(value)
    for damaged in (value[:-1], value[:-2], value[:14], value[:2]):
        with pytest.raises(ProtocolError):
            check_offset(damaged)


A, B = b"a" * 16, b"b" * 16


@pytest.mark.parametrize(
    ("own", "topic", "another"),
    [
        (A, A, False),
        (A, B, True),
        (A, None, False),
        (A, ZERO_UUID, False),
        (ZERO_UUID, B, False),
        (ZERO_UUID, ZERO_UUID, False),
        (ZERO_UUID, None, False),
    ],
)
def test_an_offset_is_of_another_topic_only_where_both_ids_are_known(
    own: bytes, topic: bytes | None, another: bool
) -> None:
    assert CommittedOffset(1, -1, "", 2, topic_id=own).is_of_another(topic) is another


@pytest.mark.parametrize(("group", "topic"), [("g" * 32_768, "t"), ("g", "t" * 32_768)])
def test_names_that_no_record_can_hold_are_refused(group: str, topic: str) -> None:
    with pytest.raises(ProtocolError):
        encode_offset_key(group, topic, 0)
    assert decode_offset_key(encode_offset_key(group[:32_767], topic[:32_767], 0))[2] == 0
