"""A coordinator's runtime with a machine that remembers and a log in memory."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from kbroker.control.coordinator.machine import Deferred, Outcome, Record
from kbroker.control.coordinator.running import completion
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.links.appender import Done
from kbroker.control.metadata.catalogue import Partition
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.fakes import World, world

TOPIC = "__consumer_offsets"


class Machine:
    """Remembers the calls."""

    topic = TOPIC

    def __init__(self) -> None:
        self.state: dict[bytes, bytes | None] = {}
        self.loads: list[int] = []

    def replay(self, partition: int, key: bytes, value: bytes | None, timestamp_ms: int) -> None:
        self.state[key] = value

    def loaded(self, partition: int, now_ms: int) -> None:
        self.loads.append(partition)

    def unloaded(self, partition: int) -> None:
        self.loads.remove(partition)


class Log:
    """Stands for the Appender: batches by partition; holds them back while `held` is set."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, bytes]] = []
        self.held = asyncio.Event()
        self.held.set()
        self.error: ErrorCode | None = None
        self.timeout_ms = 0
        self.pending: list[int] = []

    def is_idle(self, partition: Partition) -> bool:
        return partition.index not in self.pending

    async def append(self, partition: Partition, batch: bytes, timeout_ms: int = 0) -> int:
        self.timeout_ms = timeout_ms
        self.pending.append(partition.index)
        await self.held.wait()
        self.pending.remove(partition.index)
        if self.error is not None:
            raise KafkaError(self.error)
        self.batches.append((partition.index, batch))
        return len(self.batches) - 1

    def submit(self, partition: Partition, batch: bytes, done: Done, timeout_ms: int = 0) -> None:
        submit(self.append(partition, batch, timeout_ms), done)


async def _report(appended: Coroutine[Any, Any, int], done: Done) -> None:
    try:
        await appended
    except KafkaError as error:
        done(error)
    else:
        done(None)


TASKS: set[asyncio.Task[None]] = set()


def submit(appended: Coroutine[Any, Any, int], done: Done) -> None:
    """What Appender.submit does, by a task."""
    task = asyncio.get_running_loop().create_task(_report(appended, done))
    TASKS.add(task)
    task.add_done_callback(TASKS.discard)


def run(folder: Path, test: Callable[[Runtime, Machine, Log, World], Awaitable[None]]) -> None:
    with world(folder) as made:

        async def body() -> None:
            log, machine = Log(), Machine()
            runtime = Runtime(made.broker, log, TOPIC, asyncio.get_running_loop())
            runtime.attach(machine)
            await runtime.ready()
            try:
                await test(runtime, machine, log, made)
            finally:
                runtime.close()

        asyncio.run(body())


def puts(key: bytes, value: bytes | None, response: object = None) -> Callable[[int], Outcome]:
    return lambda now_ms: Outcome([Record(key, value)], response)


async def answer_of(found: Any) -> Any:
    """An answer, when it is there; raises the exception that it is."""
    if isinstance(found, Deferred):
        found = await completion(found)
    if isinstance(found, Exception):
        raise found
    return found
