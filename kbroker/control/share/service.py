"""ShareFetch and ShareAcknowledge: sessions, acquiring, waiting for records, acknowledging
(KIP-932).

Control reads the records and forwards them as bytes: a share fetch acquires the records that it
returns, so one process must decide.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from kbroker.control.broker import Broker
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.coordinator.timers import WheelTimers
from kbroker.control.groups.service import GroupService
from kbroker.control.groups.share_group.member import Shared
from kbroker.control.groups.share_group.state import ShareGroup
from kbroker.control.metadata.catalogue import Topic
from kbroker.control.share.acknowledging import AcknowledgedBatch
from kbroker.control.share.acquiring import Spec
from kbroker.control.share.dead_letters import Append
from kbroker.control.share.deliveries import Deliveries
from kbroker.control.share.partitions import FIRST_PAUSE_S, MAX_PAUSE_S, SharePartitions
from kbroker.control.share.pruning import StatePruning
from kbroker.control.share.reading import Deliverable, log_start_of
from kbroker.control.share.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    ShareSession,
    ShareSessions,
    TopicPartition,
)
from kbroker.control.share.share_partition import Acquired, SharePartition
from kbroker.control.share.state_shard import ShareKey, ShareStateShard
from kbroker.control.share.wake_ups import WakeUps
from kbroker.ipc.background import Background
from kbroker.ipc.clock import monotonic_ms
from kbroker.ipc.slicing import in_turns
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import paced

log = logging.getLogger(__name__)

COORDINATOR_TYPE = 2
"""FindCoordinator's key type."""

Acknowledgements = Mapping[TopicPartition, Sequence[AcknowledgedBatch]]


class Fetched(Struct):
    """The answer's result of one partition."""

    error: KafkaError | None = None
    acknowledge_error: KafkaError | None = None
    records: bytes = b""
    acquired: list[Acquired] = field(default_factory=list)


_NOT_SHARED: Final = "This server does not host this topic-partition."
MAX_REFUSAL_S: Final = 5.0
"""Maximum time before a member is refused a session. Kafka has no maximum; but these requests
outlive their connections."""


class FetchSpec(Struct, frozen=True):
    """One ShareFetch. added: partitions that join the session."""

    group_id: str
    member_id: str
    epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    records: Spec
    added: Sequence[TopicPartition]
    forgotten: Sequence[TopicPartition]
    acknowledgements: Acknowledgements
    renewing: bool = False
    connection_id: int = 0
    may_read: Callable[[bytes], bool] = lambda _: True  # a topic, by its id


