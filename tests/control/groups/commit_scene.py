"""A group coordinator with its commit cache over a log in memory, asked by blocks of requests."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.coordinator.runtime import Runtime
from kbroker.control.groups.service import GroupService
from kbroker.control.metadata.catalogue import Partition
from kbroker.control.metadata.topic_name import CONSUMER_OFFSETS
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.ipc.block import Peer, answers, client_request, pack_peer, requests
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.coordinator_records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kbroker.protocol.record_types import encode_key, encode_value
from kbroker.protocol.records import Record, read_all
from tests.api.in_process import dispatch_of
from tests.control.coordinator.runtime_scene import answer_of
from tests.control.fakes import World, services_of, world
from tests.ipc.request_block import pack_request

PEER = pack_peer(Peer(1, "PLAINTEXT", "127.0.0.1", 50000, "User:ANONYMOUS", 0))
GROUP, MEMBER, GENERATION = "g", "member-1", 4
Done = Callable[[KafkaError | None], None]


class Log:
    """Stands for the Appender: keeps batches; `held` ones are written by `release`, with an error
    if one is given."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, bytes]] = []
        self.hold = False
        self.error: ErrorCode | None = None
        self.timeout_ms = 0
        self._held: list[tuple[Partition, bytes, Done]] = []

    async def append(self, partition: Partition, batch: bytes, timeout_ms: int = 0) -> int:
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.submit(
            partition,
            batch,
            lambda failure: written.set_exception(failure) if failure else written.set_result(None),
            timeout_ms,
        )
        await written
        return 0

    def submit(self, partition: Partition, batch: bytes, done: Done, timeout_ms: int = 0) -> None:
        self.timeout_ms = timeout_ms
        self._held.append((partition, batch, done))
        if not self.hold:
            asyncio.get_running_loop().call_soon(self.release)

    def release(self) -> None:
        held, self._held = self._held, []
        for partition, batch, done in held:
            if self.error is not None:
                done(KafkaError(self.error))
            else:
                self.batches.append((partition.index, batch))
                done(None)

    @property
    def records(self) -> list[Record]:
        return [record for _, batch in self.batches for record in read_all(batch)]


class Link:
    """Keeps the answers of blocks."""

    closed = False

    def __init__(self) -> None:
        self.answers: dict[int, bytes] = {}

    def answer(self, messages: bytes) -> None:
        self.answers |= {call: frame for call, _, frame in answers(bytearray(messages))}


class Scene:
    """A group coordinator over a log in memory, with topics "a" and "b" and one classic group of
    one member."""

    def __init__(self, made: World, log: Log | None = None) -> None:
        self.broker = made.broker
        self.log = log or Log()
        loop = asyncio.get_running_loop()
        self.runtime = Runtime(self.broker, self.log, CONSUMER_OFFSETS, loop, timeout_ms=4321)
        self.service = GroupService(self.broker, self.runtime, self.log)
        services_of(self.broker).coordinate(self.service)
        self.shard = self.service.shard
        self.link = Link()
        self.calls = 0
        self.left = 0

    async def begin(self) -> None:
        await self.runtime.ready()
        await create_topics(self.broker, [NewTopic("a", 3, 1), NewTopic("b", 2, 1)])
        self.add_group(GROUP)

    def add_group(self, group: str, subscription: bytes = b"") -> None:
        member = MemberMetadata(MEMBER, None, "client", "/127.0.0.1", 60_000, 60_000, subscription, b"")
        value = GroupMetadataValue("consumer", GENERATION, "range", MEMBER, 0, [member])
        key = encode_key(GroupMetadataKey(group))
        partition = self.runtime.partition_for(group)
        self.shard.replay(partition, key, encode_value(value, 3), 0)

    async def send(self, *frames: bytes) -> list[bytes | None]:
        """The answers to requests that come in one block; `left`: how many of all were left to
        Python."""
        first = self.calls
        self.calls += len(frames)
        waiting = self.start(first, *frames)
        self.left += len(waiting)
        found = await asyncio.gather(*waiting.values())
        by_call: dict[int, bytes | None] = dict(zip(waiting, found, strict=True))
        while not all(call in by_call or call in self.link.answers for call in self.numbers(first, frames)):
            await asyncio.sleep(0.001)
        return [by_call.get(call, self.link.answers.get(call)) for call in self.numbers(first, frames)]

    def numbers(self, first: int, frames: tuple[bytes, ...]) -> list[int]:
        return [~(first + number) for number in range(len(frames))]

    def start(self, first: int, *frames: bytes) -> dict[int, Awaitable[bytes | None]]:
        packed = [
            pack_request(call, PEER, frame[4:])
            for call, frame in zip(self.numbers(first, frames), frames, strict=True)
        ]
        block = bytearray(b"".join(packed))
        is_left = self.service.commit_cache.take(self.link, block)
        left = list(requests(block))
        assert is_left == bool(left)
        return {call: self._serve(peer, frame) for call, peer, frame in left}

    async def _serve(self, peer: bytes, frame: bytes) -> bytes | None:
        found: bytes | None = await answer_of(dispatch_of(self.broker)(client_request(peer, frame)))
        return found

    def committed(self, topic: str, partition: int, group: str = GROUP) -> int | None:
        found = self.shard.table.offsets.get(group, topic, partition)
        return None if found is None else found.offset


def play(folder: Path, test: Callable[[Scene], Awaitable[None]]) -> None:
    with world(folder) as made:

        async def body() -> None:
            scene = Scene(made)
            await scene.begin()
            try:
                await asyncio.wait_for(test(scene), 60)
            finally:
                scene.runtime.close()

        asyncio.run(body())


def commit(
    version: int,
    topics: dict[str, list[tuple[int, int, str | None]]],
    ids: dict[str, bytes],
    group: str = GROUP,
    member: str = MEMBER,
    generation: int = GENERATION,
) -> bytes:
    """The frame of an OffsetCommit. topics: name -> (partition, offset, metadata)."""
    expected = [
        OffsetCommitRequestTopic(
            name,
            ids.get(name, bytes(16)),
            [OffsetCommitRequestPartition(index, offset, 5, text) for index, offset, text in parts],
        )
        for name, parts in topics.items()
    ]
    request = OffsetCommitRequest(group, generation, member, topics=expected)
    return encode_request(ApiKey.OFFSET_COMMIT, version, 77, "client", request)


def ids_of(scene: Scene) -> dict[str, bytes]:
    return {topic.name: topic.topic_id for topic in scene.broker.catalogue.topics.values()}


async def learnt(scene: Scene, version: int = 9, **who: Any) -> None:
    """Commit a-0 and a-1 until the cache takes it."""
    ids = ids_of(scene)
    for offset in (1, 2):
        await scene.send(commit(version, {"a": [(0, offset, ""), (1, offset, "")]}, ids, **who))
    scene.left = 0
