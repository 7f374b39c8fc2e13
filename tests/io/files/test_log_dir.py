"""A log dir belongs to one broker, knows how it was left, and what is in it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kbroker.io.files import meta_properties
from kbroker.io.files.log_dir import LogDir, LogDirInUse, finish_future, futures_of
from kbroker.io.files.meta_properties import MetaProperties, MetaPropertiesError, verify_or_create
from kbroker.log import checkpoint, files
from tests.syncs import Syncs

TRY_LOCK = """
import fcntl, sys
file = open(sys.argv[1] + "/.lock", "r+")
(fcntl.lockf if sys.argv[2] == "posix" else fcntl.flock)(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
"""

TOPIC_ID = b"\1" * 16


def other_process_locks(folder: Path, kind: str) -> bool:
    """Whether another process gets the lock that kbroker (flock) or Apache Kafka (posix) takes."""
    done = subprocess.run(
        [sys.executable, "-c", TRY_LOCK, str(folder), kind], capture_output=True, check=False
    )
    return done.returncode == 0


def test_two_brokers_never_share_a_folder(tmp_path: Path) -> None:
    log_dir = LogDir(str(tmp_path / "d"))
    log_dir.lock()
    assert not other_process_locks(tmp_path / "d", "flock")
    assert not other_process_locks(tmp_path / "d", "posix")
    with pytest.raises(LogDirInUse, match="in use by another broker: stop that one first"):
        LogDir(str(tmp_path / "d")).lock()
    log_dir.unlock()
    assert other_process_locks(tmp_path / "d", "flock")
    assert other_process_locks(tmp_path / "d", "posix")


def test_a_link_in_place_of_the_lock_is_refused_and_its_target_is_not_made(tmp_path: Path) -> None:
    """Another user may have made the folder: /tmp/kafka-logs is the default one."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / files.LOCK).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        LogDir(str(tmp_path / "logs")).lock()
    assert not (tmp_path / "elsewhere").exists()


def test_the_lock_outlives_its_taker_as_long_as_a_child_runs(tmp_path: Path) -> None:
    read, write = os.pipe()
    script = """
import os, sys
from kbroker.io.files.log_dir import LogDir
log_dir = LogDir(sys.argv[1])
log_dir.lock()
if os.fork():
    os._exit(0)
os.read(int(sys.argv[2]), 1)
"""
    try:
        subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "d"), str(read)], pass_fds=[read], check=True
        )
        assert not other_process_locks(tmp_path / "d", "flock")
    finally:
        os.close(write)  # the child reads the end, and ends
        os.close(read)


