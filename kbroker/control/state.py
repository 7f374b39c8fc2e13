"""Control's state at start: built from the store and from the folders on disk, with slots for all
of it."""

import errno
import logging
import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from kbroker.config.broker import BrokerConfig
from kbroker.config.listeners import Endpoint
from kbroker.config.setting import ConfigError
from kbroker.config.topic import TopicConfig
from kbroker.control.broker import Broker, absolute
from kbroker.control.changes.config_change import publish_throttles
from kbroker.control.changes.internal_topic import spec_for
from kbroker.control.changes.move_targets import remember
from kbroker.control.changes.retirement import (
    offline_dirs_of_same_sites,
    remnants_of,
    rename_copy,
    retire_all,
    set_aside,
)
from kbroker.control.kraft.metadata_folder import folder_of, put_unseen, unseen_topics
from kbroker.control.metadata import adoption
from kbroker.control.metadata.catalogue import Replica, Topic
from kbroker.control.metadata.clamp import broker_min_isr_note
from kbroker.control.metadata.config_resource import TOPIC
from kbroker.control.metadata.eligible_leaders import are_on, one_min_isr
from kbroker.control.replication.election import choose_leaders
from kbroker.control.store.change import Change, Deletion, Stored
from kbroker.control.store.choice import open_newest
from kbroker.control.store.moved_dirs import follow_moved
from kbroker.control.store.store import LOGIN_SECRET, Store
from kbroker.ipc.clock import wall_clock_ms
from kbroker.ipc.crash_point import crash_point
from kbroker.ipc.shared import Shared
from kbroker.log import boot_mark, files

if TYPE_CHECKING:
    from kbroker.control.metadata.kafka_metadata import KafkaMetadata

log = logging.getLogger(__name__)

PRODUCER_IDS_PER_MS = 1000
"""Producer ids that start at the present time in microseconds lie far above any counted from 0."""
EPOCHS_IN_DOUBT = 1000
"""Leader epochs advance so far beyond those of a store that may be outdated, so that epochs of the
lost one are not used again."""


class OnlineDirs(NamedTuple):
    """Log dirs that are online, with their ids. clean: those whose last stop was clean."""

    log_dirs: Sequence[str]
    directory_ids: Mapping[str, str] = MappingProxyType({})
    clean: frozenset[str] = frozenset()


def build(
    shared: Shared,
    static: BrokerConfig,
    online: OnlineDirs,
    endpoints: Mapping[str, Endpoint],
    cluster_id: str,
    node_endpoints: Mapping[str, Endpoint] | None = None,
) -> Broker:
    """The broker's state, slots assigned and published. Blocks; nothing else runs yet. Partitions
    of log dirs that are not online keep their slots and stay offline."""
    log_dirs = online.log_dirs
    chosen = open_newest(log_dirs, [absolute(log_dir) for log_dir in static.log_dirs], cluster_id)
    store = chosen.store
    store.begin_run(wall_clock_ms() if chosen.doubtful else 0)  # the lost one may have had many runs
    if chosen.doubtful:
        _skip_producer_ids(store)
    store.put_meta("cluster_id", cluster_id)
    if not store.meta(LOGIN_SECRET, ""):
        store.put_meta(LOGIN_SECRET, secrets.token_hex(32))
    follow_moved(store, [absolute(log_dir) for log_dir in static.log_dirs], online.directory_ids)
    if folder_of(log_dirs) is not None:
        _import_metadata(store, log_dirs, static)
    broker = Broker(shared, static, store, _load(store, static), endpoints, cluster_id, node_endpoints)
    publish_throttles(broker)
    for log_dir in set(broker.log_dirs) - set(log_dirs):
        broker.dir_errors.fail(log_dir, errno.ENODEV)
    _check_identities(broker, store, online.directory_ids)
    new_run = not broker.slots.in_use
    if new_run:
        step, kept_in = (EPOCHS_IN_DOUBT, frozenset[str]()) if chosen.doubtful else (1, online.clean)
        _begin_epochs(broker, store, step, kept_in)
    _finish_deletions(broker, store, new_run)
    _claim_slots(broker, store)
    _adopt(broker, store, online.directory_ids)
    _resume_moves(broker, new_run)
    if new_run and (found := adoption.scan(broker.online_dirs, _known(broker))):
        _settle(broker, store, found)
    for replica in broker.catalogue.replicas():
        broker.ownership.assign(replica)
    if new_run and (led := choose_leaders(broker)):
        store.apply(Change(led_partitions=led))
    for topic in broker.catalogue.topics.values():
        broker.write_slots(topic, topic.partitions)
    broker.stores.complete()
    _log_start(broker, new_run)
    return broker