class ShareService:
    """Runs in: control. Owner: Services. API handlers reach it by
    `Services.shares`.

    announce(slot number): asks the slot's IO worker to notify when it advances.
    """

    def __init__(
        self,
        broker: Broker,
        groups: GroupService,
        runtime: Runtime,
        announce: Callable[[int], None],
        append: Append,
    ) -> None:
        updates = broker.config.get_int("share.coordinator.snapshot.update.records.per.snapshot")
        self.shard = ShareStateShard(updates)
        runtime.attach(self.shard)
        self._broker = broker
        self._announce = announce
        self._wake_ups = WakeUps()
        limit = broker.config.get_int("group.share.max.share.sessions")
        self._sessions = ShareSessions(limit, self._has_long_sessions)
        self._background = Background(log, "work on shared partitions failed")
        self.partitions = SharePartitions(
            broker,
            groups,
            runtime,
            self.shard,
            WheelTimers(asyncio.get_running_loop()),
            self._wake_ups.notify,
            append,
        )
        self._deliveries = Deliveries(broker, self.partitions, self._sessions.is_open, self._wake_ups.notify)
        self._pruning = StatePruning(broker, runtime, self.shard)
        interval_ms = broker.config.get_int("share.coordinator.state.topic.prune.interval.ms")
        runtime.every(interval_ms, "prune", lambda: self._background.start(self._pruning.prune()))
        broker.coordinators[COORDINATOR_TYPE] = runtime
        self._groups = groups
        groups.shard.table.initialize_states = self._initialize_later
        broker.listeners.deletion.append(self._topic_deleted)
        broker.listeners.connection.append(self._connection_closed)

    def slot_advanced(self, slot: int) -> None:
        """New records are in a partition that a fetch waits for."""
        self._wake_ups.notify(slot)

    # --- requests

    async def fetch(self, spec: FetchSpec) -> dict[TopicPartition, Fetched]:
        """The result of each partition. Raises KafkaError for the whole request."""
        session = await self._session(spec)
        results: dict[TopicPartition, Fetched] = {}
        await self._acknowledge_all(
            spec.group_id, spec.member_id, spec.acknowledgements, results, spec.renewing
        )
        if spec.epoch == FINAL_EPOCH:
            await self._close(session)
            return results
        self._sessions.change(session, spec.added, spec.forgotten)
        read: set[TopicPartition] = set()
        counted = Deliverable(self._broker)
        can_acquire = bool(session.partitions) and spec.records.max_records > 0 and spec.max_bytes > 0
        wait_s = spec.max_wait_ms / 1000 if can_acquire else 0.0
        deadline = asyncio.get_running_loop().time() + wait_s
        while self._sessions.is_open(session):
            keys = self._keys(session)
            waiting = self._wake_ups.register(keys)
            try:
                left = deadline - asyncio.get_running_loop().time()
                answerable = False
                if left <= 0 or await self._enough(spec, session, counted):
                    answerable = await self._fetch_once(spec, session, results, read)
                if answerable or results or left <= 0 or (read and spec.min_bytes <= 0):
                    break
                await asyncio.wait([waiting], timeout=left)
            finally:
                self._wake_ups.forget(waiting, keys)
        for each in paced(read):
            if each in session.unanswered:
                results.setdefault(each, Fetched())
        if spec.epoch == INITIAL_EPOCH:
            session.unanswered.clear()
        session.unanswered -= read
        for each, result in paced(results.items()):
            if result.error is not None:
                session.unanswered.add(each)
        return results

    async def acknowledge(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        acknowledgements: Acknowledgements,
        renewing: bool = False,
    ) -> dict[TopicPartition, Fetched]:
        """The code of each partition. Raises KafkaError for the whole request."""
        if epoch == INITIAL_EPOCH:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session = self._sessions.next(group_id, member_id, epoch)
        results: dict[TopicPartition, Fetched] = {}
        await self._acknowledge_all(group_id, member_id, acknowledgements, results, renewing)
        if epoch == FINAL_EPOCH:
            await self._close(session)
        return results

    async def _session(self, spec: FetchSpec) -> ShareSession:
        if spec.epoch != INITIAL_EPOCH:
            return self._sessions.next(spec.group_id, spec.member_id, spec.epoch)
        if spec.acknowledgements:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "Acknowledge data present in initial share fetch request."
            )
        try:
            self._wake_ups.notify((spec.group_id, spec.member_id))  # of the old session, which ends
            return self._sessions.open(spec.group_id, spec.member_id, spec.connection_id)
        except KafkaError:  # clients ask again at once
            await asyncio.sleep(min(spec.max_wait_ms / 1000, MAX_REFUSAL_S))
            raise

    def _has_long_sessions(self, long: bool) -> None:
        sliced = self._broker.listeners.sliced_apis
        change = sliced.update if long else sliced.difference_update
        change((ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE))

    async def _close(self, session: ShareSession) -> None:
        """Close the session and release the records that the member still holds, with pauses: the
        end of a connection is no request in slices. All are released before any release is
        written: meanwhile the member may acquire others in its next session."""
        if not self._sessions.end(session):
            return  # the records are those of the member's next session
        self._wake_ups.notify((session.group_id, session.member_id))
        limits = self.partitions.limits(session.group_id)
        released: list[tuple[ShareKey, SharePartition]] = []
        async for topic_id, index in in_turns(session.taken()):
            key = ShareKey(session.group_id, topic_id, index)
            partition = self.partitions.get(key)
            if partition is not None and partition.release(session.member_id, limits, monotonic_ms()):
                released.append((key, partition))
        for key, partition in released:
            await self.partitions.settle_later(key, partition)

    def _connection_closed(self, connection_id: int) -> None:
        for session in self._sessions.on_connection(connection_id):
            self._background.start(self._close(session))

    # --- acknowledging

    async def _acknowledge_all(
        self,
        group_id: str,
        member_id: str,
        acknowledgements: Acknowledgements,
        results: dict[TopicPartition, Fetched],
        renewing: bool,
    ) -> None:
        for (topic_id, index), batches in paced(acknowledgements.items()):
            result = results.setdefault((topic_id, index), Fetched())
            key = ShareKey(group_id, topic_id, index)
            try:
                self.partitions.log_of(key)
                if not self.partitions.was_fetched(key):
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NOT_SHARED)
                partition = await self.partitions.open(key)
                limits, now_ms = self.partitions.limits(group_id), monotonic_ms()
                partition.acknowledge(member_id, batches, limits, now_ms, renewing)
                await self.partitions.settle(key, partition)
                self._wake_ups.notify(key)
            except KafkaError as error:
                result.acknowledge_error = error.without_frames()

    # --- fetching

    def _keys(self, session: ShareSession) -> list[object]:
        """The wake-up keys of a fetch: the end of its session, new or released records."""
        keys: list[object] = [(session.group_id, session.member_id)]
        for topic_id, index in paced(list(session.partitions)):
            keys.append(ShareKey(session.group_id, topic_id, index))
            topic = self._broker.catalogue.by_id(topic_id)
            if topic is not None and 0 <= index < len(topic.partitions):
                slot = topic.partitions[index].slot
                keys.append(slot)
                self._announce(slot)
        return keys

    async def _enough(self, spec: FetchSpec, session: ShareSession, counted: Deliverable) -> bool:
        """Whether there are min_bytes to acquire, or an error to return."""
        found = 0
        limits = self.partitions.limits(spec.group_id)
        committed = self.partitions.reads_committed(spec.group_id)
        for topic_id, index in paced(list(session.partitions) if spec.min_bytes > 1 else ()):
            key = ShareKey(spec.group_id, topic_id, index)
            try:
                log_partition = self.partitions.log_of(key)
                partition = await self.partitions.open(key)
                if not partition.may_acquire(limits):
                    continue
                start = max(partition.next_offset(limits), log_start_of(self._broker, log_partition))
                missing = spec.min_bytes - found
                found += await counted.bytes_from(log_partition, start, missing, committed)
            except KafkaError:
                return True
            if found >= spec.min_bytes:
                break
        return found >= spec.min_bytes or spec.min_bytes <= 1

    async def _fetch_once(
        self,
        spec: FetchSpec,
        session: ShareSession,
        results: dict[TopicPartition, Fetched],
        read: set[TopicPartition],
    ) -> bool:
        """Acquire the available records; returns whether there is a result to return. read:
        partitions that were read. As in Kafka, an answer does not wait for partitions that are
        still being loaded: clients rely on a first answer with one partition.
        """
        answerable = False
        max_bytes, max_records = spec.max_bytes, spec.records.max_records
        for key in paced(self._loaded_first(session)):
            place = (key.topic_id, key.partition)
            if not spec.may_read(key.topic_id):
                _fail(results, place, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
                answerable = True
                continue
            if max_records <= 0 or max_bytes <= 0:
                break
            if answerable and self.partitions.get(key) is None:
                self._background.start(self._deliveries.load(key))
                continue
            try:
                records_spec = spec.records._replace(max_records=max_records)
                found = await self._deliveries.take(key, session, max_bytes, records_spec)
            except KafkaError as error:
                _fail(results, place, error)
                answerable = True
                continue
            if found is None:
                continue
            read.add(place)
            records, acquired = found
            if acquired:
                result = results.setdefault(place, Fetched())
                result.records, result.acquired = records, acquired
                max_bytes -= len(records)
                max_records -= sum(each.last - each.first + 1 for each in acquired)
                answerable = True
        session.turn()
        return answerable

    def _loaded_first(self, session: ShareSession) -> list[ShareKey]:
        loaded: list[ShareKey] = []
        others: list[ShareKey] = []
        for each in paced(list(session.partitions)):
            key = ShareKey(session.group_id, *each)
            (others if self.partitions.get(key) is None else loaded).append(key)
        return loaded + others

    # --- new partitions of a group

    def _initialize_later(self, group_id: str, group_epoch: int, topics: Shared) -> None:
        self._background.start(self._initialize(group_id, group_epoch, topics))

    async def _initialize(self, group_id: str, group_epoch: int, topics: Shared) -> None:
        """Write the states of partitions, then share the partitions. A topic whose states cannot be
        written is initialized again by a later heartbeat, as in Kafka.

        No heartbeat begins again with topics that are being initialized, so the end of that is
        attempted until it is written."""
        ended = self._groups.shard.states_initialized
        try:
            await self.partitions.initialize(group_id, group_epoch, topics)
        except KafkaError as error:
            log.warning("%s: share states are not initialized yet: %s", group_id, error)
            ended = self._groups.shard.states_not_initialized
        pause_s = FIRST_PAUSE_S
        while self._is_initializing(group_id, topics):
            try:
                await self._groups.run(group_id, lambda _: ended(group_id, topics))
                return
            except KafkaError as error:
                log.warning("%s: the initialized share states are not noted yet: %s", group_id, error)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, MAX_PAUSE_S)

    def _is_initializing(self, group_id: str, topics: Shared) -> bool:
        """Whether the group still waits for the states of one of these topics."""
        group = self._groups.shard.table.groups.get(group_id)
        return isinstance(group, ShareGroup) and not topics.keys().isdisjoint(group.initializing)

    # --- deleted topics

    def _topic_deleted(self, topic: Topic) -> None:
        """Delete the states of a deleted topic."""
        for key in self.shard.keys_of_topic(topic.topic_id):
            self.partitions.forget(key)
            self.partitions.delete_later(key)


def _fail(results: dict[TopicPartition, Fetched], place: TopicPartition, error: KafkaError) -> None:
    results.setdefault(place, Fetched()).error = error
