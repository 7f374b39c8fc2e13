"""Folders of deleted partitions that no process has open: renamed as by IO workers, to be removed
later.

Usually there is nothing to do, because the IO worker has renamed the folder when it closed the log.
A worker or a control process that died in between leaves it behind, and a folder with a topic id
would be adopted at the next start.
"""

import logging
import os
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from kbroker.control.broker import Broker
from kbroker.control.metadata import adoption
from kbroker.control.store.change import Deletion
from kbroker.control.store.store import Store
from kbroker.log import files
from kbroker.log.checkpoint import topic_id_of

log = logging.getLogger(__name__)


NOWHERE: Mapping[str, Collection[str]] = MappingProxyType({})


Remnants = Callable[[Deletion], Collection[str]]
"""Other log dirs that may have a folder of the deleted log."""


def remnants_of(broker: Broker, deletions: Iterable[Deletion]) -> Remnants:
    """The log dirs of its site, for a log whose topic is deleted: a move may have left its former
    folder there, which the next start would adopt. For a replica of an existing topic none: another
    log dir may have its successor."""
    gone = {one.topic_id for one in deletions if broker.catalogue.by_id(one.topic_id) is None}
    usable = {log_dir for log_dir in broker.log_dirs if not broker.dir_errors.of(log_dir)}
    beside = {
        path: usable.intersection(site) - {path}
        for path, site in broker.nodes.log_dirs_of_same_site().items()
    }
    return lambda one: beside.get(one.partition.log_dir, ()) if one.topic_id in gone else ()


def offline_dirs_of_same_sites(broker: Broker, deletions: Iterable[Deletion]) -> set[str]:
    """Log dirs that are offline and belong to the site of a log whose topic is deleted. A move may
    have left a folder of the log there: the start at which the log dir returns would adopt it."""
    beside, offline = broker.nodes.log_dirs_of_same_site(), set(broker.dir_errors.failed)
    left = {one.partition.log_dir for one in deletions if broker.catalogue.by_id(one.topic_id) is None}
    return {log_dir for path in left for log_dir in offline.intersection(beside.get(path, ()))}


def set_aside(
    broker: Broker,
    store: Store,
    directory_ids: Mapping[str, str],
    found: Iterable[adoption.FoundPartition],
    unseen: Collection[bytes],
) -> set[adoption.FoundPartition]:
    """Rename the folders of deleted topics in log dirs that have returned; they are kept for
    inspection, as in Apache Kafka (LogManager.loadLog). Blocks. The store knew all topics of such a
    log dir: one that it no longer knows was deleted meanwhile, unless Apache Kafka has made it
    (unseen: ids of its topics). found: folders that have no replica."""
    absent = store.absent()
    back = {path: directory_ids[path] for path in broker.online_dirs if directory_ids.get(path) in absent}
    strays = {
        one
        for one in found
        if one.log_dir in back and broker.catalogue.by_id(one.topic_id) is None and one.topic_id not in unseen
    }
    try:
        for one in strays:
            name = _stray(one)
            log.warning("%s is of a topic that was deleted: renamed to %s", one.folder, name)
        for log_dir in back:
            files.sync_folder(log_dir)
    except OSError as error:  # the next start tries again
        log.error("folders of deleted topics could not be renamed: %s", error)
    else:
        store.end_absence(back.values())
    return strays


def retire_all(
    deletions: Iterable[Deletion],
    targets: Mapping[str, Collection[str]] = NOWHERE,
    remnants: Remnants = lambda _: (),
) -> list[Deletion]:
    """Rename the folders for removal; returns those that are renamed or do not exist, on disk, too.
    Blocks. targets: by log dir, the log dirs to which its logs may have been moving; their copies
    are renamed, too."""
    errors = _Errors()
    places = {one: (one.partition.log_dir, *remnants(one)) for one in deletions}
    renamed = {}
    for one, log_dirs in places.items():
        retired = [_retire(one, log_dir, errors) for log_dir in log_dirs]
        if all(retired):
            renamed[one] = log_dirs
    errors.report()
    done = _synced(renamed)
    gone = {
        (one.topic_id, one.partition.index, target)
        for one in done
        for target in targets.get(one.partition.log_dir, ())
    }
    for copy in adoption.futures({target for _, _, target in gone}):
        if (copy.topic_id, copy.index, copy.log_dir) in gone:
            rename_copy(copy, files.DELETE_FOLDER)
    return done


def _synced(places: Mapping[Deletion, Collection[str]]) -> list[Deletion]:
    """The deletions whose log dirs could be synced. A missing folder may have been renamed by an IO
    worker that died before its sync, and would be adopted after a power cut."""
    unsynced = set()
    for log_dir in {log_dir for log_dirs in places.values() for log_dir in log_dirs}:
        try:
            files.sync_folder(log_dir)
        except OSError as error:
            log.error("%s could not be synced: %s", log_dir, error)
            unsynced.add(log_dir)
    return [one for one, log_dirs in places.items() if unsynced.isdisjoint(log_dirs)]


def rename_copy(copy: adoption.FutureCopy, suffix: str) -> None:
    """Rename the copy of a deleted log: a DELETE_FOLDER is removed later, a STRAY_FOLDER is kept
    for inspection."""
    try:
        _rename(Path(copy.folder), copy.topic, copy.index, suffix)
    except OSError as error:
        log.error("%s could not be renamed: %s", copy.folder, error)


def put_aside(found: adoption.FoundPartition) -> None:
    """Keep the folder of a log for inspection, under another name. Raises OSError."""
    name = _stray(found)
    files.sync_folder(found.log_dir)
    log.error("%s has records that the log in use lacks: renamed to %s", found.folder, name)


def _stray(found: adoption.FoundPartition) -> str:
    return _rename(Path(found.folder), found.topic, found.index, files.STRAY_FOLDER)


def _rename(folder: Path, topic: str, index: int, suffix: str) -> str:
    """Rename the folder of a log within its log dir; returns its new name. Raises OSError."""
    name = files.dated_folder_name(topic, index, uuid.uuid4().hex, suffix)
    os.rename(folder, folder.with_name(name))  # noqa: PTH104 as short as it gets
    return name


class _Errors:
    """Errors of renames, one line for each log dir: thousands of folders may fail, at each retry.
    Owner: its creator."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self._count = Counter[str]()

    def add(self, log_dir: str, folder: Path, error: OSError) -> None:
        """A folder of the log dir could not be renamed."""
        self._first.setdefault(log_dir, f"{folder} could not be renamed: {error}")
        self._count[log_dir] += 1

    def report(self) -> None:
        """Log the failures, a line for each log dir."""
        for log_dir, text in self._first.items():
            more = self._count[log_dir] - 1
            log.error("%s%s", text, f"; and {more} others of {log_dir}" if more else "")


def _retire(one: Deletion, log_dir: str, errors: _Errors) -> bool:
    partition = one.partition
    folder = Path(log_dir, files.folder_name(partition.topic, partition.index))
    try:
        if not folder.is_dir() or topic_id_of(str(folder)) != one.topic_id:
            return Path(log_dir).is_dir()  # or else the directory is offline and the folder may come back
        _rename(folder, partition.topic, partition.index, files.DELETE_FOLDER)
    except OSError as error:
        errors.add(log_dir, folder, error)
        return False
    log.info("%s: finished an interrupted deletion", folder)
    return True
