"""The words of failed log dirs: written once, seen by all."""

import errno

from kbroker.ipc.log_dir_errors import LogDirErrors
from kbroker.ipc.shared import Shared, Sizes


def test_a_log_dir_that_one_process_fails_is_offline_for_all_and_for_good() -> None:
    shared = Shared(Sizes(1, 1, 8, 16, 1 << 16, log_dirs=2))
    one, other = LogDirErrors(["/a", "/b/../b"], shared), LogDirErrors(["/a", "/b"], shared)
    assert one.online == other.online == ("/a", "/b")
    assert one.fail("/b", errno.EIO)
    assert not other.fail("/b", errno.ENODEV)
    assert (one.of("/b"), other.of("/b"), other.of("/a")) == (errno.EIO, errno.EIO, 0)
    assert (other.online, other.failed) == (("/a",), ("/b",))


def test_a_path_outside_of_log_dirs_is_offline_and_never_fails() -> None:
    errors = LogDirErrors(["/a"], Shared(Sizes(1, 1, 8, 16, 1 << 16, log_dirs=1)))
    assert not errors.fail("/elsewhere", errno.EIO)
    assert errors.of("/elsewhere") == errno.ENODEV
    assert errors.online == ("/a",)


def test_only_an_error_of_the_disk_that_a_reader_meets_takes_the_log_dir_offline() -> None:
    errors = LogDirErrors(["/a", "/b"], Shared(Sizes(1, 1, 8, 16, 1 << 16, log_dirs=2)))
    for harmless in (
        FileNotFoundError(errno.ENOENT, "deleted"),
        OSError(errno.EMFILE, "files"),
        ValueError(),
    ):
        errors.report("/b/topic-0", harmless)
    assert errors.online == ("/a", "/b")
    errors.report("/b/topic-0", OSError(errno.EIO, "dead"))
    assert errors.online == ("/a",)
