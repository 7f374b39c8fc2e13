"""Folders of deleted partitions that no process has open: renamed as by IO workers, to be removed
later.

Usually there is nothing to do, because the IO worker has renamed the folder when it closed the log.
A worker or a control process that died in between leaves it behind, and a folder with a topic id
would be adopted at the next start.
"""

import logging
import os
import uuid
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from kbroker.control.metadata import adoption
from kbroker.control.store.change import Deletion
from kbroker.log import files

log = logging.getLogger(__name__)


NOWHERE: Mapping[str, Collection[str]] = MappingProxyType({})


def retire_all(
    deletions: Iterable[Deletion], targets: Mapping[str, Collection[str]] = NOWHERE
) -> list[Deletion]:
    """Rename the folders for removal; returns those that are renamed or do not exist, on disk, too.
    Blocks. targets: by log dir, the log dirs to which its logs may have been moving; their copies
    are renamed, too."""
    done = _synced([one for one in deletions if _retire(one)])
    gone = {
        (one.topic_id, one.partition.index, target)
        for one in done
        for target in targets.get(one.partition.log_dir, ())
    }
    for copy in adoption.futures({target for _, _, target in gone}):
        if (copy.topic_id, copy.index, copy.log_dir) in gone:
            rename_copy(copy, files.DELETE_FOLDER)
    return done


def _synced(deletions: list[Deletion]) -> list[Deletion]:
    """Those whose log dir could be synced. A folder that is not there may have been renamed by an
    IO worker that died before its sync, and would be adopted after a power cut."""
    unsynced = set()
    for log_dir in {one.partition.log_dir for one in deletions}:
        try:
            files.sync_folder(log_dir)
        except OSError as error:
            log.error("%s could not be synced: %s", log_dir, error)
            unsynced.add(log_dir)
    return [one for one in deletions if one.partition.log_dir not in unsynced]


def rename_copy(copy: adoption.FutureCopy, suffix: str) -> None:
    """Rename the copy of a deleted log: a DELETE_FOLDER is removed later, a STRAY_FOLDER is kept
    for inspection."""
    try:
        name = files.dated_folder_name(copy.topic, copy.index, uuid.uuid4().hex, suffix)
        os.rename(copy.folder, Path(copy.log_dir, name))  # noqa: PTH104 as short as it gets
    except OSError as error:
        log.error("%s could not be renamed: %s", copy.folder, error)


def _retire(one: Deletion) -> bool:
    partition = one.partition
    folder = Path(partition.folder)
    try:
        if not folder.is_dir() or adoption.topic_id_of(str(folder)) != one.topic_id:
            return Path(
                partition.log_dir
            ).is_dir()  # or else the directory is offline and the folder may come back
        unique = uuid.uuid4().hex
        name = files.dated_folder_name(partition.topic, partition.index, unique, files.DELETE_FOLDER)
        os.rename(folder, Path(partition.log_dir, name))  # noqa: PTH104 as short as it gets
    except OSError as error:
        log.error("%s could not be renamed: %s", folder, error)
        return False
    log.info("%s: finished an interrupted deletion", folder)
    return True
