"""ShareFetch and ShareAcknowledge as a whole: who may read, how much is acquired, when a session
ends."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kbroker.control.changes.topic_change import create_topics
from kbroker.control.coordinator.machine import Operation, Outcome
from kbroker.control.groups.share_group.member import Shared, SharedTopic
from kbroker.control.groups.share_group.state import ShareGroup
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.share import service as share_service
from kbroker.control.share.acknowledging import AcknowledgedBatch
from kbroker.control.share.acquiring import Spec
from kbroker.control.share.service import FetchSpec
from kbroker.control.share.sessions import ShareSessions
from kbroker.control.share.share_partition import Acquired
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.fakes import World, world
from tests.control.share.service_case import HIDDEN, NEW, TOPIC, Body, Case, cases


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Body], None]]:
    with cases(tmp_path, monkeypatch) as run:
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


def test_a_waiting_fetch_is_woken_by_new_records_of_its_partition(run: Callable[[Body], None]) -> None:
    async def body(case: Case) -> None:
        await create_topics(case.broker, [NewTopic("t", 1, 1)])
        topic = case.broker.catalogue.topics["t"]
        place, slot = (topic.topic_id, 0), topic.partitions[0].slot
        fetch = await case.waiting(place)
        assert case.announced == [slot], "its IO worker reports when the slot advances"
        case.service.slot_advanced(slot + 1)
        await asyncio.sleep(0)
        assert not fetch.done()
        case.service.slot_advanced(slot)
        results = await asyncio.wait_for(fetch, 60)
        assert results[place].records == b"records"
        assert case.announced == [slot, slot]

    run(body)


@pytest.mark.parametrize("way", ["the last fetch", "the end of the connection"])
def test_records_of_a_member_that_leaves_are_stored_as_released_and_wake_the_group(
    run: Callable[[Body], None], way: str
) -> None:
    async def body(case: Case) -> None:
        case.releases = True
        await case.fetch(0, (TOPIC, 0), member="leaver", connection_id=7)
        case.taken.clear()
        fetch = await case.waiting((TOPIC, 0))
        if way == "the last fetch":
            await case.fetch(-1, member="leaver")
        else:
            case.service._connection_closed(7)
        await asyncio.wait_for(fetch, 60)
        assert case.events == [("release", 0, "leaver"), ("settle", 0, "")]
        assert await refusal(case.fetch(1, member="leaver")) is ErrorCode.SHARE_SESSION_NOT_FOUND

    run(body)


def test_all_records_of_a_session_are_released_before_any_release_is_written(
    run: Callable[[Body], None],
) -> None:
    """Meanwhile the member may begin another session, whose records it keeps."""

    async def body(case: Case) -> None:
        case.releases = True
        await case.fetch(0, (TOPIC, 0), (TOPIC, 1))
        await case.fetch(-1)
        assert [what for what, _, _ in case.events] == ["release", "release", "settle", "settle"]

    run(body)


@pytest.mark.parametrize("way", ["the last fetch", "the end of the connection"])
def test_the_late_end_of_a_session_leaves_the_next_one_of_the_member_open(
    run: Callable[[Body], None], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The member has connected again before the end of its old session was processed."""

    async def body(case: Case) -> None:
        case.releases = True
        await case.fetch(0, (TOPIC, 0), connection_id=7)
        if way == "the last fetch":
            acknowledge = case.service._acknowledge_all

            async def slow(*arguments: Any) -> None:
                monkeypatch.setattr(case.service, "_acknowledge_all", acknowledge)
                await case.fetch(0, (TOPIC, 0), connection_id=8)
                await acknowledge(*arguments)

            monkeypatch.setattr(case.service, "_acknowledge_all", slow)
            await case.service.acknowledge("g", "m", -1, {})
        else:
            case.service._connection_closed(7)
            await case.fetch(0, (TOPIC, 0), connection_id=8)
            await asyncio.sleep(0.01)
        assert not case.events
        await case.fetch(1)

    run(body)


def test_a_member_that_held_no_records_stores_nothing_when_it_leaves(run: Callable[[Body], None]) -> None:
    async def body(case: Case) -> None:
        await case.fetch(0, (TOPIC, 0))
        await case.fetch(-1)
        assert case.events == [("release", 0, "m")]

    run(body)


def test_acknowledged_records_are_stored_and_wake_the_group(run: Callable[[Body], None]) -> None:
    async def body(case: Case) -> None:
        await case.fetch(0, (TOPIC, 0), member="other")
        case.taken.clear()
        fetch = await case.waiting((TOPIC, 0))
        batches = {(TOPIC, 0): [AcknowledgedBatch(0, 0, [2])]}
        results = await case.service.acknowledge("g", "other", 1, batches)
        assert results[TOPIC, 0].acknowledge_error is None
        await asyncio.wait_for(fetch, 60)
        assert case.events == [("acknowledge", 0, "other"), ("settle", 0, "")]

    run(body)


def test_an_acknowledgement_that_fails_has_its_error_and_the_others_count(
    run: Callable[[Body], None],
) -> None:
    async def body(case: Case) -> None:
        await case.fetch(0, (TOPIC, 0))
        case.error = KafkaError(ErrorCode.INVALID_RECORD_STATE)
        results = await case.service.acknowledge("g", "m", 1, {(TOPIC, 0): [AcknowledgedBatch(0, 0, [1])]})
        error = results[TOPIC, 0].acknowledge_error
        assert error is not None
        assert error.code is ErrorCode.INVALID_RECORD_STATE
        assert case.events == []

    run(body)


