"""Checkpoints are Kafka's text, replaced as a whole, and shared by workers without losing
entries."""

import errno
import os
import threading
from pathlib import Path

import pytest

from kbroker.log import checkpoint
from kbroker.log.checkpoint import CorruptCheckpoint
from tests.syncs import Syncs


def test_offsets_are_written_as_kafka_does(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    checkpoint.write_offsets(str(path), {("b", 1): 7, ("a", 0): 1 << 40})
    assert path.read_text() == "0\n2\na 0 1099511627776\nb 1 7\n"
    assert checkpoint.read_offsets(str(path)) == {("a", 0): 1 << 40, ("b", 1): 7}
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("content", [None, "", "0\n"])
def test_a_missing_or_unfinished_file_is_empty(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "c"
    if content is not None:
        path.write_text(content)
    assert checkpoint.read_offsets(str(path)) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"1\n0\n",
        b"0\n2\na 0 1\n",
        b"0\n1\na 0\n",
        b"0\n1\na x 1\n",
        b"0\nx\n",
        b"x\n0\n",
        b"0\n1\n\xe1 0 1\n",
        b"0\n1\na 0 9223372036854775808\n",
        b"0\n1\na 2147483648 1\n",
        b"0\n1\na 0 12",
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c"
    path.write_bytes(content)
    with pytest.raises(CorruptCheckpoint, match="/c: "):
        checkpoint.read_offsets(str(path))


def test_no_part_of_a_file_has_another_offset(tmp_path: Path) -> None:
    """The last number of a half-written file was shorter, and counted."""
    path = tmp_path / "c"
    offsets = {("b", 1): 123456, ("a", 0): 1 << 40}
    checkpoint.write_offsets(str(path), offsets)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        try:
            assert checkpoint.read_offsets(str(path)) == {}, whole[:length]
        except CorruptCheckpoint:
            continue


def test_updates_keep_the_entries_of_others(tmp_path: Path) -> None:
    path = str(tmp_path / "c")
    threads = [
        threading.Thread(
            target=lambda n=n: [checkpoint.update_offsets(path, {("t", n): i}) for i in range(20)]
        )
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert checkpoint.read_offsets(path) == {("t", n): 19 for n in range(4)}
    checkpoint.update_offsets(path, {("u", 0): 5}, [("t", 0), ("none", 0)])
    assert checkpoint.read_offsets(path) == {("t", 1): 19, ("t", 2): 19, ("t", 3): 19, ("u", 0): 5}


def test_an_entry_is_found_by_its_topic_and_partition(tmp_path: Path) -> None:
    path = str(tmp_path / "c")
    assert checkpoint.entries(path) == frozenset()
    checkpoint.write_offsets(path, {("t", 11): 1, ("tt", 1): 1, ("a", 0): 1})
    assert checkpoint.entries(path) == {"t 11", "tt 1", "a 0"}
    Path(path).write_bytes(b"0\n1\n\xe1 0 1\n")
    assert checkpoint.entries(path) == frozenset()


def test_an_update_may_depend_on_the_offsets_in_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "c")
    checkpoint.write_offsets(path, {("t", 0): 5})
    checkpoint.update_offsets(path, lambda known: {("u", 0): known["t", 0] + 1})
    assert checkpoint.read_offsets(path) == {("t", 0): 5, ("u", 0): 6}


@pytest.mark.parametrize("content", [b"broken", b"0\n1\n\xe1 0 1\n"])
def test_an_update_replaces_a_damaged_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c"
    path.write_bytes(content)
    checkpoint.update_offsets(str(path), {("t", 0): 1})
    assert checkpoint.read_offsets(str(path)) == {("t", 0): 1}


def test_topic_ids_are_kafkas_text(tmp_path: Path) -> None:
    topic_id = bytes(range(16))
    checkpoint.write_topic_id(str(tmp_path), topic_id)
    assert (tmp_path / "partition.metadata").read_text() == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert checkpoint.read_topic_id(str(tmp_path)) == topic_id


def test_a_topic_id_is_missing_damaged_or_lost_in_a_power_cut(tmp_path: Path) -> None:
    assert checkpoint.read_topic_id(str(tmp_path)) is None
    path = tmp_path / "partition.metadata"
    path.write_text("")
    assert checkpoint.read_topic_id(str(tmp_path)) is None
    for text in (
        "version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw",
        "version: 0\n",
        "version: 0\ntopic_id: AAEC",
    ):
        path.write_text(text)
        with pytest.raises(CorruptCheckpoint):
            checkpoint.read_topic_id(str(tmp_path))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_topic_id_that_may_be_readable_soon_is_not_taken_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    (tmp_path / "partition.metadata").write_text("version: 1")
    assert checkpoint.topic_id_of(str(tmp_path)) is None

    def refuse(*_: object) -> int:
        raise OSError(errnos.pop(), "no")

    errnos = [errno.EIO, number]
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OSError, match="no"):
        checkpoint.topic_id_of(str(tmp_path))
    assert checkpoint.topic_id_of(str(tmp_path)) is None


@pytest.mark.parametrize(("number", "raised"), [(errno.EMFILE, True), (errno.EIO, False)])
def test_leader_epochs_that_may_be_readable_soon_are_not_taken_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, raised: bool
) -> None:
    """A partition that was taken over then had an older leader epoch than its records."""

    def refuse(*_: object) -> int:
        raise OSError(number, "no")

    checkpoint.write_leader_epochs(str(tmp_path), [(7, 0)])
    with monkeypatch.context() as shortage:
        shortage.setattr(os, "open", refuse)
        if raised:
            with pytest.raises(OSError, match="no"):
                checkpoint.known_leader_epochs(str(tmp_path))
        else:
            assert checkpoint.known_leader_epochs(str(tmp_path)) == []
    assert checkpoint.known_leader_epochs(str(tmp_path)) == [(7, 0)]


