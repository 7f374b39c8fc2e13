"""The network process: one event loop around the pump.

Runs in: network. Owner of its connections, its arena and its fetch sessions. The loop watches one
descriptor: an epoll of all sockets and the process's eventfd. What the pump cannot finish becomes
an event, which is served here.
"""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from kbroker.config.broker import BrokerConfig
from kbroker.ipc.clock import wall_clock_ms
from kbroker.ipc.fds import Accepted
from kbroker.ipc.layout import ProcessLine
from kbroker.ipc.shared import Shared
from kbroker.kernels.libc import Epoll
from kbroker.net.accept.descriptors import OwnDescriptors, cost_of, hard_limit, open_now
from kbroker.net.connections.answers import Answers
from kbroker.net.connections.connection import Connection, State
from kbroker.net.connections.handoff import Handoff
from kbroker.net.connections.received_frames import ReceivedFrames, RefusedFrames
from kbroker.net.connections.server import Server
from kbroker.net.fetch.senders import Senders
from kbroker.net.forward.forwarding import Forwarding
from kbroker.net.network_tables import NetworkTables
from kbroker.net.produce.answers import ProduceAnswers
from kbroker.net.produce.checks import TAKEN_AT_ONCE, ProduceChecks
from kbroker.net.produce.transaction_checks import TransactionChecks
from kbroker.net.pump_kernel import OWN_EVENT_FD, SENDERS, close_row, pump, register, resume
from kbroker.net.rate_limited_log import RateLimitedLog
from kbroker.net.rows import Connection as ConnectionRow
from kbroker.net.rows import Context, EventKind, Flag
from kbroker.net.security.access import Access
from kbroker.net.security.login import Login
from kbroker.net.security.tls_listeners import TlsListeners
from kbroker.net.topics import Topics
from kbroker.net.usage.quotas import Quotas
from kbroker.net.usage.request_counts import RequestCounts

log = logging.getLogger(__name__)

PUMPS_PER_TURN = 4
WITHOUT_CONNECTION = (EventKind.ADVANCED, EventKind.READ_AHEAD)


