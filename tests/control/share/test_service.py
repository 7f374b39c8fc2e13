"""ShareFetch and ShareAcknowledge as a whole: who may read, how much is acquired, when a session
ends."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.control.groups.settings import GroupOverrides
from kbroker.control.share.acknowledging import AcknowledgedBatch
from kbroker.control.share.acquiring import Spec
from kbroker.control.share.service import FetchSpec, ShareService
from kbroker.control.share.share_partition import Acquired
from kbroker.control.share.state_shard import ShareKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.fakes import World, world

TOPIC, HIDDEN = b"t" * 16, b"h" * 16


class Case:
    """A service whose partitions are loaded. found: by place, what a member gets of it. taken: what
    was asked for: place, bytes, records."""

    def __init__(self, made: World, monkeypatch: pytest.MonkeyPatch) -> None:
        runtime: Any = SimpleNamespace(attach=lambda _: None, every=lambda *_: None)
        groups: Any = SimpleNamespace(
            shard=SimpleNamespace(table=SimpleNamespace(overrides=GroupOverrides()))
        )
        append: Any = None
        self.service = ShareService(made.broker, groups, runtime, lambda _: None, append)
        self.found: dict[tuple[bytes, int], tuple[bytes, list[Acquired]]] = {}
        self.taken: list[tuple[tuple[bytes, int], int, int]] = []
        monkeypatch.setattr(self.service._deliveries, "take", self._take)
        monkeypatch.setattr(
            self.service.partitions, "get", lambda _: SimpleNamespace(release=lambda *_: False)
        )

    async def _take(self, key: ShareKey, _: object, max_bytes: int, spec: Spec) -> Any:
        place = key.topic_id, key.partition
        self.taken.append((place, max_bytes, spec.max_records))
        return self.found.get(place, (b"", []))

    async def fetch(self, epoch: int, *added: tuple[bytes, int], **how: Any) -> dict[Any, Any]:
        spec = FetchSpec(
            *("g", "m", epoch, how.pop("max_wait_ms", 0), 1, 1000, Spec(10)),
            *(added, (), how.pop("acknowledgements", {})),
            **how,
        )
        return await self.service.fetch(spec)


Body = Callable[[Case], Awaitable[None]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Body], None]]:
    with world(tmp_path) as made:

        def run(body: Body) -> None:
            async def all_of_it() -> None:
                await body(Case(made, monkeypatch))

            asyncio.run(all_of_it())

        yield run


async def refusal(work: Awaitable[object]) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        await work
    return refused.value.code


def test_nothing_is_acquired_of_a_topic_that_the_client_may_not_read(run: Callable[[Body], None]) -> None:
    async def body(case: Case) -> None:
        case.found = {(HIDDEN, 0): (b"secret", [Acquired(0, 0, 1)]), (TOPIC, 0): (b"ok", [Acquired(0, 0, 1)])}
        results = await case.fetch(0, (HIDDEN, 0), (TOPIC, 0), may_read=lambda topic: topic != HIDDEN)
        error = results[HIDDEN, 0].error
        assert error is not None
        assert error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert (results[HIDDEN, 0].records, results[HIDDEN, 0].acquired) == (b"", [])
        assert (results[TOPIC, 0].error, results[TOPIC, 0].records) == (None, b"ok")
        assert [place for place, _, _ in case.taken] == [(TOPIC, 0)]

    run(body)


def test_the_limits_are_those_of_all_partitions_together(run: Callable[[Body], None]) -> None:
    async def body(case: Case) -> None:
        case.found = {
            (TOPIC, 0): (b"x" * 100, [Acquired(0, 2, 1), Acquired(5, 5, 1)]),
            (TOPIC, 2): (b"x" * 50, [Acquired(0, 5, 1)]),
        }
        await case.fetch(0, *((TOPIC, number) for number in range(4)))
        assert case.taken == [((TOPIC, 0), 1000, 10), ((TOPIC, 1), 900, 6), ((TOPIC, 2), 900, 6)]

    run(body)


def test_each_fetch_begins_with_another_partition(run: Callable[[Body], None]) -> None:
    async def body(case: Case) -> None:
        await case.fetch(0, (TOPIC, 0), (TOPIC, 1))
        case.taken.clear()
        await case.fetch(1)
        await case.fetch(2)
        assert [place[1] for place, _, _ in case.taken] == [1, 0, 0, 1]

    run(body)


def test_the_first_request_of_a_session_acknowledges_nothing(run: Callable[[Body], None]) -> None:
    async def body(case: Case) -> None:
        batches = {(TOPIC, 0): [AcknowledgedBatch(0, 0, [1])]}
        assert await refusal(case.fetch(0, acknowledgements=batches)) is ErrorCode.INVALID_REQUEST
        assert (
            await refusal(case.service.acknowledge("g", "m", 0, {})) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
        )

    run(body)


@pytest.mark.parametrize("last", ["fetch", "acknowledge"])
def test_a_session_ends_with_its_last_request(run: Callable[[Body], None], last: str) -> None:
    async def body(case: Case) -> None:
        await case.fetch(0, (TOPIC, 0))
        assert await refusal(case.fetch(3)) is ErrorCode.INVALID_SHARE_SESSION_EPOCH
        case.taken.clear()
        if last == "fetch":
            assert await case.fetch(-1) == {}
        else:
            assert await case.service.acknowledge("g", "m", -1, {}) == {}
        assert case.taken == []
        assert await refusal(case.fetch(1)) is ErrorCode.SHARE_SESSION_NOT_FOUND

    run(body)
