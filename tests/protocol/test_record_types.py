"""Coordinator records have the bytes of Apache Kafka 4.3.1 for the same values (captured from its
classes)."""

import pytest

from kbroker.protocol.coordinator_records.consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from kbroker.protocol.coordinator_records.group_metadata import GroupMetadataValue, MemberMetadata
from kbroker.protocol.coordinator_records.index import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from kbroker.protocol.coordinator_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kbroker.protocol.coordinator_records.share_snapshot import ShareSnapshotValue, StateBatch
from kbroker.protocol.coordinator_records.share_update import ShareUpdateKey
from kbroker.protocol.coordinator_records.transaction_log import PartitionsSchema, TransactionLogValue
from kbroker.protocol.record_types import RecordTypes, decode_record, encode_key, encode_value
from kbroker.protocol.schema import ProtocolError, Struct

TOPIC_ID = bytes.fromhex("00000000000000010000000000000002")
MEMBER = MemberMetadata(
    member_id="a",
    client_id="c",
    client_host="/1",
    rebalance_timeout=1,
    session_timeout=2,
    subscription=b"\1\2",
    assignment=b"\3",
)
CONSUMER_MEMBER = {
    "instance_id": "i",
    "rack_id": None,
    "client_id": "c",
    "client_host": "h",
    "subscribed_topic_names": ["t"],
    "subscribed_topic_regex": "r",
    "rebalance_timeout_ms": 5,
    "server_assignor": "uniform",
}
GROUP = GroupMetadataValue("consumer", 7, "range", "a", 9, [MEMBER])
VALUES: list[tuple[RecordTypes, int, Struct, int, str]] = [
    (
        CONSUMER_OFFSETS,
        1,
        OffsetCommitValue(42, 5, "m", 1000, topic_id=TOPIC_ID),
        4,
        "0004000000000000002a00000005026d00000000000003e801001000000000000000010000000000000002",
    ),
    (
        CONSUMER_OFFSETS,
        1,
        OffsetCommitValue(42, 5, "m", 1000),
        3,
        "0003000000000000002a0000000500016d00000000000003e8",
    ),
    (
        CONSUMER_OFFSETS,
        2,
        GROUP,
        3,
        (
            "00030008636f6e73756d657200000007000572616e6765000161000000000000000900000001000161ffff000163"
            "00022f3100000001000000020000000201020000000103"
        ),
    ),
    (
        CONSUMER_OFFSETS,
        2,
        GROUP,
        4,
        (
            "000409636f6e73756d6572000000070672616e676502610000000000000009020261000263032f310000000100000002"
            "03010202030000"
        ),
    ),
    (
        CONSUMER_OFFSETS,
        5,
        ConsumerGroupMemberMetadataValue(**CONSUMER_MEMBER),
        0,
        "00000269000263026802027402720000000508756e69666f726d00",
    ),
    (
        CONSUMER_OFFSETS,
        5,
        ConsumerGroupMemberMetadataValue(
            **CONSUMER_MEMBER,
            classic_member_metadata=ClassicMemberMetadata(6, [ClassicProtocol("range", b"\x09")]),
        ),
        0,
        "00000269000263026802027402720000000508756e69666f726d0100100100000006020672616e676502090000",
    ),
    (
        TRANSACTION_STATE,
        0,
        TransactionLogValue(
            producer_id=1,
            previous_producer_id=4,
            producer_epoch=2,
            transaction_timeout_ms=60000,
            transaction_status=1,
            transaction_partitions=[PartitionsSchema("t", [0, 1])],
            transaction_last_update_timestamp_ms=5,
            transaction_start_timestamp_ms=6,
        ),
        1,
        (
            "0001000000000000000100020000ea600102027403000000000000000100000000000000000500000000000000060100080000"
            "000000000004"
        ),
    ),
    (
        SHARE_GROUP_STATE,
        0,
        ShareSnapshotValue(
            snapshot_epoch=1,
            state_epoch=2,
            leader_epoch=3,
            start_offset=4,
            delivery_complete_count=8,
            create_timestamp=5,
            write_timestamp=6,
            state_batches=[StateBatch(1, 2, 2, 1)],
        ),
        0,
        (
            "000000000001000000020000000300000000000000040000000000000005000000000000000602000000000000000100"
            "000000000000020200010001000400000008"
        ),
    ),
]


@pytest.mark.parametrize(("types", "type_", "value", "version", "captured"), VALUES)
def test_values_have_kafkas_bytes(
    types: RecordTypes, type_: int, value: Struct, version: int, captured: str
) -> None:
    assert encode_value(value, version).hex() == captured
    key = encode_key(types[type_][0]())
    assert decode_record(types, key, bytes.fromhex(captured)) == (types[type_][0](), value)


def test_keys_have_kafkas_bytes() -> None:
    assert encode_key(OffsetCommitKey("g", "t", 3)).hex() == "000100016700017400000003"
    assert (
        encode_key(ShareUpdateKey("g", TOPIC_ID, 3)).hex()
        == "00010001670000000000000001000000000000000200000003"
    )


def test_a_null_value_is_a_tombstone() -> None:
    key = OffsetCommitKey("g", "t", 3)
    assert decode_record(CONSUMER_OFFSETS, encode_key(key), None) == (key, None)


@pytest.mark.parametrize("key", [b"", b"\0", b"\x7f\0\0\1a", b"\0\2\0\1"])
def test_an_unknown_or_damaged_key_is_refused(key: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_record(CONSUMER_OFFSETS, key, None)


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\x63", b"\0\3\0"])
def test_an_unknown_or_damaged_value_is_refused(value: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_record(CONSUMER_OFFSETS, encode_key(OffsetCommitKey("g", "t", 3)), value)