def _claim_slots(broker: Broker, store: Store) -> None:
    """Assign a slot to each replica: the stored one, if it is free."""
    moved = broker.slots.claim(broker.catalogue.replicas(), (one.partition.slot for one in broker.orphans))
    if moved:
        whole = [p for p in broker.catalogue.partitions() if any(r in moved for r in p.replicas)]
        store.apply(Change(moved_partitions=whole))


def _log_start(broker: Broker, new_run: bool) -> None:
    if new_run and (note := broker_min_isr_note(broker.config, len(broker.nodes.sites))):
        log.warning("%s", note)
    log.info(
        "%d topics, %d partitions%s",
        len(broker.catalogue.topics),
        sum(1 for _ in broker.catalogue.partitions()),
        "" if new_run else "; took over from a control process that died",
    )


def _load(store: Store, static: BrokerConfig) -> Stored:
    stored = store.load()
    if are_on(stored.features) and (changes := one_min_isr(stored.configs, static.static)):
        store.apply(Change(configs=changes))
        return store.load()
    return stored


def _begin_epochs(broker: Broker, store: Store, step: int, kept_in: frozenset[str]) -> None:
    """A new run has new leader epochs, by which clients detect truncation after an unclean stop. A
    single replica that was closed cleanly is unchanged: it keeps its epoch, and its start has
    nothing to write."""
    renewed = [p for p in broker.catalogue.partitions() if p.replicated or p.log_dir not in kept_in]
    if not renewed:  # a change of the store is synced, even an empty one
        return
    store.advance_leader_epochs(step, kept_in)
    crash_point("leader change: epoch stored")
    for partition in renewed:
        partition.leader_epoch += step


def _check_identities(broker: Broker, store: Store, directory_ids: Mapping[str, str]) -> None:
    """A log dir that was replaced, as when its disk is not mounted, is offline as long as it should
    hold partitions: these would restart empty. Each log dir is known by the directory.id of its
    meta.properties (KIP-858).

    Replicas may restart empty when each of their partitions has another in-sync replica: they are
    copied again."""
    held = Counter(replica.log_dir for replica in broker.catalogue.replicas())
    before, absent = store.directory_ids(), store.absent()
    replaced = {
        log_dir
        for log_dir in broker.online_dirs
        if directory_ids.get(log_dir) and before.get(log_dir, "") not in ("", directory_ids[log_dir])
    }
    usable = set(broker.online_dirs) - replaced
    for log_dir in broker.online_dirs:
        if log_dir in replaced and _restart_copies(broker, store, log_dir, usable):
            log.warning("log dir %s was replaced: its %d replicas are copied again", log_dir, held[log_dir])
            store.put_directory_id(log_dir, directory_ids[log_dir])
            continue
        here, known = directory_ids.get(log_dir, ""), before.get(log_dir, "")
        if log_dir in replaced and held[log_dir]:
            broker.dir_errors.fail(log_dir, errno.ENODEV)
            log.error(
                "log dir %s stays offline: it is not the one that holds %d partitions (directory.id %s, not %s); is its"
                " disk mounted?",
                *(log_dir, held[log_dir], here, known),
            )
        elif here != known:
            store.put_directory_id(log_dir, here)
    store.put_absent(before.keys() - set(broker.log_dirs))
    # one that is at another path than at the last start has missed nothing
    here_now = {directory_ids.get(log_dir, "") for log_dir in broker.online_dirs}
    store.end_absence((store.absent() - absent).intersection(here_now))
    for log_dir in held.keys() - set(broker.log_dirs):
        log.error("%s is not in log.dirs: its %d partitions stay offline", log_dir, held[log_dir])


