"""Trusted files and folders of machine code: those that only their user or root can write.

Compiled kernels are loaded and run, so a user who can write them can run code as the broker's user.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

GROUP_OR_OTHERS = 0o022
OWNER_ONLY = 0o700


class Untrusted(PermissionError):
    """A file or folder that another user can write; the text says which one and why."""


def check(what: str | Path, found: os.stat_result, sticky: bool = False) -> None:
    """Raises Untrusted unless its owner is this process's user or root, and no other user can write
    it.

    sticky: a folder where other users may write, but cannot replace files of ours, is accepted (as
    /tmp)."""
    if found.st_uid not in (0, os.geteuid()):
        raise Untrusted(f"{what}: user {found.st_uid} owns it, not user {os.geteuid()} or root")
    if found.st_mode & GROUP_OR_OTHERS and not (sticky and found.st_mode & stat.S_ISVTX):
        raise Untrusted(f"{what}: group or others can write it (mode {stat.S_IMODE(found.st_mode):04o})")


def own_folder(folder: Path) -> Path:
    """A folder, made if it is missing, and its parent likewise; only we or root may write to
    both. Raises OSError.

    If others could write to a parent of ours, as after an open umask, they lose that right; its
    contents are checked separately."""
    folder.parent.parent.mkdir(parents=True, exist_ok=True)
    top = folder.parent.parent.stat()
    if top.st_uid not in (0, os.geteuid()) or top.st_mode & stat.S_IWOTH:
        check(folder.parent.parent, top, sticky=True)
    for one in (folder.parent, folder):
        one.mkdir(mode=OWNER_ONLY, exist_ok=True)
        found = one.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise Untrusted(f"{one}: not a folder")
        if one == folder.parent and found.st_uid == os.geteuid() and found.st_mode & GROUP_OR_OTHERS:
            one.chmod(stat.S_IMODE(found.st_mode) & ~GROUP_OR_OTHERS)
            found = one.lstat()
        check(one, found)
    return folder


def own_cache_folder(name: str) -> Path:
    """A folder in this user's cache; in the temporary folder if that cannot be written, or if the
    user has no home. Raises OSError."""
    try:
        folder = own_folder(_user_cache() / "kbroker" / name)
        if os.access(folder, os.W_OK):
            return folder
    except (OSError, RuntimeError):  # RuntimeError: a user whose home is not known
        pass
    import tempfile  # with all that it imports, and rarely needed

    return own_folder(Path(tempfile.gettempdir()) / f"kbroker-{os.getuid()}" / name)


def _user_cache() -> Path:
    """The user's folder for caches. Raises FileNotFoundError for a home that does not exist: root
    could make it, but `/nonexistent` is how a system says that a user has none."""
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given)
    home = Path.home()
    if not home.is_dir():
        raise FileNotFoundError(f"{home}: the user's home does not exist")
    return home / ".cache"


@contextmanager
def opened(file: Path) -> Iterator[BufferedReader]:
    """A plain file that no other user can write. Raises OSError."""
    with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as found:
        about = os.fstat(found.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise Untrusted(f"{file}: not a plain file")
        check(file, about)
        yield found


def write(file: Path, content: bytes) -> Path:
    """Write a file as a whole or not at all; only its user may read it. Raises OSError."""
    temporary = file.with_suffix(f".{os.getpid()}")
    temporary.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(temporary, flags, 0o600), "wb") as made:
        made.write(content)
    return temporary.replace(file)
