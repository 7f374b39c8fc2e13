"""A log dir is marked for one run of the kernel and one folder."""

import shutil
from pathlib import Path

import pytest

from kbroker.log import boot_mark, files
from tests.syncs import Syncs


def test_a_mark_holds_in_the_same_run_of_the_kernel(tmp_path: Path) -> None:
    assert not boot_mark.take(str(tmp_path))
    boot_mark.write(str(tmp_path))
    assert boot_mark.take(str(tmp_path))
    boot_mark.write(str(tmp_path))  # as after each restart of control
    assert boot_mark.take(str(tmp_path))


def test_a_mark_of_another_run_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boot_mark.write(str(tmp_path))
    earlier = boot_mark.BOOT_ID
    later = tmp_path / "boot_id"
    later.write_text("00000000-0000-0000-0000-000000000001\n")
    monkeypatch.setattr(boot_mark, "BOOT_ID", later)
    assert not boot_mark.take(str(tmp_path))
    monkeypatch.setattr(boot_mark, "BOOT_ID", earlier)
    assert not boot_mark.take(str(tmp_path)), "the logs have not been checked since the other run"


def test_a_copy_of_a_folder_has_no_mark(tmp_path: Path) -> None:
    made, copied = tmp_path / "made", tmp_path / "copied"
    made.mkdir()
    boot_mark.write(str(made))
    shutil.copytree(made, copied)
    assert not boot_mark.take(str(copied))
    assert boot_mark.take(str(made))


@pytest.mark.parametrize("content", [b"", b"\0" * 2000, b"half of a ma"])
def test_a_damaged_mark_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / files.BOOT_MARK
    path.write_bytes(content)
    assert not boot_mark.take(str(tmp_path))
    assert not path.exists()


def test_without_a_boot_id_there_is_no_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot_mark, "BOOT_ID", tmp_path / "absent")
    boot_mark.write(str(tmp_path))
    assert not (tmp_path / files.BOOT_MARK).exists()
    assert not boot_mark.take(str(tmp_path))


def test_another_mark_is_gone_from_the_disk_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / files.BOOT_MARK).write_bytes(b"of another run\n")
    syncs = Syncs(tmp_path, monkeypatch)
    assert not boot_mark.take(str(tmp_path))
    assert syncs.taken() == ["."]
    boot_mark.write(str(tmp_path))
    assert boot_mark.take(str(tmp_path))
    assert syncs.taken() == [], "a lost mark only means a longer check"
