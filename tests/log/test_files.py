"""Names of files and folders are Kafka's."""

import os
from pathlib import Path

import pytest

from kbroker.log import files


def test_file_names_have_twenty_digits() -> None:
    assert files.file_name(42, files.LOG) == "00000000000000000042.log"
    assert files.base_offset_of("00000000000000000042.timeindex") == 42
    assert files.base_offset_of("00000000000000000042.log.deleted") == 42


@pytest.mark.parametrize(
    "name",
    [
        "42.log",
        "leader-epoch-checkpoint",
        "0000000000000000004x.log",
        "09223372036854775808.log",
        "99999999999999999999.snapshot",
        "\u00b2" * 20 + ".log",
        ".log",
        "",
    ],
)
def test_other_names_have_no_offset(name: str) -> None:
    assert files.base_offset_of(name) is None


@pytest.mark.parametrize(
    ("name", "topic", "partition", "suffix"),
    [
        ("orders-0", "orders", 0, ""),
        ("a-b-c-12", "a-b-c", 12, ""),
        ("__consumer_offsets-49", "__consumer_offsets", 49, ""),
        ("orders-3.0123456789abcdef0123456789abcdef-delete", "orders", 3, "-delete"),
        ("or.ders-3.0123456789abcdef0123456789abcdef-future", "or.ders", 3, "-future"),
        ("a-1-2.0123456789abcdef0123456789abcdef-stray", "a-1", 2, "-stray"),
    ],
)
def test_folders_are_parsed(name: str, topic: str, partition: int, suffix: str) -> None:
    assert files.parse_folder(name) == files.PartitionFolder(topic, partition, suffix)


@pytest.mark.parametrize("name", ["orders", "orders-x", "kbroker.db", "remote-log-index-cache", "-1x"])
def test_other_folders_are_no_partitions(name: str) -> None:
    assert files.parse_folder(name) is None


def test_a_folder_lies_in_its_log_dir() -> None:
    assert files.log_dir_of("/data/logs/my-topic-3") == "/data/logs"


def test_a_dated_folder_fits_into_a_file_name_and_is_parsed_back() -> None:
    name = files.dated_folder_name("t" * 249, 7, "0" * 32, files.DELETE_FOLDER)
    assert len(name) == files.MAX_NAME_BYTES
    parsed = files.parse_folder(name)
    assert parsed is not None
    assert (parsed.partition, parsed.suffix) == (7, files.DELETE_FOLDER)


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, pwrite = os.write, os.pwrite
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:3]))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:3], at))
    path = tmp_path / "f"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    files.write_all(fd, b"abcdefgh")
    assert path.read_bytes() == b"abcdefgh"
    files.pwrite_all(fd, b"12345", 2)
    os.close(fd)
    assert path.read_bytes() == b"ab12345h"


def test_a_dated_name_is_that_of_its_partition() -> None:
    name = files.dated_folder_name("a-1", 2, "0123", files.FUTURE_FOLDER)
    assert name == "a-1-2.0123-future"
    assert files.is_dated(name, "a-1", 2, files.FUTURE_FOLDER)
    for topic, partition, suffix in (
        ("a-1", 3, files.FUTURE_FOLDER),
        ("a", 2, files.FUTURE_FOLDER),
        ("a-1", 2, files.DELETE_FOLDER),
    ):
        assert not files.is_dated(name, topic, partition, suffix)
    assert not files.is_dated("a-1-2", "a-1", 2, files.FUTURE_FOLDER)


def test_a_dated_name_of_a_long_topic_is_that_of_its_beginning() -> None:
    name = files.dated_folder_name("t" * 249, 7, "0" * 32, files.DELETE_FOLDER)
    assert files.is_dated(name, "t" * 249, 7, files.DELETE_FOLDER)
    assert files.is_dated(name, "t" * 248, 7, files.DELETE_FOLDER)
    assert not files.is_dated(name, "t" * 100, 7, files.DELETE_FOLDER)


def test_segments_and_snapshots_are_listed_by_their_offsets(tmp_path: Path) -> None:
    for name in (
        f"{30:020d}.log",
        f"{4:020d}.log",
        f"{5:020d}.log.deleted",
        f"{4:020d}.index",
        f"{31:020d}.snapshot",
        f"{9:020d}.snapshot",
        f"{8:020d}.snapshot.deleted",
        "x.log",
        "7.snapshot",
    ):
        (tmp_path / name).touch()
    segments = files.list_segments(str(tmp_path))
    assert [segment.base_offset for segment in segments] == [4, 30]
    assert segments[0].inode == (tmp_path / f"{4:020d}.log").stat().st_ino
    assert files.list_snapshots(str(tmp_path)) == [9, 31]


def test_a_name_needs_exactly_twenty_digits() -> None:
    assert files.base_offset_of("0" * 19 + ".log") is None
    assert files.base_offset_of("0" * 21 + ".log") is None
    assert files.base_offset_of("0" * 20) is None
    assert files.path("/d/t-0", 7, files.TXN_INDEX) == f"/d/t-0/{7:020d}.txnindex"
    assert files.folder_name("a-b", 3) == "a-b-3"
