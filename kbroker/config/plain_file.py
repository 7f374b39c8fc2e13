"""Opens a file that a setting or a log dir names, without waiting: the open of a named pipe in its
place would wait for a writer for ever, and SIGTERM would not end it."""

import errno
import os
import stat
from io import BufferedReader


def open_plain(path: str | os.PathLike[str]) -> BufferedReader:
    """The file, or the one that a link leads to, for reading. Raises OSError, also for anything but
    a plain file."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(number, "not a plain file" if number == errno.EINVAL else os.strerror(number), path)
    return open(fd, "rb")
