"""Slot numbers and generations of partitions, and the words of a slot that control writes.

A slot number is reused after its partition is gone; the generation, which never repeats (it is
stored), shows the users of the old partition that it is gone.
"""

import heapq
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from kbroker.config.topic import TopicConfig
from kbroker.control.metadata.catalogue import Replica
from kbroker.ipc.layout import ProcessLine, Slot, SlotFlag
from kbroker.ipc.schema_rules import SchemaRules, packed
from kbroker.ipc.shared import Shared
from kbroker.protocol.errors import ErrorCode, KafkaError

TRIES = 10_000
"""Attempts to read a slot that is being written: some milliseconds, its writer needs a
microsecond."""
CODECS = {"producer": -1, "uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def _level(config: TopicConfig) -> int:
    """compression.{gzip,lz4,zstd}.level of the topic's codec, 0 where it has none."""
    levels = {
        "gzip": config.compression_gzip_level,
        "lz4": config.compression_lz4_level,
        "zstd": config.compression_zstd_level,
    }
    return levels.get(config.compression_type, 0)


def slot_flags(config: TopicConfig, internal: bool, replicated: bool) -> int:
    """The Slot.FLAGS word of a partition, of SlotFlag."""
    return (
        SlotFlag.REPLICATED * replicated
        | SlotFlag.COMPACTED * config.compact
        | SlotFlag.LOG_APPEND_TIME * (config.message_timestamp_type == "LogAppendTime")
        | SlotFlag.DURABLE * (not config.write_caching)
        | SlotFlag.INTERNAL * internal
    )


def _slots_of(replicas: Sequence[Replica]) -> int | NDArray[np.int64]:
    return _values([replica.slot for replica in replicas])


def _values(numbers: list[int]) -> int | NDArray[np.int64]:
    """Index of one row or many of a table: NumPy takes a number faster than an array of one."""
    return numbers[0] if len(numbers) == 1 else np.array(numbers, np.int64)


class Slots:
    """Allocates slots and writes control's words of them. Runs in: control. Owner: the Broker.

    words: shared.slots, int64[max_partitions, Slot.WORDS]. line: control's row in shared.processes.
    """

    def __init__(self, words: NDArray[np.int64], next_generation: int, line: NDArray[np.int64]) -> None:
        self._words = words
        self._line = line
        self._taken: set[int] = set()
        self._released: list[int] = []  # a heap of free slots, all below _first_unused
        self._first_unused = 0  # free slots from here on are in no list
        self._next_generation = next_generation

    @classmethod
    def of(cls, shared: Shared, next_generation: int) -> "Slots":
        """The slots of this broker's shared memory."""
        return cls(shared.slots, next_generation, shared.processes[shared.control_client])

    @property
    def in_use(self) -> bool:
        """Whether a control process of this run has assigned slots before. To find that out in the
        slots would map all their pages."""
        return bool(self._line[ProcessLine.SLOTS_ASSIGNED])

    def claim(self, replicas: Iterable[Replica], reserved: Iterable[int] = ()) -> list[Replica]:
        """Take the stored slots of the replicas; returns those that needed new ones (the table
        became smaller).

        reserved: slots that are still in use.
        """
        homeless = []
        size = len(self._words)
        self._taken.update(slot for slot in reserved if slot < size)
        for replica in replicas:
            if replica.slot < size and replica.slot not in self._taken:
                self._taken.add(replica.slot)
            else:
                homeless.append(replica)
        self._released, self._first_unused = [], 0
        for replica in homeless:
            replica.slot, replica.generation = self.take(1)[0]
        return homeless

    @property
    def room(self) -> int:
        """The number of partitions that there are slots for, beside those that have one."""
        return len(self._words) - len(self._taken)

    def take(self, count: int) -> list[tuple[int, int]]:
        """(slot, generation) of `count` new partitions; all or KafkaError."""
        if count > (room := self.room):
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"The broker has room for {room} more partitions (kbroker.max.partitions)",
            )
        taken = []
        for _ in range(count):
            slot = self._lowest_free()
            self._taken.add(slot)
            taken.append((slot, self._next_generation))
            self._next_generation += 1
        return taken

    def release(self, slots: Iterable[int]) -> None:
        """Free slots: their partitions are closed everywhere, or were never created."""
        for slot in slots:
            self._taken.discard(slot)
            if slot < self._first_unused:
                heapq.heappush(self._released, slot)

    def _lowest_free(self) -> int:
        if self._released:
            return heapq.heappop(self._released)
        while self._first_unused in self._taken:
            self._first_unused += 1
        self._first_unused += 1
        return self._first_unused - 1

    def owner(self, replica: Replica) -> int | None:
        """The IO worker that this run's slot names, if the replica has been assigned in this run. A
        stored deletion may be of a run with a larger table."""
        if (
            replica.slot >= len(self._words)
            or int(self._words[replica.slot, Slot.GENERATION]) != replica.generation
        ):
            return None
        return int(self._words[replica.slot, Slot.OWNER])

    def write(
        self, replicas: Sequence[Replica], config: TopicConfig, internal: bool, replicated: bool = False
    ) -> None:
        """Publish the assignments of replicas, and the settings that appends are checked
        against."""
        if not replicas:
            return
        self.configure(replicas, config, internal, replicated)
        words, slots = self._words, _slots_of(replicas)
        words[slots, Slot.OWNER] = _values([replica.worker for replica in replicas])
        self._line[ProcessLine.SLOTS_ASSIGNED] = 1
        words[slots, Slot.GENERATION] = _values([replica.generation for replica in replicas])

    def configure(
        self, replicas: Sequence[Replica], config: TopicConfig, internal: bool, replicated: bool = False
    ) -> None:
        """Publish changed settings of replicas. replicated: their partitions have others. A word at
        a time for all of them: a topic may have thousands."""
        words, slots = self._words, _slots_of(replicas)
        words[slots, Slot.FLAGS] = slot_flags(config, internal, replicated)
        words[slots, Slot.MAX_MESSAGE_BYTES] = config.max_message_bytes
        words[slots, Slot.TIMESTAMP_BEFORE_MAX_MS] = config.message_timestamp_before_max_ms
        words[slots, Slot.TIMESTAMP_AFTER_MAX_MS] = config.message_timestamp_after_max_ms
        codec = CODECS[config.compression_type]
        words[slots, Slot.COMPRESSION] = packed(codec, SchemaRules.of_topic(config))
        words[slots, Slot.COMPRESSION_LEVEL] = _level(config)
        words[slots, Slot.MIN_IN_SYNC_REPLICAS] = config.min_insync_replicas

    def state(self, slot: int) -> int:
        """The SlotState of a slot."""
        return int(self._words[slot, Slot.STATE])

    def word(self, slot: int, index: int) -> int:
        """One word of a slot (not part of a consistent group)."""
        return int(self._words[slot, index])

    def group(self, slot: int) -> NDArray[np.int64]:
        """A copy of a slot's words, those of the IO worker consistent. Raises
        NOT_LEADER_OR_FOLLOWER when the worker died while it wrote them."""
        line = self._words[slot]
        for _ in range(TRIES):
            before = int(line[Slot.SEQUENCE])
            copy = line.copy()
            if not before & 1 and int(line[Slot.SEQUENCE]) == before:
                return copy
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
