"""Creating, deleting and growing topics: stored, then opened by the IO workers, then sent to every
network process. Only then is the change visible and answered, so that all clients see the same
state. Changes run one at a time; a change may name many topics.
"""

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

from kbroker.control.broker import Broker
from kbroker.control.changes.log_closings import close_deleted, names_are_free
from kbroker.control.images import next_image
from kbroker.control.log_openings import opened_by
from kbroker.control.metadata.catalogue import Partition, Replica, Topic
from kbroker.control.metadata.config_resource import TOPIC
from kbroker.control.metadata.placement import place_assigned, place_replicas
from kbroker.control.metadata.topic_plan import (
    MAX_RECORDS_PER_REQUEST,
    NewTopic,
    TopicPlan,
    check_total_partitions,
    plan_growth,
    plan_topic,
    records_of,
    too_many_records,
)
from kbroker.control.store.change import Change, Deletion
from kbroker.ipc.slicing import in_turns
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import Table, distinct, is_sliced, paced

log = logging.getLogger(__name__)


def _uncounted(_: int) -> None:
    """The default for `count`: partitions without a quota."""


async def create_topics(
    broker: Broker,
    specs: Sequence[NewTopic],
    validate_only: bool = False,
    count: Callable[[int], None] = _uncounted,
) -> Table[str, TopicPlan | KafkaError]:
    """Create topics; returns each one's plan, or the reason for its refusal, by name. With
    validate_only nothing is created.

    count: called with each topic's partitions before they are created; may raise a KafkaError
    (quotas)."""
    check_total_partitions(specs, broker.config)
    if validate_only:
        return _planned(broker, specs, count)
    await names_are_free(broker, (spec.name for spec in specs if broker.catalogue.get(spec.name) is None))
    found: Table[str, TopicPlan | KafkaError] = Table()
    if is_sliced():  # with many names: names that are refused anyway do not delay other changes
        found = _planned(broker, specs, _uncounted)
        specs = [spec for spec in paced(specs) if isinstance(found[spec.name], TopicPlan)]
    async with broker.changing:
        results = _planned(broker, specs, count)
        in_order = (results[name] for name in distinct(spec.name for spec in specs))
        plans = [plan for plan in in_order if isinstance(plan, TopicPlan)]
        if plans:
            for name, error in (await _create(broker, plans)).items():
                results[name] = error
            for plan in plans:
                if plan.note is not None and results[plan.name] is plan:
                    log.warning("%s", plan.note)
        for name, result in results.items():
            found[name] = result
        results.clear()
        return found


def _planned(
    broker: Broker, specs: Sequence[NewTopic], count: Callable[[int], None]
) -> Table[str, TopicPlan | KafkaError]:
    """Each topic's plan, or the reason for its refusal. Raises KafkaError when all plans together
    are too large."""
    results: Table[str, TopicPlan | KafkaError] = Table()
    records = 0
    for spec in paced(specs):
        try:
            if broker.catalogue.get(spec.name) is None and broker.closing.pending(spec.name):
                why = f"Topic '{spec.name}' is marked for deletion."
                raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, why)
            sites = sites_open(broker)
            plan = plan_topic(spec, broker.catalogue, broker.config, sites)
            if not plan.assignments and not any(sites.values()):
                raise _no_log_dir(broker, plan.replication_factor)
            records += records_of(plan)
            if records > MAX_RECORDS_PER_REQUEST:
                break
            count(plan.num_partitions)
            results[spec.name] = plan
        except KafkaError as error:
            results[spec.name] = error.without_frames()
    if records > MAX_RECORDS_PER_REQUEST:
        results.clear()
        raise too_many_records()
    return results


async def _create(broker: Broker, plans: list[TopicPlan]) -> dict[str, KafkaError]:
    """Create planned topics; errors by name."""
    topics, errors = await _placed(broker, plans)
    if not topics:
        return errors
    placed = [plan for plan in plans if plan.name not in errors]
    await _store_topics(broker, topics, placed)
    for plan in placed:
        if plan.configs:
            broker.overrides[TOPIC, plan.name] = dict(plan.configs)
    broker.settings_changed(topics=[plan.name for plan in placed])
    async for topic in in_turns(topics):
        broker.opening[topic.name] = (topic, topic.partitions)
        broker.write_slots(topic, topic.partitions)
    errors |= await broker.log_openings.open([(topic, topic.partitions) for topic in topics])
    made = [topic for topic in topics if topic.name not in errors]
    await _publish(broker, made)
    failed = [topic for topic in topics if topic.name in errors]
    if failed:
        await _undo(broker, failed)
    return errors


