"""The group coordinator's service: the shard, its runtime, and its triggers other than requests."""

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any, TypeVar

from kbroker.config.group import within_bounds
from kbroker.control.broker import Broker
from kbroker.control.coordinator.machine import Operation, Outcome
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.coordinator.sweeps import Sweeps
from kbroker.control.groups.commit_cache.cache import CommitCache
from kbroker.control.groups.member_answers import FramedAnswer
from kbroker.control.groups.offset_expiration import is_full, steps
from kbroker.control.groups.settings import GroupSettings
from kbroker.control.groups.shard import GroupShard
from kbroker.control.links.appender import Appender
from kbroker.control.metadata.catalogue import Catalogue, Topic
from kbroker.control.metadata.config_resource import GROUP
from kbroker.metrics.slots import bind
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.join_group import JoinGroupRequest
from kbroker.protocol.messages.list_groups import ListedGroup
from kbroker.protocol.messages.sync_group import SyncGroupRequest
from kbroker.protocol.slices import Table, paced

T = TypeVar("T")

COUNT_EVERY_MS = 1000
FEW_OFFSETS = 1000
"""Committed offsets of a group that are checked at once."""
REBALANCES = bind("kbroker_group_rebalances_total")
COORDINATOR_TYPE = 0
"""FindCoordinator's key type."""


