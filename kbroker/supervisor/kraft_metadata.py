"""KRaft metadata for Apache Kafka, written when the broker has stopped (kbroker.kraft.metadata)."""

import logging
import sqlite3
import time
from contextlib import closing

from kbroker.supervisor.log_dirs import LogDirs

log = logging.getLogger(__name__)


def write_kraft_metadata(node_id: int, dirs: LogDirs) -> int:
    """Write the files of `kbroker export kraft`, for the release whose metadata is in the log dirs;
    returns the broker epoch for clean shutdown markers, -1 on failure.

    The log dirs are still locked. A failure is logged, and the stop continues."""
    from kbroker.control.kraft.export import ExportError, export
    from kbroker.control.store.choice import open_newest
    from kbroker.control.store.store import StoreError

    try:
        with closing(open_newest(dirs.online, dirs.online, dirs.cluster_id).store) as store:
            now_ms = time.time_ns() // 1_000_000
            done = export(store, dirs.online, node_id, dirs.directory_ids, None, now_ms)
        log.info(
            "Apache Kafka %s can start here: %d topics are in %s", done.release, done.topics, done.snapshot
        )
    except (ExportError, StoreError, sqlite3.Error, OSError) as error:
        log.error("cannot write KRaft metadata: %s", error)
        return -1
    return done.broker_epoch
