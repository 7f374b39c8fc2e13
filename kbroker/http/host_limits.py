"""The measured speeds of this host, from the file of `kbroker tune bench` (kbroker.host.file)."""

import json
import logging
import math
import stat
from collections.abc import Mapping
from pathlib import Path

log = logging.getLogger(__name__)

SPEEDS = {"disk_write": "write_rate", "disk_read": "cold_read_rate", "loopback": "loopback_rate"}
"""The measured parts, with their names in the file; bytes a second."""
MAX_BYTES = 65536
NONE: Mapping[str, float] = {}


class HostLimits:
    """Runs in: http. Reads the file again when it has changed. A file that cannot be used is logged
    once, and there are no limits until it changes."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._known: tuple[object, Mapping[str, float]] = (None, NONE)

    def speeds(self) -> Mapping[str, float]:
        """Measured speeds by the names of SPEEDS; empty without a file."""
        if not self._file:
            return NONE
        try:
            status = Path(self._file).stat()
            version: object = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError as error:
            version = error.errno
        known, found = self._known
        if version == known:
            return found
        try:
            found = read(Path(self._file))
        except (OSError, ValueError, OverflowError, RecursionError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            log.warning("kbroker.host.file: %s: %s", self._file, reason)
            found = NONE
        self._known = version, found
        return found


def read(file: Path) -> dict[str, float]:
    """The speeds of a file. Raises OSError, ValueError, OverflowError, RecursionError."""
    if not stat.S_ISREG(file.stat().st_mode):  # opening a FIFO would wait
        raise ValueError("not a file")
    with file.open("rb") as opened:
        data = opened.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError("too large for a file of `kbroker tune bench`")
    found = json.loads(data)
    if not isinstance(found, dict) or not found.keys() & set(SPEEDS.values()):
        raise ValueError("not a file of `kbroker tune bench`")
    speeds = {what: found[name] for what, name in SPEEDS.items() if name in found}
    for what, value in speeds.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise ValueError(f"{SPEEDS[what]} cannot be {value!r}")
    return {what: float(value) for what, value in speeds.items()}
