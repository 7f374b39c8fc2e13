"""The parent process: creates shared memory, forks the roles, accepts connections, restarts the
dead, drains in order.

Runs in: acceptor, single-threaded and without a third-party loop, so that it may fork at any time.
It reads no partition slot and no ring: no child's crash can reach it. Signal handlers only write to
a wake-up socket.
"""

import errno
import gc
import logging
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Iterable

from kbroker.config.broker import BrokerConfig
from kbroker.config.processes import cores
from kbroker.ipc import connecting, fds
from kbroker.ipc.child import EXIT_CANNOT_START, PARENT_ONLY, STOP_SIGNAL, ChildContext
from kbroker.ipc.clock import monotonic_ms, process_age_s
from kbroker.ipc.layout import ProcessLine
from kbroker.ipc.log_dir_errors import LogDirErrors
from kbroker.metrics.slots import Slots, bind
from kbroker.net.accept.acceptor import Acceptor
from kbroker.supervisor.child import MAX_DELAY_MS, Child
from kbroker.supervisor.http_listeners import HttpListeners
from kbroker.supervisor.kraft_metadata import write_kraft_metadata
from kbroker.supervisor.log_dirs import LogDirs, LogDirsUnusable, start_failure
from kbroker.supervisor.roles import ROLES, network_count
from kbroker.supervisor.shared_memory import shared_memory
from kbroker.supervisor.stored_settings import with_stored_settings
from kbroker.supervisor.watchdog import Watchdog

log = logging.getLogger(__name__)

START_POLL_MS = 2
CHECK_LOG_DIRS_MS = 1000
LINKER_MS = 1000
"""Time from the start until the memory of LLVM's linker, if it linked the kernels, is given back.
That takes 10 ms, so it happens after the first clients."""
STOP_TIMEOUT_MS = 60_000
STARTS = {role.name: bind("kbroker_process_starts_total", role=role.name) for role in ROLES}
STUCK = {role.name: bind("kbroker_process_stuck_total", role=role.name) for role in ROLES}
DEATHS = {role.name: bind("kbroker_process_deaths_total", role=role.name) for role in ROLES}
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP)


