"""Log directories that Apache Kafka wrote, or that lost their store: folders become topics again.

A folder with `partition.metadata` (topic id) that the store does not know is taken over. Its data
stays as it is; the topic's configs come from Kafka's metadata log (`kafka_metadata.py`) when that
is there as well.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from kbroker.control.metadata.catalogue import Catalogue, Partition, Topic
from kbroker.control.metadata.placement import Occupied, place
from kbroker.control.metadata.slots import Slots
from kbroker.control.metadata.topic_name import CLUSTER_METADATA, is_valid
from kbroker.control.store.store import StoreError
from kbroker.ipc.log_dir_errors import NO_ROOM
from kbroker.log import files
from kbroker.log.checkpoint import known_leader_epochs, topic_id_of
from kbroker.protocol.epochs import MAX_EPOCH

log = logging.getLogger(__name__)

NO_EPOCH = -1
FEW_GAPS = 10
"""Maximum of partitions without a log that are logged one by one."""


class FoundPartition(Struct, frozen=True):
    """A partition folder on disk. leader_epoch: the last one in its checkpoint, -1 without one."""

    topic: str
    index: int
    topic_id: bytes
    log_dir: str
    leader_epoch: int

    @property
    def folder(self) -> str:
        return f"{self.log_dir}/{files.folder_name(self.topic, self.index)}"


def scan(log_dirs: Iterable[str], known: Collection[str] = ()) -> list[FoundPartition]:
    """Every partition folder of the directories that has a topic id, but for known paths;
    unreadable directories are passed over. Raises OSError if a directory or a topic id cannot be
    read now, but may be at the next try: without this partition its topic would get an empty one in
    its place."""
    found = []
    for log_dir, name in _entries(log_dirs):
        if f"{log_dir}/{name}" not in known and (partition := _read(log_dir, name)) is not None:
            found.append(partition)
    return found


class FutureCopy(Struct, frozen=True):
    """A ``-future`` folder: a copy of a partition that was being moved to a log dir. topic: a long
    name is cut. topic_id: None when it has none yet."""

    topic: str
    index: int
    log_dir: str
    folder: str
    topic_id: bytes | None


def futures(log_dirs: Iterable[str]) -> list[FutureCopy]:
    """Every copy in progress, also of the last run of the broker. Raises OSError as `scan` does."""
    found = []
    for log_dir, name in _entries(log_dirs):
        folder = files.parse_folder(name)
        if folder is not None and folder.suffix == files.FUTURE_FOLDER:
            here = f"{log_dir}/{name}"
            found.append(FutureCopy(folder.topic, folder.partition, log_dir, here, topic_id_of(here)))
    return found


def _entries(log_dirs: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(log dir, name) of everything in the log dirs. Raises OSError as `scan` does."""
    for log_dir in log_dirs:
        try:
            names = sorted(path.name for path in Path(log_dir).iterdir())
        except OSError as error:
            if error.errno in NO_ROOM:
                raise
            log.warning("log directory %s cannot be read: %s", log_dir, error)
            continue
        for name in names:
            yield log_dir, name


def _read(log_dir: str, name: str) -> FoundPartition | None:
    folder = files.parse_folder(name)
    if folder is None or folder.suffix or folder.topic == CLUSTER_METADATA:
        return None
    if folder.partition > files.MAX_PARTITION_INDEX or not is_valid(folder.topic):
        shown = name.encode(errors="backslashreplace").decode()  # the name of a file need not be UTF-8
        log.warning("%s/%s is no folder of a topic; left alone", log_dir, shown)
        return None
    topic_id = topic_id_of(f"{log_dir}/{name}")
    if topic_id is None:
        log.warning("%s/%s has no known topic id; left alone", log_dir, name)
        return None
    epochs = known_leader_epochs(f"{log_dir}/{name}")
    last_epoch = epochs[-1][0] if epochs else NO_EPOCH
    return FoundPartition(folder.topic, folder.partition, topic_id, log_dir, last_epoch)


def with_unnamed(
    found: Collection[FoundPartition], log_dirs: Iterable[str], first: int
) -> dict[int, FoundPartition]:
    """The found partitions of a topic by index, from `first` on, and with them folders of its name
    whose topic id is missing or damaged: in gaps, where the topic would get empty partitions, and
    after the last one. The IO worker does not open a log with a damaged id."""
    by_index = {one.index: one for one in found}
    index, like, last = first, next(iter(found)), max(by_index)
    while index <= last or (one := _unnamed(like, index, log_dirs)) is not None:
        if index not in by_index and (one := _unnamed(like, index, log_dirs)) is not None:
            by_index[index] = one
            log.warning("%s/%s-%d counts as a log of topic %s", one.log_dir, one.topic, index, one.topic)
        index += 1
    return by_index


