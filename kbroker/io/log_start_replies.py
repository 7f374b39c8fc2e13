"""Replies to DeleteRecords calls that wait for the disk: a crash must not restore records whose
deletion was answered."""

from kbroker.io.logs import Logs
from kbroker.ipc.messages import Reply
from kbroker.protocol.errors import KafkaError


class LogStartReplies:
    """Runs in: io. Owner: the IO worker. A thread writes the new log starts. Calls that arrive
    meanwhile share the next write."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._advanced: list[tuple[int, Reply]] = []
        self._being_written: list[tuple[int, Reply]] = []

    def hold(self, slot: int, reply: Reply) -> None:
        """Hold the reply until the log start of a slot, which has just advanced, is on disk."""
        self._advanced.append((slot, reply))

    def clear(self) -> None:
        """The control process that called has died. Its successor calls again; the log starts are
        written nevertheless, by the next checkpoint of all logs."""
        self._advanced.clear()
        self._being_written.clear()

    def run(self) -> list[Reply]:
        """Begin to write the log starts that have advanced, unless a write is in progress; returns
        the replies of those that are on disk."""
        if not self._logs.take_log_starts():
            return []
        written, self._being_written, self._advanced = self._being_written, self._advanced, []
        if self._being_written:
            self._logs.begin_log_starts({slot for slot, _ in self._being_written})
        return [self._final(*each) for each in written]

    def _final(self, slot: int, reply: Reply) -> Reply:
        """The reply; an error if the log is not open any more, as when its log dir has failed."""
        try:
            self._logs.require(slot)
        except KafkaError as error:
            return Reply(reply.call_id, None, int(error.code), str(error))
        return reply
