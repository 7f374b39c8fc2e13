"""Replies to DeleteRecords calls that wait for the disk: a crash must not restore records whose
deletion was answered."""

from collections.abc import Callable

from kbroker.io.logs import Logs
from kbroker.ipc.messages import Reply
from kbroker.protocol.errors import KafkaError


class LogStartReplies:
    """Runs in: io. Owner: the IO worker. A thread writes the new log starts. Calls that arrive
    meanwhile share the next write. retain: lets the log of a slot delete its segments soon."""

    def __init__(self, logs: Logs, retain: Callable[[int], None]) -> None:
        self._logs = logs
        self._retain = retain
        self._advanced = set[int]()
        self._waiting: list[tuple[int, Reply]] = []
        self._being_written: list[tuple[int, Reply]] = []

    def hold(self, slot: int, reply: Reply) -> None:
        """Hold the reply until the log start of a slot, which has just advanced, is on disk."""
        self._advanced.add(slot)
        self._waiting.append((slot, reply))

    def clear(self) -> None:
        """The control process that called has died: no process waits for the replies. The log
        starts are written nevertheless, because other processes see them already."""
        self._waiting.clear()
        self._being_written.clear()

    def run(self) -> list[Reply]:
        """Begin to write the log starts that have advanced, unless a write is in progress; returns
        the replies to the calls of the last write."""
        if not self._logs.take_log_starts():
            return []
        replies = [self._final(*each) for each in self._being_written]
        slots, self._advanced = self._advanced, set[int]()
        self._being_written, self._waiting = self._waiting, []
        if slots:
            self._logs.begin_log_starts(slots)
        return replies

    def _final(self, slot: int, reply: Reply) -> Reply:
        """The reply; an error if the log start is not on disk. The caller may repeat such a call:
        on a full disk there is room for the log start when the segments below it are removed."""
        final = reply
        try:
            self._logs.require_log_start(slot, reply.value)
        except KafkaError as error:
            final = Reply(reply.call_id, None, int(error.code), str(error))
        if final.error or self._logs.is_full(slot):
            self._retain(slot)
        return final