def _restart_copies(broker: Broker, store: Store, log_dir: str, usable: set[str]) -> bool:
    """Take a log dir's replicas out of the in-sync sets; False, and nothing is done, when one of
    them is the last."""
    replicas = [(p, r) for p in broker.catalogue.partitions() for r in p.replicas if r.log_dir == log_dir]
    if not replicas or not all(
        any(r.in_sync and r.log_dir in usable for r in p.replicas) for p, _ in replicas
    ):
        return False
    for partition, replica in replicas:
        replica.in_sync = False
        if partition.leader is replica:
            partition.leader = next(r for r in partition.replicas if r.in_sync and r.log_dir in usable)
    store.apply(Change(led_partitions=[partition for partition, _ in replicas]))
    return True


def _finish_deletions(broker: Broker, store: Store, new_run: bool) -> None:
    """Deletions that a crash interrupted: a folder may be left. An IO worker of this run may still
    have the log open, or is about to open it, by a call of the control process that died: the state
    of the slot does not show that."""
    stored = store.deletions()
    over = {one for one in stored if _has_replica_again(broker, one)}
    pending = [one for one in stored if one not in over]
    for one in pending:
        if not new_run and broker.slots.owner(one.partition) is not None:
            broker.ownership.assign(one.partition)
            broker.orphans.append(one)
    broker.closing.begin(one.partition.topic for one in broker.orphans)
    reachable = [one for one in pending if not broker.dir_errors.of(one.partition.log_dir)]
    orphans = set(broker.orphans)  # they may be thousands
    closed = [one for one in reachable if one not in orphans]
    retired = retire_all(closed, broker.nodes.log_dirs_of_same_site(), remnants_of(broker, closed))
    done = set(retired)
    broker.closing.refused = [one for one in closed if one not in done]
    broker.closing.begin({one.partition.topic for one in broker.closing.refused})
    if finished := [*over, *retired]:
        store.finish_deletions(finished, offline_dirs_of_same_sites(broker, retired))


def _has_replica_again(broker: Broker, one: Deletion) -> bool:
    """Whether a replica has come back to the folder of a former one, whose deletion could not be
    finished: the folder is its log now."""
    topic, index = broker.catalogue.by_id(one.topic_id), one.partition.index
    if topic is None or index >= len(topic.partitions):
        return False
    return any(replica.log_dir == one.partition.log_dir for replica in topic.partitions[index].replicas)


def _import_metadata(store: Store, log_dirs: Sequence[str], static: BrokerConfig) -> None:
    from kbroker.control.kraft.import_metadata import import_metadata  # few starts need its messages

    import_metadata(store, log_dirs, static)


def _kafka_metadata(log_dirs: Sequence[str]) -> "KafkaMetadata | None":
    """Kafka's metadata log, if there is one."""
    if folder_of(log_dirs) is None:
        return None
    from kbroker.control.metadata import kafka_metadata

    return kafka_metadata.read(log_dirs)


def _adopt(broker: Broker, store: Store, directory_ids: Mapping[str, str]) -> None:
    """Take over partition folders that the store does not know."""
    doomed = {(one.topic_id, one.partition.index) for one in store.deletions()}
    scanned = adoption.scan(broker.online_dirs, _known(broker))
    left = [one for one in scanned if (one.topic_id, one.index) not in doomed]
    unseen = unseen_topics(store)
    strays = set_aside(broker, store, directory_ids, left, unseen)
    found = adoption.unknown([one for one in left if one not in strays], broker.catalogue)
    if found:
        _take_over(broker, store, found)
    if unseen:
        away = {*broker.log_dirs, *store.directory_ids()}.difference(broker.online_dirs)
        put_unseen(store, [one for one in unseen if away and broker.catalogue.by_id(one) is None])


