"""Apache Kafka's metadata log: configs and producer ids of what is adopted."""

import asyncio
import base64
from pathlib import Path

import pytest

from kbroker.control.kraft import records as kr
from kbroker.control.kraft.metadata_folder import FOLDER, UnreadableMetadata
from kbroker.control.kraft.records import framed
from kbroker.control.kraft.snapshot import build
from kbroker.control.metadata import kafka_metadata as km
from kbroker.control.store.store import StoreError
from kbroker.log import files
from kbroker.protocol.records import build_batch, read_batches
from kbroker.protocol.schema import ProtocolError, Struct
from tests.control.fakes import World, world

TOPIC, BROKER = 2, 4
ORDERS = b"o" * 16


def batch(*messages: Struct | bytes, base_offset: int = 0) -> bytes:
    values = [message if isinstance(message, bytes) else framed(message) for message in messages]
    return build_batch([(None, value, (), 1) for value in values], base_offset=base_offset)


def metadata_log(log_dir: Path, *batches: bytes, snapshot: tuple[int, bytes] | None = None) -> None:
    folder = log_dir / FOLDER
    folder.mkdir(parents=True)
    start = 0
    if snapshot is not None:
        start = snapshot[0]
        (folder / f"{start:020d}-0000000003.checkpoint").write_bytes(snapshot[1])
    Path(files.path(str(folder), start, files.LOG)).write_bytes(b"".join(batches))


def partition_folder(log_dir: Path, name: str, topic_id: bytes) -> None:
    folder = log_dir / name
    folder.mkdir(parents=True)
    text = base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
    (folder / files.PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {text}")


def test_the_log_is_replayed_in_order(tmp_path: Path) -> None:
    metadata_log(
        tmp_path,
        batch(
            kr.TopicRecord("orders", ORDERS),
            kr.ConfigRecord(TOPIC, "orders", "retention.ms", "1"),
            kr.ConfigRecord(TOPIC, "orders", "flush.ms", "5"),
        ),
        batch(
            kr.ConfigRecord(TOPIC, "orders", "retention.ms", "-1"),
            kr.ConfigRecord(TOPIC, "orders", "flush.ms", None),
            kr.ProducerIdsRecord(1, 7, 3000),
            base_offset=3,
        ),
    )
    found = km.read([str(tmp_path)])
    assert found is not None
    assert found.topics == {"orders": ORDERS}
    assert found.configs == {(TOPIC, "orders"): {"retention.ms": "-1"}}
    assert found.next_producer_id == 3000


def test_a_removed_topic_takes_its_configs_along(tmp_path: Path) -> None:
    metadata_log(
        tmp_path,
        batch(
            kr.TopicRecord("a", b"1" * 16),
            kr.ConfigRecord(TOPIC, "a", "retention.ms", "1"),
            kr.RemoveTopicRecord(b"1" * 16),
            kr.TopicRecord("a", b"2" * 16),
        ),
    )
    found = km.read([str(tmp_path)])
    assert found is not None
    assert (found.topics, found.configs) == ({"a": b"2" * 16}, {})


def test_a_snapshot_replaces_the_log_before_it(tmp_path: Path) -> None:
    old = build([kr.TopicRecord("a", ORDERS), kr.ConfigRecord(TOPIC, "a", "retention.ms", "1")], (), 3, 1)
    metadata_log(
        tmp_path, batch(kr.ConfigRecord(TOPIC, "a", "flush.ms", "2"), base_offset=9), snapshot=(9, old)
    )
    found = km.read([str(tmp_path)])
    assert found is not None
    assert found.configs == {(TOPIC, "a"): {"retention.ms": "1", "flush.ms": "2"}}


def test_records_of_other_types_are_passed_over(tmp_path: Path) -> None:
    metadata_log(tmp_path, batch(bytes((1, 3, 0)) + b"whatever", kr.TopicRecord("a", ORDERS)))
    found = km.read([str(tmp_path)])
    assert found is not None
    assert list(found.topics) == ["a"]


@pytest.mark.parametrize("value", [b"", b"\x01", b"\x02\x04\x00", b"\x01\x04\x00\x02", b"\x01\x04\x63"])
def test_a_damaged_record_is_an_error_not_a_guess(value: bytes, tmp_path: Path) -> None:
    with pytest.raises(ProtocolError):
        km.parse(value)
    metadata_log(tmp_path, batch(value))
    with pytest.raises(UnreadableMetadata):
        km.read([str(tmp_path)])


SNAPSHOT = build([kr.TopicRecord("a", ORDERS), kr.ConfigRecord(TOPIC, "a", "retention.ms", "1")], (), 3, 1)


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        SNAPSHOT[:8],
        bytes(100),
        SNAPSHOT[:-1],
        SNAPSHOT[: sum(each.size for each in read_batches(SNAPSHOT) if each.base_offset < 3)],
        SNAPSHOT[:70] + bytes((SNAPSHOT[70] ^ 1,)) + SNAPSHOT[71:],
        SNAPSHOT + b"rest",
    ],
    ids=["empty", "8 bytes", "zeros", "cut in the footer", "without footer", "wrong CRC", "more"],
)
def test_a_damaged_snapshot_is_refused_and_nothing_is_overwritten(tmp_path: Path, damaged: bytes) -> None:
    """It was read as an empty one: topics were taken for deleted, settings, users and ACLs were
    removed, and an export replaced the file."""
    log_dir = tmp_path / "d0"
    partition_folder(log_dir, "a-0", ORDERS)
    metadata_log(log_dir, snapshot=(9, damaged))
    before = {path: path.read_bytes() for path in (log_dir / FOLDER).iterdir()}
    for _ in range(2):
        with pytest.raises(
            StoreError, match=r"__cluster_metadata-0 cannot be read .*: repair it, or move it"
        ):
            World(tmp_path)
    assert {path: path.read_bytes() for path in (log_dir / FOLDER).iterdir()} == before
    (log_dir / FOLDER).rename(tmp_path / "elsewhere")
    with world(tmp_path) as made:
        assert list(made.broker.catalogue.topics) == ["a"]


