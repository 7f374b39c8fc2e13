"""One child process of the supervisor: fork, watch, signal. Runs in: acceptor."""

import gc
import logging
import os
import signal

from msgspec import Struct, field

from kbroker.ipc.child import PARENT_ONLY, STOP_SIGNAL, ChildContext, run_child
from kbroker.ipc.clock import monotonic_ms
from kbroker.supervisor.confinement.confine import confine
from kbroker.supervisor.roles import Role

FIRST_DELAY_MS = 20
MAX_DELAY_MS = 1000
HEALTHY_MS = 1000
"""A life that is long: the next death is no sign of a defect that restarts do not end."""
log = logging.getLogger(__name__)


class BackOff:
    """Delay of one child: 0 after a long life, doubled after each short one.

    Runs in: acceptor. Owner: the supervisor's record of the child.
    """

    def __init__(self) -> None:
        self._delay_ms = 0

    def next_delay_ms(self, lived_ms: int) -> int:
        """Milliseconds to wait after the death of a child that has lived for `lived_ms`."""
        if lived_ms >= HEALTHY_MS:
            self._delay_ms = 0
        delay = self._delay_ms
        self._delay_ms = min(MAX_DELAY_MS, max(FIRST_DELAY_MS, self._delay_ms * 2))
        return delay


HELD_BACK = (*PARENT_ONLY, STOP_SIGNAL)  # in a new child, until it installs its handlers


class Child(Struct):
    """A place for one process of a role; the process in it changes when it is restarted.

    process: row in the shared process table. pid and pidfd: 0 and -1 while nothing runs. stuck: the
    watchdog will end this process.
    """

    role: Role
    index: int
    process: int
    pid: int = 0
    pidfd: int = -1
    started_ms: int = 0
    restart_at_ms: int = 0
    starts: int = 0
    exit_code: int | None = None
    stuck: bool = False
    back_off: BackOff = field(default_factory=BackOff)

    @property
    def name(self) -> str:
        """Role and number, for log lines."""
        return f"{self.role.name} {self.index}"

    @property
    def running(self) -> bool:
        """Whether the process runs."""
        return self.pid != 0

    def fork(self, context: ChildContext, close_fds: list[int]) -> None:
        """Start the process; ``close_fds`` belong only to the parent and are closed in the child.
        Raises OSError, and none was started."""
        parent = os.getpid()
        gc.freeze()  # imported modules are never freed; a collection would only touch all their pages
        signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
        try:
            pid = os.fork()
        except OSError:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
            raise
        if pid == 0:
            for fd in close_fds:
                os.close(fd)
            run_child(context, self._run, parent, self.role.late)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
        try:
            self.pidfd = os.pidfd_open(pid)
        except OSError:  # it cannot be watched
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        self.pid = pid
        self.started_ms = monotonic_ms()
        self.starts += 1
        self.exit_code = None
        self.stuck = False

    def start_later(self, error: OSError) -> None:
        """No process can be made now, as for lack of memory: it is started soon."""
        log.error("%s cannot be started now: %s", self.name, error)
        self.restart_at_ms = monotonic_ms() + MAX_DELAY_MS

    def _run(self, context: ChildContext) -> None:
        gc.enable()
        self.role.prepare(context)
        confine(context, self.role.needs)
        self.role.load()(context)

    def reap(self) -> str:
        """Reap the dead process; returns its exit code or signal as text."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self.pidfd)
        self.exit_code = os.waitstatus_to_exitcode(status)
        self.pid, self.pidfd = 0, -1
        if self.exit_code < 0:
            return f"killed by {signal.Signals(-self.exit_code).name}"
        return f"exit code {self.exit_code}"

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, race-free through the pidfd."""
        if self.running:
            try:
                signal.pidfd_send_signal(self.pidfd, number)
            except ProcessLookupError:
                log.debug("%s had already ended", self.name)
