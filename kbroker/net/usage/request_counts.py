"""Metrics of a network process's Python side: requests it answered, connections, and gauges that
are set once a second.
"""

import time
from collections.abc import Sequence

from kbroker.config.broker import BrokerConfig
from kbroker.ipc.layout import ProcessLine
from kbroker.metrics import layout as slot
from kbroker.metrics.labels import VALUES
from kbroker.metrics.slots import bind
from kbroker.net.connections.connection import Connection, FilePart, Part
from kbroker.net.network_tables import CHUNK_BYTES, NetworkTables
from kbroker.net.rows import Connection as ConnectionRow
from kbroker.net.rows import Context
from kbroker.net.rows.count_kernel import count_answer, count_sent_late
from kbroker.net.usage.client_use import ClientUse
from kbroker.net.usage.slow_requests import SlowRequests

CONNECTIONS = bind("kbroker_connections")  # + number of the listener
OPENED = bind("kbroker_connections_opened_total")
CLOSED = bind("kbroker_connections_closed_total")
RECEIVED_BYTES = bind("kbroker_received_bytes_total")
SENT_BYTES = bind("kbroker_sent_bytes_total")
LOOP_LAG = bind("kbroker_loop_lag_seconds")
ARENA_BYTES = bind("kbroker_arena_used_bytes")
OUTBOXES = bind("kbroker_outboxes_used")
BY_SENDFILE = bind("kbroker_fetch_sent_bytes_total", path="sendfile")
BY_COPY = bind("kbroker_fetch_sent_bytes_total", path="copy")
FETCH_ERRORS = bind("kbroker_request_errors_total", api="Fetch", error="NONE")  # + error code
DELAYED = bind("kbroker_purgatory_delayed", operation="Fetch")
WATCHED = bind("kbroker_purgatory_watched", operation="Fetch")
EXPIRED = bind("kbroker_purgatory_expired_total", operation="Fetch")
SESSIONS = bind("kbroker_fetch_sessions")
SESSION_PARTITIONS = bind("kbroker_fetch_session_partitions")
SESSION_EVICTIONS = bind("kbroker_fetch_session_evictions_total")
READ_AHEAD_BYTES = bind("kbroker_read_ahead_bytes_total")
SHORT = "half a request while memory for requests is short"
UNREAD = "unread answers that hold too much memory"
REASONS = {
    "closed by the client": "peer",
    "idle": "idle",
    "the broker stops": "stop",
    SHORT: "memory",
    UNREAD: "memory",
}
WHY = {why: number for number, why in enumerate(VALUES["why"])}
PUMPED = {
    Context.STAT_TURNS: slot.NETWORK_TURNS,
    Context.STAT_STALLS: slot.NETWORK_STALLS,
    Context.STAT_BYTES_IN: RECEIVED_BYTES,
    Context.STAT_BYTES_OUT: SENT_BYTES,
    Context.STAT_SENDER_BYTES: bind("kbroker_sender_sent_bytes_total"),
    Context.STAT_SENDER_ANSWERS: bind("kbroker_sender_answers_total"),
    Context.STAT_SENDER_DISK: READ_AHEAD_BYTES,
    Context.STAT_POLLED_NS: bind("kbroker_polling_seconds_total"),
}


