"""The acceptor: opens listening sockets, enforces connection limits, and passes each connection to
a network process.

Runs in: acceptor (the supervisor's own loop, which calls ``on_readable``). Single-threaded, without
a separate event loop; it never blocks.
"""

import contextlib
import heapq
import logging
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence

from kbroker.config.broker import BrokerConfig
from kbroker.config.listeners import Endpoint
from kbroker.config.setting import ConfigError
from kbroker.config.sites import port_key
from kbroker.ipc.fds import (
    CONNECTIONS_PER_MESSAGE,
    RESTARTED,
    Accepted,
    Rates,
    Settings,
    receive_closed,
    send_connections,
)
from kbroker.metrics.slots import Slots, bind, private
from kbroker.net.accept.connection_limits import ConnectionLimits
from kbroker.net.accept.connection_rates import ConnectionRates
from kbroker.net.accept.descriptors import (
    TLS_CONNECTION,
    ProcessRoom,
    cost_of,
    for_connections,
    hard_limit,
    open_now,
)
from kbroker.net.accept.listening import endpoints, is_alone, listen
from kbroker.net.accept.socket_options import SocketOptions
from kbroker.net.rate_limited_log import RateLimitedLog

log = logging.getLogger(__name__)

ACCEPTS_PER_TURN = 64
FULL_SECONDS = 0.005
WAITING_MAX = 8192  # accepted, and no network process has room yet; further ones wait in the backlog
WAITING_SECONDS = 0.001
MAX_BACKLOG = 1 << 16  # the kernel limits it to net.core.somaxconn
ACCEPTED = bind("kbroker_connections_accepted_total")  # + number of the listener
REFUSED = bind("kbroker_connections_refused_total")
FULL_LOG_SECONDS = 60.0


