"""Files of the audit log: whole lines, rotated, and nothing of a write that failed."""

import errno
import os
from pathlib import Path

import pytest

from kbroker.control.audit.files import MODE, NAME, AuditFiles
from tests.syncs import Syncs


def contents(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir()}


def test_lines_are_appended_to_what_is_there(tmp_path: Path) -> None:
    for text in (b"one\n", b"two\n"):
        files = AuditFiles(tmp_path / "a" / "b", 1000, 3)
        files.append(text)
        files.sync()
        files.close()
    assert contents(tmp_path / "a" / "b") == {NAME: "one\ntwo\n"}
    assert (tmp_path / "a" / "b" / NAME).stat().st_mode & 0o777 == MODE


def test_a_full_file_is_followed_by_the_next_and_the_oldest_goes(tmp_path: Path) -> None:
    files = AuditFiles(tmp_path, 10, 3)
    for number in range(5):
        files.append(b"line-%d\n" % number)
    files.close()
    assert contents(tmp_path) == {NAME: "line-4\n", f"{NAME}.1": "line-3\n", f"{NAME}.2": "line-2\n"}


def test_a_single_file_is_restarted(tmp_path: Path) -> None:
    files = AuditFiles(tmp_path, 10, 1)
    files.append(b"line-1\n")
    files.append(b"line-2\n")
    files.close()
    assert contents(tmp_path) == {NAME: "line-2\n"}


def test_a_line_that_a_crash_cut_is_ended(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b'{"cut')
    files = AuditFiles(tmp_path, 1000, 3)
    files.append(b"next\n")
    files.close()
    assert contents(tmp_path) == {NAME: '{"cut\nnext\n'}


def test_a_write_that_fails_in_the_middle_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = AuditFiles(tmp_path, 1000, 3)
    files.append(b"whole\n")
    calls = []

    def write(fd: int, data: bytes) -> int:
        calls.append(data)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "full")
        return real(fd, data[:3])

    real = os.write
    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match="full"):
        files.append(b"half of it\n")
    monkeypatch.undo()
    files.append(b"later\n")
    files.close()
    assert contents(tmp_path) == {NAME: "whole\nlater\n"}


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("mine")
    (tmp_path / NAME).symlink_to(tmp_path / "other")
    with pytest.raises(OSError):
        AuditFiles(tmp_path, 1000, 3).append(b"x\n")
    assert (tmp_path / "other").read_text() == "mine"


def test_appended_lines_are_synced_once_and_a_full_file_before_the_next_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = Syncs(tmp_path, monkeypatch)
    files = AuditFiles(tmp_path, 10, 3)
    files.append(b"line-1\n")
    assert syncs.taken() == []
    files.sync()
    files.sync()
    assert syncs.taken() == [NAME]
    files.append(b"2\n")
    files.append(b"line-3\n")
    assert syncs.taken() == [NAME]
    files.close()
