"""Log dirs that cannot be used are named with the reason."""

import logging
from pathlib import Path

import pytest

from kbroker.supervisor.log_dirs import LogDirs, LogDirsUnusable


def test_without_any_the_reason_of_each_is_in_one_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(LogDirsUnusable) as refused:
        LogDirs([str(file), str(file / "below")], 1)
    assert str(refused.value) == (
        f"no log dir can be used: {file} (a file, not a folder), {file}/below (Not a directory)"
    )
    assert not caplog.records


def test_one_of_several_is_left_out_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "file"
    file.touch()
    with caplog.at_level(logging.ERROR):
        dirs = LogDirs([str(file), str(tmp_path / "data")], 1)
    assert dirs.online == (str(tmp_path / "data"),)
    assert [record.getMessage() for record in caplog.records] == [
        f"log dir {file} is offline: a file, not a folder"
    ]
    dirs.release(clean=True)
