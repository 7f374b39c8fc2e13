"""The probe that shows what lies in the page cache."""

import os
from pathlib import Path

import pytest

from kbroker.log import files
from kbroker.net.fetch import residency


def log_dir(path: Path) -> str:
    path.mkdir()
    (path / files.META_PROPERTIES).write_text("version=1\n")
    return str(path)


def test_a_probe_of_the_kernel_is_found_where_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk may be full, or read-only, when a network process starts."""

    def full(_fd: int, _data: bytes) -> int:
        raise OSError(28, "No space left on device")

    folder = log_dir(tmp_path / "full")
    monkeypatch.setattr(os, "write", full)
    assert residency.choose([folder]) in (residency.by_cachestat, residency.by_nowait)
    assert [path.name for path in Path(folder).iterdir()] == [files.META_PROPERTIES]


def test_a_failed_log_dir_does_not_decide_for_the_others(tmp_path: Path) -> None:
    good = log_dir(tmp_path / "good")
    assert residency.choose([str(tmp_path / "failed"), good]) is not residency.always
    assert residency.choose([str(tmp_path / "failed")]) is residency.always


def test_a_call_that_the_kernel_refuses_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_fd: int, _position: int, _length: int) -> bool:
        raise OSError(1, "Operation not permitted")

    folder = log_dir(tmp_path / "a")
    monkeypatch.setattr(residency, "by_cachestat", refused)
    assert residency.choose([folder]) is residency.by_nowait
    monkeypatch.setattr(residency, "by_nowait", refused)
    assert residency.choose([folder]) is residency.always
