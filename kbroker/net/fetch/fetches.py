"""Fetch requests that the kernel does not answer itself: sessions, waiting for bytes, cold data.

Runs in: network. Owner: the process. One request of a connection at a time, so a delayed fetch
belongs to a connection.
"""

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from kbroker.config.acls import READ
from kbroker.config.broker import BrokerConfig
from kbroker.ipc.clock import monotonic_ms
from kbroker.ipc.layout import Counter
from kbroker.ipc.log_dir_errors import LogDirErrors
from kbroker.net.accept.descriptors import OwnDescriptors
from kbroker.net.connections.answers import Answers
from kbroker.net.connections.connection import Connection, FilePart
from kbroker.net.fetch.answer import FetchAnswer, Selected
from kbroker.net.fetch.cold_reads import ColdReads
from kbroker.net.fetch.fetch_manager import Fetch, FetchManager
from kbroker.net.fetch.fetch_purgatory import FetchPurgatory
from kbroker.net.fetch.fetch_session import FetchedPartition, requested_partitions
from kbroker.net.fetch.partition_reader import Limits, PartitionReader, Reading
from kbroker.net.fetch.read_table import FILES_OF_A_SEGMENT, ReadTable
from kbroker.net.fetch.residency import Probe, by_cachestat
from kbroker.net.fetch.senders import Senders
from kbroker.net.network_tables import NetworkTables
from kbroker.net.rows import Context, FetchVersion
from kbroker.net.security.access import Access
from kbroker.net.topics import Topics
from kbroker.net.usage.quotas import Quotas
from kbroker.net.usage.request_counts import RequestCounts
from kbroker.protocol.codec import decode
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import RequestHeader
from kbroker.protocol.isolation import ISOLATION_LEVELS
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.slices import emptied, is_sliced, paced, release
from kbroker.purgatory.delayed_fetch import DelayedFetch

MANY_PARTITIONS = 1024  # of a session; requests of longer ones are served in slices
OUTDATED_AT_ONCE = 16  # partitions whose files are closed in a turn of the loop
ANSWER_BYTES = 64  # approximate bytes of an answer, and of each partition in it, without records
Slots = dict[int, list[FetchedPartition]]
Delayed = DelayedFetch[int, FetchedPartition]


class Process(Protocol):
    """The part of the process that is used here."""

    tables: NetworkTables
    descriptors: OwnDescriptors
    topics: Topics
    counts: RequestCounts
    quotas: Quotas
    senders: Senders
    access: Access
    answers: Answers

    def close(self, connection: Connection, reason: str = "") -> None:
        """Close the socket, and cancel what waits for the client."""