async def _placed(broker: Broker, plans: list[TopicPlan]) -> tuple[list[Topic], dict[str, KafkaError]]:
    """Topics with their partitions placed on log dirs; errors by name."""
    topics: list[Topic] = []
    errors: dict[str, KafkaError] = {}
    occupied = await occupied_dirs(broker)
    async for plan in in_turns(plans):
        topic = Topic(plan.name, new_topic_id())
        try:
            await add_partitions(
                broker, topic, plan.num_partitions, plan.replication_factor, plan.assignments, occupied
            )
            occupied.update(r.log_dir for p in topic.partitions for r in p.replicas)
        except KafkaError as refused:
            errors[plan.name] = refused.without_frames()
        else:
            topics.append(topic)
    return topics, errors


async def _store_topics(broker: Broker, topics: list[Topic], plans: list[TopicPlan]) -> None:
    """Store new topics with the configs of their plans. If that fails, they own no logs any
    more."""
    change = Change(new_topics=list(topics))
    for plan in plans:
        if plan.configs:
            change.configs[TOPIC, plan.name] = dict(plan.configs)
    try:
        await broker.in_store(lambda store: store.apply(change))
    except BaseException:
        for topic in topics:
            broker.ownership.release(r for p in topic.partitions for r in p.replicas)
        raise


async def _publish(broker: Broker, topics: list[Topic]) -> None:
    """Notify the network processes, then show the topics to clients."""
    broker.announcing.update({topic.name: topic for topic in topics})
    await broker.links.announce(next_image(broker, tuple(topic.image() for topic in topics)))
    for topic in topics:
        del broker.announcing[topic.name]
        del broker.opening[topic.name]  # the successor of an IO worker opens it until here, too
        broker.catalogue.put(topic)
        for listener in broker.listeners.partitions:
            listener(topic)


async def _undo(broker: Broker, topics: list[Topic]) -> None:
    """Delete topics whose logs could not be opened: no client has seen them. If that cannot be
    stored they exist, offline, as the next start would find them."""
    try:
        await _store_deletion(broker, topics)
    except KafkaError as error:
        log.error("%d topics whose logs could not be opened are not deleted: %s", len(topics), error)
        await _publish(broker, topics)
        return
    for topic in topics:
        broker.opening.pop(topic.name, None)
        broker.overrides.pop((TOPIC, topic.name), None)
    await close_deleted(broker, _deletions(topics))


def new_topic_id() -> bytes:
    """A random id that neither Kafka nor its text form reserves: not zero or one, no leading '-'
    (Uuid.randomUuid)."""
    while True:
        made = uuid.uuid4().bytes
        if made[0] >> 2 != 62:  # base64url digit 62 is '-'
            return made


def sites_open(broker: Broker) -> dict[int, list[str]]:
    """Node id -> the log dirs of that site that accept new replicas."""
    usable = set(broker.dirs_for_new_partitions())
    return {site.node_id: [path for path in site.log_dirs if path in usable] for site in broker.nodes.sites}


def _no_log_dir(broker: Broker, factor: int | None = None) -> KafkaError:
    """The error when no site takes new replicas: Kafka's, if those that have not failed are
    cordoned. factor: of a new topic."""
    if broker.online_dirs:
        why = "All brokers are currently fenced, or have all their log directories cordoned."
        if factor is not None:
            why = f"Unable to replicate the partition {factor} time(s): {why}"
        return KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, why)
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "No log directory can take a new partition")


async def occupied_dirs(broker: Broker) -> Counter[str]:
    """The number of logs in each directory."""
    found: Counter[str] = Counter()
    async for topic in in_turns(list(broker.catalogue.topics.values())):
        found.update(replica.log_dir for each in topic.partitions for replica in each.replicas)
    return found


async def add_partitions(
    broker: Broker,
    topic: Topic,
    count: int,
    factor: int = 1,
    assignments: Sequence[Sequence[int]] = (),
    occupied: Counter[str] | None = None,
) -> list[Partition]:
    """Append `count` partitions to a topic that is not visible yet, with log directories, slots and
    IO workers. Raises KAFKA_STORAGE_ERROR and INVALID_REPLICATION_FACTOR without a log directory,
    and INVALID_PARTITIONS without free slots.

    assignments: node ids for each partition, or empty. occupied: the number of logs in each
    directory, those included that are created at the same time; None: those of the catalogue.
    """
    if occupied is None:
        occupied = await occupied_dirs(broker)
    sites = sites_open(broker)
    if not any(sites.values()):
        raise _no_log_dir(broker)
    places: Iterable[list[str]]
    if assignments:
        places, logs = place_assigned(assignments, sites, occupied), sum(map(len, assignments))
    else:
        places, logs = place_replicas(count, factor, list(sites.values()), occupied), count * factor
    taken = iter(broker.slots.take(logs))
    added = []
    async for log_dirs in in_turns(places):
        index = len(topic.partitions)
        partition = Partition(topic.name, index, log_dirs[0], *next(taken))
        partition.replicas += [Replica(topic.name, index, log_dir, *next(taken)) for log_dir in log_dirs[1:]]
        for replica in partition.replicas:
            broker.ownership.assign(replica)
        topic.partitions.append(partition)
        added.append(partition)
    return added


