"""Sessions with very many partitions stop the loop of control for a few milliseconds at most,
however short the requests of them are; and what a client sends is bounded before it is looked at.

Measured in CPU time of each callback of the loop, so a busy host changes nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.config.authorizer import Authorizer
from kbroker.control.groups.settings import GroupOverrides
from kbroker.control.requests import Requests
from kbroker.control.share import sessions as share_sessions
from kbroker.control.share.acknowledging import AcknowledgedBatch
from kbroker.control.share.acquiring import Spec
from kbroker.control.share.limits import Limits
from kbroker.control.share.service import ShareService
from kbroker.control.share.sessions import LONG, ShareSessions
from kbroker.control.share.share_partition import MAX_RANGES, SharePartition
from kbroker.ipc.background import Background
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import encode
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from tests.api.in_process import client_request, dispatch_of
from tests.callbacks import LongestCallback, Tries
from tests.control.fakes import World, services_of, world

COUNT = 30_000
MAX_MS = 30.0
"""Thirty slices; in one piece this takes over a hundred."""
VERSION = 2


@pytest.fixture
def made(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as one:
        one.broker.authorizer = Authorizer(frozenset(("User:ANONYMOUS",)))
        yield one


class Client:
    """Asks control by way of its Requests; every answer is a frame."""

    def __init__(self, made: World) -> None:
        runtime: Any = SimpleNamespace(attach=lambda _: None, every=lambda *_: None)
        groups: Any = SimpleNamespace(
            shard=SimpleNamespace(table=SimpleNamespace(overrides=GroupOverrides()))
        )
        append: Any = None
        shares = ShareService(made.broker, groups, runtime, lambda _: None, append)
        services_of(made.broker).coordinate(groups, None, shares)
        self.shares = shares
        background = Background(logging.getLogger(__name__), "failed")
        self._requests = Requests(made.broker, dispatch_of(made.broker), background)
        self._answered: asyncio.Future[Any] | None = None

    def reply(self, _: int, frame: Any) -> None:
        assert self._answered is not None
        self._answered.set_result(frame)

    async def fetch(self, epoch: int, topics: list[FetchTopic]) -> None:
        request = ShareFetchRequest("g", "m" * 22, epoch, 0, 1, 1000, 10, 10, topics=topics)
        body = encode(request, VERSION)
        self._answered = asyncio.get_running_loop().create_future()
        link: Any = self
        self._requests.serve(link, 1, client_request(ApiKey.SHARE_FETCH, VERSION, body))
        async with asyncio.timeout(60):
            assert await self._answered is not None


def unknown(count: int) -> list[FetchTopic]:
    return [FetchTopic(number.to_bytes(16), [FetchPartition(0)]) for number in range(1, count + 1)]


@pytest.mark.slow
def test_a_long_session_ends_with_its_connection_in_slices(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million partitions were one callback of 2.5 s."""
    longest, tries = LongestCallback(monkeypatch), Tries(MAX_MS)

    async def body() -> None:
        client = Client(made)
        while tries.needed():
            await client.fetch(0, unknown(2 * COUNT))
            sessions = client.shares._sessions
            assert len(sessions.on_connection(1)) == 1
            longest.reset()
            for closed in made.broker.listeners.connection:
                closed(1)
            await client.shares._background.wait(60)
            assert not len(sessions)
            tries.add(longest.ms)

    asyncio.run(body())
    tries.check()


@pytest.mark.slow
def test_a_short_request_of_a_long_session_is_served_in_slices(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest, tries = LongestCallback(monkeypatch), Tries(MAX_MS)

    async def body() -> None:
        client = Client(made)
        sliced = made.broker.listeners.sliced_apis
        before = set(sliced)
        await client.fetch(0, unknown(COUNT))
        assert sliced - before == {ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE}
        while tries.needed():
            longest.reset()
            await client.fetch(1 + len(tries.found), [])
            tries.add(longest.ms)
        await client.fetch(-1, [])
        assert sliced == before

    asyncio.run(body())
    tries.check()


def test_long_sessions_are_known_and_all_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_sessions, "MAX_PARTITIONS", 3 * LONG)
    seen: list[bool] = []
    sessions = ShareSessions(10, seen.append)
    one, two = sessions.open("g", "a"), sessions.open("g", "b")
    many = [(bytes(16), index) for index in range(2 * LONG)]
    sessions.change(one, many[:LONG], [])
    assert seen == []
    sessions.change(one, many, [])
    with pytest.raises(KafkaError) as refused:
        sessions.change(two, many, [])
    assert refused.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert (len(two.partitions), seen) == (0, [True])
    sessions.change(one, [], many[LONG:])
    assert seen == [True, False]
    sessions.close("g", "a")
    sessions.change(two, many, [])
    sessions.open("g", "b")  # in the place of the old session
    assert seen == [True, False, True, False]
    sessions.change(sessions.open("g", "c"), many, [])


class Types(list[int]):
    """Counts how many of its elements are looked at."""

    def __init__(self, length: int) -> None:
        super().__init__([1, 2] * (length // 2))
        self.looked_at = 0

    def __iter__(self) -> Iterator[int]:
        for each in super().__iter__():
            self.looked_at += 1
            yield each


@pytest.mark.parametrize(
    "offsets",
    [lambda n: (5, n + 4), lambda n: (-n, -1), lambda n: (-n // 2, n // 2 - 1)],
    ids=["after the last record", "before the first", "around"],
)
def test_types_of_offsets_without_holders_are_not_checked(
    offsets: Callable[[int], tuple[int, int]],
) -> None:
    partition, limits = SharePartition(0), Limits(30_000, 3, 100)
    partition.acquire("m", [(0, 9)], Spec(10), limits, 0)
    types = Types(4 * MAX_RANGES)
    with pytest.raises(KafkaError) as refused:
        partition.acknowledge("m", [AcknowledgedBatch(*offsets(len(types)), types)], limits, 0)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert types.looked_at == 0


def test_acknowledgements_that_make_too_many_ranges_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of a million records is acquired as a whole: so many ranges took half a minute."""
    monkeypatch.setattr("kbroker.control.share.share_partition.MAX_SPECS", 5)
    partition, limits = SharePartition(0), Limits(30_000, 3, 100)
    partition.acquire("m", [(0, 99)], Spec(100), limits, 0)

    def acknowledge(first: int, *types: int, last: int = 0) -> None:
        batch = AcknowledgedBatch(first, last or first + len(types) - 1, types)
        partition.acknowledge("m", [batch], limits, 0)

    acknowledge(10, 1, 2, 1, 1)
    with pytest.raises(KafkaError) as refused:
        acknowledge(20, 1, 2)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    acknowledge(14, 1, last=99)
    acknowledge(0, 1, last=9)
    assert partition.start_offset == 11
