"""The shared partitions in use: loads their state, writes their changes, and watches their
locks."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial

from kbroker.config.group import MAX_RETRY_BACKOFF_MS, RETRY_BACKOFF, RETRY_BACKOFF_MAX
from kbroker.config.whole_numbers import duration_ms
from kbroker.control.broker import Broker
from kbroker.control.coordinator.machine import Operation, Outcome
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.coordinator.timers import WheelTimers
from kbroker.control.groups.service import GroupService
from kbroker.control.groups.share_group.member import Shared
from kbroker.control.metadata.catalogue import Partition
from kbroker.control.share.dead_letter_counts import DeadLetterCounts
from kbroker.control.share.dead_letters import Append, DeadLetters
from kbroker.control.share.dead_offsets import Dead
from kbroker.control.share.first_states import FirstStates, Writing
from kbroker.control.share.limits import Limits
from kbroker.control.share.ranges import Range
from kbroker.control.share.reading import limit_of, log_start_of, offset_at
from kbroker.control.share.share_partition import SharePartition
from kbroker.control.share.state_shard import NOT_STARTED, ShareKey, ShareStateShard, Stored
from kbroker.ipc.background import Background
from kbroker.ipc.clock import monotonic_ms
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import paced

log = logging.getLogger(__name__)

FIRST_PAUSE_S, MAX_PAUSE_S = 1.0, 30.0
"""Pauses between attempts: to write dead letters, as in Kafka, and to find the states of new
partitions."""


class SharePartitions:
    """Runs in: control. Owner: the ShareService.

    freed(key): called when records of a partition are available again. append: appends a batch to a
    partition.
    """

    def __init__(
        self,
        broker: Broker,
        groups: GroupService,
        runtime: Runtime,
        shard: ShareStateShard,
        timers: WheelTimers,
        freed: Callable[[ShareKey], None],
        append: Append,
    ) -> None:
        self._broker = broker
        self._groups = groups
        self._runtime = runtime
        self._shard = shard
        self._timers = timers
        self._freed = freed
        self._live: dict[ShareKey, SharePartition] = {}
        self._first_states = FirstStates()
        self.letter_counts = DeadLetterCounts(broker.metrics)
        self._dead_letters = DeadLetters(broker, groups.shard.table.overrides, append, self.letter_counts)
        self._background = Background(log, "work on records that were given up failed")

    def log_of(self, key: ShareKey) -> Partition:
        """The partition of the catalogue.

        Raises UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER while it is
        being opened.
        """
        topic = self._broker.catalogue.by_id(key.topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = self._broker.catalogue.partition(topic.name, key.partition)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not self._broker.is_online(partition):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition

    def get(self, key: ShareKey) -> SharePartition | None:
        """The partition, if it is in use."""
        return self._live.get(key)

    def was_fetched(self, key: ShareKey) -> bool:
        """Whether a member of the group has fetched from the partition, so that it has a start
        offset. Raises COORDINATOR_NOT_AVAILABLE."""
        if key in self._live:
            return True
        stored = self._stored(key)
        return stored is not None and stored.start_offset >= 0

    def _stored(self, key: ShareKey) -> Stored | None:
        """The written state. Raises COORDINATOR_NOT_AVAILABLE while it is being loaded."""
        if self._broker.catalogue.get(self._runtime.topic) is not None:
            try:
                self._runtime.check_loaded(str(key))
            except KafkaError as error:
                raise _not_written(error) from error
        return self._shard.get(key)

    async def open(self, key: ShareKey) -> SharePartition:
        """The partition, loaded or initialized. Raises KafkaError."""
        live = self._live.get(key)
        if live is not None:
            return live
        partition = self.log_of(key)
        try:
            await self._runtime.ready_for(str(key))
        except KafkaError as error:
            raise _not_written(error) from error
        stored = self._shard.get(key)
        if stored is None or stored.start_offset < 0:
            with self._first_states.of(key.group_id) as writing:
                if stored is not None and stored.start_offset < NOT_STARTED:  # an administrator set it
                    start = log_start_of(self._broker, partition)
                else:
                    start = await self._first_offset(key.group_id, partition)
                await self._write_first(writing, key, partial(self._shard.begin, key, start))
            stored = self._shard.get(key)
            if stored is None:  # the group is deleted meanwhile
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if key not in self._live:
            made = SharePartition(stored.start_offset, list(stored.ranges))
            made.archive_before(log_start_of(self._broker, partition))
            made.pause_retries(self.limits(key.group_id), monotonic_ms())
            self._live[key] = made
            if self._dead_letters.are_written_for(key.group_id):
                self.letter_counts.expect(key.group_id, partition.topic)
            self.watch(key, made)
        return self._live[key]

    def letters_of(self, group_id: str, topics: Iterable[str]) -> dict[str, int]:
        """Dead letters written for a group, by the topic of their originals; 0 for the others of
        the topics if the group has a dead-letter topic."""
        expected = dict.fromkeys(topics, 0) if self._dead_letters.are_written_for(group_id) else {}
        return expected | dict(self.letter_counts.written_of(group_id))

    async def initialize(self, group_id: str, state_epoch: int, topics: Shared) -> None:
        """Write a state for each partition that has none. Raises KafkaError, also when the group is
        deleted meanwhile."""
        with self._first_states.of(group_id) as writing:
            for topic_id, topic in topics.items():
                for index in paced(sorted(topic.partitions)):
                    key = ShareKey(group_id, topic_id, index)
                    await self._runtime.ready_for(str(key))
                    if self._shard.get(key) is None and self._broker.catalogue.by_id(topic_id) is not None:
                        operation = partial(self._shard.initialize, key, state_epoch)
                        await self._write_first(writing, key, operation)

    async def _write_first(self, writing: Writing, key: ShareKey, operation: Operation) -> None:
        """Write the first state of a partition. Raises KafkaError, also when the group is deleted
        before this is decided."""
        writing.key = key
        await self._runtime.run(str(key), partial(writing.unless_deleted, operation))

    async def _first_offset(self, group_id: str, partition: Partition) -> int:
        """share.auto.offset.reset of the group."""
        reset = self._groups.shard.table.overrides.text(group_id, "share.auto.offset.reset", "latest").lower()
        if reset == "earliest":
            return log_start_of(self._broker, partition)
        if reset.startswith("by_duration:"):
            age_ms = duration_ms(reset.removeprefix("by_duration:")) or 0
            return await offset_at(self._broker, partition, max(0, self._broker.now_ms() - age_ms))
        return limit_of(self._broker, partition, self.reads_committed(group_id))

    async def settle(self, key: ShareKey, partition: SharePartition) -> None:
        """Write the changes, dead letters before the state that makes their records final, and set
        a timer for the remaining locks. Raises KafkaError."""
        self.watch(key, partition)
        try:
            await self.store(key, partition)
        except KafkaError:
            if dead := partition.take_dead():
                self._background.start(self._write_dead_letters_later(key, partition, dead))
            raise
        if dead := partition.take_dead():
            try:
                await self._write_dead_letters(key, partition, dead)
            except KafkaError as error:
                self._letters_failed(key, error)
                self._background.start(self._write_dead_letters_later(key, partition, dead))
            await self.store(key, partition)

    async def _write_dead_letters(self, key: ShareKey, partition: SharePartition, dead: list[Dead]) -> None:
        """Write dead letters; records with a letter are archived and removed from the list. Raises
        KafkaError."""
        while dead and self._live.get(key) is partition:
            await self._dead_letters.write(key, dead[0])
            partition.archive(dead.pop(0))

    async def _write_dead_letters_later(
        self, key: ShareKey, partition: SharePartition, dead: list[Dead]
    ) -> None:
        """Write dead letters in the background, until they are written. After a restart the records
        are delivered again instead."""
        pause_s = FIRST_PAUSE_S
        try:
            while dead and self._live.get(key) is partition:
                self.letter_counts.wait(dead)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, MAX_PAUSE_S)
                try:
                    await self._write_dead_letters(key, partition, dead)
                except KafkaError as error:
                    self._letters_failed(key, error)
                await self.settle_later(key, partition)
        finally:
            self.letter_counts.end(dead)

    def _letters_failed(self, key: ShareKey, error: KafkaError) -> None:
        self.letter_counts.failed(error.code)
        log.warning("%s: dead letters are not written yet: %s", key, error)

    async def settle_later(self, key: ShareKey, partition: SharePartition) -> None:
        """As `settle`, in the background: an error is logged, and the partition may no longer be in
        use."""
        if self._live.get(key) is not partition:
            return
        try:
            await self.settle(key, partition)
        except KafkaError as error:
            log.warning("%s: the state is not written: %s", key, error)
        self._freed(key)

    async def store(self, key: ShareKey, partition: SharePartition) -> None:
        """Write the changed state. Raises KafkaError with the codes of Kafka's SharePartition; then
        members hold again the records that they had finished."""
        ended = partition.take_ended()
        changes = partition.take_changes()
        if changes is None or self._live.get(key) is not partition:
            return
        try:
            await self._runtime.run(str(key), partial(self._write, key, partition, *changes))
        except KafkaError as error:
            partition.roll_back(ended, changes[1])
            if self._live.get(key) is partition:
                self.watch(key, partition)
            raise _not_written(error) from error

    def _write(
        self, key: ShareKey, partition: SharePartition, start: int, changed: list[Range], now_ms: int
    ) -> Outcome:
        """Write changes that were taken with this start offset. If those before have been rolled
        back since, it is too high: members hold earlier records again, and an update never moves
        the stored start offset back."""
        return self._shard.write(key, min(start, partition.start_offset), changed, now_ms)

    def forget(self, key: ShareKey) -> None:
        """Stop using a partition: when it is loaded again, its acquired records are available."""
        self._live.pop(key, None)
        self._timers.cancel(str(key))

    async def delete(self, key: ShareKey) -> None:
        """The group no longer shares the partition. Raises KafkaError."""
        self._runtime.check_all_loaded()
        self.forget(key)
        if self._shard.get(key) is not None:
            await self._runtime.run(str(key), lambda _: self._shard.delete(key))

    async def delete_group(self, group_id: str) -> None:
        """Delete the states of a group that is deleted, and its first states that are being
        written. Raises KafkaError."""
        self._runtime.check_all_loaded()
        self.letter_counts.forget_group(group_id)
        pending = self._first_states.refuse(group_id)
        for key in self._shard.keys_of(group_id):
            await self.delete(key)
        for key in pending:  # decided after their first states, which may be in the log
            self.forget(key)
            await self._runtime.run(str(key), partial(self._delete_any, key))

    def _delete_any(self, key: ShareKey, _: int) -> Outcome:
        return self._shard.delete(key)

    def delete_later(self, key: ShareKey) -> None:
        """As `delete`, without waiting."""
        self.forget(key)
        self._runtime.start(str(key), lambda _: self._shard.delete(key))

    async def restart_at(self, key: ShareKey, offset: int) -> None:
        """Restart at an offset. Raises KafkaError."""
        await self._runtime.ready_for(str(key))
        self.forget(key)  # else a later change of it would be written after the new start offset
        await self._runtime.run(str(key), lambda now_ms: self._shard.restart_at(key, offset, now_ms))
        self.forget(key)

    def start_offset(self, key: ShareKey) -> int:
        """The last written start offset of the group; -1 until the group has finished a record, as
        in Kafka, which does not store the initial offset. Raises COORDINATOR_NOT_AVAILABLE."""
        stored = self._stored(key)
        if stored is None or (stored.is_untouched and stored.start_offset >= NOT_STARTED):
            return NOT_STARTED
        return stored.start_offset

    def lag(self, key: ShareKey) -> int | None:
        """The number of records that the group has not finished, as a Java long; below 0 for a
        start offset beyond the end, as in Kafka. None as long as there is no start offset. Raises
        KafkaError when the log has no leader."""
        start = self.start_offset(key)
        if start == NOT_STARTED:
            return None
        return (self._unfinished(key, start) + (1 << 63)) % (1 << 64) - (1 << 63)

    def lags_of(self, group_id: str, shared: Shared) -> dict[str, int]:
        """The sum of each topic's lags, those below 0 as 0. A partition counts from its first fetch
        on: tools show no lag of a group that finishes nothing, but its operator must learn of
        it."""
        found: dict[str, int] = {}
        for topic_id, topic in paced(shared.items()):
            for index in paced(topic.partitions):
                key = ShareKey(group_id, topic_id, index)
                stored = self._shard.get(key)
                if stored is None or stored.start_offset < 0:
                    continue
                try:
                    lag = self._unfinished(key, stored.start_offset)
                except KafkaError:
                    continue
                found[topic.name] = found.get(topic.name, 0) + max(0, lag)
        return found

    def _unfinished(self, key: ShareKey, start_offset: int) -> int:
        """Records from the start offset on that the group has not finished. Raises KafkaError."""
        stored = self._shard.get(key)
        end = limit_of(self._broker, self.log_of(key), self.reads_committed(key.group_id))
        return end - start_offset - (0 if stored is None else stored.finished)

    # --- settings of the group

    def limits(self, group_id: str) -> Limits:
        overrides = self._groups.shard.table.overrides
        number = overrides.number
        config = self._broker.config
        return Limits(
            number(
                group_id,
                "share.record.lock.duration.ms",
                config.get_int("group.share.record.lock.duration.ms"),
            ),
            number(
                group_id, "share.delivery.count.limit", config.get_int("group.share.delivery.count.limit")
            ),
            number(
                group_id,
                "share.partition.max.record.locks",
                config.get_int("group.share.partition.max.record.locks"),
            ),
            self._dead_letters.are_written_for(group_id),
            overrides.flag(group_id, "share.renew.acknowledge.enable", default=True),
            number(group_id, RETRY_BACKOFF, 0),
            number(group_id, RETRY_BACKOFF_MAX, MAX_RETRY_BACKOFF_MS),
        )

    def reads_committed(self, group_id: str) -> bool:
        text = self._groups.shard.table.overrides.text(group_id, "share.isolation.level", "read_uncommitted")
        return text.lower() == "read_committed"

    # --- locks

    def watch(self, key: ShareKey, partition: SharePartition) -> None:
        """Set the timer that ends locks, pauses and delays: one timer per partition, for the first
        of them."""
        deadline_ms = partition.next_deadline_ms(self._ahead_ms())
        if deadline_ms is None:
            self._timers.cancel(str(key))
        else:
            delay_ms = max(0, deadline_ms - monotonic_ms())
            self._timers.schedule(str(key), delay_ms, lambda: self._expire(key, partition))

    def _expire(self, key: ShareKey, partition: SharePartition) -> None:
        if self._live.get(key) is not partition:
            return
        if partition.expire(self.limits(key.group_id), monotonic_ms()):
            log.info("%s: records were not acknowledged in time", key)
            changes = partition.take_changes()
            if changes is not None:
                self._runtime.start(str(key), partial(self._write, key, partition, *changes))
            if partition.has_dead:
                self._background.start(self.settle_later(key, partition))
            self._freed(key)
        if partition.end_pauses(monotonic_ms(), self._ahead_ms()):
            self._freed(key)
        self.watch(key, partition)

    def _ahead_ms(self) -> int:
        """The wall clock is ahead of CLOCK_MONOTONIC by this; another number once it is set."""
        return self._broker.now_ms() - monotonic_ms()


def _not_written(error: KafkaError) -> KafkaError:
    """Kafka's answer to an error of the share coordinator (SharePartition)."""
    moved = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.own_words) if error.code in moved else error
