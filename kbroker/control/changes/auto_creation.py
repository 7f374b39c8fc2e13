"""Topics that clients name in Metadata requests and that do not exist: created in the background
(Kafka's AutoTopicCreationManager).

The request is answered first. So a client that watches a topic sees it missing and then appear, and
starts a rebalance, as with Kafka.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from kbroker.control.broker import Broker
from kbroker.control.changes.internal_topic import spec_for
from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.topic_plan import MAX_RECORDS_PER_REQUEST
from kbroker.ipc.background import Background
from kbroker.protocol.errors import KafkaError

log = logging.getLogger(__name__)

Created = Callable[[list[str]], None]
"""Called with the names that were created for one request."""

LINGER_S: Final = 0.025
"""Time in which names are collected, as long as a Kafka controller collects changes
(controller.quorum.append.linger.ms). Clients ask again after 100 ms."""
AT_ONCE: Final = 64
"""Names in one change: other changes have a turn between two of them."""
MAX_WAITING: Final = MAX_RECORDS_PER_REQUEST // 2
"""Names that wait. A request with more names than have room creates none, as at a Kafka controller,
where each topic takes two records at least of a change: its client asks again."""


class AutoCreation:
    """Runs in: control. Owner: the Services."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: dict[str, Created] = {}
        self._runs = False
        self._background = Background(log, "topics could not be created automatically")

    def create(self, names: Sequence[str], created: Created) -> None:
        """Create topics soon. A name that waits already is created once, for the first request that
        named it."""
        if len(self._waiting) + len(names) > MAX_WAITING:
            return
        for name in names:
            self._waiting.setdefault(name, created)
        if self._waiting and not self._runs:
            self._runs = True
            self._background.start(self._run())

    async def _run(self) -> None:
        try:
            await asyncio.sleep(LINGER_S)
            while self._waiting:
                await self._create(dict(islice(self._waiting.items(), AT_ONCE)))
        finally:
            self._runs = False

    async def _create(self, some: dict[str, Created]) -> None:
        try:
            made = await self._made(list(some))
        finally:
            for name in some:
                del self._waiting[name]
        by_request: dict[Created, list[str]] = {}
        for name in made:
            by_request.setdefault(some[name], []).append(name)
        for created, names in by_request.items():
            created(names)

    async def _made(self, names: list[str]) -> list[str]:
        """The names that were created. Many that are too large for one change are created one by
        one. None waits for logs of a deleted topic: its clients ask again."""
        names = [name for name in names if not self._broker.closing.pending(name)]
        if not names:
            return []
        specs = [spec_for(name, self._broker.config) for name in names]
        try:
            results = await create_topics(self._broker, specs)
        except KafkaError as error:
            if len(names) > 1:
                return [name for each in names for name in await self._made([each])]
            log.warning("topic %s could not be created automatically: %s", names[0], error)
            return []
        return [name for name, result in results.items() if not isinstance(result, KafkaError)]
