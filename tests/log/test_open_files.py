"""Open segment files: those that are deleted do not stay open."""

import errno
import os
import resource
from pathlib import Path

import pytest

from kbroker.log import files
from kbroker.log.open_files import CAPACITY, OpenFiles, default_capacity


def test_deleted_files_are_closed_and_others_stay_open(tmp_path: Path) -> None:
    opened = OpenFiles()
    for base in (0, 5, 9):
        Path(files.path(str(tmp_path), base, files.LOG)).touch()
        opened.get(str(tmp_path), base, files.LOG)
    renamed = Path(files.path(str(tmp_path), 5, files.LOG))
    renamed.rename(f"{renamed}{files.DELETED}")  # it is deleted later, and is in use until then
    Path(files.path(str(tmp_path), 0, files.LOG)).unlink()
    opened.forget_deleted()
    assert opened.statistics() == (2, 2)
    assert opened.known(str(tmp_path), 0, files.LOG) is None
    Path(f"{renamed}{files.DELETED}").unlink()
    sent = opened.known(str(tmp_path), 5, files.LOG)
    opened.forget_deleted()
    assert opened.statistics() == (1, 2), "an answer still needs it"
    del sent
    assert opened.statistics() == (1, 1)


def logs(folder: Path, count: int) -> list[int]:
    """Base offsets of so many empty segments."""
    for base in range(count):
        Path(files.path(str(folder), base, files.LOG)).touch()
    return list(range(count))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_file_is_opened_in_place_of_others_when_no_descriptor_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    opened, really, most = OpenFiles(), os.open, 4

    def limited(*arguments: object) -> int:
        if opened.statistics()[1] >= most:
            raise OSError(number, os.strerror(number))
        return really(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", limited)
    for base in logs(tmp_path, 5):
        opened.get(str(tmp_path), base, files.LOG)
    assert opened.statistics() == (3, 3)
    assert opened.known(str(tmp_path), 1, files.LOG) is None, "the oldest are closed first"
    most = 0
    with pytest.raises(OSError, match=os.strerror(number)):
        opened.get(str(tmp_path), 0, files.LOG)


def test_an_error_that_is_not_of_descriptors_closes_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = OpenFiles()
    for base in logs(tmp_path, 2):
        opened.get(str(tmp_path), base, files.LOG)

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(OSError, match="broken"):
        opened.get(str(tmp_path), 7, files.LOG)
    assert opened.statistics() == (2, 2)


def test_a_file_that_an_answer_has_still_open_is_not_opened_again(tmp_path: Path) -> None:
    """Readers that take no bytes, of more files than the cache holds, took a descriptor for each
    answer."""
    opened = OpenFiles(capacity=1)
    logs(tmp_path, 2)
    sent = opened.get(str(tmp_path), 0, files.LOG)
    for forget in (lambda: opened.forget(str(tmp_path), 0), lambda: opened.forget_folder(str(tmp_path))):
        opened.get(str(tmp_path), 1, files.LOG)
        assert opened.statistics()[0] == 1
        assert opened.known(str(tmp_path), 0, files.LOG) is sent
        assert opened.get(str(tmp_path), 0, files.LOG) is sent
        opened.get(str(tmp_path), 1, files.LOG)
        forget()  # the segment is replaced
        later = opened.get(str(tmp_path), 0, files.LOG)
        assert later is not sent
        sent = later


def test_the_files_that_were_used_last_are_kept(tmp_path: Path) -> None:
    opened = OpenFiles(capacity=3)
    for base in (*logs(tmp_path, 4), 1):
        opened.get(str(tmp_path), base, files.LOG)
    opened.shrink(1)
    kept = [base for base in range(4) if opened.known(str(tmp_path), base, files.LOG)]
    assert kept == [1]
    opened.shrink(0)
    assert opened.statistics() == (0, 0)


@pytest.mark.parametrize(
    ("limit", "files_most"), [(1024, 256), (20_000, CAPACITY), (resource.RLIM_INFINITY, CAPACITY)]
)
def test_a_cache_has_a_share_of_the_descriptors(
    monkeypatch: pytest.MonkeyPatch, limit: int, files_most: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert default_capacity() == OpenFiles().capacity == files_most