class CatalogueView:
    """The catalogue as the shard sees it (TopicView)."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    @property
    def version(self) -> int:
        return self._catalogue.version

    def id_of(self, name: str) -> bytes | None:
        topic = self._catalogue.get(name)
        return None if topic is None else topic.topic_id

    def name_of(self, topic_id: bytes) -> str | None:
        topic = self._catalogue.by_id(topic_id)
        return None if topic is None else topic.name

    def partition_count(self, name: str) -> int | None:
        topic = self._catalogue.get(name)
        return None if topic is None else len(topic.partitions)

    def names(self) -> Iterable[str]:
        return tuple(self._catalogue.topics)


class GroupService:
    """Runs in: control. Owner: Services. API handlers reach it by `Services.groups`.

    _expired: groups of which the current sweep has removed all expired offsets.
    """

    def __init__(self, broker: Broker, runtime: Runtime, appender: Appender) -> None:
        self.runtime = runtime
        self.shard = GroupShard(
            GroupSettings.of(broker.config), runtime.timers, CatalogueView(broker.catalogue)
        )
        self._broker = broker
        self._counted_rebalances = 0
        self._expired: set[str] = set()
        self._sweeps = Sweeps(runtime)
        runtime.attach(self.shard)
        self.commit_cache = CommitCache(broker, runtime, self.shard, appender)
        runtime.fast_path = self.commit_cache
        broker.listeners.block_servers.append(self.commit_cache.take)
        broker.coordinators[COORDINATOR_TYPE] = runtime
        broker.listeners.deletion.append(self.topic_deleted)
        broker.listeners.config.append(self.config_changed)
        for kind, name in broker.overrides:
            self.config_changed(kind, name)

    def start(self) -> None:
        """Check for expired offsets, and count rebalances, from now on."""
        interval_ms = self.shard.table.settings.offsets_retention_check_interval_ms
        self.runtime.every(interval_ms, "expire-offsets", self._expire_offsets)
        self.runtime.every(COUNT_EVERY_MS, "count-rebalances", self._count_rebalances)

    def _count_rebalances(self) -> None:
        completed = self.shard.table.completed_rebalances
        self._broker.metrics.words[REBALANCES] += completed - self._counted_rebalances
        self._counted_rebalances = completed

    def _expire_offsets(self) -> None:
        self._sweeps.repeat("expire-offsets", self._expiring, self._expiry_of)

    def _expiring(self) -> Iterator[str]:
        """All groups, each once for every operation that may be needed to expire its offsets."""
        self._expired.clear()
        for group_id in self.shard.group_ids():
            yield from repeat(group_id, steps(group_id, self.shard.table.offsets.count_of(group_id)))

    def _expiry_of(self, group_id: str) -> Operation | None:
        """The operation that expires offsets of a group; None for a group without expired offsets.
        If a group has very many offsets, the operation checks them, in slices."""
        if group_id in self._expired or (
            self.shard.table.offsets.count_of(group_id) <= FEW_OFFSETS
            and not self.shard.expire_offsets(group_id, self._broker.now_ms()).records
        ):
            return None
        return lambda now_ms: self._expire(group_id, now_ms)

    def _expire(self, group_id: str, now_ms: int) -> Outcome:
        """One of several operations on a group. After one that has removed less than the maximum,
        the others have nothing to do."""
        if group_id in self._expired:
            return Outcome()
        outcome = self.shard.expire_offsets(group_id, now_ms)
        if not is_full(outcome):
            self._expired.add(group_id)
        return outcome

    async def run(self, group_id: str, operation: Operation) -> Any:
        """Run an operation of a group and wait for its response. Raises KafkaError."""
        self.runtime.check_topic()
        return await self.runtime.run(group_id, operation)

    def ask(self, group_id: str, operation: Operation, by_records: bool = False) -> Any:
        """The response of an operation of a group, or a Deferred of it (Runtime.ask). Raises
        KafkaError."""
        self.runtime.check_topic()
        return self.runtime.ask(group_id, operation, by_records)

    def take_part(self, request: JoinGroupRequest | SyncGroupRequest, answer: FramedAnswer) -> bool:
        """Decide a request that writes nothing, of a member in a running rebalance, without the
        runtime (GroupShard.take_part). False, and nothing has happened, for any other."""
        group_id, waits = request.group_id, isinstance(request, SyncGroupRequest)
        if not self.runtime.is_idle(group_id) and not (waits and self.shard.is_completing(group_id)):
            return False
        self.commit_cache.forget(group_id)
        return self.shard.take_part(request, answer)

    def ask_concurrently(self, group_id: str, operation: Operation) -> Any:
        """As `ask`, for commits and heartbeats, which need not see each other
        (Runtime.ask_concurrently)."""
        self.runtime.check_topic()
        return self.runtime.ask_concurrently(group_id, operation)

    def is_absent(self, group_id: str) -> bool:
        """Whether there is no such group and no operation of it is pending. Raises KafkaError, as
        `run` does."""
        self.runtime.check_topic()
        return self.runtime.is_idle(group_id) and group_id not in self.shard.table.groups

    def read(self, group_id: str) -> GroupShard:
        """The shard, for a question about one group. Raises KafkaError while its partition is being
        loaded."""
        self.runtime.check_loaded(group_id)
        return self.shard

    def read_all(self) -> GroupShard:
        """The shard, for a question about all groups. Raises KafkaError while any partition is
        being loaded."""
        self.runtime.check_all_loaded()
        return self.shard

    def listed(self, states: list[str], types: list[str]) -> list[ListedGroup]:
        """The groups that pass the filters. Raises KafkaError while any partition is being
        loaded."""
        shard = self.read_all()
        topic = self._broker.catalogue.get(shard.topic)
        return [] if topic is None else shard.list(len(topic.partitions), states, types)

    def topic_deleted(self, topic: Topic) -> None:
        """Forget the offsets of a topic that is gone, and in share groups the topic."""
        pairs = [(topic.name, partition.index) for partition in topic.partitions]

        def deletion_of(group_id: str) -> Operation | None:
            if self.shard.shares_topic(group_id, topic.topic_id):
                return lambda _: self.shard.shared_topic_deleted(group_id, topic.topic_id)
            if not self.shard.has_offsets_of(group_id, topic.name):
                return None
            return lambda _: self.shard.partitions_deleted(group_id, pairs, topic.topic_id)

        def holders() -> Iterator[str]:
            for group_id in self.shard.group_ids():
                yield from repeat(group_id, steps(group_id, len(pairs)))

        self._sweeps.start(holders(), deletion_of)

    def config_changed(self, kind: int, name: str) -> None:
        """Take over the dynamic settings of one group."""
        if kind == GROUP:
            own = within_bounds(self._broker.override(GROUP, name), self._broker.config)
            self.shard.table.overrides.put(name, own)
            self.commit_cache.forget(name)


def each(
    group_ids: Iterable[str],
    ask: Callable[[str], T],
    failed: Callable[[str, KafkaError], T],
) -> list[T]:
    """Query several groups; returns the answers in the order of the ids, errors by `failed`. A
    group that is named again gets the same answer: it is made once, however long it is."""
    known: Table[str, T] = Table()

    def one(group_id: str) -> T:
        found = known.get(group_id)
        if found is None:
            try:
                found = ask(group_id)
            except KafkaError as error:
                found = failed(group_id, error)
            known[group_id] = found
        return found

    answers = [one(group_id) for group_id in paced(group_ids)]
    known.clear()
    return answers
