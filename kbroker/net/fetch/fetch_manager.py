"""Fetch sessions of requests: which partitions a request reads, and which of them its answer
returns (Kafka's FetchManager and FetchContext).

Runs in: network. Owner: the Fetches.
"""

from msgspec import Struct

from kbroker.config.broker import BrokerConfig
from kbroker.ipc.clock import monotonic_ms
from kbroker.net.connections.connection import Connection
from kbroker.net.fetch.answer import Selected
from kbroker.net.fetch.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchedPartition,
    FetchSession,
    FetchSessionCache,
    Key,
    requested_partitions,
)
from kbroker.net.fetch.session_table import SessionTable
from kbroker.net.network_tables import NetworkTables
from kbroker.net.rows import FetchVersion
from kbroker.net.topics import Topics
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import RequestHeader
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.slices import paced

MAX_SLOTS = 1 << 17
"""Fetch sessions of a network process, whatever the setting allows: each has a row from the start,
and the rest of the 31 bits of its id is random."""


class Fetch(Struct):
    """One fetch that Python serves.

    create: create a session from the partitions that were read."""

    connection: Connection
    header: RequestHeader
    partitions: dict[Key, FetchedPartition]
    isolation: int
    min_bytes: int
    max_bytes: int
    session: FetchSession | None = None
    create: bool = False

    @property
    def session_id(self) -> int:
        """Id of the session that the answer names, NO_SESSION for none."""
        return NO_SESSION if self.session is None else self.session.id


class FetchManager:
    """Python takes a session back from the kernel for a request (`new_fetch`), and lends it again
    before the answer (`update` or `leave_unchanged`). Sessions are used at times of the wall clock,
    as in Kafka: the kernel notes those."""

    def __init__(self, tables: NetworkTables, config: BrokerConfig, topics: Topics) -> None:
        slots = config.get_int("max.incremental.fetch.session.cache.slots")
        slots = min(MAX_SLOTS, -(-slots // max(1, tables.shared.sizes.clients - 1)))
        self._table = SessionTable(tables, topics, slots)
        self.cache = FetchSessionCache(slots, self._table.new_id, self._table.drop, self._table.used_ms)

    def new_fetch(
        self, connection: Connection, header: RequestHeader, request: FetchRequest, max_bytes: int
    ) -> Fetch | ErrorCode:
        """The fetch of a request, with the partitions of its session or those that it names."""
        fetch = Fetch(
            connection, header, {}, request.isolation_level, min(request.min_bytes, max_bytes), max_bytes
        )
        with_session = header.api_version >= FetchVersion.SESSIONS
        if with_session and request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            session = self._use(request, header.api_version)
            if isinstance(session, ErrorCode):
                return session
            if session.partitions:
                fetch.session = session
                fetch.partitions = session.partitions
            else:  # the request has ended the session, and is served without one
                fetch.partitions = _named(request, header.api_version)
            return fetch
        if with_session and request.session_id != NO_SESSION:
            self.cache.close(request.session_id)
        fetch.create = with_session and request.session_epoch == INITIAL_EPOCH
        fetch.partitions = _named(request, header.api_version)
        return fetch

    def _use(self, request: FetchRequest, version: int) -> FetchSession | ErrorCode:
        known = self.cache.find(request.session_id)
        if known is not None:
            self._table.take_back(known)
        session = self.cache.use(request, version, monotonic_ms())
        if isinstance(session, ErrorCode) and known is not None and self.cache.find(known.id) is known:
            self._table.lend(known)
        return session

    def update(self, fetch: Fetch, readings: Selected) -> Selected:
        """Update the fetch's session, or create one; returns the partitions that the answer
        includes."""
        if fetch.session is not None:
            readings = self._changed(fetch.session, readings)
            self._lend(fetch.session)
        elif fetch.create:
            uses_ids = fetch.header.api_version >= FetchVersion.TOPIC_IDS
            for partition, reading in paced(readings):
                partition.maybe_update_response_data(*reading.reported)
            fetch.session = self.cache.create(fetch.partitions, uses_ids, monotonic_ms())
            if fetch.session is not None:
                self._lend(fetch.session)
        return readings

    def leave_unchanged(self, fetch: Fetch) -> None:
        """The answer returns no partitions: the fetch's session stays as it is."""
        if fetch.session is not None:
            self._lend(fetch.session)

    def _lend(self, session: FetchSession) -> None:
        """Let the kernel serve a session, unless it was closed while its fetch waited: then its row
        is free, or that of another session."""
        if self.cache.find(session.id) is session:
            self._table.lend(session)

    @staticmethod
    def _changed(session: FetchSession, readings: Selected) -> Selected:
        """The partitions that changed since the last answer; partitions with bytes go to the end of
        the session's order."""
        selected = [
            (partition, reading)
            for partition, reading in paced(readings)
            if partition.maybe_update_response_data(*reading.reported)
        ]
        moved = {id(partition) for partition, reading in paced(selected) if reading.length}
        if moved and len(session.partitions) > 1:
            known = list(session.partitions.items())
            for key in [key for key, partition in paced(known) if id(partition) in moved]:
                session.partitions[key] = session.partitions.pop(key)
        return selected


def _named(request: FetchRequest, version: int) -> dict[Key, FetchedPartition]:
    """The partitions that a request names; the last of several entries counts."""
    return {key: partition for key, partition, _ in requested_partitions(request, version)}
