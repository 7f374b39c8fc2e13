"""Ring entries that the drain kernel leaves to Python: transaction markers, which end a transaction
in memory, and ranges of a segment that a network process requests in the page cache.
"""

from collections.abc import Callable

from kbroker.io.append.drain import Drain, MarkerAppend, ReadAhead
from kbroker.io.durability import Durability
from kbroker.io.late_answers import LateAnswers
from kbroker.io.logs import Logs
from kbroker.io.read_ahead import ReadAheadPool
from kbroker.ipc.crash_point import crash_point
from kbroker.ipc.layout import Counter
from kbroker.metrics.slots import bind
from kbroker.protocol.errors import ErrorCode

READ_AHEADS = bind("kbroker_read_aheads_total")
READ_AHEAD_BYTES = bind("kbroker_read_ahead_bytes_total")


class HeldEntries:
    """Runs in: io. Owner: the IO worker. Not thread-safe. notify: called from a thread when
    `answer_read` has something to do."""

    def __init__(self, drain: Drain, logs: Logs, durability: Durability, notify: Callable[[], None]) -> None:
        self._drain = drain
        self._logs = logs
        self._durability = durability
        self._read_ahead = ReadAheadPool(notify)
        self._answers = LateAnswers(drain.complete_token)

    @property
    def unanswered(self) -> bool:
        """Whether a client's ring was too full for an answer; then ``answer_read`` must be called
        soon."""
        return self._answers.waiting

    def take(self) -> None:
        """Complete the entries that the last run of the drain left, or begin to read their
        ranges."""
        for entry in self._drain.held():
            if isinstance(entry, MarkerAppend):
                self._end_transaction(entry)
            else:
                self._read(entry)
        self._drain.wake()

    def _end_transaction(self, held: MarkerAppend) -> None:
        partition = self._logs.get(held.append.slot)
        if partition is not None and held.marker is not None:
            crash_point("marker: in the log, transaction open")
            try:
                partition.complete_transaction(held.marker)
            except OSError as error:
                self._logs.failures.log_failed(held.append.slot, error)
                self._durability.refuse(held.append)
                return
            self._drain.notify(held.append.slot)
        self._durability.hold(held.append)

    def _read(self, entry: ReadAhead) -> None:
        file = self._logs.segment_file(entry.slot, entry.segment_base)
        if file is None:
            self._answers.answer(entry.client, entry.token, entry.slot, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            self._read_ahead.ask(entry, file)

    def answer_read(self) -> None:
        """Answer the ranges that were read, and count their bytes; retry the answers for which a
        client's ring was full. The caller then calls ``wake`` of the drain."""
        metrics = self._drain.metrics
        self._answers.retry()
        for slot, error in self._read_ahead.take_failed():
            self._logs.failures.read_failed(slot, error)
        for slot, count in self._read_ahead.take_from_disk():
            metrics.words[READ_AHEAD_BYTES] += count
            self._drain.counters[slot, Counter.COLD_BYTES_OUT] += count
        for request in self._read_ahead.take():
            metrics.words[READ_AHEADS] += 1
            self._answers.answer(request.client, request.token, request.slot, 0)

    def close(self) -> None:
        """End the threads that read."""
        self._read_ahead.close()
