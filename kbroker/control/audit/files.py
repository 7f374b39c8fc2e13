"""The audit log's files: lines are appended whole or not at all; a full file becomes `audit.log.1`,
and so on."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

NAME: Final = "audit.log"
MODE: Final = 0o600


class AuditFiles:
    """Blocks. Runs in: control, only on the audit thread. max_bytes: of one file. max_files:
    including the current one."""

    def __init__(self, folder: Path, max_bytes: int, max_files: int) -> None:
        self._path = folder / NAME
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._fd = -1
        self._size = 0
        self._synced = True

    def append(self, text: bytes) -> None:
        """Append whole lines. Raises OSError; then none of them is in the file."""
        if self._fd < 0:
            self._open()
        if self._size and self._size + len(text) > self._max_bytes:
            self._rotate()
        written = 0
        try:
            while written < len(text):
                written += os.write(self._fd, text[written:])
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise
        self._size += len(text)
        self._synced = False

    def sync(self) -> None:
        """Sync the file. Raises OSError."""
        if not self._synced:
            os.fdatasync(self._fd)
            self._synced = True

    def close(self) -> None:
        """Close the file; the next append opens it again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(self._path, flags, MODE)
        try:
            self._size = os.fstat(fd).st_size
            if self._size and os.pread(fd, 1, self._size - 1) != b"\n":  # a crash left a partial line
                self._size += os.write(fd, b"\n")
        except OSError:
            os.close(fd)
            raise
        self._fd = fd

    def _rotate(self) -> None:
        self.sync()
        self.close()
        for number in range(self._max_files - 1, 0, -1):
            source = self._numbered(number - 1)
            with suppress(FileNotFoundError):
                source.rename(self._numbered(number))
        if self._max_files == 1:
            self._path.unlink(missing_ok=True)
        self._open()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{NAME}.{number}") if number else self._path