class Supervisor:
    """Owns the children, the listening sockets and the log dirs' locks."""

    def __init__(self, config: BrokerConfig) -> None:
        """Raises ConfigError when the settings need more memory than there is."""
        self.config = config = with_stored_settings(config)
        self.shared = shared_memory(config)
        self._control_sockets = connecting.make()
        self._handoffs = [fds.pair() for _ in range(network_count(config))]
        self._slots = Slots(self.shared.metrics[self.shared.supervisor_row])
        self._acceptor = Acceptor(config, [ours for ours, _ in self._handoffs], metrics=self._slots)
        self._dirs: LogDirs | None = None
        self._dir_errors = LogDirErrors(config.log_dirs, self.shared)
        self._children: list[Child] = []
        self._ports: dict[str, int] = {}
        self._http = HttpListeners(config)
        self._sleeping: dict[int, Child] = {}
        """Late children that have not started, by the descriptor whose first event starts them."""
        limits_ms = {role.name: role.still_s * 1000 for role in ROLES}
        self._watchdog = Watchdog(self.shared.processes, limits_ms, self._count_stuck)
        self._linker_due_ms = 0
        self._stopping = False
        self._poll = select.epoll()
        self._wake_read, self._wake_write = socket.socketpair()

    def run(self) -> int:
        """Start, serve until SIGTERM or SIGINT, drain; the exit code."""
        _allow_many_files()
        _warn_of_polling(self.config)
        self._wake_on_signals()
        self._dirs = LogDirs(self.config.log_dirs, self.config.node_id)
        for path in set(self._dir_errors.paths) - set(self._dirs.online):
            self._dir_errors.fail(path, errno.ENODEV)
        self._ports = self._acceptor.bind()
        self._http.open()
        places = self._places()
        first = [child for child in places if not child.role.late]
        # before the first fork: a page that the parent changes after a fork is shared no more
        for child in first:
            child.role.load()
        self._start_all(first)
        gc.enable()
        if not self._wait_until_ready():
            return self._drain(failed=not self._stopping)
        self._dirs.forget_closed_logs()
        self._start_late([child for child in places if child.role.late])
        for fd in self._acceptor.fds():
            self._poll.register(fd, select.EPOLLIN)
        addresses = [f"bootstrap={','.join(self._acceptor.addresses())}", self._http.addresses()]
        log.info("kbroker ready in %.2f s %s", process_age_s(), " ".join(filter(None, addresses)))
        if "NOTIFY_SOCKET" in os.environ:
            from kbroker.supervisor.service_manager import report_ready  # only a service needs it

            report_ready()
        self._linker_due_ms = monotonic_ms() + LINKER_MS if "llvmlite" in sys.modules else 0
        while not self._stopping:
            self._turn(self._timeout_ms())
            self._give_linker_memory_back()
            if not self._dir_errors.online:
                log.error("stopping, because all log dirs have failed: %s", ", ".join(self._dir_errors.paths))
                return self._drain(failed=True)
        return self._drain(failed=False)

    # --- start -------------------------------------------------------------------------------------

    def _wake_on_signals(self) -> None:
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a write to a dead child is an error, not our end
        signal.set_wakeup_fd(self._wake_write.fileno(), warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, lambda *_: None)
        self._poll.register(self._wake_read.fileno(), select.EPOLLIN)

    def _places(self) -> list[Child]:
        rows = {
            "network": 0,
            "control": self.shared.control_client,
            "io": self.shared.sizes.clients,
            "http": self.shared.http_process,
            "cleaner": self.shared.cleaner_process,
        }
        return [
            Child(role, index, rows[role.name] + index)
            for role in ROLES
            for index in range(role.count(self.config))
        ]

    def _start_all(self, children: list[Child]) -> None:
        self._children += children
        for child in children:
            self._start(child)

    def _start_late(self, children: list[Child]) -> None:
        """Let the late children wait for something to do. http starts at once if it serves a
        registry, which reads its topic first."""
        for child in children:
            if child.role.name == "http" and self._http.registry is not None:
                self._start_all([child])
                continue
            fd = self._first_event_fd(child)
            self._sleeping[fd] = child
            self._poll.register(fd, select.EPOLLIN)

    def _first_event_fd(self, child: Child) -> int:
        """A descriptor that is readable when a late child has something to do; the child reads
        it."""
        if child.role.name == "cleaner":
            return self.shared.cleaner_event_fd
        assert self._http.metrics is not None
        return self._http.metrics.fileno()

    def _start_sleeping(self, fd: int) -> None:
        self._poll.unregister(fd)
        child = self._sleeping.pop(fd)
        if not self._stopping:
            self._children.append(child)
            self._start_or_delay(child)

    def _start_or_delay(self, child: Child) -> None:
        """Start a child beside others that serve clients: they do so without it, too."""
        try:
            self._start(child)
        except OSError as error:
            child.start_later(error)

    def _start(self, child: Child) -> None:
        assert self._dirs is not None
        line = self.shared.processes[child.process]
        line[ProcessLine.EPOCH] += 1
        line[ProcessLine.SLEEPING] = 0
        line[ProcessLine.HEARTBEAT_NS] = 0
        context = ChildContext(
            role=child.role.name,
            index=child.index,
            process=child.process,
            epoch=int(line[ProcessLine.EPOCH]),
            config=self.config,
            shared=self.shared,
            control_sockets=self._control_sockets,
            handoff=self._handoffs[child.index][1] if child.role.name == "network" else None,
            cluster_id=self._dirs.cluster_id,
            log_dirs=self._dirs.online,
            clean_dirs=self._dirs.clean,
            same_boot_dirs=self._dirs.same_boot,
            closed_logs=self._dirs.closed_logs if child.role.name == "io" else {},
            directory_ids=self._dirs.directory_ids,
            ports=self._ports,
            first_start=child.starts == 0,
            http_listener=self._http.metrics if child.role.name == "http" else None,
            registry_listener=self._http.registry if child.role.name == "http" else None,
        )
        child.fork(context, self._private_fds(child))
        self._slots.words[STARTS[child.role.name]] += 1
        self._poll.register(child.pidfd, select.EPOLLIN)
        log.debug("%s started, pid %d", child.name, child.pid)

    def _private_fds(self, starting: Child) -> list[int]:
        """File descriptors that a child must not keep open: listening sockets (the port would
        outlive us), sockets of clients, our poll."""
        ours = [handoff.fileno() for handoff, _ in self._handoffs]
        watched = [child.pidfd for child in self._children if child.running]
        wake = [self._wake_read.fileno(), self._wake_write.fileno(), self._poll.fileno()]
        http = [each.fileno() for each in self._http.sockets()]
        not_its = http if starting.role.name != "http" else []
        sockets = self._control_sockets
        not_its.append((sockets.connector if starting.role.name == "control" else sockets.listener).fileno())
        clients = self._acceptor.client_fds()
        return [*self._acceptor.listening_fds(), *clients, *ours, *watched, *wake, *not_its]

    def _ready(self, children: Iterable[Child]) -> bool:
        lines = self.shared.processes
        return all(
            lines[child.process, ProcessLine.READY] == lines[child.process, ProcessLine.EPOCH]
            for child in children
        )

    def _wait_until_ready(self) -> bool:
        while not self._ready(self._children):
            self._turn(START_POLL_MS)
            if self._stopping:
                return False
            for child in self._children:
                died = child.exit_code is not None and not child.running
                if died and (child.starts >= 3 or child.exit_code == EXIT_CANNOT_START):
                    log.error("%s cannot start", child.name)
                    return False
        return True

    # --- loop --------------------------------------------------------------------------------------

    def _timeout_ms(self) -> int:
        due = [child.restart_at_ms for child in self._children if not child.running]
        due.append(self._watchdog.next_check_ms())
        waits = [CHECK_LOG_DIRS_MS, *(moment - monotonic_ms() for moment in due)]
        if (due_s := self._acceptor.next_due_s()) is not None:
            waits.append(int(due_s * 1000) + 1)
        return max(0, min(waits))

    def _turn(self, timeout_ms: int) -> None:
        """One turn: connections, signals, deaths, restarts."""
        for fd, _ in self._poll.poll(timeout_ms / 1000 if timeout_ms >= 0 else -1):
            if fd == self._wake_read.fileno():
                self._take_signals()
                continue
            child = next((c for c in self._children if c.pidfd == fd), None)
            if child is not None:
                self._reap(child)
            elif fd in self._sleeping:
                self._start_sleeping(fd)
            else:
                self._acceptor.on_readable(fd)
        self._acceptor.take_turn()
        now = monotonic_ms()
        if self._stopping:  # IO workers are busy now and need no heartbeat
            self._watchdog.check([child for child in self._children if not child.role.owns_logs], now)
        else:
            self._watchdog.check(self._children, now)
            for child in self._children:
                if not child.running and child.restart_at_ms <= now:
                    self._start_or_delay(child)

    def _give_linker_memory_back(self) -> None:
        if not 0 < self._linker_due_ms <= monotonic_ms():
            return
        from kbroker.supervisor.linker_memory import give_back  # no part of the start

        self._linker_due_ms = 0
        give_back()

    def _take_signals(self) -> None:
        try:
            numbers = self._wake_read.recv(4096)
        except BlockingIOError:
            return
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            self._stopping = True

    def _reap(self, child: Child) -> None:
        self._poll.unregister(child.pidfd)
        lived = monotonic_ms() - child.started_ms
        how = child.reap()
        Slots(self.shared.metrics[child.process]).clear_gauges()
        if self._stopping:
            log.debug("%s ended: %s", child.name, how)
            return
        self._slots.words[DEATHS[child.role.name]] += 1
        if child.exit_code == EXIT_CANNOT_START:  # it has logged the reason; a new process would meet it, too
            child.restart_at_ms = monotonic_ms() + MAX_DELAY_MS
            return
        delay = child.back_off.next_delay_ms(lived)
        child.restart_at_ms = monotonic_ms() + delay
        log.error("%s died (%s), restarting in %d ms", child.name, how, delay)

    def _count_stuck(self, child: Child) -> None:
        self._slots.words[STUCK[child.role.name]] += 1

    # --- stop --------------------------------------------------------------------------------------

    def _logs_checked(self) -> bool:
        """Whether every log was opened, by any control of this run."""
        return bool(self.shared.processes[self.shared.control_client, ProcessLine.LOGS_OPEN])

    def _drain(self, failed: bool) -> int:
        """Network processes first, then control, then the IO workers, which flush and write their
        checkpoints.

        Unless every log was opened, a log dir is marked clean only if it was clean at the start."""
        log.info("stopping")
        self._stopping = True
        for fd in self._acceptor.fds():
            try:
                self._poll.unregister(fd)
            except FileNotFoundError:
                continue
        self._acceptor.close()
        clean = not failed
        for rank in sorted({child.role.stop_rank for child in self._children}):
            clean &= self._stop([child for child in self._children if child.role.stop_rank == rank])
        if self._dirs is not None:
            in_doubt = set() if self._logs_checked() else set(self._dirs.online) - self._dirs.clean
            failed_dirs = {*self._dir_errors.failed, *in_doubt}
            exported = clean and not failed_dirs and self.config.get_bool("kbroker.kraft.metadata")
            epoch = write_kraft_metadata(self.config.node_id, self._dirs) if exported else -1
            self._dirs.release(clean, failed_dirs, epoch)
        log.info(
            "kbroker stopped%s", "" if clean else ", not cleanly: the logs will be checked at the next start"
        )
        return 0 if clean else 1

    def _stop(self, children: list[Child]) -> bool:
        """Ask, wait, SIGKILL after the timeout; returns whether all ended by themselves with code
        0, or were stuck but own no logs."""
        deadline = monotonic_ms() + STOP_TIMEOUT_MS
        for child in children:
            child.signal(STOP_SIGNAL)
        while any(child.running for child in children):
            left = deadline - monotonic_ms()
            if left <= 0:
                for child in children:
                    log.error("%s does not stop, killing it", child.name)
                    child.signal(signal.SIGKILL)
                deadline = monotonic_ms() + STOP_TIMEOUT_MS
            self._turn(max(1, min(left, 1000)))
        return all(child.exit_code == 0 or (child.stuck and not child.role.owns_logs) for child in children)


def _warn_of_polling(config: BrokerConfig) -> None:
    if config.get_int("kbroker.busy.poll.network.us") or config.get_int("kbroker.busy.poll.io.us"):
        from kbroker.supervisor.busy_poll import too_few_cores  # a module that few brokers need

        if warning := too_few_cores(config, cores()):
            log.warning("%s", warning)


def _allow_many_files() -> None:
    """Raise the soft limit of open files to the hard one: a log that is appended to has three, a
    connection one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def exit_code_of(supervisor: Supervisor) -> int:
    """Run and translate a start failure into a log line and code 1."""
    try:
        return supervisor.run()
    except (LogDirsUnusable, OSError) as error:
        log.error("%s", start_failure(error))
        return 1
    finally:
        for number in PARENT_ONLY:  # the stop is done; no signal may disturb the interpreter's end
            signal.signal(number, signal.SIG_IGN)
