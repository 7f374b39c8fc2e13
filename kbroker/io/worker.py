"""The IO worker process: owns the logs of its partitions and is the only process that writes them.

Loop: wait for entries or other work (`append/wait_kernel.py`); handle control's messages, results
of threads (recovery, syncs, read-ahead) and timers; drain the rings. With kbroker.busy.poll.io.us
it polls for some time before it sleeps.
"""

import errno
import logging
import os
import select
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbroker.io.append.drain import Drain
from kbroker.io.append.rows import Drained, FollowUp, Stop, WaitResult
from kbroker.io.append.wait_kernel import AT_ONCE
from kbroker.io.cleaning import Cleaning
from kbroker.io.commands import Commands, DeletionCalls, LogCommands
from kbroker.io.control_link import ControlLink
from kbroker.io.durability import Durability
from kbroker.io.held_entries import HeldEntries
from kbroker.io.housekeeping import Housekeeping
from kbroker.io.log_dirs.file_handles import FileHandles, process_limit
from kbroker.io.log_dirs.moves import Moves
from kbroker.io.log_start_replies import LogStartReplies
from kbroker.io.logs import Logs
from kbroker.io.replication.replicas import Replicas
from kbroker.ipc.child import ChildContext, on_stop
from kbroker.ipc.clock import monotonic_ms
from kbroker.ipc.crash_point import crash_point, is_armed
from kbroker.ipc.layout import ProcessLine
from kbroker.ipc.messages import (
    ClosePartition,
    DeleteRecords,
    Follow,
    Hello,
    Lead,
    OpenPartition,
    Reply,
)
from kbroker.ipc.ring import Sleeper, mark_recovered
from kbroker.ipc.scheduling import let_threads_give_way

if TYPE_CHECKING:
    from kbroker.io.busy_poll import BusyPoll

log = logging.getLogger(__name__)

RECONNECT_MS = 20  # between two tries to open a link to control
MOVES_MS = 200  # between two reports about moves to other log dirs
BEFORE_WRITE, WRITTEN = "append: before the write", "append: written and answered"


