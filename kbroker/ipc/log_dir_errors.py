"""Failed log dirs of this run of the broker: one shared word each, 0 or the errno that took the log
dir offline.

The process that meets the error writes the word (an IO worker, control, the supervisor at start).
It never returns to 0, so several writers cannot disagree. Every process reads it: a log dir that
failed for one is offline for all, as in Kafka, until the broker is restarted.
"""

import errno
import logging
import os
from collections.abc import Sequence

from kbroker.ipc.shared import Shared

log = logging.getLogger(__name__)

OF_THE_DISK = {
    errno.EIO,
    errno.ENXIO,
    errno.ENODEV,
    errno.EROFS,
    errno.ESTALE,
    errno.EUCLEAN,
    errno.ESHUTDOWN,
}
"""Errors of a read that concern the disk, not one file."""
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""Errors that may be temporary: a full disk, too many open files, no memory. Any other error of a
write takes the log dir offline."""


class LogDirErrors:
    """Runs in: all processes. The words are shared; an object of this class is a view of them.

    paths: all of log.dirs, absolute, in the configured order.
    """

    def __init__(self, log_dirs: Sequence[str], shared: Shared) -> None:
        self.paths = tuple(dict.fromkeys(os.path.abspath(path) for path in log_dirs))  # noqa: PTH100 links stay
        self._words = shared.log_dir_errors
        assert len(self.paths) <= len(self._words), "Sizes.log_dirs is smaller than log.dirs"

    def fail(self, path: str, number: int) -> bool:
        """Take a log dir offline because of an errno; returns whether it was online. A path outside
        of log.dirs is ignored."""
        if self.of(path):
            return False
        self._words[self.paths.index(path)] = number
        return True

    def report(self, folder: str, error: Exception) -> None:
        """A partition's log could not be read by a process that does not own it: an error of its
        disk takes the log dir offline. The IO workers read the words once a second."""
        log_dir = folder.rpartition("/")[0]
        if isinstance(error, OSError) and error.errno in OF_THE_DISK and self.fail(log_dir, error.errno):
            log.error("log dir %s goes offline: %s", log_dir, error)

    def of(self, path: str) -> int:
        """The errno that took a log dir offline, 0 while it is in use.

        ENODEV for a path outside of log.dirs: it is not locked, so another broker may use it."""
        return int(self._words[self.paths.index(path)]) if path in self.paths else errno.ENODEV

    @property
    def any(self) -> bool:
        """Whether a log dir is offline."""
        return any(self._words.tolist())

    @property
    def failed(self) -> tuple[str, ...]:
        """Log dirs that are offline."""
        return tuple(path for path in self.paths if self.of(path))

    @property
    def online(self) -> tuple[str, ...]:
        """Log dirs in use."""
        return tuple(path for path in self.paths if not self.of(path))
