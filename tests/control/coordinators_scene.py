"""A broker with coordinators over a log in memory, and a client whose requests control serves as in
a running broker: at once, or in slices."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.groups.service import GroupService
from kbroker.control.metadata.topic_name import CONSUMER_OFFSETS, TRANSACTION_STATE
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.requests import Requests
from kbroker.control.services import Services
from kbroker.control.transactions.service import TransactionService
from kbroker.ipc.background import Background
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import encode
from kbroker.protocol.schema import Struct
from tests.api.in_process import client_request, dispatch_of
from tests.control.fakes import World
from tests.control.groups.commit_scene import Log

ANSWER_S = 240.0
"""Tests that count in every slice take a minute in a process with many objects on a busy
machine."""


class Scene:
    """Coordinators over a log in memory, and a client whose answers are frames."""

    def __init__(self, made: World) -> None:
        self.broker = made.broker
        log: Any = Log()
        loop = asyncio.get_running_loop()
        self.groups = Runtime(self.broker, log, CONSUMER_OFFSETS, loop)
        self.group_service = GroupService(self.broker, self.groups, log)
        self.transactions = Runtime(self.broker, log, TRANSACTION_STATE, loop)
        self.transaction_service = TransactionService(self.broker, self.transactions, log, self.group_service)
        self.services: Services = made.services
        self.services.coordinate(self.group_service, self.transaction_service)
        self.table = self.group_service.shard.table
        self.requests = Requests(
            self.broker, dispatch_of(self.broker), Background(logging.getLogger(__name__), "failed")
        )
        self.sent: list[Any] = []
        self._answered: asyncio.Future[Any] | None = None

    async def begin(self) -> None:
        await self.groups.ready()
        await self.transactions.ready()
        await create_topics(self.broker, [NewTopic("t", 1, 1)])

    def send(self, message: Any) -> None:
        self.sent.append(message)

    def reply(self, _: int, value: Any) -> None:
        assert self._answered is not None
        self._answered.set_result(value)

    async def answered(self, ask: Callable[[Any], None]) -> Any:
        """What comes back for it."""
        self._answered = asyncio.get_running_loop().create_future()
        ask(self)
        async with asyncio.timeout(ANSWER_S):
            return await self._answered

    async def ask(self, api: ApiKey, version: int, request: Struct) -> bytes:
        """The frame of the answer."""
        body = encode(request, version)
        client = client_request(api, version, body)
        frame = await self.answered(lambda link: self.requests.serve(link, 1, client))
        assert frame is not None
        return bytes(frame)


def play(made: World, body: Callable[[Scene], Any]) -> None:
    async def run() -> None:
        scene = Scene(made)
        await scene.begin()
        try:
            await body(scene)
        finally:
            scene.groups.close()
            scene.transactions.close()

    asyncio.run(run())