def test_a_batch_of_the_log_with_a_wrong_crc_is_refused(tmp_path: Path) -> None:
    damaged = bytearray(batch(kr.TopicRecord("a", ORDERS)))
    damaged[-2] ^= 1
    metadata_log(tmp_path, bytes(damaged))
    with pytest.raises(UnreadableMetadata, match="the CRC of the batch at offset 0"):
        km.read([str(tmp_path)])


def test_without_a_metadata_log_nothing_is_known(tmp_path: Path) -> None:
    assert km.read([str(tmp_path)]) is None


def test_adopted_topics_keep_their_configs_and_producer_ids_continue_far_above(tmp_path: Path) -> None:
    log_dir = tmp_path / "d0"
    partition_folder(log_dir, "orders-0", ORDERS)
    partition_folder(log_dir, "stale-0", b"s" * 16)
    metadata_log(
        log_dir,
        batch(
            kr.TopicRecord("orders", ORDERS),
            kr.ConfigRecord(TOPIC, "orders", "retention.ms", "-1"),
            kr.ConfigRecord(TOPIC, "orders", "gone.in.4.0", "1"),
            kr.TopicRecord("stale", b"other id........"),
            kr.ConfigRecord(TOPIC, "stale", "retention.ms", "1"),
            kr.ProducerIdsRecord(1, 7, 5000),
        ),
    )
    with world(tmp_path) as made:
        assert made.broker.override(TOPIC, "orders") == {"retention.ms": "-1"}
        assert made.broker.topic_config("orders").retention_ms == -1
        assert made.broker.override(TOPIC, "stale") == {}
        # above the count that was found, and above all that Apache Kafka will count to once it has
        # the folders back
        assert asyncio.run(made.broker.producer_ids.take()) > 1 << 40
        made.reboot()
        assert made.broker.override(TOPIC, "orders") == {"retention.ms": "-1"}


def test_without_kafkas_count_producer_ids_start_far_above_it(tmp_path: Path) -> None:
    partition_folder(tmp_path / "d0", "orders-0", ORDERS)
    with world(tmp_path) as made:
        assert asyncio.run(made.broker.producer_ids.take()) > 1 << 50
