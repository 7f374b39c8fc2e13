"""What a child process is given when it is forked, and what it does before its role's main runs."""

import ctypes
import faulthandler
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import setproctitle

from kbroker.config.broker import BrokerConfig
from kbroker.ipc.connecting import Ways
from kbroker.ipc.scheduling import ask_for_slice
from kbroker.ipc.shared import Shared

PR_SET_PDEATHSIG = 1
QUICK_ROLES = ("network", "io")  # who is on the way of every record
STACK_SIGNAL = signal.SIGUSR2
"""On it a child writes the stacks of its threads to the log, whatever it is doing."""
EXIT_OK = 0
EXIT_FAILED = 1

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChildContext:
    """Everything a role's main may use. All of it was made by the parent before the fork.

    index: within the role. process: row in shared.processes. epoch: incarnation of that row. ways: how the others
    reach control.
    handoff: the end of the acceptor's socket pair on which a network process receives connections, else None.
    log_dirs: absolute paths of those that are online. clean_dirs: those that were stopped cleanly before this
    start. first_start: no earlier process of this place has run since the broker started.
    closed_logs: what that stop left of the logs, by log dir, for IO workers that start first.
    directory_ids: of meta.properties, by log dir. ports: bound port of each listener by listener name.
    http_listener: the listening socket of the http process, None for the others.
    """

    role: str
    index: int
    process: int
    epoch: int
    config: BrokerConfig
    shared: Shared
    ways: Ways
    handoff: socket.socket | None
    cluster_id: str
    log_dirs: tuple[str, ...]
    clean_dirs: frozenset[str]
    directory_ids: dict[str, str] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    closed_logs: dict[str, list[bytes]] = field(default_factory=dict)
    first_start: bool = True
    http_listener: socket.socket | None = None

    @property
    def title(self) -> str:
        """Process title that tells the role."""
        numbered = self.role in ("network", "io")
        return f"kbroker: {self.role} {self.index}" if numbered else f"kbroker: {self.role}"


def die_with_parent(parent: int) -> None:
    """Ask the kernel for SIGKILL when the parent dies, so that kill -9 of it leaves no orphan."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the request
        os._exit(EXIT_FAILED)


def _stop_before_main(*_: object) -> None:
    """A late role is asked to end before it has begun: there is nothing to finish, and the stop is a clean one.

    Not so for the others: what they would have recovered is not."""
    os._exit(EXIT_OK)


def run_child(
    context: ChildContext, main: Callable[[ChildContext], None], parent: int, late: bool = False
) -> None:
    """Body of a child, forked with SIGTERM blocked so that none is lost on the parent's handler; never returns.

    late: the role's main still has to be imported."""
    code = EXIT_FAILED
    try:
        die_with_parent(parent)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C goes to all; the parent drains
        signal.signal(signal.SIGTERM, _stop_before_main if late else signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a peer that died is an error of write, not our end
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        faulthandler.register(STACK_SIGNAL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        setproctitle.setproctitle(context.title)
        logging.getLogger().handlers[0].set_name(context.title)
        context.shared.processes[context.process, 2] = os.getpid()
        gc.collect()
        gc.freeze()
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
