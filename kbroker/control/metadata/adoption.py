"""Log directories that Apache Kafka wrote, or that lost their store: folders become topics again.

A folder with `partition.metadata` (topic id) that the store does not know is taken over. Its data
stays as it is; the topic's configs come from Kafka's metadata log (`kafka_metadata.py`) when that
is there as well.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kbroker.control.metadata.catalogue import Catalogue
from kbroker.control.metadata.topic_name import CLUSTER_METADATA
from kbroker.log import files
from kbroker.log.checkpoint import CorruptCheckpoint, known_leader_epochs, read_topic_id

log = logging.getLogger(__name__)

NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class FoundPartition:
    """A partition folder on disk. leader_epoch: the last one in its checkpoint, -1 without one."""

    topic: str
    index: int
    topic_id: bytes
    log_dir: str
    leader_epoch: int


def scan(log_dirs: Iterable[str], known: Collection[str] = ()) -> list[FoundPartition]:
    """Every partition folder of the directories that has a topic id, but for known paths;
    unreadable directories are passed over."""
    found = []
    for log_dir in log_dirs:
        try:
            names = sorted(path.name for path in Path(log_dir).iterdir())
        except OSError as error:
            log.warning("log directory %s cannot be read: %s", log_dir, error)
            continue
        for name in names:
            if f"{log_dir}/{name}" not in known and (partition := _read(log_dir, name)) is not None:
                found.append(partition)
    return found


@dataclass(frozen=True, slots=True)
class FutureCopy:
    """A ``-future`` folder: a copy of a partition that was being moved to a log dir. topic: a long
    name is cut. topic_id: None when it has none yet."""

    topic: str
    index: int
    log_dir: str
    folder: str
    topic_id: bytes | None


def futures(log_dirs: Iterable[str]) -> list[FutureCopy]:
    """Every copy in progress, also of the last run of the broker."""
    found = []
    for log_dir in log_dirs:
        with suppress(OSError):
            for path in Path(log_dir).iterdir():
                folder = files.parse_folder(path.name)
                if folder is not None and folder.suffix == files.FUTURE_FOLDER:
                    here = f"{log_dir}/{path.name}"
                    found.append(FutureCopy(folder.topic, folder.partition, log_dir, here, topic_id_of(here)))
    return found


def _read(log_dir: str, name: str) -> FoundPartition | None:
    folder = files.parse_folder(name)
    if folder is None or folder.suffix or folder.topic == CLUSTER_METADATA:
        return None
    topic_id = topic_id_of(f"{log_dir}/{name}")
    if topic_id is None:
        return None
    epochs = known_leader_epochs(f"{log_dir}/{name}")
    last_epoch = epochs[-1][0] if epochs else NO_EPOCH
    return FoundPartition(folder.topic, folder.partition, topic_id, log_dir, last_epoch)


def topic_id_of(folder: str) -> bytes | None:
    """Topic id of a partition folder; None when it has none that can be read."""
    try:
        topic_id = read_topic_id(folder)
    except (OSError, CorruptCheckpoint) as error:
        log.warning("%s has no readable %s: %s", folder, files.PARTITION_METADATA, error)
        return None
    if topic_id is None:
        log.warning("%s has no %s", folder, files.PARTITION_METADATA)
    return topic_id


def unknown(found: Iterable[FoundPartition], catalogue: Catalogue) -> Mapping[str, list[FoundPartition]]:
    """Found partitions that the catalogue lacks, by topic; contradictions are logged and skipped.

    A folder found in two directories counts once; one whose topic id is not the catalogue's (or not
    that of the topic's other folders) is a remnant of a deleted topic of the same name.
    """
    missing: dict[str, dict[int, FoundPartition]] = {}
    for one in found:
        where = f"{one.log_dir}/{one.topic}-{one.index}"
        known = catalogue.get(one.topic)
        of_topic = missing.setdefault(one.topic, {})
        expected = known.topic_id if known else next((p.topic_id for p in of_topic.values()), one.topic_id)
        if one.topic_id != expected:
            log.warning("%s belongs to another topic of the same name; left alone", where)
        elif catalogue.partition(one.topic, one.index) is not None:
            continue
        elif one.index in of_topic:
            log.warning("%s was found in %s as well; left alone", where, of_topic[one.index].log_dir)
        else:
            of_topic[one.index] = one
    return {topic: [of_topic[i] for i in sorted(of_topic)] for topic, of_topic in missing.items() if of_topic}