class Fetches:
    """Serves fetch requests in Python."""

    def __init__(self, process: Process, config: BrokerConfig, probe: Probe) -> None:
        tables = process.tables
        shared = tables.shared
        self._process = process
        self._counts = process.counts
        self._quotas = process.quotas
        self.in_slices: Callable[[Connection, Callable[[], None]], None] = lambda _, work: work()
        """Serves a long request in slices, between other requests."""
        self._node_id = config.node_id
        self._max_bytes = int(tables.words[Context.FETCH_MAX_BYTES])
        self._sendfile_min = config.get_int("kbroker.sendfile.min.bytes")
        self._manager = FetchManager(tables, config, process.topics)
        self.reads = ReadTable(tables, process.senders)
        self.reader = PartitionReader(
            shared, process.topics, self.reads, LogDirErrors(config.log_dirs, shared)
        )
        tables.words[Context.PROBE] = probe is by_cachestat
        self.cold = ColdReads(shared, tables.client, probe)
        self.purgatory = FetchPurgatory(tables, config, process.counts)
        self._counters = shared.counters[tables.client]

    # --- requests -----------------------------------------------------------------------------------

    def take(
        self, connection: Connection, header: RequestHeader, frame: bytes | memoryview, body: int
    ) -> None:
        """Serve a request, in slices if its session is long. Raises ProtocolError when it cannot be
        read."""
        request, _ = decode(FetchRequest, header.api_version, frame, body)
        session = self._manager.cache.find(request.session_id)
        if session is not None and len(session.partitions) > MANY_PARTITIONS and not is_sliced():
            self.in_slices(connection, partial(self._take, connection, header, request))
        else:
            self._take(connection, header, request)

    def _take(self, connection: Connection, header: RequestHeader, request: FetchRequest) -> None:
        try:
            self._serve(connection, header, request)
        finally:
            if is_sliced():
                release(request)

    def _serve(self, connection: Connection, header: RequestHeader, request: FetchRequest) -> None:
        found = self._manager.new_fetch(connection, header, request, self._limit(connection, request))
        if isinstance(found, ErrorCode):
            self._counts.fetch_error(found)
            self._process.answers.send(connection, FetchAnswer(header, self._node_id).build([], found))
            return
        if connection.grant is not None:
            self._refuse(found)
        partitions = paced(list(found.partitions.values()))
        known = [each for each in partitions if not isinstance(self.reader.find(each), ErrorCode)]
        if known and request.isolation_level not in ISOLATION_LEVELS:
            self._manager.leave_unchanged(found)
            self._fail(connection, header, request)
            return
        readings = self._read(found, known)
        enough = sum(reading.length for reading in paced(readings)) >= found.min_bytes
        refused = any(reading.error or reading.diverging for reading in paced(readings))
        if request.max_wait_ms <= 0 or not known or enough or refused:
            pairs = list(zip(paced(known), readings, strict=True))
            self._answer(found, pairs)
            emptied(readings)
            emptied(known)
            if found.session is None:
                emptied(found.partitions)
        else:
            self._wait(found, known, request.max_wait_ms)

    def _fail(self, connection: Connection, header: RequestHeader, request: FetchRequest) -> None:
        """Answer a request that fails as a whole. The partitions carry the error, too, for clients
        of versions that may lack its field; from v13 on there are none."""
        code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR
        failed: Selected = []
        if header.api_version < FetchVersion.TOPIC_IDS:
            for _, partition, _ in requested_partitions(request, header.api_version):
                failed.append((partition, Reading(code, aborted=[])))
        self._counts.fetch_error(code)
        answer = FetchAnswer(header, self._node_id).build(failed, code, request.session_id)
        self._process.answers.send(connection, answer)

    def _refuse(self, fetch: Fetch) -> None:
        """Mark the partitions that the client has no permission to read, perhaps no longer."""
        for partition in paced(list(fetch.partitions.values())):
            name = self.reader.name_of(partition)
            partition.refused = name is not None and not self._process.access.may(
                fetch.connection, READ, name
            )

    def _limit(self, connection: Connection, request: FetchRequest) -> int:
        """The maximum bytes of an answer."""
        max_bytes = min(request.max_bytes, self._max_bytes)
        if self._quotas.active:
            max_bytes = int(min(max_bytes, self._quotas.max_fetch_bytes(connection)))
        return max_bytes

    def _read(self, fetch: Fetch, partitions: Sequence[FetchedPartition]) -> list[Reading]:
        """Read the partitions in order. The first one with bytes gets a whole batch; after it the
        limits apply. A negative limit of the answer counts for the first partition alone, as in
        Kafka."""
        left = fetch.max_bytes
        min_one = True
        readings = []
        for each in paced(partitions):
            reading = self.reader.read(each, Limits(left, min_one, fetch.isolation))
            if reading.length:
                min_one = False
            left = max(0, left - reading.length)
            readings.append(reading)
        return readings

    def _answer(self, fetch: Fetch, readings: Selected) -> None:
        """Select the partitions to return, build the answer, and send it once its bytes are in the
        page cache."""
        if self._quotas.active and self._held_back(fetch, readings):
            return
        seen = {id(partition) for partition, _ in paced(readings)}
        for partition in paced(list(fetch.partitions.values())):
            if id(partition) not in seen:  # unknown topics and partitions come last
                readings.append((partition, self.reader.read(partition, Limits(0, False, fetch.isolation))))
        emptied(seen)
        readings = self._manager.update(fetch, readings)
        self._count(readings)
        cold = self.cold.of(readings)
        if cold:
            began_ns = time.monotonic_ns()
            self.cold.read(cold, lambda: self._send_late(fetch, readings, began_ns))
        else:
            self._send(fetch, readings)
            emptied(readings)

    def _held_back(self, fetch: Fetch, readings: Selected) -> bool:
        """Whether a quota is used up: the client gets a throttle time, and its session stays
        unchanged."""
        lengths = [reading.length for _, reading in paced(readings) if reading.length]
        size = ANSWER_BYTES + ANSWER_BYTES * len(lengths) + sum(lengths)
        throttle_ms = self._quotas.fetched(fetch.connection, size)
        if not throttle_ms:
            return False
        self._manager.leave_unchanged(fetch)
        self._counts.fetch_error(0)
        answer = FetchAnswer(fetch.header, self._node_id)
        self._process.answers.send(fetch.connection, answer.build([], 0, fetch.session_id, throttle_ms))
        return True

    def _send_late(self, fetch: Fetch, readings: Selected, began_ns: int) -> None:
        fetch.connection.cold_ns += time.monotonic_ns() - began_ns
        self._answer_later(fetch, len(readings), partial(self._send_read, fetch, readings))

    def _send_read(self, fetch: Fetch, readings: Selected) -> None:
        current = [(partition, self.reader.current(reading)) for partition, reading in paced(readings)]
        self._send(fetch, current)

    def _answer_later(self, fetch: Fetch, partitions: int, work: Callable[[], None]) -> None:
        """Answer a fetch that has waited; the answer includes partitions that do not exist."""
        if partitions > MANY_PARTITIONS:
            self.in_slices(fetch.connection, work)
        else:
            work()

    def _send(self, fetch: Fetch, readings: Selected) -> None:
        connection = fetch.connection
        parts = FetchAnswer(fetch.header, self._node_id).build(readings, 0, fetch.session_id)
        self._counts.fetched(parts, self._sendfile_min)
        for i, part in enumerate(parts):
            if isinstance(part, FilePart) and part.length < self._sendfile_min:
                try:
                    data = os.pread(part.source.fd, part.length, part.position)
                except OSError as error:  # the next fetch takes the log dir offline and gets the error
                    self._process.close(connection, f"a segment file cannot be read: {error}")
                    return
                if len(data) < part.length:
                    self._process.close(connection, "a segment file became shorter while it was read")
                    return
                parts[i] = data
        self._process.answers.send(connection, parts)

    def _count(self, readings: Selected) -> None:
        if not readings:
            self._counts.fetch_error(0)
        for _, reading in paced(readings):
            self._counts.fetch_error(reading.error)
            if reading.slot >= 0:
                self._counters[reading.slot, Counter.FETCHES] += 1
                self._counters[reading.slot, Counter.BYTES_OUT] += reading.length

    # --- waiting ------------------------------------------------------------------------------------

    def _wait(self, fetch: Fetch, partitions: list[FetchedPartition], max_wait_ms: int) -> None:
        began_ns = time.monotonic_ns()
        slots: Slots = {}
        if fetch.connection.is_closed():  # closed between two slices: the fetch would never be cancelled
            self._forget(fetch, partitions, slots)
            return
        for each in paced(partitions):
            found = self.reader.find(each)
            if isinstance(found, ErrorCode):  # the partition was removed between two slices
                self._answer_waiting(fetch, partitions, slots)
                return
            slots.setdefault(found[1].slot, []).append(each)
        operation = DelayedFetch(
            monotonic_ms() + max_wait_ms,
            fetch.min_bytes,
            slots,
            lambda each: self.reader.available(each, fetch.isolation),
            lambda _operation, _expired: self._finish(fetch, partitions, slots, began_ns),
        )
        fetch.connection.on_close = lambda: self._cancel(fetch, partitions, operation, slots)
        if not self.purgatory.watch_each(operation, paced(slots)):
            self.purgatory.set_timer()

    def _cancel(
        self, fetch: Fetch, partitions: list[FetchedPartition], operation: Delayed, slots: Slots
    ) -> None:
        self.purgatory.cancel(operation)
        self._answer_later(fetch, len(fetch.partitions), partial(self._forget, fetch, partitions, slots))

    def _finish(self, fetch: Fetch, partitions: list[FetchedPartition], slots: Slots, began_ns: int) -> None:
        fetch.connection.purgatory_ns += time.monotonic_ns() - began_ns
        fetch.connection.on_close = None
        self._answer_later(
            fetch, len(fetch.partitions), partial(self._answer_waiting, fetch, partitions, slots)
        )

    def _answer_waiting(self, fetch: Fetch, partitions: list[FetchedPartition], slots: Slots) -> None:
        known = [each for each in paced(partitions) if not isinstance(self.reader.find(each), ErrorCode)]
        self._answer(fetch, list(zip(known, self._read(fetch, known), strict=True)))
        emptied(known)
        self._forget(fetch, partitions, slots)

    def _forget(self, fetch: Fetch, partitions: list[FetchedPartition], slots: Slots) -> None:
        """End a long fetch in slices. Left to the watch lists, its objects would live until a purge
        and then be freed all at once. Short fetches wait for the purge."""
        if is_sliced():
            self.purgatory.sweep(paced(slots))
            emptied(slots)
            emptied(partitions)
            if fetch.session is None:
                emptied(fetch.partitions)

    def on_gone(self, slots: Sequence[int]) -> None:
        """Slots whose partitions were deleted: their fetches are answered with an error."""
        for slot in slots:
            self.purgatory.check_and_complete(slot)
            self.reader.forget(slot)
            self.reads.forget(slot)

    def measure(self) -> None:
        """Once a second: update metrics, close files that are no longer read. A deleted segment
        takes its space on the disk as long as it is open, and perhaps no client reads its
        partition again."""
        for slot in self.reader.outdated(OUTDATED_AT_ONCE):
            self.reader.forget(slot)
            self.reads.forget(slot)
        self.divide_descriptors()
        sessions = self._manager.cache
        self._counts.fetches(
            self.purgatory.delayed,
            self.purgatory.watched,
            len(sessions),
            sessions.partitions,
            sessions.evictions,
        )

    def divide_descriptors(self) -> None:
        """Keep no more files open than connections leave descriptors for. Not within a turn."""
        max_files = self._process.descriptors.divide()
        self.reader.files.capacity = max_files // 2
        self.reader.files.shrink(max_files // 2)
        self.reads.max_open = max_files // 4 // FILES_OF_A_SEGMENT
        self.reads.shrink(self.reads.max_open)
        self.reads.sweep()

    def finish_all(self) -> None:
        """The broker stops: waiting fetches are answered with the bytes that exist."""
        self.purgatory.expire(1 << 62)