def test_a_new_file_that_can_be_recreated_needs_no_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", lambda *_: pytest.fail("renamed"))
        checkpoint.replace_file(str(path), b"first", sync=False)
    assert path.read_bytes() == b"first"
    checkpoint.replace_file(str(path), b"2", sync=False)
    assert path.read_bytes() == b"2"
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_a_file_is_on_disk_before_it_takes_the_old_ones_place_and_then_its_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c"
    path.write_bytes(b"old")
    seen: list[tuple[str, bytes]] = []

    def fsync(fd: int) -> None:
        seen.append((Path(f"/proc/self/fd/{fd}").readlink().name, path.read_bytes()))

    monkeypatch.setattr(os, "fsync", fsync)
    checkpoint.replace_file(str(path), b"new")
    assert seen == [("c.tmp", b"old"), (tmp_path.name, b"new")]


@pytest.mark.parametrize("sync", [True, False])
def test_leader_epochs_are_synced_unless_their_writer_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: bool
) -> None:
    syncs = Syncs(tmp_path, monkeypatch)
    checkpoint.write_leader_epochs(str(tmp_path), [(0, 0)], sync)
    assert syncs.taken() == ["leader-epoch-checkpoint.tmp", "."] * sync


def test_an_offset_checkpoint_is_synced_when_something_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = Syncs(tmp_path, monkeypatch)
    checkpoint.write_offsets(str(tmp_path / "c"), {("t", 0): 1})
    assert syncs.taken() == ["c.tmp", "."]
    checkpoint.update_offsets(str(tmp_path / "c"), {("t", 0): 2})
    assert syncs.taken() == ["c.tmp", "."]
    checkpoint.update_offsets(str(tmp_path / "c"), {("t", 0): 2})
    assert syncs.taken() == [], "nothing has changed"


def test_an_update_drops_entries_without_an_offset_and_those_that_are_named(tmp_path: Path) -> None:
    path = str(tmp_path / "c")
    checkpoint.write_offsets(path, {("t", 0): 1, ("t", 1): 2, ("t", 2): 3})
    checkpoint.update_offsets(path, {("t", 0): None, ("t", 1): 5, ("u", 9): None}, [("t", 1), ("t", 2)])
    assert checkpoint.read_offsets(path) == {("t", 1): 5}, "a new offset replaces a dropped one"


def test_an_update_without_a_change_writes_a_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "c"
    checkpoint.update_offsets(str(path), {})
    assert path.read_text() == "0\n0\n"


def test_leader_epochs_keep_the_order_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n2\n5 9\n3 4\n")
    assert checkpoint.read_leader_epochs(str(tmp_path)) == [(5, 9), (3, 4)]
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n1\n5 9 1\n")
    with pytest.raises(CorruptCheckpoint, match="malformed line '5 9 1'"):
        checkpoint.read_leader_epochs(str(tmp_path))
    assert checkpoint.known_leader_epochs(str(tmp_path)) == []


def test_a_checkpoint_that_is_longer_than_a_piece_is_read_whole(tmp_path: Path) -> None:
    path, offsets = str(tmp_path / "c"), {("t" * 60, number): number for number in range(2000)}
    checkpoint.write_offsets(path, offsets)
    assert Path(path).stat().st_size > 2 * checkpoint.PIECE
    assert checkpoint.read_offsets(path) == offsets


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("1\n0\n", "version 1, only 0 is known"),
        ("0\n2\na 0 1\n", "2 entries announced, 1 found"),
        ("0\n0\na 0 1\n", "0 entries announced, 1 found"),
        ("0\n1\na 0\n", "malformed line 'a 0'"),
        ("0\n1\na x 1\n", "'x' is no number"),
        ("0\n1\na 0 -9223372036854775809\n", "-9223372036854775809 does not fit 64 bits"),
    ],
)
def test_the_reason_of_damage_is_named(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "c"
    path.write_text(content)
    with pytest.raises(CorruptCheckpoint, match=f"c: {why}"):
        checkpoint.read_offsets(str(path))
