"""IO workers that start: they get their settings, then open their logs, those of internal topics
first. Calls of the cleaner reach them through control."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

from kbroker.config.topic import TopicConfig
from kbroker.control.broker import OPENS_AT_ONCE, Broker
from kbroker.control.changes.log_closings import close_orphans
from kbroker.control.changes.log_dir_moves import LogDirMoves
from kbroker.control.late_openings import Log
from kbroker.control.links.appender import Appender
from kbroker.control.links.links import bounded
from kbroker.control.metadata.catalogue import Partition, Replica, Topic
from kbroker.control.metadata.topic_name import INTERNAL
from kbroker.ipc.background import Background
from kbroker.ipc.cleaning_messages import AskWorker
from kbroker.ipc.link import AsyncLink, LinkClosed
from kbroker.ipc.messages import ConfigurePartition, Hello, Settings
from kbroker.log import files
from kbroker.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

LATE_S = 10.0
"""Maximum time that a start waits for internal logs, and for the load of their partitions."""


class IoWorkers:
    """Runs in: control. Owner: Control.

    count: of IO workers. back: called with the index of one that has died and whose successor has
    opened every log. opened: called when one takes calls at its first start: its logs of internal
    topics are open. internal_open, all_open: every worker has opened its logs of internal topics,
    all its logs, since control's start.
    """

    def __init__(
        self,
        broker: Broker,
        moves: LogDirMoves,
        appender: Appender,
        count: int,
        back: Callable[[int], Awaitable[None]],
        opened: Callable[[], object] = lambda: None,
    ) -> None:
        self._broker = broker
        self._moves = moves
        self._appender = appender
        self._count = count
        self._back = back
        self._opened = opened
        self._internal: set[int] = set()
        self._all: set[int] = set()
        self._background = Background(log, "a log dir move could not be resumed")
        self.unchecked: set[str] = set()
        """Log dirs with a log that could not be opened."""
        self.internal_open = asyncio.Event()
        self.all_open = asyncio.Event()

    async def internal_logs(self) -> None:
        """Wait until every worker has opened its logs of internal topics, but not longer than
        LATE_S: the coordinators of the others' logs, and all other clients, do not wait."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.internal_open.wait(), LATE_S)
            return
        late = ", ".join(f"io {number}" for number in range(self._count) if number not in self._internal)
        log.warning("coordinators wait for the internal logs of %s, which starts or hangs", late)

    async def greet(self, link: AsyncLink, hello: Hello) -> None:
        """An IO worker has started, or has found control again: its settings, then all its
        partitions.

        At its first start it takes other calls once its internal logs are open, because it may have
        gigabytes to check; changes of a topic wait for its logs. Logs of deleted topics are closed
        after that: coordinators do not wait for them. A successor takes them when all
        are open: calls that its predecessor had not answered are sent again. So does each one where
        there are replica sites: who leads depends on which logs are there."""
        began = time.monotonic()
        self._appender.worker_restarted(hello.index)
        await self._appender.taken_over(hello.index)
        broker, moves = self._broker, self._moves
        moves.worker_started(hello.index)
        logs = broker.logs_of(hello.index)
        internal = [one for one in logs if one[0].name in INTERNAL]
        others = [one for one in logs if one[0].name not in INTERNAL]
        early = hello.index not in self._all and len(broker.nodes.sites) == 1
        try:
            with broker.log_openings.opening(topic.name for topic, _, _ in others):
                settings = broker.dynamic_settings()
                await link.call(Settings(settings))  # none, too: those of a control that died may be reset
                opened = await self._open_all(link, internal)
                if early and not link.closed:
                    self._takes_calls(link, hello.index)
                    self._opened()
                await close_orphans(broker, hello.index, link)
                await self._open_all(link, others)
                await self._configure_again(link, internal, opened)
                while (changed := broker.dynamic_settings()) != settings:  # it may have got no call of that
                    settings = changed
                    await link.call(Settings(settings))
        except LinkClosed:
            return
        if link.closed:  # it died after its last reply, its successor may be served already
            return
        broker.cached_answers.topics_changed()  # logs that could not be opened are offline now, or are not any more
        if not early:
            self._takes_calls(link, hello.index)
        self._background.start(moves.begin_again(hello.index, link))
        log.info("io %d: %d partitions open in %.2f s", hello.index, len(logs), time.monotonic() - began)
        if self.all_open.is_set():
            await self._back(hello.index)
        self._all_logs_are_open(hello.index)

    def _takes_calls(self, link: AsyncLink, worker: int) -> None:
        """The worker has opened its logs of internal topics, if not all of its logs."""
        self._broker.links.add_worker(worker, link)
        self._internal.add(worker)
        if len(self._internal) == self._count:
            self.internal_open.set()

    def _all_logs_are_open(self, worker: int) -> None:
        self._all.add(worker)
        if len(self._all) == self._count:
            self.all_open.set()

    async def _open_all(self, link: AsyncLink, logs: Sequence[Log]) -> list[TopicConfig | None]:
        """The configs with which the logs are open."""
        return await bounded(OPENS_AT_ONCE, [partial(self._open, link, *each) for each in logs])

    async def _open(
        self, link: AsyncLink, topic: Topic, partition: Partition, replica: Replica
    ) -> TopicConfig | None:
        await self._moves.decided(replica)
        if not self._broker.has(topic):
            return None  # deleted since it was listed: ClosePartition may be on its way to the worker
        try:
            call = self._broker.open_call(topic, partition, replica)
            await link.call(call)
        except KafkaError as error:
            log.error("%s could not be opened: %s", replica.folder, error)
            self._broker.not_opened(replica, error)
            self.unchecked.add(files.log_dir_of(replica.folder))
            return None
        return call.config

    async def _configure_again(
        self, link: AsyncLink, logs: Sequence[Log], opened: Sequence[TopicConfig | None]
    ) -> None:
        """Changes of an internal topic's config do not wait until its logs are open, and after half
        a minute not for the worker. opened: the configs that the logs have."""
        for (topic, _, replica), config in zip(logs, opened, strict=True):
            current = self._broker.topic_config(topic.name)
            if config not in (None, current) and self._broker.has(topic):
                with suppress(KafkaError):  # its log dir has failed meanwhile
                    await link.call(ConfigurePartition(replica.slot, current))


async def forward_call(broker: Broker, link: AsyncLink, call_id: int, call: AskWorker) -> None:
    """Call an IO worker for the cleaner and give it the reply. Control does not wait for a worker
    that is restarting: a log that is being recovered is not cleaned."""
    worker = broker.links.worker(call.worker)
    if worker is None:
        link.reply(call_id, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, message=f"io {call.worker} is away")
        return
    try:
        link.reply(call_id, await worker.call(call.body))
    except KafkaError as error:
        link.reply(call_id, error=int(error.code), message=str(error))
    except LinkClosed as error:
        link.reply(call_id, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, message=str(error))
