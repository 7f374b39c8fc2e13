"""The state of one broker in the controller, and the small steps that every change consists of."""

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from kbroker.config.authorizer import Authorizer
from kbroker.config.broker import BrokerConfig
from kbroker.config.client_quotas import QuotaTable
from kbroker.config.listeners import Endpoint
from kbroker.config.topic import TopicConfig
from kbroker.control import failpoint
from kbroker.control.coordinator.machine import Coordinator, Transactions
from kbroker.control.decoys import Decoys
from kbroker.control.links.links import Links, bounded
from kbroker.control.links.log_reading import LogReadings
from kbroker.control.listeners import Listeners
from kbroker.control.log_openings import LogClosings, LogOpenings, NewLogs
from kbroker.control.metadata.catalogue import Catalogue, Partition, Replica, Topic
from kbroker.control.metadata.config_resource import BROKER, TOPIC
from kbroker.control.metadata.delegation_tokens import DelegationTokens
from kbroker.control.metadata.host_names import HostNames
from kbroker.control.metadata.log_ownership import LogOwnership
from kbroker.control.metadata.nodes import Nodes
from kbroker.control.metadata.producer_ids import ProducerIds
from kbroker.control.metadata.slots import Slots as PartitionSlots
from kbroker.control.replication.roles import role_of
from kbroker.control.store.change import ConfigKey, Deletion, Stored
from kbroker.control.store.choice import copy_dirs
from kbroker.control.store.copies import StoreCopies
from kbroker.control.store.store import Store
from kbroker.ipc.background import Background
from kbroker.ipc.cached_answers import AnswerVersions
from kbroker.ipc.clock import wall_clock_ms
from kbroker.ipc.layout import SlotState
from kbroker.ipc.log_dir_errors import LogDirErrors
from kbroker.ipc.messages import OpenPartition
from kbroker.ipc.shared import Shared
from kbroker.ipc.store_copy_states import StoreCopyStates
from kbroker.metrics.slots import Slots
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

T = TypeVar("T")

OPENS_AT_ONCE = 64
"""Maximum of pending OpenPartition calls to one IO worker."""