def _unnamed(like: FoundPartition, index: int, log_dirs: Iterable[str]) -> FoundPartition | None:
    for log_dir in log_dirs:
        folder = f"{log_dir}/{files.folder_name(like.topic, index)}"
        if Path(folder).is_dir() and topic_id_of(folder) is None:
            epochs = known_leader_epochs(folder)
            last_epoch = epochs[-1][0] if epochs else NO_EPOCH
            return FoundPartition(like.topic, index, like.topic_id, log_dir, last_epoch)
    return None


def unknown(found: Iterable[FoundPartition], catalogue: Catalogue) -> Mapping[str, list[FoundPartition]]:
    """Found partitions that the catalogue lacks, by topic; contradictions are logged and skipped.

    Of two folders of a log in two directories the one with newer records counts; one whose topic id
    is not the catalogue's (or not that of the topic's other folders) is a remnant of a deleted
    topic of the same name. A topic id is of one topic: folders of a second name with it have been
    renamed or copied.
    """
    missing: dict[str, dict[int, FoundPartition]] = {}
    names: dict[bytes, str] = {}
    for one in found:
        known = catalogue.get(one.topic)
        of_topic = missing.setdefault(one.topic, {})
        expected = known.topic_id if known else next((p.topic_id for p in of_topic.values()), one.topic_id)
        other = catalogue.by_id(one.topic_id)
        named = names.setdefault(one.topic_id, one.topic) if other is None else other.name
        if named != one.topic:
            log.warning("%s has the topic id of %s; left alone", one.folder, named)
        elif one.topic_id != expected:
            log.warning("%s belongs to another topic of the same name; left alone", one.folder)
        elif catalogue.partition(one.topic, one.index) is not None:
            continue
        elif one.index in of_topic:
            of_topic[one.index], left = _newer_first(of_topic[one.index], one)
            log.warning("%s was found in %s as well; left alone", left.folder, of_topic[one.index].log_dir)
        else:
            of_topic[one.index] = one
    return {topic: [of_topic[i] for i in sorted(of_topic)] for topic, of_topic in missing.items() if of_topic}


def _newer_first(one: FoundPartition, other: FoundPartition) -> list[FoundPartition]:
    from kbroker.control.metadata.log_tail import tail_of  # few starts find two folders of a log

    return sorted((one, other), key=lambda each: tail_of(each.folder), reverse=True)


def partitions_of(
    topic: Topic,
    found: Collection[FoundPartition],
    log_dirs: Sequence[str],
    slots: Slots,
    occupied: Occupied,
) -> list[Partition]:
    """New partitions of a topic for the found folders; gaps between them (other brokers had those)
    become empty partitions. Raises StoreError if there are not enough slots: without a partition,
    its records would be missing."""
    first = len(topic.partitions)
    _check_room(max(found, key=lambda one: one.index), first, slots)
    by_index = with_unnamed(found, log_dirs, first)
    last = max(by_index)
    _check_room(by_index[last], first, slots)
    new_indexes = range(first, last + 1)
    gaps = [index for index in new_indexes if index not in by_index]
    for index in gaps[:FEW_GAPS]:
        log.warning("%s-%d has no log on disk and starts empty", topic.name, index)
    if more := gaps[FEW_GAPS:]:
        log.warning(
            "%s-%d, and %d more, have no log on disk and start empty", topic.name, more[0], len(more) - 1
        )
    emptiest = iter(place(len(gaps), log_dirs, occupied))
    added = []
    for index, (slot, generation) in zip(new_indexes, slots.take(len(new_indexes)), strict=True):
        if (one := by_index.get(index)) is None:
            added.append(Partition(topic.name, index, next(emptiest), slot, generation))
        else:
            epoch = min(one.leader_epoch + 1, MAX_EPOCH)
            added.append(Partition(topic.name, index, one.log_dir, slot, generation, epoch))
    return added


def _check_room(last: FoundPartition, first: int, slots: Slots) -> None:
    more = last.index + 1 - first
    if more > slots.room:
        raise StoreError(
            f"{last.log_dir}/{last.topic}-{last.index}: there is no room for {more} more partitions. Raise "
            "kbroker.max.partitions, or move the folder away if it is not of this broker"
        )