class Worker:
    """One IO worker. Runs in: io. Owner: main. Single-threaded, except for the threads of its
    parts."""

    def __init__(self, context: ChildContext) -> None:
        self.context = context
        self.shared = context.shared
        self._notify_again: set[int] = set()
        armed = is_armed(BEFORE_WRITE, WRITTEN)
        self.drain = (DrainWithCrashPoints if armed else Drain)(self.shared, context.index)
        self.sleeper = Sleeper(self.shared, context.process)
        self.logs = Logs(context, self.drain, self.sleeper.interrupt)
        self.cleaning = Cleaning(
            self.logs,
            self._notify_again.add,
            call_cleaner=lambda: os.eventfd_write(self.shared.cleaner_event_fd, 1),
        )
        self.durability = Durability(
            self.shared,
            self.drain,
            self.logs,
            self._notify_again.add,
            (self.cleaning.synced, self.logs.recovery_notes.synced),
        )
        self.handles = FileHandles(
            self.drain.rows, process_limit(), self.durability.flush_now, self._sync_failed
        )
        self.held = HeldEntries(self.drain, self.logs, self.durability, self.sleeper.interrupt)
        self.metrics = self.drain.metrics
        self.housekeeping = Housekeeping(
            context.config, self.logs, self.drain, self.durability, self.cleaning, monotonic_ms()
        )
        self.moves = Moves(self.logs, lambda: self.housekeeping.config, self._notify_again.add)
        self.replicas = Replicas(context, self.drain, self.logs, self.durability)
        self.commands = Commands(
            LogCommands(self.logs).handlers,
            self.durability.handlers,
            self.cleaning.handlers,
            self.moves.handlers,
            self.replicas.handlers,
            self.housekeeping.handlers,
        )
        self.deletions = DeletionCalls(
            self.logs, (self.moves.drop, self.replicas.forget), self.durability.forget
        )
        self.log_start_replies = LogStartReplies(self.logs, self.housekeeping.retain_soon)
        self.stopping = False
        self._busy_poll = self._new_busy_poll(context.config.get_int("kbroker.busy.poll.io.us"))
        self._due_ms = self._moves_due_ms = 0
        self._appended = False
        self._poll = self._new_poll()
        self.link = self._new_link(context)

    def _new_link(self, context: ChildContext) -> ControlLink:
        hello = Hello("io", context.index, context.epoch)
        return ControlLink(context.control_sockets.connector, hello, self._poll, self._control_died)

    def _new_busy_poll(self, poll_us: int) -> "BusyPoll | None":
        if not poll_us:
            return None
        from kbroker.io.busy_poll import BusyPoll  # a module that few workers need

        return BusyPoll(poll_us, self.drain)

    def _new_poll(self) -> select.epoll:
        poll = select.epoll()
        poll.register(self.sleeper.event_fd, select.EPOLLIN | select.EPOLLET)  # its count need not be read
        poll.register(self.durability.fileno(), select.EPOLLIN)
        self.drain.waits_for(poll.fileno(), self.sleeper.event_fd)
        return poll

    def run(self) -> None:
        """Serve until the parent asks for a stop, then flush and close every log."""
        on_stop(self._stop)
        self._refuse_old_entries()
        self.link.connect()
        while not self.stopping:
            self._turn()
        self._drain_and_close()

    def _stop(self, *_: object) -> None:
        self.stopping = True
        self.sleeper.interrupt()

    def _refuse_old_entries(self) -> None:
        """Answer the entries that a predecessor left in the rings with a retriable error, as their
        outcome is unknown."""
        while self.drain.run():  # no row is open yet, so the answer to everything is NOT_LEADER_OR_FOLLOWER
            self.held.take()
        for client in range(self.shared.sizes.clients):
            mark_recovered(self.shared.append_ring(client, self.context.index))
        self.shared.processes[self.context.process, ProcessLine.READY] = self.context.epoch

    # --- loop --------------------------------------------------------------------------------------

    def _turn(self) -> None:
        found = self._wait()
        if found or self.sleeper.interrupted:
            self._take_events(found)
        self._append()

    def _wait(self) -> int:
        """Wait for entries or for other work; returns `WaitResult` of the latter."""
        if self._busy_poll is None and not self.replicas.active:
            return self.drain.wait(self._due_ms, self._due_ms)
        busy = self.replicas.active and self.replicas.turn(monotonic_ms())
        if self._busy_poll is not None:
            if busy or self._appended:
                self._busy_poll.worked()
            elif not self.drain.blocked and self._busy_poll.continues():
                found = self.drain.wait(self._due_ms, 0)
                self._busy_poll.poll(self.replicas.active)
                return found
        if busy or self._appended:
            return self.drain.wait(self._due_ms, AT_ONCE)
        if not self.replicas.active:
            return self.drain.wait(self._due_ms, self._due_ms)
        self.sleeper.announce()
        if self.replicas.pending():
            self.sleeper.awake()
            return self.drain.wait(self._due_ms, AT_ONCE)
        return self.drain.wait(self._due_ms, self.replicas.next_due_ms(monotonic_ms()))

    def _next_due_ms(self) -> int:
        """The latest time for the next ``_serve_others``."""
        now = monotonic_ms()
        due = [self.housekeeping.next_due_ms, now + 1000]
        if self.moves.count:
            due.append(self._moves_due_ms)
        if not self.link.connected:
            due.append(now + RECONNECT_MS)
        elif self._notify_again or self._unanswered or self.drain.waiting():
            due.append(now + 1)
        return min(due)

    @property
    def _unanswered(self) -> bool:
        """Whether a client's ring was too full for an answer."""
        return self.durability.unanswered or self.held.unanswered

    def _take_events(self, found: int) -> None:
        """Take the ends of syncs; do all other work if there is some."""
        other = found & WaitResult.OTHER or self.sleeper.take_interrupted()
        if found & WaitResult.SYNCED:
            self.durability.take_flushed()
            if self.replicas.active:
                self.replicas.synced()
            other = other or self.durability.unanswered
        if other:
            self._serve_others()
            self._due_ms = self._next_due_ms()

    def _serve_others(self) -> None:
        """Do all work except appends."""
        if not self.link.connect():
            log.debug("no link to control yet")
        self.link.take(self._serve_messages)
        self.link.reply(self.logs.take_opened(self.replicas.begin))
        self.link.reply(self.log_start_replies.run())
        self.link.reply(self.deletions.run())
        self.held.answer_read()
        self.durability.answer_late()
        now = monotonic_ms()
        self.durability.expire(now)
        self.housekeeping.run(now)
        if self.moves.count and now >= self._moves_due_ms:
            self._moves_due_ms = now + MOVES_MS
            self.moves.report(self.link.send)
        self.drain.wake()
        for slot in list(self._notify_again):
            if not self.drain.notify(slot):
                self._notify_again.discard(slot)

    def _serve_messages(self, messages: Sequence[tuple[int, Any]]) -> list[Reply]:
        replies = [self._handle(*each) for each in messages]
        return [reply for reply in replies if reply is not None and reply.call_id]

    def _handle(self, call_id: int, body: object) -> Reply | None:
        """The reply to a message. None if it follows later: for OpenPartition when a thread has
        loaded the log, for ClosePartition when the log is deleted, for DeleteRecords when the new
        log start is on disk."""
        if isinstance(body, OpenPartition):
            self.moves.reopened(body.slot, body.log_dir)
            self.logs.open(body, call_id)
            return None
        if isinstance(body, ClosePartition):
            self.deletions.add(call_id, body)
            return None
        if isinstance(body, (Lead, Follow)):  # the role of an earlier OpenPartition must not replace it
            self.link.reply(self.logs.take_opened(self.replicas.begin))
        reply = self.commands.handle(call_id, body)
        if isinstance(body, DeleteRecords) and not reply.error:
            self.log_start_replies.hold(body.slot, reply)
            return None
        return reply

    def _control_died(self) -> None:
        self.logs.forget_calls()
        self.deletions.clear()
        self.log_start_replies.clear()

    # --- appends -----------------------------------------------------------------------------------

    def _append(self) -> bool:
        """Drain once and handle the entries that the kernel leaves to Python; returns whether there
        may be more."""
        self._appended = self.drain.run() > 0
        if self.drain.out[Drained.LEFT]:
            self._take_drained()
        return self._appended

    def _take_drained(self) -> None:
        out = self.drain.out
        if out[Drained.FAILED]:
            for slot, number in self.drain.failures():
                self.logs.failures.write_failed(slot, number)
            self.drain.wake()
        if out[Drained.HELD]:
            self.held.take()
            self._due_ms = 0
        if out[Drained.FOLLOW_UP]:
            self._follow_up(int(out[Drained.FOLLOW_UP]))
        if out[Drained.NOTIFY_AGAIN]:
            self._notify_again.update(self.drain.touched_slots())
            self._due_ms = 0
        if out[Drained.STOP] in (Stop.ROLL, Stop.FILES, Stop.ROOM):
            self._resume(int(out[Drained.STOP]), int(out[Drained.STOP_SLOT]))
            self._appended = True

    def _resume(self, stop: int, slot: int) -> None:
        """Do that for which the kernel stopped; the entry is still in its ring."""
        if stop == Stop.ROLL:
            self.logs.roll(slot)
            self.housekeeping.rolled(monotonic_ms())
            self._due_ms = min(self._due_ms, self.housekeeping.next_due_ms)  # else up to a second later
        elif stop == Stop.FILES:
            if self.logs.open_files(slot):
                self.handles.opened(self.logs.get)
        else:
            self.drain.make_room()

    def _sync_failed(self, folder: str, error: OSError) -> None:
        self.logs.failures.sync_failed(folder, error.errno or errno.EIO)

    def _follow_up(self, work: int) -> None:
        touched = self.drain.touched_slots()
        if work & FollowUp.FLUSH:
            self.durability.flush(touched)
        if work & FollowUp.REPLICAS:
            self.replicas.leading.appended(touched)

    # --- stop --------------------------------------------------------------------------------------

    def _drain_and_close(self) -> None:
        """Clean shutdown: nothing new arrives (network and control have stopped), so empty the
        rings and close."""
        while self._append():
            pass
        self.moves.close()
        self.held.close()
        self.durability.close()
        self.drain.wake()
        self.cleaning.close()
        not_closed = self.logs.close_all(self.replicas.begin)
        log.info("io %d stopped, %d partitions closed", self.context.index, self.logs.count)
        if not_closed:
            log.error(
                "io %d: %d logs were not open, the next start checks them", self.context.index, not_closed
            )
            raise SystemExit(1)


class DrainWithCrashPoints(Drain):
    """A drain with crash points, for tests. They count the calls that append something."""

    def bind(self) -> None:
        super().bind()
        run = self.run

        def with_crash_points() -> int:
            if self.waiting():
                crash_point(BEFORE_WRITE)
            taken = run()
            if taken:
                crash_point(WRITTEN)
            return taken

        self.run = with_crash_points


def main(context: ChildContext) -> None:
    """Entry of the role "io"."""
    let_threads_give_way()
    Worker(context).run()
