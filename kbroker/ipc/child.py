"""A child process after its fork: what it inherits, and its setup before its role's main runs."""

import faulthandler
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType

import setproctitle
from msgspec import Struct, field

from kbroker.config.broker import BrokerConfig
from kbroker.ipc.connecting import ControlSockets
from kbroker.ipc.layout import ProcessLine
from kbroker.ipc.scheduling import ask_for_slice
from kbroker.ipc.shared import Shared
from kbroker.parent_death import signal_on_parent_death

QUICK_ROLES = ("network", "io")  # every record passes through these
STACK_SIGNAL = signal.SIGUSR2
"""On this signal a child writes the stacks of its threads to the log, whatever it is doing."""
STOP_SIGNAL = signal.SIGUSR1
"""The parent ends a child only by this signal. A service manager or a terminal sends SIGTERM or
SIGINT to all processes at once. Children ignore these; otherwise they would end in any order and
before the parent knew why."""
PARENT_ONLY = (signal.SIGTERM, signal.SIGINT)
NEW_OBJECTS, GENERATIONS = 20_000, 2
"""Thresholds of the garbage collector: it examines this number of new objects at once, in a
millisecond; the other two numbers are those of the older generations. With Python's 700 it would
examine the waiting requests of a rebalancing group a dozen times."""
EXIT_OK = 0
EXIT_FAILED = 1
EXIT_CANNOT_START = 3
"""Exit code of a child that has logged why it cannot start, and would fail again."""

log = logging.getLogger(__name__)


class ChildContext(Struct, frozen=True):
    """Everything that a role's main may use; the parent has made all of it before the fork.

    index: within the role. process: row in shared.processes. epoch: incarnation of that row.
    control_sockets: how the others reach control. handoff: the end of the acceptor's socket pair on
    which a network process receives connections, else None. log_dirs: absolute paths of those that
    are online. clean_dirs: those that were stopped cleanly before this start. same_boot_dirs: those
    that have the mark of this boot of the host (`log/boot_mark.py`). first_start: no earlier
    process of this place has run since the broker started. closed_logs: what that stop left of the
    logs, by log dir, for IO workers that start first. directory_ids: of meta.properties, by log
    dir. ports: bound port of each listener by listener name. http_listener, registry_listener:
    listening sockets of the http process, None for the others.
    """

    role: str
    index: int
    process: int
    epoch: int
    config: BrokerConfig
    shared: Shared
    control_sockets: ControlSockets
    handoff: socket.socket | None
    cluster_id: str
    log_dirs: tuple[str, ...]
    clean_dirs: frozenset[str]
    directory_ids: dict[str, str] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    closed_logs: dict[str, list[bytes]] = field(default_factory=dict)
    same_boot_dirs: frozenset[str] = frozenset()
    first_start: bool = True
    http_listener: socket.socket | None = None
    registry_listener: socket.socket | None = None

    @property
    def title(self) -> str:
        """Process title, with the role."""
        numbered = self.role in ("network", "io")
        return f"kbroker: {self.role} {self.index}" if numbered else f"kbroker: {self.role}"


def die_with_parent(parent: int) -> None:
    """Get SIGKILL when the parent dies, and end now if it has died already."""
    signal_on_parent_death(signal.SIGKILL)
    if os.getppid() != parent:  # it died before the request
        os._exit(EXIT_FAILED)


def _stop_before_main(*_: object) -> None:
    """A late role is stopped before it has begun: there is nothing to finish, and the stop is
    clean."""
    os._exit(EXIT_OK)


def on_stop(handler: Callable[[int, FrameType | None], None]) -> None:
    """Run the handler in the main thread when the parent stops this child, or at once if it has
    already done so."""
    signal.signal(STOP_SIGNAL, handler)
    take_stop()


def take_stop() -> None:
    """A handler of STOP_SIGNAL is installed: unblock the signal."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {STOP_SIGNAL})


def run_child(
    context: ChildContext, main: Callable[[ChildContext], None], parent: int, late: bool = False
) -> None:
    """Body of a child, forked with its signals blocked so that none meets the parent's handlers;
    never returns.

    late: the role's main still has to be imported. Other roles get an early stop once their handler
    is installed."""
    code = EXIT_FAILED
    try:
        die_with_parent(parent)
        signal.set_wakeup_fd(-1)
        for number in PARENT_ONLY:
            signal.signal(number, signal.SIG_IGN)
        signal.signal(STOP_SIGNAL, signal.SIG_DFL)
        if late:
            on_stop(_stop_before_main)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(
            signal.SIGPIPE, signal.SIG_IGN
        )  # a write to a dead peer is an error, and must not end this process
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        faulthandler.register(STACK_SIGNAL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PARENT_ONLY)
        setproctitle.setproctitle(context.title)
        logging.getLogger().handlers[0].set_name(context.title)
        context.shared.processes[context.process, ProcessLine.PID] = os.getpid()
        gc.collect()
        gc.freeze()
        gc.set_threshold(NEW_OBJECTS, GENERATIONS)
        if context.role in QUICK_ROLES and (microseconds := context.config.get_int("kbroker.slice.us")):
            ask_for_slice(microseconds)
        main(context)
        code = EXIT_OK
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else EXIT_FAILED
    except BaseException:
        log.exception("%s failed", context.title)
    finally:
        logging.shutdown()
        sys.stdout.flush()
        os._exit(code)