async def delete_topics(
    broker: Broker,
    choose: Callable[[], Sequence[Topic]],
    count: Callable[[int], None] = _uncounted,
    timeout_ms: int = 0,
) -> list[KafkaError | None]:
    """Delete topics: first clients no longer see them, then the network processes remove them, then
    the IO workers close them.

    choose: gives the topics; called when every earlier change is done, so that it sees a topic that
    was being created. count: as of `create_topics`. Each topic's error, if any: REQUEST_TIMED_OUT
    of those whose logs are still being opened then (`opened_by`)."""
    end_s = opened_by(timeout_ms)
    async with broker.changing:
        topics = choose()
        names = {topic.name for topic in topics}
        if not any(broker.log_openings.pending(name) for name in names):
            return await _delete(broker, topics, (), count)
    async with broker.log_openings.when_opened(broker.changing, names, end_s) as pending:
        return await _delete(broker, topics, pending, count)


async def _delete(
    broker: Broker, topics: Sequence[Topic], pending: Collection[str], count: Callable[[int], None]
) -> list[KafkaError | None]:
    gone = []
    refused: dict[bytes, KafkaError] = {}
    for named in topics:
        topic = broker.catalogue.by_id(named.topic_id)  # it may have grown since
        if topic is None:
            continue
        try:
            if topic.name in pending:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Logs of the topic are still being opened.")
            count(len(topic.partitions))
            gone.append(topic)
        except KafkaError as error:
            refused[topic.topic_id] = error.without_frames()
    if gone:
        await _store_deletion(broker, gone)
        for topic in gone:
            broker.catalogue.remove(topic.name)
            broker.overrides.pop((TOPIC, topic.name), None)
        broker.settings_changed(topics=[topic.name for topic in gone])
        await broker.links.announce(next_image(broker, deleted=tuple(topic.name for topic in gone)))
        await close_deleted(broker, _deletions(gone))
        for listener in broker.listeners.deletion:
            for topic in gone:
                listener(topic)
    unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    deleted = {topic.topic_id for topic in gone}
    return [None if t.topic_id in deleted else refused.get(t.topic_id, unknown) for t in topics]


async def _store_deletion(broker: Broker, topics: list[Topic]) -> None:
    change = Change(deleted_topics=[topic.name for topic in topics], deletions=_deletions(topics))
    for topic in topics:
        if overrides := broker.override(TOPIC, topic.name):
            change.configs[TOPIC, topic.name] = dict.fromkeys(overrides)
    await broker.in_store(lambda store: store.apply(change))


def _deletions(topics: list[Topic]) -> list[Deletion]:
    return [Deletion(topic.topic_id, r) for topic in topics for p in topic.partitions for r in p.replicas]


def check_growth(
    broker: Broker,
    name: str,
    count: int,
    assignments: Sequence[Sequence[int]] | None = None,
    count_added: Callable[[int], None] = _uncounted,
) -> int:
    """The number of partitions that `grow_topic` would add. Raises KafkaError."""
    sites = sites_open(broker)
    additional = plan_growth(broker.catalogue.get(name), count, assignments, sites, count_added)
    if assignments is None and not any(sites.values()):
        raise _no_log_dir(broker)
    return additional


async def grow_topic(
    broker: Broker,
    name: str,
    count: int,
    assignments: Sequence[Sequence[int]] | None = None,
    count_added: Callable[[int], None] = _uncounted,
    end_s: float | None = None,
) -> None:
    """Give a topic more partitions, `count` in all. Raises KafkaError. count_added: as count of
    `create_topics`. end_s: until when it waits for the topic's other logs; None: `opened_by`."""
    async with broker.log_openings.when_topic_opened(broker.changing, name, end_s):
        additional = check_growth(broker, name, count, assignments, count_added)
        topic = broker.catalogue.get(name)
        assert topic is not None
        grown = Topic(topic.name, topic.topic_id, list(topic.partitions))
        factor = len(topic.partitions[0].replicas)
        added = await add_partitions(broker, grown, additional, factor, assignments or ())
        try:
            await broker.in_store(lambda store: store.apply(Change(new_partitions=added)))
        except BaseException:
            broker.ownership.release(r for p in added for r in p.replicas)
            raise
        await broker.log_openings.still_pending([name], opened_by())
        broker.opening[name] = (grown, added)
        broker.write_slots(grown, added)
        await asyncio.sleep(0)  # thousands of slots take milliseconds, and so does the image of them
        for error in (await broker.log_openings.open([(grown, added)])).values():
            # they exist, offline, like those of a failed directory
            log.error("new partitions of %s: %s", name, error)
        await _publish(broker, [grown])
