"""Writing dead letters to the dead-letter topic of a share group (KIP-1191)."""

import logging
from typing import Protocol

from kbroker.config.group import DEAD_LETTER_TOPIC
from kbroker.config.topic import TopicConfig
from kbroker.control.broker import Broker
from kbroker.control.changes.topic_change import create_topics
from kbroker.control.groups.settings import GroupOverrides
from kbroker.control.metadata.catalogue import Partition, Topic
from kbroker.control.metadata.topic_name import is_valid
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.share.dead_letter_counts import DeadLetterCounts, count_of
from kbroker.control.share.dead_offsets import Dead
from kbroker.control.share.letters import Origin, batches, letters
from kbroker.control.share.reading import Originals, log_start_of, read_originals
from kbroker.control.share.state_shard import ShareKey
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

COPY = "errors.deadletterqueue.copy.record.enable"
PREFIX = "errors.deadletterqueue.topic.name.prefix"
AUTO_CREATE = "errors.deadletterqueue.auto.create.topics.enable"
ENABLE = "errors.deadletterqueue.group.enable"

APPEND_TIMEOUT_MS = 5000
"""A client waits for the answer to its acknowledgement; later attempts are made in the
background."""
READ_BYTES = 1 << 20
"""Compressed bytes read at a time, as in Kafka."""
WITHOUT_COPY = 1000
"""Letters built at a time if their size is not bounded by original records."""


class Append(Protocol):
    """`Appender.append`."""

    async def __call__(self, partition: Partition, batch: bytes, *, timeout_ms: int) -> int: ...


class DeadLetters:
    """Runs in: control. Owner: the SharePartitions."""

    def __init__(
        self, broker: Broker, overrides: GroupOverrides, append: Append, counts: DeadLetterCounts
    ) -> None:
        self._broker = broker
        self._overrides = overrides
        self._append = append
        self._counts = counts
        self._refused: dict[str, str] = {}

    def are_written_for(self, group_id: str) -> bool:
        """Whether the group has a dead-letter topic."""
        return bool(self._name(group_id))

    def _name(self, group_id: str) -> str:
        return self._overrides.text(group_id, DEAD_LETTER_TOPIC, "").strip()

    async def write(self, key: ShareKey, dead: Dead) -> None:
        """Write the letters of some offsets; when this returns, they are in the log. If the
        settings allow no letters, it logs a warning and writes none, as Kafka does. Raises
        KafkaError if the attempt failed; some letters may have been written.
        """
        source = self._broker.catalogue.by_id(key.topic_id)
        name = self._name(key.group_id)
        if source is None or not name:
            return
        why = self._why_not(name)
        if why is None and self._broker.catalogue.get(name) is None:
            why = await self._create(name)
        topic = self._broker.catalogue.get(name)
        if why is None and topic is not None:
            self._refused.pop(key.group_id, None)
            await self._write(key, dead, source, topic)
            self._counts.written(key.group_id, source.name, count_of([dead]))
            return
        self._counts.refused()
        why = why or "it has just been deleted"
        if self._refused.get(key.group_id) != why:
            self._refused[key.group_id] = why
            log.warning("group %s has no dead letters: %s is not used, %s", key.group_id, name, why)

    def _why_not(self, name: str) -> str | None:
        """The reason why the settings do not allow dead letters in the topic; None if they do."""
        config = self._broker.config
        prefix = config.get_str(PREFIX)
        if name.startswith("__"):
            return "its name begins with __"
        if not name.startswith(prefix):
            return f"{PREFIX} is '{prefix}'"
        if self._broker.catalogue.get(name) is None:
            if not is_valid(name):
                return "its name is not valid"
            return (
                None if config.get_bool(AUTO_CREATE) else f"there is no such topic and {AUTO_CREATE} is false"
            )
        topic = self._broker.topic_config(name)
        if not topic.errors_deadletterqueue_group_enable:
            return f"{ENABLE} of the topic is false"
        return "it is compacted, and letters need have no key" if topic.compact else None

    async def _create(self, name: str) -> str | None:
        """Create the topic; returns the reason if it is refused. Raises KafkaError for an error
        that may be temporary."""
        spec = NewTopic(name, configs={ENABLE: "true", "message.timestamp.type": "CreateTime"})
        result = (await create_topics(self._broker, [spec]))[name]
        exists = isinstance(result, KafkaError) and result.code is ErrorCode.TOPIC_ALREADY_EXISTS
        if isinstance(result, KafkaError) and not (exists and self._broker.catalogue.get(name)):
            if result.code in (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.POLICY_VIOLATION):
                return str(result)
            raise result
        await self._broker.log_openings.wait([name])
        return self._why_not(name)

    async def _write(self, key: ShareKey, dead: Dead, source: Topic, topic: Topic) -> None:
        partition = topic.partitions[key.partition % len(topic.partitions)]
        config = self._broker.topic_config(topic.name)
        limit = min(config.max_message_bytes, self._broker.shared.sizes.arena_bytes // 4)
        origin = Origin(key.group_id, source.name, key.partition)
        _check_size(origin, dead, topic.name, config)
        first = dead.first
        while first <= dead.last:
            last, records = await self._originals(key, source.partitions[key.partition], first, dead.last)
            now_ms = self._broker.now_ms()
            stamped = now_ms if config.message_timestamp_type == "LogAppendTime" else None
            for batch in batches(letters(origin, dead, first, last, records, now_ms, limit), limit, stamped):
                await self._append(partition, batch, timeout_ms=APPEND_TIMEOUT_MS)
            first = last + 1

    async def _originals(self, key: ShareKey, source: Partition, first: int, last: int) -> Originals:
        """The records to copy from the offset on. Raises KafkaError."""
        if not self._overrides.flag(key.group_id, COPY, default=False):
            return Originals(min(last, first + WITHOUT_COPY - 1), {})
        start = log_start_of(self._broker, source)
        if first < start:
            return Originals(min(last, start - 1, first + WITHOUT_COPY - 1), {})
        if not self._broker.is_online(source):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return await read_originals(self._broker, source, first, last, READ_BYTES)


def _check_size(origin: Origin, dead: Dead, topic: str, config: TopicConfig) -> None:
    """Raises MESSAGE_TOO_LARGE if the topic allows no letter as large as the largest without a
    copy: the last one, whose offset has the most digits. Checked before the first is written: an
    attempt that wrote some of the letters would write them again each time."""
    (letter,) = batches(letters(origin, dead, dead.last, dead.last, {}, 0, 0), 0)
    if len(letter) > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a letter of {len(letter)} bytes is larger than max.message.bytes of {topic}, "
            f"{config.max_message_bytes}",
        )
