"""How long a share fetch waits, and the partitions that its answer and the next one have."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.control.share import service as share_service
from kbroker.control.share.acknowledging import AcknowledgedBatch
from kbroker.control.share.acquiring import Spec
from kbroker.control.share.service import FetchSpec
from kbroker.control.share.sessions import ShareSession
from kbroker.control.share.share_partition import Acquired
from kbroker.control.share.state_shard import ShareKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.share.service_case import TOPIC, Body, Case, cases

HOUR_MS = 3_600_000


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Body], None]]:
    with cases(tmp_path, monkeypatch) as run:
        yield run


def spec(min_bytes: int, *added: tuple[bytes, int]) -> FetchSpec:
    """The first request of a session."""
    return FetchSpec("g", "m", 0, HOUR_MS, min_bytes, 1000, Spec(10), added, (), {})


def test_a_fetch_waits_for_milliseconds(run: Callable[[Body], None]) -> None:
    async def body(case: Case) -> None:
        fetch = case.fetch(0, (TOPIC, 0), max_wait_ms=5)
        assert list(await asyncio.wait_for(fetch, 60)) == [(TOPIC, 0)]

    run(body)


def test_a_fetch_of_no_bytes_does_not_wait(run: Callable[[Body], None]) -> None:
    async def body(case: Case) -> None:
        assert list(await asyncio.wait_for(case.service.fetch(spec(0, (TOPIC, 0))), 60)) == [(TOPIC, 0)]

    run(body)


def test_a_fetch_with_acknowledgements_does_not_wait(run: Callable[[Body], None]) -> None:
    """The member waits for their outcome."""

    async def body(case: Case) -> None:
        await case.fetch(0, (TOPIC, 0))
        batches = {(TOPIC, 0): [AcknowledgedBatch(0, 0, [1])]}
        fetch = case.fetch(1, acknowledgements=batches, max_wait_ms=HOUR_MS)
        results = await asyncio.wait_for(fetch, 60)
        assert results[TOPIC, 0].acknowledge_error is None
        assert case.events == [("acknowledge", 0, "m"), ("settle", 0, "")]

    run(body)


def test_partitions_that_the_first_fetch_has_not_read_are_not_announced_later(
    run: Callable[[Body], None],
) -> None:
    async def body(case: Case) -> None:
        case.found = {(TOPIC, 0): (b"x", [Acquired(0, 9, 1)])}
        assert list(await case.fetch(0, (TOPIC, 0), (TOPIC, 1))) == [(TOPIC, 0)]
        case.found = {}
        assert await case.fetch(1) == {}

    run(body)


def test_a_partition_is_in_the_answer_after_its_error(run: Callable[[Body], None]) -> None:
    """Clients count it as readable again."""

    async def body(case: Case) -> None:
        (refused,) = (await case.fetch(0, (TOPIC, 0), may_read=lambda _: False)).values()
        assert refused.error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        (again,) = (await case.fetch(1)).values()
        assert again.error is None
        assert await case.fetch(2) == {}

    run(body)


@pytest.mark.parametrize(
    ("min_bytes", "found", "enough", "asked"),
    [
        (100, {0: 40, 1: 60}, True, [(0, 100), (1, 60)]),
        (100, {0: 40, 1: 59}, False, [(0, 100), (1, 60)]),
        (100, {0: 100, 1: 1}, True, [(0, 100)]),
        (100, {1: 100}, True, [(1, 100)]),
        (2, {}, False, []),
        (1, {0: 0, 1: 0}, True, []),
        (100, {0: 40, 1: -1}, True, [(0, 100)]),
    ],
)
def test_the_bytes_of_all_partitions_that_may_be_acquired_from_count(
    run: Callable[[Body], None],
    monkeypatch: pytest.MonkeyPatch,
    min_bytes: int,
    found: dict[int, int],
    enough: bool,
    asked: list[tuple[int, int]],
) -> None:
    """found: by partition, -1 for an error. Counted from the log start on, if that is later."""

    async def body(case: Case) -> None:
        calls: list[tuple[int, int]] = []

        async def bytes_from(partition: int, offset: int, missing: int, _: bool) -> int:
            assert offset == 7
            calls.append((partition, missing))
            return found[partition]

        async def opened(key: ShareKey) -> Any:
            if found.get(key.partition) == -1:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            may_acquire = key.partition in found
            return SimpleNamespace(may_acquire=lambda _: may_acquire, next_offset=lambda _: 5)

        monkeypatch.setattr(case.partitions, "open", opened)
        monkeypatch.setattr(case.partitions, "log_of", lambda key: key.partition)
        monkeypatch.setattr(share_service, "log_start_of", lambda *_: 7)
        counted: Any = SimpleNamespace(bytes_from=bytes_from)
        session = ShareSession("g", "m")
        session.change([(TOPIC, 0), (TOPIC, 1)], [])
        assert await case.service._enough(spec(min_bytes), session, counted) == enough
        assert calls == asked

    run(body)


def test_the_states_of_a_deleted_topic_are_deleted(
    run: Callable[[Body], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(case: Case) -> None:
        events: list[tuple[str, object]] = []
        keys = {TOPIC: [ShareKey("g", TOPIC, 0), ShareKey("h", TOPIC, 0)]}
        monkeypatch.setattr(case.service.shard, "keys_of_topic", keys.__getitem__)
        for name in ("forget", "delete_later"):
            monkeypatch.setattr(case.partitions, name, lambda key, name=name: events.append((name, key)))
        topic: Any = SimpleNamespace(topic_id=TOPIC)
        case.service._topic_deleted(topic)
        assert events == [(name, key) for key in keys[TOPIC] for name in ("forget", "delete_later")]

    run(body)