class RequestCounts:
    """Runs in: network. Owner: the process. clients: reports to control.
    slow: the log of slow requests."""

    def __init__(self, tables: NetworkTables, config: BrokerConfig) -> None:
        self.clients = ClientUse(tables, config)
        self.slow = SlowRequests(tables, config)
        self.slots = tables.metrics
        self._words = self.slots.words
        self._tables = tables
        self._pumped = dict.fromkeys(PUMPED, 0)
        self._evictions = 0

    # --- requests -----------------------------------------------------------------------------------

    def begun(self, connection: Connection, version: int, size: int) -> None:
        """Python is about to serve a request; also one that waited in the kernel before."""
        connection.api_version = version
        connection.request_bytes = size
        connection.began_ns = time.monotonic_ns()
        if connection.earlier_ns:
            row = self._tables.connections[connection.row]
            connection.queued_ns = int(row[ConnectionRow.QUEUED_NS])
        else:
            connection.queued_ns = connection.began_ns - int(self._tables.words[Context.NOW_NS])

    def answered(self, connection: Connection, parts: Sequence[Part]) -> None:
        """The answer to a connection's request is ready, and sending begins."""
        connection.answer_bytes = sum(len(part) for part in parts)
        connection.answered_ns = time.monotonic_ns()
        connection.on_answer_sent = self._count_sent

    def rest(self, connection: Connection) -> None:
        """The rest of an answer from control begins to be sent."""
        connection.answered_ns = time.monotonic_ns()
        connection.on_answer_sent = self._count_sent_late

    def answer_sent(self, connection: Connection) -> None:
        """All bytes of the answer are sent, or the connection is closed."""
        count, connection.on_answer_sent = connection.on_answer_sent, None
        if count is not None:
            count(connection)

    def _count_sent(self, connection: Connection) -> None:
        sending_ns = time.monotonic_ns() - connection.answered_ns
        waited_ns = connection.purgatory_ns + connection.cold_ns
        served_ns = connection.answered_ns - connection.began_ns
        local_ns = max(0, served_ns + connection.earlier_ns - waited_ns)
        if 0 <= connection.api_key < slot.API_COUNT:
            count_answer(
                self.slots.address,
                connection.api_key,
                max(
                    connection.api_version, 0
                ),  # ApiVersions is answered at any version: the slots begin at 0
                connection.request_bytes,
                connection.answer_bytes,
                connection.queued_ns,
                local_ns,
                connection.purgatory_ns,
                connection.cold_ns,
                sending_ns,
            )
            if self.slow.on:
                self.slow.answered(connection, local_ns, sending_ns)
        connection.answered_ns = connection.purgatory_ns = connection.cold_ns = connection.earlier_ns = 0

    def _count_sent_late(self, connection: Connection) -> None:
        row = self._tables.connections[connection.row]
        before_ns = int(row[ConnectionRow.QUEUED_NS])
        sending_ns = time.monotonic_ns() - connection.answered_ns
        connection.answered_ns = 0
        count_sent_late(self.slots.address, connection.api_key, before_ns, sending_ns)

    def produced(self, size: int) -> None:
        """Count an answer to Produce that Python built; the kernel counts the rest of the
        request."""
        self._words[slot.RESPONSE_BYTES] += size

    def sent(self, size: int) -> None:
        """Bytes that Python sent."""
        self._words[SENT_BYTES] += size

    def fetched(self, parts: Sequence[Part], sendfile_min: int) -> None:
        """Record batches of a Fetch answer, before small ranges are copied."""
        for part in parts:
            if isinstance(part, FilePart):
                self._words[BY_SENDFILE if part.length >= sendfile_min else BY_COPY] += part.length
                self._words[slot.FETCHED_BYTES] += part.length

    def fetch_error(self, error: int) -> None:
        """An error code (0 for none) in a Fetch answer."""
        self._words[FETCH_ERRORS + error] += 1

    def fetch_expired(self, count: int) -> None:
        """Count fetches that waited for fetch.max.wait.ms."""
        self._words[EXPIRED] += count

    # --- connections --------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        """A connection was taken over."""
        self._words[CONNECTIONS + connection.accepted.listener] += 1
        self._words[OPENED + connection.accepted.listener] += 1
        self.clients.opened(connection)

    def closed(self, connection: Connection, reason: str) -> None:
        """A connection was closed."""
        self._words[CONNECTIONS + connection.accepted.listener] -= 1
        self._words[CLOSED + WHY[REASONS.get(reason, "error")]] += 1
        self.clients.closed(connection)

    # --- once a second ------------------------------------------------------------------------------

    def tick(self, late_s: float, outboxes: int) -> None:
        """Take over the pump's counts, and set the gauges. late_s: the delay of the timer.
        outboxes: in use."""
        words = self._tables.words
        for source, target in PUMPED.items():
            now = int(words[source])
            self._words[target] += now - self._pumped[source]
            self._pumped[source] = now
        used = int(words[Context.CHUNK_COUNT] - words[Context.FREE_CHUNK_COUNT])
        self._words[ARENA_BYTES] = used * CHUNK_BYTES
        self._words[OUTBOXES] = outboxes
        self.slots.observe(LOOP_LAG, int(late_s * 1e9))
        line = self._tables.shared.processes[self._tables.client]
        line[ProcessLine.HEARTBEAT_NS] = time.monotonic_ns()

    def from_disk(self, size: int) -> None:
        """Count bytes that were read from disk for answers of the loop."""
        self._words[READ_AHEAD_BYTES] += size

    def fetches(self, delayed: int, watched: int, sessions: int, partitions: int, evictions: int) -> None:
        """Gauges of the fetch side."""
        self._words[DELAYED] = delayed
        self._words[WATCHED] = watched
        self._words[SESSIONS] = sessions
        self._words[SESSION_PARTITIONS] = partitions
        self._words[SESSION_EVICTIONS] += evictions - self._evictions
        self._evictions = evictions