class Broker:
    """Runs in: control. Owner: the process's main. It is used only from the event loop.

    config: effective broker settings (file, then dynamic). overrides: dynamic configs by (resource
    type, name). quotas: of clients. scram: credentials of users. tokens: delegation tokens. decoys:
    of users and tokens that do not exist. authorizer: None when every client may do everything.
    coordinators: by coordinator type (0 group, 1 transaction, 2 share), those that run.
    move_targets: log dirs that logs are being moved to, by slot and generation. listeners: what
    coordinators want to be called for. announcing: topics being sent to the network processes;
    clients may not see them yet. log_dirs: absolute paths of all log directories. dir_errors: which
    of them have failed. stores: the copies of the store. cached_answers: versions that end the
    cached answers. orphans: partitions of deleted topics that an IO worker of this run may still
    have open. closing: topics with deleted logs that an IO worker may still have open (an orphan,
    or it hangs), or whose folders cannot be renamed yet. log_openings: opens the logs of new
    partitions. opening: partitions whose first OpenPartition is being sent to an IO worker.
    switching: slots whose logs are being switched to another log dir; they are not lost. metrics:
    this process's row. image_version: of the last image for network processes. ownership: which IO
    worker writes which log. version: grows with everything Metadata shows.
    """

    def __init__(
        self,
        shared: Shared,
        static: BrokerConfig,
        store: Store,
        stored: Stored,
        endpoints: Mapping[str, Endpoint],
        cluster_id: str,
        node_endpoints: Mapping[str, Endpoint] | None = None,
    ) -> None:
        self.shared = shared
        self.metrics = Slots(shared.metrics[shared.control_client])
        self.nodes = Nodes(static, endpoints, node_endpoints or {})
        self.cluster_id = cluster_id
        self.node_id = static.node_id
        self.overrides: dict[ConfigKey, dict[str, str]] = stored.configs
        self.features = stored.features
        self.features_epoch = stored.features_epoch
        self.quotas = QuotaTable(stored.client_quotas)
        self.scram = stored.scram
        self.decoys = Decoys(stored.login_secret, stored.scram)
        self.tokens = DelegationTokens(static, stored.tokens.values())
        self.authorizer = Authorizer.of(static, stored.acls)
        own = self.override(BROKER, str(self.node_id))
        self.config = static.with_dynamic(cluster=self.override(BROKER, ""), own=own)
        self.cached_answers = _fresh_answers(shared)
        self.catalogue = Catalogue(stored.topics, self.cached_answers.topics_changed)
        self.slots = PartitionSlots.of(shared, stored.next_generation)
        self.links = Links()
        self.producer_ids = ProducerIds(shared.producer_ids, self._allocate_producer_ids)
        self.transactions: Transactions | None = None
        self.coordinators: dict[int, Coordinator] = {}
        self.changing = asyncio.Lock()
        self.host_names = HostNames()
        self.announcing: dict[str, Topic] = {}
        self.opening: dict[str, tuple[Topic, list[Partition]]] = {}
        self.move_targets: dict[tuple[int, int], str] = {}
        self.log_openings = LogOpenings(partial(self.open_logs, new=True))
        self.switching: set[int] = set()
        self.closing = LogClosings()
        self.orphans: list[Deletion] = []
        self.late_closings = Background(log, "the logs of deleted topics could not be closed")
        self._topic_configs: dict[str, TopicConfig] = {}
        self.listeners = Listeners()
        self.image_version = 0
        self.log_dirs = tuple(absolute(log_dir) for log_dir in self.config.log_dirs)
        self.dir_errors = LogDirErrors(self.log_dirs, shared)
        self.logs = LogReadings(self.dir_errors, len(self.log_dirs))
        self.stores = StoreCopies(store, self._dirs_for_stores, StoreCopyStates(self.log_dirs, shared).put)
        self.ownership = LogOwnership(shared, self.slots, self.nodes.workers(shared.sizes.workers))

    # --- queries --------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Grows whenever an answer that was computed from topics or settings may be outdated."""
        return self.cached_answers.topics

    def now_ms(self) -> int:
        """Wall clock."""
        return wall_clock_ms()

    @property
    def rack(self) -> str | None:
        """broker.rack."""
        return self.config.get_optional_str("broker.rack")

    def override(self, kind: int, name: str) -> dict[str, str]:
        """Dynamic configs of one resource; empty when it has none."""
        return self.overrides.get((kind, name), {})

    def topic_config(self, name: str) -> TopicConfig:
        """Effective config of a topic."""
        config = self._topic_configs.get(name)
        if config is None:
            config = self._topic_configs[name] = TopicConfig.resolve(self.override(TOPIC, name), self.config)
        return config

    def largest_batch(self, topic: str) -> int:
        """Maximum bytes of a batch that control appends to a topic: also what the arena holds."""
        return min(self.topic_config(topic).max_message_bytes, self.shared.sizes.arena_bytes)

    @property
    def online_dirs(self) -> tuple[str, ...]:
        """Log directories in use."""
        return self.dir_errors.online

    def is_online(self, partition: Partition) -> bool:
        """Whether the partition's log is open."""
        return self.slots.state(partition.slot) == SlotState.ONLINE

    def dirs_for_new_partitions(self) -> list[str]:
        """Log directories that take new partitions: in use, and not cordoned."""
        cordoned = self.cordoned_dirs()
        return [log_dir for log_dir in self.online_dirs if log_dir not in cordoned]

    def cordoned_dirs(self) -> set[str]:
        """Log directories that take no more logs (KIP-1066)."""
        cordoned = self.config.value("cordoned.log.dirs")
        names = cordoned if isinstance(cordoned, tuple) else ()
        return set(self.log_dirs) if "*" in names else {absolute(name) for name in names}

    def _dirs_for_stores(self) -> tuple[str, ...]:
        return copy_dirs(self.nodes.log_dirs(), self.online_dirs)

    def logs_of(self, worker: int) -> list[tuple[Topic, Partition, Replica]]:
        """Logs that an IO worker writes, including those that are being created."""
        known = [(topic, p) for topic in self.catalogue.topics.values() for p in topic.partitions]
        coming = [(topic, p) for topic, partitions in self.opening.values() for p in partitions]
        return [(topic, p, r) for topic, p in known + coming for r in p.replicas if r.worker == worker]

    def has(self, topic: Topic) -> bool:
        """Whether the topic exists or is being created. A topic that was deleted meanwhile does
        not, nor does a new one of its name."""
        coming = self.opening.get(topic.name)
        created = coming is not None and coming[0].topic_id == topic.topic_id
        return created or self.catalogue.by_id(topic.topic_id) is not None

    # --- steps of a change -----------------------------------------------------------------------------

    async def in_store(self, step: Callable[[Store], T]) -> T:
        """Run a step in every copy of the store. Raises KAFKA_STORAGE_ERROR."""
        try:
            done = await self.stores.run(step)
        except sqlite3.Error as error:
            log.error("the store failed: %s", error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"The broker's store failed: {error}") from error
        failpoint.reach("stored")
        return done

    def settings_changed(self, config: BrokerConfig | None = None, topics: Iterable[str] = ()) -> None:
        """Drop the resolved configs of the named topics, or of all when the broker's own settings
        changed, and the cached answers."""
        self.cached_answers.topics_changed()
        if config is not None:
            self.config = config
            self._topic_configs.clear()
        for name in topics:
            self._topic_configs.pop(name, None)

    def acls_changed(self) -> None:
        """Drop the cached answers, and call the listeners."""
        self.cached_answers.topics_changed()
        for listener in self.listeners.acls:
            listener()

    def dynamic_settings(self) -> dict[str, str]:
        """Broker settings changed at run time, by name."""
        return {**self.config.cluster, **self.config.own}

    def open_call(
        self, topic: Topic, partition: Partition, replica: Replica, new: bool = False
    ) -> OpenPartition:
        """The call that makes an IO worker open a log; new: of a partition that was never opened
        before."""
        config = self.topic_config(topic.name)
        return OpenPartition(
            replica.slot,
            replica.generation,
            topic.name,
            partition.index,
            topic.topic_id,
            replica.log_dir,
            partition.leader_epoch,
            config,
            role_of(partition, replica, config.min_insync_replicas),
            new,
        )

    async def open_log(self, topic: Topic, partition: Partition, replica: Replica, new: bool = False) -> None:
        """Let an IO worker open a log whose slot is published. If the worker dies, its successor
        opens it in the role that the log has then. Raises KafkaError."""

        def call() -> OpenPartition:
            if not self.has(topic) or not any(one is replica for one in partition.replicas):
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The log was deleted meanwhile.")
            return self.open_call(topic, partition, replica, new)

        await self.links.call_with(replica.worker, call)

    async def open_logs(self, logs: Sequence[NewLogs], new: bool = False) -> dict[str, KafkaError]:
        """Let the IO workers open partitions whose slots are published; returns an error by topic,
        if any. new: as of `open_call`."""
        by_worker: dict[int, list[tuple[Topic, Partition, Replica]]] = {}
        for topic, partitions in logs:
            for partition in partitions:
                for replica in partition.replicas:
                    by_worker.setdefault(replica.worker, []).append((topic, partition, replica))

        # each worker by itself: where a disk hangs, the calls of one are not answered
        results = await asyncio.gather(
            *(
                bounded(OPENS_AT_ONCE, [partial(self.open_log, *each, new) for each in of])
                for of in by_worker.values()
            )
        )
        errors: dict[str, KafkaError] = {}
        for of, answers in zip(by_worker.values(), results, strict=True):
            for (topic, _, replica), result in zip(of, answers, strict=True):
                if isinstance(result, KafkaError):
                    errors.setdefault(topic.name, result)
                    self.not_opened(replica, result)
        return errors

    def not_opened(self, replica: Replica, error: KafkaError) -> None:
        """An IO worker could not open a log: unless its log dir has failed, there was no room."""
        if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
            self.log_openings.without_room[replica.slot, replica.generation] = None

    def write_slots(self, topic: Topic, partitions: Sequence[Partition]) -> None:
        """Publish the slots of every log of the partitions."""
        config = self.topic_config(topic.name)
        for replicated in (False, True):
            replicas = [r for p in partitions if p.replicated is replicated for r in p.replicas]
            self.slots.write(replicas, config, topic.internal, replicated)
            for replica in replicas:
                self.shared.in_sync[replica.slot] = replica.in_sync

    async def _allocate_producer_ids(self, count: int) -> int:
        return await self.in_store(lambda store: store.allocate_producer_ids(count))

    def close(self) -> None:
        """Finish the pending work of the store, and close it."""
        self.logs.close()
        self.stores.close()


def absolute(log_dir: str) -> str:
    """Absolute path, symbolic links kept, as stored with partitions."""
    return os.path.abspath(log_dir)  # noqa: PTH100 Path.resolve would follow links


def _fresh_answers(shared: Shared) -> AnswerVersions:
    """The versions of cached answers; the answers of the previous process become invalid."""
    answers = AnswerVersions(shared.cached_answers)
    answers.topics_changed()
    answers.groups_changed()
    return answers
