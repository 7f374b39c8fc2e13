"""The folder of a KRaft metadata log in a log dir, whether Apache Kafka has changed it, and which
of its topics kbroker has not found."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kbroker.control.metadata.topic_name import CLUSTER_METADATA
from kbroker.control.store.store import Store, StoreError
from kbroker.log import files

FOLDER: Final = files.folder_name(CLUSTER_METADATA, 0)
MARK: Final = "kafka_metadata"
"""Key in the store's meta table: files of the metadata log as kbroker last saw or wrote them."""
UNSEEN: Final = "kafka_unseen_topics"
"""Key in the store's meta table: ids of topics that Apache Kafka had when it last used the log
dirs, and that may be in a log dir that has not been there since. Nobody has deleted them."""


class UnreadableMetadata(StoreError):
    """Apache Kafka's metadata is damaged, or cannot be read. Without it the topics would have the
    default settings, such as a retention of a week, and users and ACLs would be gone."""

    def __init__(self, folder: Path, reason: Exception) -> None:
        way_out = "repair it, or move it out of the way: then only kbroker's data counts"
        super().__init__(f"{folder} cannot be read ({reason}): {way_out}")


def folder_of(log_dirs: Iterable[str]) -> Path | None:
    """The metadata log's folder in the first log dir that has one."""
    return next((path for log_dir in log_dirs if (path := Path(log_dir, FOLDER)).is_dir()), None)


def fingerprint(log_dirs: Iterable[str]) -> str:
    """Names and lengths of the metadata log's files: they differ after each run of Kafka. Empty
    without a metadata log."""
    folder = folder_of(log_dirs)
    if folder is None:
        return ""
    kept = (path for path in folder.iterdir() if path.suffix in (".log", ".checkpoint"))
    return ",".join(sorted(f"{path.name}:{path.stat().st_size}" for path in kept))


def put_unseen(store: Store, topic_ids: Iterable[bytes]) -> None:
    """Store the ids of UNSEEN."""
    store.put_meta(UNSEEN, " ".join(sorted(one.hex() for one in topic_ids)))


def unseen_topics(store: Store) -> set[bytes]:
    """The ids of UNSEEN."""
    return {bytes.fromhex(one) for one in store.meta(UNSEEN, "").split()}
