"""Logs that found no room when they were to be opened (a full disk, too many open files): they are
opened when there is room, without a restart."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from kbroker.control.broker import OPENS_AT_ONCE, Broker
from kbroker.control.links.links import bounded
from kbroker.control.metadata.catalogue import Partition, Replica, Topic
from kbroker.protocol.errors import KafkaError

log = logging.getLogger(__name__)

RETRY_S: Final = 10.0
"""Interval of the attempts."""
Log = tuple[Topic, Partition, Replica]


async def keep_opening(broker: Broker, opened: Callable[[], Awaitable[None]]) -> None:
    """Call `open_late` at intervals, forever. opened: called when logs have been opened."""
    while True:
        await asyncio.sleep(RETRY_S)
        if await open_late(broker):
            await opened()


async def open_late(broker: Broker) -> int:
    """Try to open the logs that found no room; returns the number of those that are open now. Of
    those of an IO worker (descriptors are its own) in a log dir one is tried, another each time
    (it may need less room), and the others when it is open."""
    if not broker.log_openings.without_room:
        return 0
    async with broker.changing:
        logs = _waiting(broker)
        names = {topic.name for topic, _, _ in logs}
        broker.log_openings.begin(names)
    try:
        groups: dict[tuple[str, int], list[Log]] = {}
        for one in logs:
            groups.setdefault((one[2].log_dir, one[2].worker), []).append(one)
        opened = sum(await asyncio.gather(*(_open(broker, group) for group in groups.values())))
    finally:
        broker.log_openings.end(names)
    if opened:
        broker.cached_answers.topics_changed()  # some may show them as offline
        log.info("%d logs that had found no room are open", opened)
    return opened


def _waiting(broker: Broker) -> list[Log]:
    """The logs in their order, without those that were deleted meanwhile, or whose log dir has
    failed."""
    waiting = broker.log_openings.without_room
    logs = [(t, p, r) for t in broker.catalogue.topics.values() for p in t.partitions for r in p.replicas]
    found = {key: one for one in logs if (key := (one[2].slot, one[2].generation)) in waiting}
    usable = [key for key in waiting if key in found and not broker.dir_errors.of(found[key][2].log_dir)]
    broker.log_openings.without_room = dict.fromkeys(usable)
    return [found[key] for key in usable]


async def _open(broker: Broker, logs: Sequence[Log]) -> int:
    """Open logs of one IO worker in one log dir; returns the number of those that are open now."""
    if not await _open_one(broker, *logs[0]):
        return 0
    results = await bounded(OPENS_AT_ONCE, [partial(_open_one, broker, *one) for one in logs[1:]])
    return 1 + sum(results)


async def _open_one(broker: Broker, topic: Topic, partition: Partition, replica: Replica) -> bool:
    broker.log_openings.without_room.pop((replica.slot, replica.generation), None)
    if not any(one is replica for one in partition.replicas):
        return False  # a reassignment has ended, and removed it
    try:
        await broker.open_log(topic, partition, replica)
    except KafkaError as error:
        broker.not_opened(replica, error)
        return False
    for listener in broker.listeners.opened_late:
        listener(replica)
    return True
