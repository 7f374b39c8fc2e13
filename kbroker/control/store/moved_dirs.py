"""Log dirs that have another path than at the last start: their disk is mounted elsewhere, or the
folder was moved or copied.

The store lists each log by the path of its log dir. As in Apache Kafka, a log dir is known by the
directory.id of its meta.properties (KIP-858), not by its path. Without this, the logs would be
looked for at the old path: there they are missing, or belong to the original of a copy, which
another broker may have open.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence

from kbroker.control.store.store import Store

log = logging.getLogger(__name__)


def follow_moved(store: Store, log_dirs: Sequence[str], directory_ids: Mapping[str, str]) -> None:
    """Store the new paths of log dirs that were moved. log_dirs: all of log.dirs, absolute.
    directory_ids: of those that are online.

    A log dir is taken as moved only if its id is known for exactly one path, which log.dirs no
    longer has, and if its own path was not another log dir."""
    known = store.directory_ids()
    found = Counter(directory_ids.values())
    moved = {}
    for path, directory_id in directory_ids.items():
        old = [one for one, known_id in known.items() if known_id == directory_id and one not in log_dirs]
        if directory_id and len(old) == found[directory_id] == 1 and not known.get(path):
            moved[old[0]] = path
    if moved:
        store.rename_log_dirs(moved)
    for old_path, path in moved.items():
        log.warning("log dir %s was moved: its logs were in %s at the last start", path, old_path)
