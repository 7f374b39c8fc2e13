"""A control process over real links, with the processes around it played by a test."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kbroker.config.broker import BrokerConfig
from kbroker.control import state
from kbroker.control.broker import Broker
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.links.appender import Appender
from kbroker.control.services import Services
from kbroker.control.worker import Control
from kbroker.ipc import connecting
from kbroker.ipc import messages as m
from kbroker.ipc.child import STOP_SIGNAL, ChildContext
from kbroker.ipc.layout import ProcessLine
from kbroker.ipc.link import AsyncLink
from kbroker.ipc.shared import Shared, Sizes
from tests.control.coordinator.runtime_scene import TOPIC
from tests.control.fakes import CLUSTER_ID, ENDPOINT, FakeWorker

EPOCH = 3


class Peer:
    """The other end of a link: a network process or an IO worker, played by the test."""

    def __init__(self, answer: Callable[[Any], Any] = lambda body: None) -> None:
        self.got: list[Any] = []
        self.link = AsyncLink(self._on_message)
        self._answer = answer

    def _on_message(self, link: AsyncLink, call_id: int, body: Any) -> None:
        self.got.append(body)
        link.reply(call_id, self._answer(body))

    async def connect(self, control_sockets: connecting.ControlSockets, hello: m.Hello) -> "Peer":
        end = connecting.connect(control_sockets.connector)
        await asyncio.get_running_loop().create_unix_connection(lambda: self.link, sock=end)
        self.link.send(hello)
        return self


class Stage:
    """Everything around one control process."""

    def __init__(
        self, folder: Path, workers: int = 1, settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.shared = Shared(Sizes(2, workers, 64, 16, 1 << 16))
        self.log_dir = str(folder)
        self.config, _ = BrokerConfig.load({"log.dirs": self.log_dir, **settings})
        self.control_sockets = connecting.make()
        self.workers = [FakeWorker(self.shared) for _ in range(workers)]
        self.broker = self.build()

    def build(self) -> Broker:
        endpoints = {"PLAINTEXT": ENDPOINT}
        return state.build(self.shared, self.config, state.OnlineDirs([self.log_dir]), endpoints, CLUSTER_ID)

    @property
    def ready(self) -> bool:
        return bool(self.shared.processes[self.shared.control_client, ProcessLine.READY] == EPOCH)

    def context(self) -> ChildContext:
        return ChildContext(
            role="control", index=0, process=self.shared.control_client, epoch=EPOCH, config=self.config,
            shared=self.shared, control_sockets=self.control_sockets, handoff=None,
            cluster_id=CLUSTER_ID, log_dirs=(self.log_dir,), clean_dirs=frozenset(),
        )  # fmt: skip

    async def worker(self, index: int) -> Peer:
        """An IO worker connects and follows its messages."""
        fake = self.workers[index]

        def answer(body: Any) -> Any:
            fake.calls.append(body)
            act = getattr(fake, "_" + type(body).__name__, None)
            return act(body) if act else None

        return await Peer(answer).connect(self.control_sockets, m.Hello("io", index, 1))

    async def network(self) -> Peer:
        """A network process connects and applies every image."""
        return await Peer().connect(self.control_sockets, m.Hello("network", 0, 1))


def coordinator_of(machine: Any) -> Callable[[Services, Appender], tuple[Runtime]]:
    """Makes the coordinators of a control process: this machine, over TOPIC, alone."""

    def make(services: Services, appender: Appender) -> tuple[Runtime]:
        runtime = Runtime(services.broker, appender, TOPIC, asyncio.get_running_loop())
        runtime.attach(machine)
        return (runtime,)

    return make


def play(
    stage: Stage,
    scene: Callable[[Stage], Awaitable[None]],
    dispatch: Any = lambda client: b"answer",
    coordinators: Any = lambda services, appender: (),
) -> None:
    """Run control with a scene beside it, then end it as the supervisor does."""

    async def run() -> None:
        control = Control(stage.context(), stage.broker, lambda _: dispatch, coordinators)
        running = asyncio.ensure_future(control.run())
        try:
            await asyncio.wait_for(scene(stage), 60)
        finally:
            os.kill(os.getpid(), STOP_SIGNAL)
            await asyncio.wait_for(running, 60)

    asyncio.run(run())