class Acceptor:
    """Owner: the supervisor. handoffs: the acceptor's ends of the pairs, one per network process.
    descriptors: that the connections of one network process may take; by the limit of this process
    if None."""

    def __init__(
        self,
        config: BrokerConfig,
        handoffs: Sequence[socket.socket],
        clock: Callable[[], float] = time.monotonic,
        metrics: Slots | None = None,
        descriptors: int | None = None,
    ) -> None:
        self._metrics = metrics or private()
        self._config = config
        self._listeners = len(config.listeners)
        self._handoffs = list(handoffs)
        self._limits = ConnectionLimits(config, clock)
        self._options = SocketOptions(config)
        self._clock = clock
        self._rates = ConnectionRates(
            config.get_int("quota.window.num"), config.get_int("quota.window.size.seconds") * 1000
        )
        self._held: list[tuple[float, int, socket.socket]] = []  # heap: when to close, descriptor, socket
        self._waiting: deque[tuple[int, Accepted]] = deque()  # for room in a network process's channel
        self._warn = RateLimitedLog(log, clock)
        self._listening: list[socket.socket] = []
        self._endpoints: list[Endpoint] = []
        self._sites: list[int] = []  # of each listening socket
        self._prepared: list[bool] = []  # whether sockets that it accepts have their options already
        self._next_id = 1
        self._open: dict[int, tuple[int, int, str]] = {}  # id -> network process, listener, host
        self._costs = [cost_of(endpoint) for endpoint in config.listeners]  # in descriptors
        self._by_limit = descriptors is None
        self._room = ProcessRoom(len(self._handoffs), descriptors or 0)
        self._full_logged_s = -FULL_LOG_SECONDS

    # --- listening ----------------------------------------------------------------------------------

    def bind(self) -> dict[str, int]:
        """Listen on every listener, for each replica site on its own port; the bound ports by
        `port_key`. OSError names the address."""
        backlog = _backlog(self._config)
        ports = {}
        for site, endpoint, at in endpoints(self._config):
            self._listening.append(listen(at, backlog, is_alone(self._config, endpoint)))
            self._endpoints.append(endpoint)
            self._sites.append(site)
            self._prepared.append(self._options.prepare_listening(self._listening[-1]))
            ports[port_key(endpoint.listener, site)] = _port(self._listening[-1])
        if self._by_limit:  # what is open now, the network processes inherit
            self._room.descriptors = for_connections(hard_limit(), open_now())
        return ports

    def addresses(self) -> list[str]:
        """host:port of each listener, as a client on this host would write it."""
        found = []
        for endpoint, listening in zip(self._endpoints, self._listening, strict=True):
            host = endpoint.host or "localhost"
            found.append(f"[{host}]:{_port(listening)}" if ":" in host else f"{host}:{_port(listening)}")
        return found

    def fds(self) -> list[int]:
        """Descriptors to watch for reading."""
        return [*self.listening_fds(), *(handoff.fileno() for handoff in self._handoffs)]

    def listening_fds(self) -> list[int]:
        """The listening sockets: no child may keep them."""
        return [listening.fileno() for listening in self._listening]

    def client_fds(self) -> list[int]:
        """The sockets of clients that no network process has: no child may keep them, as a
        connection ends only when all its descriptors are closed."""
        return [*(fd for fd, _ in self._waiting), *(held.fileno() for _, _, held in self._held)]

    def close(self) -> None:
        """Stop listening; accepted connections stay open."""
        for listening in self._listening:
            listening.close()
        self._listening.clear()
        for _, _, held in self._held:
            held.close()
        self._held.clear()
        for fd, _ in self._waiting:
            os.close(fd)
        self._waiting.clear()

    # --- connections --------------------------------------------------------------------------------

    def next_due_s(self) -> float | None:
        """Seconds until `take_turn` has something to do; None when no connection waits or is
        held."""
        if self._waiting:
            return WAITING_SECONDS
        return max(0.0, self._held[0][0] - self._clock()) if self._held else None

    def take_turn(self) -> None:
        """Pass on connections that waited for room; close the connections above the rate whose
        delay is over."""
        self._pass_on()
        while self._held and self._held[0][0] <= self._clock():
            _, _, held = heapq.heappop(self._held)
            with held, contextlib.suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)
            if not self._held:
                self._rates.forget_quiet(int(self._clock() * 1000))

    def on_readable(self, fd: int) -> None:
        """A descriptor of ``fds`` is readable."""
        for number, listening in enumerate(self._listening):
            if listening.fileno() == fd:
                self._accept(number, listening)
                return
        for process, handoff in enumerate(self._handoffs):
            if handoff.fileno() == fd:
                self._take_closed(process, handoff)
                return

    def _accept(self, number: int, listening: socket.socket) -> None:
        listener = self._endpoints[number].listener
        place = number % self._listeners
        for _ in range(ACCEPTS_PER_TURN):
            if not self._may_accept(listener, self._costs[place]):
                time.sleep(FULL_SECONDS)  # new connections stay in the backlog until the loop returns
                break
            try:
                # without a socket object, which would double the cost
                fd, address = listening._accept()  # type: ignore[attr-defined]
            except (BlockingIOError, ConnectionAbortedError):
                break
            except OSError as error:  # no descriptor, or an error of the client's network (accept(2))
                self._warn("cannot accept a connection: %s", error.strerror)
                time.sleep(FULL_SECONDS)
                break
            came = Accepted(self._next_id, place, _plain(address[0]), address[1], self._sites[number])
            if not self._admit(fd, came, self._prepared[number]):
                os.close(fd)
        self._pass_on()

    def _may_accept(self, listener: str, cost: int) -> bool:
        here = len(self._waiting) + len(self._held)
        if here >= self._room.descriptors:  # without some of its own this process could start no other
            return False
        if len(self._waiting) >= WAITING_MAX or not self._limits.may_accept(listener):
            return False
        if self._room.fits(cost):
            return True
        if not self._waiting and self._clock() - self._full_logged_s >= FULL_LOG_SECONDS:
            self._full_logged_s = self._clock()
            log.warning(
                "new connections wait until others close: %d are open, and a network process has room for %d"
                " (%d with TLS) within its limit of open files; raise LimitNOFILE, or set max.connections or"
                " max.connections.per.ip",
                *(len(self._open), self._room.descriptors, self._room.descriptors // TLS_CONNECTION),
            )
        return False

    def _admit(self, fd: int, came: Accepted, prepared: bool) -> bool:
        """False: the connection is refused, and the caller closes it."""
        host, listener = came.host, self._endpoints[came.listener].listener
        self._metrics.words[ACCEPTED + came.listener] += 1
        rates = self._rates
        throttle_ms = rates.throttle_ms(host, int(self._clock() * 1000)) if rates.limited else 0
        if throttle_ms:
            self._metrics.words[REFUSED + came.listener] += 1
            heapq.heappush(self._held, (self._clock() + throttle_ms / 1000, fd, socket.socket(fileno=fd)))
            return True
        refusal = self._limits.refusal(host)
        if refusal:
            self._metrics.words[REFUSED + came.listener] += 1
            self._warn("closing connection from %s:%d on %s: %s", host, came.port, listener, refusal)
            return False
        if not prepared and not self._prepare(fd, host):
            return False
        self._waiting.append((fd, came))
        self._room.accepted(self._costs[came.listener])
        self._limits.opened(listener, host)
        self._next_id += 1
        return True

    def _prepare(self, fd: int, host: str) -> bool:
        """Set the options of a socket. False: the client has already disconnected."""
        try:
            client = socket.socket(fileno=fd)
        except OSError:
            return False
        try:
            self._options.prepare(client, host)
        except OSError:
            return False
        finally:
            client.detach()
        return True

    def _pass_on(self) -> None:
        """Pass connections to the network processes in the order of their arrival, while there is
        room."""
        takers = set(range(len(self._handoffs)))
        while self._waiting and takers and (batches := self._batches(takers)):
            for process, batch in batches.items():
                if self._send(process, batch):
                    for fd, came in batch:
                        os.close(fd)
                        self._open[came.connection_id] = (process, came.listener, came.host)
                else:
                    takers.discard(process)
                    self._room.take_back(process, [self._costs[came.listener] for _, came in batch])
                    self._waiting.extendleft(reversed(batch))

    def _batches(self, takers: set[int]) -> dict[int, list[tuple[int, Accepted]]]:
        """The next connections, each assigned to the process with the fewest connections of those
        that have room."""
        batches: dict[int, list[tuple[int, Accepted]]] = {}
        for _ in range(min(len(self._waiting), CONNECTIONS_PER_MESSAGE)):
            cost = self._costs[self._waiting[0][1].listener]
            process = self._room.choose(takers, cost)
            if process is None:
                break
            batches.setdefault(process, []).append(self._waiting.popleft())
            self._room.give(process, cost)
        return batches

    def _send(self, process: int, batch: Sequence[tuple[int, Accepted]]) -> bool:
        """False: the network process has no room, or has ended."""
        try:
            return send_connections(self._handoffs[process], batch)
        except OSError as error:
            self._warn("network process %d takes no connections: %s", process, error)
            return False

    def _take_closed(self, process: int, handoff: socket.socket) -> None:
        while True:
            try:
                ids = receive_closed(handoff)
            except EOFError:
                return
            if ids is None:
                return
            if isinstance(ids, Settings):
                self._configure(ids.values)
                continue
            if isinstance(ids, Rates):
                self._rates.change(ids.rates, ids.first)
                continue
            for connection_id in ids:
                if connection_id == RESTARTED:
                    for old in [i for i, (owner, _, _) in self._open.items() if owner == process]:
                        self._forget(old)
                else:
                    self._forget(connection_id)

    def _configure(self, settings: dict[str, str]) -> None:
        try:
            self._limits.configure(self._config.with_dynamic(cluster={}, own=settings))
        except ConfigError as error:  # control has validated them, but an error must not end the acceptor
            log.error("connection limits stay unchanged: %s", error)

    def _forget(self, connection_id: int) -> None:
        found = self._open.pop(connection_id, None)
        if found is not None:
            process, number, host = found
            self._room.closed(process, self._costs[number])
            self._limits.closed(self._endpoints[number].listener, host)


def _backlog(config: BrokerConfig) -> int:
    """The length that the operator set. Kafka's default is too short for clients that reconnect all
    at once: a client beyond it retries only after seconds. So without a setting the backlog is as
    long as the kernel allows."""
    name = "socket.listen.backlog.size"
    return config.get_int(name) if name in config.static else MAX_BACKLOG


def _port(listening: socket.socket) -> int:
    port: int = listening.getsockname()[1]
    return port


def _plain(host: str) -> str:
    """A host without the IPv6 prefix that an IPv4 address has on an IPv6 socket."""
    return host.removeprefix("::ffff:")
