"""The folder of a KRaft metadata log in a log dir, and whether Apache Kafka has changed it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from kbroker.control.metadata.topic_name import CLUSTER_METADATA
from kbroker.log import files

FOLDER: Final = files.folder_name(CLUSTER_METADATA, 0)
MARK: Final = "kafka_metadata"
"""Key in the store's meta table: files of the metadata log as kbroker last saw or wrote them."""


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
