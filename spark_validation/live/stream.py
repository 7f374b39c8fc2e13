"""A stream that starts again when Spark gave up on a Python worker that was too slow to start.

The worker that lists a Python source's offsets has ten seconds to connect, which no setting of
Spark changes (PythonWorkerFactory). On a machine that is busy with the load its start can take
longer. The stream's checkpoint and the job's journal let it continue where it was.
"""

import logging
from collections.abc import Callable
from typing import Any

from pyspark.errors import StreamingQueryException

log = logging.getLogger("spark_validation")
SLOW_WORKER = "Python worker failed to connect back"
STARTS = 20  # of a stream before its failure counts


class Stream:
    """One stream of the job. begin: starts its query from its checkpoint."""

    def __init__(self, name: str, begin: Callable[[], Any]) -> None:
        self.name = name
        self._begin = begin
        self._starts = 1
        self._query = begin()

    def check(self) -> None:
        """Raises what ended the stream, unless it could start again."""
        if (failed := self._query.exception()) is not None:
            self._start_again(failed)

    def process_available(self) -> None:
        """Wait until the rows that are there are added."""
        while True:
            try:
                return self._query.processAllAvailable()
            except StreamingQueryException as failed:
                self._start_again(failed)

    def stop(self) -> None:
        self._query.stop()

    def _start_again(self, failed: Exception) -> None:
        if SLOW_WORKER not in str(failed) or self._starts == STARTS:
            raise failed
        self._starts += 1
        log.warning("%s: a Python worker took more than ten seconds to start; once more", self.name)
        self._query = self._begin()
