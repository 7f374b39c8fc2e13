"""Opening the logs of new partitions: a change of few waits for them, a large one is answered before."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

from kbroker.control.metadata.catalogue import Partition, Topic
from kbroker.protocol.errors import KafkaError

log = logging.getLogger(__name__)

MAX_AWAITED = 200
"""Logs. Whoever creates as many may produce to each of them as soon as the request is answered."""

NewLogs = tuple[Topic, Sequence[Partition]]
Open = Callable[[Sequence[NewLogs]], Awaitable[dict[str, KafkaError]]]


class LogOpenings:
    """Runs in: control. Owner: Broker. It is used from the event loop alone.

    Apache Kafka answers CreateTopics and CreatePartitions once they are stored, and makes the logs afterwards; until
    then it answers NOT_LEADER_OR_FOLLOWER. A request for more than MAX_AWAITED logs is served so here, too: their
    files take longer than a client should wait. open_logs: has the IO workers open logs; the errors by topic.
    """

    def __init__(self, open_logs: Open) -> None:
        self._open_logs = open_logs
        self._under_way: dict[str, asyncio.Task[dict[str, KafkaError]]] = {}

    async def open(self, new: Sequence[NewLogs]) -> dict[str, KafkaError]:
        """Begin to open logs; waits for the end unless they are many. Errors by topic, of those it waited for."""
        if sum(len(p.replicas) for _, partitions in new for p in partitions) <= MAX_AWAITED:
            return await self._open_logs(new)
        names = [topic.name for topic, _ in new]
        task = asyncio.get_running_loop().create_task(self._open_later(new))
        self._under_way.update(dict.fromkeys(names, task))
        task.add_done_callback(partial(self._ended, names))
        return {}

    async def _open_later(self, new: Sequence[NewLogs]) -> dict[str, KafkaError]:
        return await self._open_logs(new)

    async def wait(self, names: Iterable[str]) -> None:
        """Until no log of these topics is being opened. To be called before topics are changed or deleted."""
        tasks = {task for name in names if (task := self._under_way.get(name)) is not None}
        if tasks:
            await asyncio.wait(tasks)

    def _ended(self, names: list[str], task: asyncio.Task[dict[str, KafkaError]]) -> None:
        for name in names:
            self._under_way.pop(name, None)
        if task.cancelled():
            return
        if (failure := task.exception()) is not None:
            log.error("new partitions could not be opened", exc_info=failure)
            return
        for name, error in task.result().items():  # they exist, offline, like those of a failed directory
            log.error("new partitions of %s: %s", name, error)