def _take_over(broker: Broker, store: Store, found: Mapping[str, list[adoption.FoundPartition]]) -> None:
    # folders that were copied here, or were left alone so far: not checked since the kernel started
    for log_dir in {one.log_dir for partitions in found.values() for one in partitions}:
        boot_mark.remove(log_dir)
    kafka = _kafka_metadata(broker.online_dirs)
    # ids that Apache Kafka has not handed out, and will not when the logs go back to it: their
    # sequences are in the logs
    _skip_producer_ids(store, kafka.next_producer_id if kafka is not None else None)
    for name, partitions in found.items():
        change = Change()
        topic = broker.catalogue.get(name)
        if topic is None:
            topic = Topic(name, partitions[0].topic_id)
            change.new_topics.append(topic)
            if configs := _configs(broker, topic, kafka):
                change.configs[TOPIC, name] = dict(configs)
                broker.overrides[TOPIC, name] = configs
        occupied = (replica.log_dir for replica in broker.catalogue.replicas())
        added = adoption.partitions_of(topic, partitions, broker.online_dirs, broker.slots, occupied)
        if not change.new_topics:
            change.new_partitions = added
        topic.partitions.extend(added)
        store.apply(change)
        broker.catalogue.put(topic)
        log.info("topic %s taken over with %d partitions found on disk", name, len(partitions))


def _skip_producer_ids(store: Store, known: int | None = None) -> None:
    """Allocate no id that a lost store or Apache Kafka, which knows ids below `known`, may have
    allocated: batches of a second producer of an id would pass for repeated ones of the first."""
    store.skip_producer_ids(max(known or 0, wall_clock_ms() * PRODUCER_IDS_PER_MS))


def _configs(broker: Broker, topic: Topic, kafka: "KafkaMetadata | None") -> dict[str, str]:
    """Config overrides of a topic found on disk: those in Kafka's metadata log, else an internal
    topic's usual ones."""
    if kafka is not None and kafka.topics.get(topic.name) == topic.topic_id:
        known = kafka.configs.get((TOPIC, topic.name), {})
    elif topic.internal:
        known = {
            key: value
            for key, value in spec_for(topic.name, broker.config).configs.items()
            if value is not None
        }
    else:
        log.warning("topic %s: its configs are unknown, using the defaults", topic.name)
        known = {}
    usable: dict[str, str] = {}
    for key, value in known.items():
        try:
            TopicConfig.resolve({**usable, key: value}, broker.config)
            usable[key] = value
        except ConfigError as error:
            log.error("topic %s: config %s=%s is ignored: %s", topic.name, key, value, error)
    return usable


def _resume_moves(broker: Broker, new_run: bool) -> None:
    """Continue pending copies to other log dirs, also those of the last run. The copy of a deleted
    log is renamed, so that it is neither used nor removed (LogManager.loadLog)."""
    for one in adoption.futures(broker.online_dirs):
        replica = _copied(broker, one)
        if replica is None and new_run:
            log.warning("%s is the copy of a log that no longer exists: renamed as stray", one.folder)
            rename_copy(one, files.STRAY_FOLDER)
        elif replica is not None and replica.log_dir != one.log_dir:
            remember(broker, replica, one.log_dir)


def _copied(broker: Broker, copy: adoption.FutureCopy) -> Replica | None:
    """The replica of a future copy, None for a log that no longer exists. A copy without a topic id
    is of the topic that has its name: the id is the first file of a copy."""
    catalogue = broker.catalogue
    topic = catalogue.get(copy.topic) if copy.topic_id is None else catalogue.by_id(copy.topic_id)
    if topic is None or copy.index >= len(topic.partitions):
        return None
    return broker.nodes.replica_beside(topic.partitions[copy.index].replicas, copy.log_dir)


def _settle(broker: Broker, store: Store, found: Sequence[adoption.FoundPartition]) -> None:
    from kbroker.control.changes.misplaced_logs import settle  # few starts find such a folder

    settle(broker, store, found)


def _known(broker: Broker) -> set[str]:
    """Folders that the IO workers will read, so that they need not be read here."""
    return {replica.folder for replica in broker.catalogue.replicas()}
