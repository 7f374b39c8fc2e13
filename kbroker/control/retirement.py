"""Folders of deleted partitions that nobody has open: renamed as IO workers do it, so that they are removed later.

Usually there is nothing to do, because the IO worker has renamed the folder when it closed the log. A worker or a
control process that died in between leaves it behind, and a folder with a topic id would be adopted at the next start.
"""

import logging
import os
import uuid
from collections.abc import Iterable
from pathlib import Path

from kbroker.control.adoption import topic_id_of
from kbroker.control.store.store import Deletion
from kbroker.log import files

log = logging.getLogger(__name__)


def retire_all(deletions: Iterable[Deletion]) -> list[Deletion]:
    """Put the folders out of the way; those for which this is done, or there was nothing to do. Blocks."""
    return [one for one in deletions if _retire(one)]


def _retire(one: Deletion) -> bool:
    partition = one.partition
    folder = Path(partition.folder)
    try:
        if not folder.is_dir() or topic_id_of(str(folder)) != one.topic_id:
            return Path(
                partition.log_dir
            ).is_dir()  # or else the directory is offline and the folder may come back
        unique = uuid.uuid4().hex
        name = files.dated_folder_name(partition.topic, partition.index, unique, files.DELETE_FOLDER)
        os.rename(folder, Path(partition.log_dir, name))  # noqa: PTH104 as short as it gets
    except OSError as error:
        log.error("%s could not be put out of the way: %s", folder, error)
        return False
    log.info("%s: an interrupted deletion is finished", folder)
    return True
