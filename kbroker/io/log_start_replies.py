"""Replies to DeleteRecords calls that wait for the disk: a crash must not restore records whose
deletion was answered."""

from collections import defaultdict
from collections.abc import Callable

from msgspec import Struct, field

from kbroker.io.logs import Logs
from kbroker.ipc.messages import Reply
from kbroker.protocol.errors import KafkaError


class Calls(Struct):
    """Calls of one log dir. advanced: slots whose log starts are to be written. waiting: slots and
    replies of the next write. being_written: slots and replies of the write in progress."""

    advanced: set[int] = field(default_factory=set)
    waiting: list[tuple[int, Reply]] = field(default_factory=list)
    being_written: list[tuple[int, Reply]] = field(default_factory=list)


class LogStartReplies:
    """Runs in: io. Owner: the IO worker. A thread of each log dir writes the new log starts. Calls
    that arrive meanwhile share the next write. retain: lets the log of a slot delete its segments
    soon."""

    def __init__(self, logs: Logs, retain: Callable[[int], None]) -> None:
        self._logs = logs
        self._retain = retain
        self._calls: defaultdict[str, Calls] = defaultdict(Calls)

    def hold(self, slot: int, reply: Reply) -> None:
        """Hold the reply until the log start of a slot, which has just advanced, is on disk."""
        calls = self._calls[self._logs.log_dir_of(slot)]
        calls.advanced.add(slot)
        calls.waiting.append((slot, reply))

    def clear(self) -> None:
        """The control process that called has died: no process waits for the replies. The log
        starts are written nevertheless, because other processes see them already."""
        for calls in self._calls.values():
            calls.waiting.clear()
            calls.being_written.clear()

    def run(self) -> list[Reply]:
        """Begin to write the log starts that have advanced in log dirs where no write is in
        progress; returns the replies to the calls of the last writes."""
        return [reply for log_dir, calls in self._calls.items() for reply in self._run(log_dir, calls)]

    def _run(self, log_dir: str, calls: Calls) -> list[Reply]:
        if not self._logs.take_log_starts(log_dir):
            return []
        replies = [self._final(*each) for each in calls.being_written]
        slots, calls.advanced = calls.advanced, set()
        calls.being_written, calls.waiting = calls.waiting, []
        if slots:
            self._logs.begin_log_starts(log_dir, slots)
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
