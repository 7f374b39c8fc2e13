import errno
import tempfile
from pathlib import Path

import pytest

from tests.tuning.fakes import FakeRoots
from tuning.host.features import Features, features_of, release_of
from tuning.host.offloads import ASK, offloads_of


def test_the_release_is_the_first_two_numbers() -> None:
    assert release_of("6.18.44-vendor") == (6, 18)
    assert release_of("unknown") == (0, 0)
    assert Features((6, 12)).slices
    assert not Features((6, 11)).slices


def test_features_of_this_kernel_are_consistent(tmp_path: Path) -> None:
    fake = FakeRoots(tmp_path, kernel__io_uring_disabled="2")
    found = features_of(fake.roots, str(tmp_path))
    assert found.io_uring == "disabled"
    assert found.release > (3, 0)
    if found.cachestat:
        assert found.release >= (6, 5)


def test_a_missing_folder_gives_no_facts_about_reads(tmp_path: Path) -> None:
    assert features_of(FakeRoots(tmp_path).roots, str(tmp_path / "no")).nowait_reads is None


def test_a_process_that_may_write_nothing_tries_reads_on_a_file_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots = FakeRoots(tmp_path).roots
    folder = tmp_path / "data"
    folder.mkdir()
    expected = features_of(roots, str(folder)).nowait_reads

    def refused(**_: object) -> None:
        raise PermissionError(errno.EACCES, "no files are written here")

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    assert features_of(roots, str(folder)).nowait_reads is None
    (folder / "meta.properties").write_text("version=1")
    assert expected is not None
    assert features_of(roots, str(folder)).nowait_reads is expected


def test_an_unknown_interface_has_no_offloads() -> None:
    assert offloads_of("none-such") == {}
    assert set(offloads_of("lo")) <= ASK.keys()
