"""A topic of one partition whose replica moves between two log dirs, by an IO worker that a test
plays."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kbroker.control.changes.log_dir_moves import LogDirMoves
from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.catalogue import Partition
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.replication.service import Replication
from kbroker.control.store.store import Store
from kbroker.ipc.move_messages import BeginMove, MoveCaughtUp, MovesInProgress, SwitchMove
from tests.control.fakes import World


class Case:
    """A topic of one partition in one of two log dirs; what its IO worker replies to calls of
    moves."""

    def __init__(self, made: World) -> None:
        self.world = made
        self.replies: dict[type, Callable[[], Any]] = {SwitchMove: lambda: True, MovesInProgress: lambda: ()}
        asyncio.run(create_topics(made.broker, [NewTopic("t", 1)]))
        self.here = self.partition.log_dir
        self.there = next(one for one in made.dirs if one != self.here)
        self.prepare()

    def prepare(self) -> None:
        broker = self.world.broker
        self.moves = LogDirMoves(broker, Replication(broker))
        self.calls = self.world.worker.calls
        self.calls.clear()
        plain = self.world.worker.call

        def call(body: Any) -> Awaitable[Any]:
            if type(body) not in self.replies:
                return plain(body)
            if not isinstance(body, MovesInProgress):
                self.calls.append(body)
            return self._reply(type(body))

        self.world.worker.call = call  # type: ignore[method-assign]

    async def _reply(self, kind: type) -> Any:
        value = self.replies[kind]()
        return await value if isinstance(value, Awaitable) else value

    @property
    def partition(self) -> Partition:
        return self.world.broker.catalogue.topics["t"].partitions[0]

    @property
    def key(self) -> tuple[int, int]:
        return self.partition.slot, self.partition.generation

    @property
    def begin(self) -> BeginMove:
        return BeginMove(*self.key, self.there)

    async def alter(self, log_dir: str) -> None:
        await self.moves.alter("t", 0, log_dir, 0)

    async def caught_up(self) -> None:
        await self.moves.caught_up(MoveCaughtUp(*self.key, self.there))

    async def targets(self) -> list[str]:
        return [one.log_dir for one in await self.moves.future_replicas()]

    def stored(self) -> str:
        """The log dir that a successor would find."""
        store = Store(self.world.broker.stores.first.path)
        try:
            return store.load().topics[0].partitions[0].log_dir
        finally:
            store.close()
