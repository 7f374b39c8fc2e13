"""State of the copy of the store in each log dir: one shared word per log dir, written by control,
read by http.
"""

import os
from collections.abc import Collection, Sequence

from kbroker.ipc.shared import Shared

NONE, CURRENT, STALE = 0, 1, 2
"""No copy belongs there; the copy has every change; the copy is outdated, and rebuilt once its log
dir works again."""


class StoreCopyStates:
    """Runs in: control, the only writer, and http. A view of the shared words.

    paths: all of log.dirs, absolute, in the configured order.
    """

    def __init__(self, log_dirs: Sequence[str], shared: Shared) -> None:
        self.paths = tuple(dict.fromkeys(os.path.abspath(path) for path in log_dirs))  # noqa: PTH100 links stay
        self._words = shared.store_copies

    def put(self, current: Collection[str], expected: Collection[str]) -> None:
        """current: log dirs whose copies count; expected: those that have or had one."""
        for number, path in enumerate(self.paths):
            self._words[number] = CURRENT if path in current else STALE if path in expected else NONE

    def of(self, path: str) -> int:
        """NONE, CURRENT or STALE."""
        return int(self._words[self.paths.index(path)])