def test_identity_is_written_once_and_checked_ever_after(tmp_path: Path) -> None:
    log_dir = LogDir(str(tmp_path))
    made = verify_or_create(log_dir.path, "cluster=1", 3)
    assert verify_or_create(log_dir.path, "cluster=1", 3) == made
    assert len(made.directory_id) == 22
    text = (tmp_path / "meta.properties").read_text()
    assert "cluster.id=cluster\\=1\n" in text
    assert "node.id=3\n" in text
    assert text.endswith("version=1\n")
    with pytest.raises(MetaPropertiesError, match=r"cluster\.id is cluster=1, this broker's is other: "):
        verify_or_create(log_dir.path, "other", 3)
    with pytest.raises(MetaPropertiesError, match=r"node\.id is 3, this broker's is 4: set node\.id=3$"):
        verify_or_create(log_dir.path, "cluster=1", 4)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("version=0\nbroker.id=1\n", "version 0"),
        ("", "no version in it: the file is empty or damaged"),
        ("\0" * 90, "no version in it: the file is empty or damaged"),
        ("version=1\nnode.id=1\n", "cluster.id missing"),
        ("version=1\n", "cluster.id and node.id missing"),
        ("version=1\ncluster.id=x\nnode.id=one\n", "node.id is 'one'"),
    ],
)
def test_a_bad_meta_properties_is_refused_with_the_reason(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(MetaPropertiesError, match=problem):
        meta_properties.read(str(tmp_path))


def test_java_properties_are_understood(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(
        "#\n#Thu Nov 20 09:00:00 UTC 2025\n! comment\ncluster.id = a\\:b\nnode.id=1\ndirectory.id=d\nversion=1\n"
    )
    assert meta_properties.read(str(tmp_path)) == MetaProperties("a:b", 1, "d")


def test_the_clean_marker_is_taken_once(tmp_path: Path) -> None:
    log_dir = LogDir(str(tmp_path))
    assert not log_dir.take_clean_marker()
    log_dir.write_clean_marker(7)
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":7}'
    assert log_dir.take_clean_marker()
    assert not log_dir.take_clean_marker()


def test_the_saved_state_of_logs_is_read_with_the_clean_marker_and_removed_without_it(tmp_path: Path) -> None:
    log_dir, left = LogDir(str(tmp_path)), tmp_path / ".kbroker-closed-logs-0"
    log_dir.write_clean_marker()
    left.write_bytes(b"of a clean stop")
    assert log_dir.take_clean_marker()
    assert log_dir.closed_logs == [b"of a clean stop"]
    assert not left.exists()
    left.write_bytes(b"of an older one")
    again = LogDir(str(tmp_path))
    assert not again.take_clean_marker()
    assert again.closed_logs == []
    assert not left.exists()


def test_a_damaged_checkpoint_costs_a_scan_not_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log_dir = LogDir(str(tmp_path))
    log_dir.update_recovery_points({("t", 0): 5})
    log_dir.update_log_start_offsets({("t", 0): 2})
    assert (log_dir.recovery_points(), log_dir.log_start_offsets()) == ({("t", 0): 5}, {("t", 0): 2})
    log_dir.update_log_start_offsets({}, (("t", 0),))
    assert log_dir.log_start_offsets() == {}
    for text in ("broken", "0\n1\nt 0\n", "0\n2\nt 0 5\n", "\0" * 20):
        caplog.clear()
        (tmp_path / "recovery-point-offset-checkpoint").write_text(text)
        assert log_dir.recovery_points() == {}
        assert "counts as empty" in caplog.text
    caplog.clear()
    (tmp_path / "recovery-point-offset-checkpoint").write_text("")
    assert log_dir.recovery_points() == {}
    assert not caplog.text


def test_only_higher_offsets_are_lowered_after_a_truncation(tmp_path: Path) -> None:
    log_dir = LogDir(str(tmp_path))
    log_dir.lower_offsets(("t", 0), 3, 2, 1)
    assert (log_dir.recovery_points(), log_dir.cleaner_offsets()) == ({}, {})
    assert log_dir.log_start_offsets() == {}
    log_dir.update_recovery_points({("t", 0): 5, ("u", 0): 9})
    log_dir.update_cleaner_offsets({("t", 0): 5, ("u", 0): 9})
    log_dir.update_log_start_offsets({("t", 0): 2, ("u", 0): 9})
    log_dir.lower_offsets(("t", 0), 6, 5, 2)
    assert log_dir.log_start_offsets() == {("t", 0): 2, ("u", 0): 9}
    assert log_dir.recovery_points() == log_dir.cleaner_offsets() == {("t", 0): 5, ("u", 0): 9}
    log_dir.lower_offsets(("t", 0), 3, 2, 1)
    assert log_dir.log_start_offsets() == {("t", 0): 1, ("u", 0): 9}
    assert log_dir.recovery_points() == {("t", 0): 3, ("u", 0): 9}
    assert log_dir.cleaner_offsets() == {("t", 0): 2, ("u", 0): 9}
    log_dir.lower_offsets(("t", 0), 3, -1, 1)
    assert log_dir.cleaner_offsets() == {("t", 0): 0, ("u", 0): 9}


def test_space_and_sync_are_the_file_systems(tmp_path: Path) -> None:
    log_dir = LogDir(str(tmp_path))
    total, usable = log_dir.space()
    assert total >= usable > 0
    log_dir.sync()
    with pytest.raises(OSError, match="No such file"):
        LogDir(str(tmp_path / "none")).sync()


def test_the_first_failure_is_kept() -> None:
    log_dir = LogDir("d")
    first = OSError(5, "first")
    log_dir.fail(first)
    log_dir.fail(OSError(5, "second"))
    assert log_dir.failed is first


def test_a_folder_that_another_one_has_taken_the_place_of_is_noticed(tmp_path: Path) -> None:
    folder = LogDir(str(tmp_path / "data"))
    Path(folder.path).mkdir()
    folder.check()
    folder.check()
    Path(folder.path).rename(tmp_path / "old")
    with pytest.raises(FileNotFoundError):
        folder.check()
    Path(folder.path).mkdir()
    with pytest.raises(OSError, match="another folder"):
        folder.check()


def test_a_finished_copy_gets_its_name_unless_the_log_is_there(tmp_path: Path) -> None:
    copy = tmp_path / files.dated_folder_name("a", 1, "0" * 32, files.FUTURE_FOLDER)
    copy.mkdir()
    finish_future(str(tmp_path), "a", 0, TOPIC_ID)
    assert copy.exists()
    finish_future(str(tmp_path), "a", 1, TOPIC_ID)
    assert (tmp_path / "a-1").exists()
    copy.mkdir()
    finish_future(str(tmp_path), "a", 1, TOPIC_ID)
    assert copy.exists()


@pytest.mark.parametrize("topic", ["a", "a" * 249])
def test_the_copy_of_an_older_topic_of_the_name_is_not_taken_for_the_logs(tmp_path: Path, topic: str) -> None:
    """Its records would be there again. A long name is cut in the copy's."""
    copies = [tmp_path / files.dated_folder_name(topic, 1, digit * 32, files.FUTURE_FOLDER) for digit in "01"]
    for copy, topic_id in zip(copies, (b"\2" * 16, TOPIC_ID), strict=True):
        copy.mkdir()
        checkpoint.write_topic_id(str(copy), topic_id)
    assert futures_of(str(tmp_path), topic, 1, TOPIC_ID) == [str(copies[1])]
    if len(topic) < 100:
        finish_future(str(tmp_path), topic, 1, TOPIC_ID)
        assert (copies[0].exists(), copies[1].exists()) == (True, False)
        assert checkpoint.read_topic_id(str(tmp_path / f"{topic}-1")) == TOPIC_ID


def test_the_marker_of_a_clean_stop_is_gone_from_the_disk_before_anything_else_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power cut brings it back, and what was torn then is believed."""
    log_dir = LogDir(str(tmp_path))
    syncs = Syncs(tmp_path, monkeypatch)
    log_dir.write_clean_marker()
    assert syncs.taken() == [f"{files.CLEAN_SHUTDOWN}.tmp", "."]
    assert log_dir.take_clean_marker()
    assert syncs.taken() == ["."]


def test_first_dirty_offsets_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log_dir = LogDir(str(tmp_path))
    syncs = Syncs(tmp_path, monkeypatch)
    log_dir.update_cleaner_offsets({}, (("t", 0),))
    assert not (tmp_path / files.CLEANER_OFFSETS).exists()
    log_dir.update_cleaner_offsets({("t", 0): 6})
    assert syncs.taken() == [f"{files.CLEANER_OFFSETS}.tmp", "."]
    assert log_dir.cleaner_offsets() == {("t", 0): 6}
