"""The mark of a log dir whose logs are whole in the kernel's page cache.

kill -9 of every process of a broker loses nothing that it had written, synced or not; a crash of
the host does. Control marks a log dir with the boot of the host (its boot id) once all logs there
have been opened, and so checked. A later start in the same boot need not check again what was
checked, or written, since. A start that finds another mark removes it before anything is written,
and so do an IO worker when the log dir fails (after an error the kernel drops dirty pages) and a
clean stop, because another broker may change the log dir before the next start.
The mark names the folder, so a copy has none. Not synced: a lost mark only means a longer check.
"""

from contextlib import suppress
from pathlib import Path

from kbroker.config.plain_file import open_plain
from kbroker.log import files
from kbroker.log.checkpoint import replace_file

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def take(log_dir: str) -> bool:
    """Whether the log dir has the mark of this boot of the host; another one is removed. Raises
    OSError."""
    path = Path(log_dir, files.BOOT_MARK)
    try:
        with open_plain(path) as file:
            found = file.read(1024)
    except FileNotFoundError:
        return False
    if found == _mark(log_dir):
        return True
    path.unlink()
    files.sync_folder(log_dir)
    return False


def write(log_dir: str) -> None:
    """Mark a log dir all of whose logs have been checked in this boot of the host. Raises
    OSError."""
    if mark := _mark(log_dir):
        replace_file(f"{log_dir}/{files.BOOT_MARK}", mark, sync=False)


def is_kept(log_dir: str) -> bool:
    """Whether a log dir still has the mark that the start found there."""
    return Path(log_dir, files.BOOT_MARK).exists()


def remove(log_dir: str) -> None:
    """End the trust in a log dir: it has failed, and the kernel may have dropped what was written,
    or it has logs of unknown origin, or a clean stop has synced it. Not raised: an error of the
    disk, which may keep the mark."""
    with suppress(OSError):
        Path(log_dir, files.BOOT_MARK).unlink()


def _mark(log_dir: str) -> bytes | None:
    """The mark of the host's present boot; None if the boot is unknown."""
    try:
        boot_id = BOOT_ID.read_text().strip()
    except OSError:
        return None
    status = Path(log_dir).stat()
    return f"{boot_id} {status.st_dev} {status.st_ino}\n".encode() if boot_id else None
