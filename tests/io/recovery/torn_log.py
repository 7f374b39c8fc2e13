"""Logs whose process died, and their recovery, for tests."""

from pathlib import Path

from kbroker.io.recovery.loaded_log import LoadedLog, TrustedEnd
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import LogReader
from kbroker.log.walk import walk
from tests.io.append.plain_append import NOW, Log, names, topic_config
from tests.log.batch_bytes import batch


def offsets(folder: Path) -> list[int]:
    return [placed.batch.base_offset for placed in walk(LogReader(str(folder), OpenFiles()))]


def indexes(folder: Path) -> dict[str, bytes]:
    """Contents of all index files."""
    return {
        name: (folder / name).read_bytes()
        for name in sorted(names(folder))
        if name.endswith((".index", ".timeindex", ".txnindex"))
    }


def appended(root: Path, batches: int = 20, **overrides: object) -> Log:
    """An open log of several segments with two producers."""
    log = Log(root, topic_config(**{"segment_bytes": 700, "index_interval_bytes": 100, **overrides}))
    log.open()
    for n in range(batches):
        log.append(
            batch(0, [b"x" * 60], [NOW + n], producer_id=n % 2, producer_epoch=0, base_sequence=n // 2)
        )
    return log


def filled(root: Path, batches: int = 20, **overrides: object) -> Log:
    """A log of several segments whose process died: nothing closed."""
    log = appended(root, batches, **overrides)
    log.partition.abandon()
    return log


def load(
    log: Log, clean: bool = False, recovery_point: int = 0, trusted_end: TrustedEnd | None = None
) -> LoadedLog:
    return log.load(clean, recovery_point, 0, trusted_end)
