"""Machine code comes from files and folders that no other user can write."""

import os
from pathlib import Path

import pytest

from kbroker.kernels import cache, trust
from kbroker.kernels.trust import Untrusted, own_folder

SOMEBODY_ELSE = 54321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")


def content(file: Path) -> bytes:
    """Of a trusted file."""
    with trust.opened(file) as opened:
        return opened.read()


def test_created_folders_are_private_to_their_user(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        made = own_folder(tmp_path / "kbroker" / "kernels-1")
    finally:
        os.umask(old)
    assert [one.stat().st_mode & 0o777 for one in (made, made.parent)] == [0o700, 0o700]


def test_a_folder_that_others_can_write_is_refused_and_its_parent_is_closed(tmp_path: Path) -> None:
    made = own_folder(tmp_path / "kbroker" / "kernels-1")
    made.parent.chmod(0o775)
    assert own_folder(made) == made
    assert made.parent.stat().st_mode & 0o777 == 0o755
    made.chmod(0o777)
    with pytest.raises(Untrusted):
        own_folder(made)


def test_a_link_in_the_place_of_a_folder_or_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "kbroker").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Untrusted):
        own_folder(tmp_path / "kbroker" / "kernels-1")
    (tmp_path / "file").write_bytes(b"code")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert content(tmp_path / "file") == b"code"
    with pytest.raises(OSError, match="symbolic links"):
        content(tmp_path / "link")


@as_root
def test_a_folder_that_another_user_has_made_first_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, temporary = tmp_path / "home", tmp_path / "tmp"
    theirs = temporary / f"kbroker-{os.getuid()}"
    for folder in (home, theirs):
        folder.mkdir(parents=True)
        os.chown(folder, SOMEBODY_ELSE, SOMEBODY_ELSE)
    temporary.chmod(0o1777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(temporary))
    with pytest.raises(Untrusted, match=f"user {SOMEBODY_ELSE} owns it"):
        cache.cache_folder()
    theirs.rmdir()
    assert cache.cache_folder().parent == theirs
    (tmp_path / "file").write_bytes(b"code")
    os.chown(tmp_path / "file", SOMEBODY_ELSE, SOMEBODY_ELSE)
    with pytest.raises(Untrusted):
        content(tmp_path / "file")


def test_a_home_that_does_not_exist_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service's user often has `/nonexistent` for a home, and root could create it."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "nonexistent"))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(temporary))
    made = trust.own_cache_folder("bytecode")
    assert made == temporary / f"kbroker-{os.getuid()}" / "bytecode"
    assert not (tmp_path / "nonexistent").exists()