def test_an_acknowledgement_shares_no_partition_that_was_never_fetched(run: Callable[[Body], None]) -> None:
    """Kafka acknowledges only in the partitions of its cache; fetches put them there."""

    async def body(case: Case) -> None:
        await case.fetch(0, (TOPIC, 0))
        batches = [AcknowledgedBatch(0, 0, [1])]
        results = await case.service.acknowledge("g", "m", 1, {(TOPIC, NEW): batches, (TOPIC, 0): batches})
        error = results[TOPIC, NEW].acknowledge_error
        assert error is not None
        assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert error.message == "This server does not host this topic-partition."
        assert results[TOPIC, 0].acknowledge_error is None
        assert case.events == [("acknowledge", 0, "m"), ("settle", 0, "")]

    run(body)


def test_a_partition_that_joins_a_session_is_answered_once_though_it_is_empty(
    run: Callable[[Body], None],
) -> None:
    async def body(case: Case) -> None:
        first = await case.fetch(0, (TOPIC, 0))
        assert list(first) == [(TOPIC, 0)]
        assert await case.fetch(1) == {}
        assert list(await case.fetch(2, (TOPIC, 1))) == [(TOPIC, 1)]
        assert await case.fetch(3) == {}

    run(body)


def test_a_member_is_refused_a_session_after_the_wait_of_its_fetch(run: Callable[[Body], None]) -> None:
    """Kafka's clients ask again without a pause."""

    async def body(case: Case) -> None:
        case.service._sessions = ShareSessions(0)
        refused = asyncio.ensure_future(case.fetch(0, (TOPIC, 0), max_wait_ms=3_600_000))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not refused.done()
        refused.cancel()
        assert await refusal(case.fetch(0, (TOPIC, 0))) is ErrorCode.SHARE_SESSION_LIMIT_REACHED

    run(body)


def test_a_fetch_that_can_acquire_nothing_is_answered_at_once(run: Callable[[Body], None]) -> None:
    """As in Kafka (SharePartitionManager.processShareFetch, KafkaApis)."""

    async def body(case: Case) -> None:
        for max_bytes, records, added in (
            (1000, Spec(0), [(TOPIC, 0)]),
            (0, Spec(10), [(TOPIC, 0)]),
            (1000, Spec(10), []),
        ):
            spec = FetchSpec("g", "m", 0, 3_600_000, 0, max_bytes, records, added, (), {})
            assert await asyncio.wait_for(case.service.fetch(spec), 60) == {}
        assert case.taken == []

    run(body)


@pytest.mark.parametrize("is_left", [True, False], ids=["of the group", "of a deleted group"])
def test_that_states_are_written_is_noted_until_it_succeeds(
    run: Callable[[Body], None], monkeypatch: pytest.MonkeyPatch, is_left: bool
) -> None:
    """Partitions that are being initialized are begun again by no heartbeat."""
    monkeypatch.setattr(share_service, "FIRST_PAUSE_S", 0.0)

    async def body(case: Case) -> None:
        groups: Any = case.service._groups
        group = ShareGroup("g")
        group.initializing = {TOPIC: SharedTopic("t", frozenset({0}))}
        groups.shard.table.groups = {"g": group}
        attempts: list[str] = []

        async def initialize(*_: object) -> None:
            """The states are written."""

        async def attempt(group_id: str, operation: Operation) -> None:
            attempts.append(group_id)
            if not is_left:
                groups.shard.table.groups.clear()
            if len(attempts) < 3:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            operation(0)

        def initialized(_: str, topics: Shared) -> Outcome:
            group.initializing = {}
            return Outcome()

        groups.run, groups.shard.states_initialized = attempt, initialized
        monkeypatch.setattr(case.partitions, "initialize", initialize)
        await case.service._initialize("g", 1, group.initializing)
        assert len(attempts) == (3 if is_left else 1)
        assert bool(group.initializing) is not is_left

    run(body)


@pytest.mark.parametrize("end", ["its connection", "another session"])
def test_a_waiting_fetch_ends_with_its_session(run: Callable[[Body], None], end: str) -> None:
    """Clients choose the time that they wait: without that, they could leave fetches behind."""

    async def body(case: Case) -> None:
        fetch = await case.waiting((TOPIC, 0))
        case.found = {}
        if end == "its connection":
            case.service._connection_closed(0)
        else:
            await case.fetch(0, (TOPIC, 0))
        await asyncio.wait_for(fetch, 60)

    run(body)


def test_sessions_and_snapshots_have_the_limits_of_their_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        "group.share.max.share.sessions": "1",
        "share.coordinator.snapshot.update.records.per.snapshot": "4",
    }

    async def body(made: World) -> None:
        case = Case(made, monkeypatch)
        await case.fetch(0, (TOPIC, 0), member="first")
        second = case.fetch(0, (TOPIC, 0), member="second")
        assert await refusal(second) is ErrorCode.SHARE_SESSION_LIMIT_REACHED
        assert case.service.shard._updates_per_snapshot == 4

    with world(tmp_path, settings) as made:
        asyncio.run(body(made))