class NetworkProcess:
    """Connections and turns. `server` is set before the first connection arrives."""

    server: Server
    _loop: asyncio.AbstractEventLoop

    def __init__(self, shared: Shared, client: int, config: BrokerConfig, handoff: socket.socket) -> None:
        self.config = config
        self.descriptors = OwnDescriptors(hard_limit(), open_now())
        self.tables = NetworkTables(shared, client, config)
        self.counts = RequestCounts(self.tables, config)
        self.topics = Topics(self.tables)
        self.senders = Senders(self.tables)
        self.connections: dict[int, Connection] = {}
        self.tls = TlsListeners(config)
        self.quotas = Quotas(self.tables, config, self.resume)
        self.warn = RateLimitedLog(log, time.monotonic)
        self.handoff = Handoff(handoff, self._open, self.request_turn, self.warn)
        self.answers = Answers(self)
        self.checks = ProduceChecks(self.tables, self.topics, self.answers.clear_busy, self.request_turn)
        self.transactions = TransactionChecks(
            self.tables, self.topics, self.checks.refuse_unverified, self._verified
        )
        self.checks.consent = self.transactions.consent
        self.forwarding = Forwarding(self, self._serve_events)
        self.access = Access(self, config)
        self._process_line = shared.processes[client]
        self._listeners = [(each, each.protocol.tls, each.protocol.sasl) for each in config.listeners]
        self._turn_requested = self._in_turn = self._poll_requested = False
        self._served_events = 0
        frames, refused, produced = ReceivedFrames(self), RefusedFrames(self), ProduceAnswers(self)
        self._handlers: dict[int, Callable[[int, int, int, int], None]] = {
            EventKind.REQUEST: frames.request,
            EventKind.INTRODUCED: frames.introduced,
            EventKind.PEER_DUE: self.forwarding.peer_due,
            EventKind.WAIT: frames.wait,
            EventKind.UNSENT_FILE: self.answers.on_unsent_file,
            EventKind.CLOSED: self._on_closed,
            EventKind.BAD_SIZE: refused.bad_size,
            EventKind.BAD_REQUEST: refused.bad_request,
            EventKind.UNSERVED: refused.unserved,
            EventKind.CHECK_BATCH: self._on_check_batch,
            EventKind.ANSWER: produced.on_answer,
            EventKind.UNSENT: self.answers.on_unsent,
            EventKind.WRITABLE: self.answers.on_writable,
            EventKind.FAILED: self._on_failed,
            EventKind.ADVANCED: self._on_advanced,
            EventKind.READ_AHEAD: self._on_read_ahead,
            EventKind.TRANSACTIONAL_ID: self.access.check_transactional_id,
            EventKind.DENIED: self.access.denied,
            EventKind.UNVERIFIED: self._on_unverified,
            EventKind.ANSWER_REST: self.forwarding.on_unsent,
            EventKind.UNANSWERED: self.forwarding.unanswered,
            EventKind.RETURNED: self.senders.on_returned,
        }

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch the acceptor's channel and the sockets that it passes on."""
        self._loop = loop
        self._register(int(self.tables.words[Context.EVENT_FD]), Epoll.IN | Epoll.ET, OWN_EVENT_FD)
        self._register(self.senders.fileno(), Epoll.IN, SENDERS)
        self.senders.start()
        self.tables.words[Context.POLL_NS] = 1000 * self.config.get_int("kbroker.busy.poll.network.us")
        loop.add_reader(self.tables.epoll.fileno(), self.turn)
        self.handoff.start(loop)
        self.handoff.report()
        self.turn()

    def _register(self, fd: int, mask: int, data: int) -> None:
        if register(self.tables.address, fd, mask, data) != 0:
            raise OSError(f"epoll refused descriptor {fd}")

    # --- turns ------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Pump and serve the events, a few times; then return to the event loop."""
        self._turn_requested = False
        self._in_turn = True
        try:
            self._pump()
        finally:
            self._in_turn = False
        if self.handoff.closed_ids:
            self.handoff.report()

    def _pump(self) -> None:
        words = self.tables.words
        for _ in range(PUMPS_PER_TURN):
            count = pump(self.tables.address)
            if not (count or words[Context.LEFT] or self.checks.undecided or self.transactions.held):
                break
            if words[Context.LINK_USED]:
                self.forwarding.flush()
            self._serve_events(0, count)
            late = self.checks.undecided and self.checks.waiting and self.checks.process(wall_clock_ms())
            if self.transactions.held and self.transactions.waiting:
                self.transactions.push_allowed()
            if late:
                self.request_turn()
                break
            stalled = count and words[Context.STALLED] >= 0
            if not (words[Context.MORE] or stalled) and words[Context.DIRTY] < 0:
                if words[Context.POLLING] and not self._poll_requested:
                    self._poll_requested = True
                    self._loop.call_soon(self._poll_on)
                break
        else:
            self.request_turn()

    def _serve_events(self, first: int, end: int) -> None:
        """A bug in the service of one client closes the connection of that client only."""
        self._served_events = end  # also of a block of answers, which begins the table again
        events = self.tables.events[first:end, :5]
        if len(events) > TAKEN_AT_ONCE:
            events = self.checks.take_many(events)
        for event in events.tolist():
            try:
                self._handlers[event[0]](*event[1:])
            except Exception:
                log.exception("an event of kind %d failed", event[0])
                connection = self.connections.get(event[1]) if event[0] not in WITHOUT_CONNECTION else None
                if connection is not None:
                    self.close(connection, "internal error")

    def kernel_answered(self, connection: Connection) -> None:
        """The kernel has answered a request out of turn: take the bytes that it could not send,
        then resume the connection."""
        self._serve_events(self._served_events, int(self.tables.words[Context.EVENT_COUNT]))
        if connection.state is not State.CLOSED:
            self.answers.clear_busy(connection.row)

    def request_turn(self) -> None:
        """Let the loop call `turn` soon, once for all requests until then."""
        if not self._turn_requested:
            self._turn_requested = True
            self._loop.call_soon(self.turn)

    def _poll_on(self) -> None:
        """The loop has had a turn, which did not block."""
        self._poll_requested = False
        self.turn()

    def resume(self, row: int) -> None:
        """Continue a connection that had to stop reading, before the current turn ends."""
        resume(self.tables.address, row)
        if not self._in_turn:
            self.request_turn()

    # --- connections ------------------------------------------------------------------------------

    def _open(self, accepted: Accepted, fd: int) -> None:
        listener, tls, sasl = self._listeners[accepted.listener]
        os.set_blocking(fd, False)
        outer, inner = fd, None
        if tls:
            try:
                fd, inner = self.tls.pair()
            except OSError as error:  # too many open files: else its descriptor would remain, too
                os.close(outer)
                self.handoff.lose(accepted, error.strerror or str(error))
                return
            os.set_blocking(fd, False)
        flags = 0 if sasl else Flag.AUTHENTICATED | Flag.FETCH
        row = self.tables.take_row(fd, flags, time.monotonic_ns())
        connection = self.connections[row] = Connection(accepted, fd, row, listener)
        if sasl:
            connection.login = Login()
            connection.state = State.AUTHENTICATING
        elif self.quotas.active:
            self.quotas.start(connection)
        self.access.know(connection)
        self.counts.opened(connection)
        self.tables.connections[row, ConnectionRow.ARMED] = Epoll.READING
        self._register(fd, Epoll.READING, row)
        self._process_line[ProcessLine.CONNECTIONS] = len(self.connections)
        if self.descriptors.connected(cost_of(listener)):
            self.server.divide_descriptors()
        if inner is not None:
            self.tls.start(
                connection,
                outer,
                inner,
                self.access.authenticated,
                self.access.handshake_failed,
                self._relay_ended,
            )
            connection.relayed = True

    def close(self, connection: Connection, reason: str = "") -> None:
        """Close the socket, and cancel what waits for the client. A descriptor of it may outlive
        this (the acceptor's, or that of a child that has just been forked), and epoll would go on
        to report it: under a row that is another connection's by then."""
        if connection.state is State.CLOSED:
            return
        connection.state = State.CLOSED
        connection.end = reason
        self.counts.answer_sent(connection)
        self.counts.closed(connection, reason)
        close_row(self.tables.address, connection.row)
        self.access.forget(connection)
        connection.unsent.clear()
        del self.connections[connection.row]
        if self.tables.connections[connection.row, ConnectionRow.FLAGS] & Flag.LENT:
            self.senders.close_later(connection.row, connection.fd)
        else:
            with suppress(OSError):
                self.tables.epoll.unregister(connection.fd)
            os.close(connection.fd)
            self.tables.give_row(connection.row)
        if not connection.relayed:
            self._report_closed(connection)
        self._process_line[ProcessLine.CONNECTIONS] = len(self.connections)
        for ending in (connection.on_close, connection.on_end, connection.on_gone):
            if ending is not None:
                ending()
        log.debug("closed %s: %s", connection.peer, reason)

    def _report_closed(self, connection: Connection) -> None:
        """All descriptors of a connection are free."""
        self.handoff.closed_ids.append(connection.accepted.connection_id)
        self.descriptors.closed(cost_of(connection.listener))

    def _relay_ended(self, connection: Connection) -> None:
        """The sockets of a TLS relay are closed, perhaps long after the connection."""
        connection.relayed = False
        if connection.state is State.CLOSED:
            self._report_closed(connection)
            self.handoff.report()

    def refuse(self, connection: Connection, why: str) -> None:
        """Close for a client's fault, with one log line."""
        self.warn("closing connection from %s on %s: %s", connection.peer, connection.listener.listener, why)
        self.close(connection, why)

    # --- events of kernels ------------------------------------------------------------------------------

    def _on_closed(self, row: int, error: int, *_: int) -> None:
        if (connection := self.connections.get(row)) is not None:
            self.close(connection, os.strerror(error) if error else "closed by the client")

    def _on_failed(self, row: int, *_: int) -> None:
        if (connection := self.connections.get(row)) is not None:
            self.close(connection, "an error with acks=0")

    def _on_check_batch(self, _: int, result: int, reason: int, __: int) -> None:
        self.checks.take(result, reason)

    def _on_unverified(self, row: int, result: int, verified_at: int, _: int) -> None:
        self.transactions.take(row, result, verified_at)

    def _verified(self, row: int) -> None:
        self.tables.connections[row, ConnectionRow.FLAGS] &= ~Flag.VERIFYING
        self.resume(row)

    def _on_advanced(self, _: int, slot: int, *__: int) -> None:
        self.server.on_advanced(slot)

    def _on_read_ahead(self, _: int, token: int, *__: int) -> None:
        self.server.on_read_ahead(token)
