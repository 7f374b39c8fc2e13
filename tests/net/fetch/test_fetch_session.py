"""Incremental fetch sessions: epochs, eviction, what an answer must hold."""

import itertools

import pytest

from kbroker.net.fetch import fetch_session
from kbroker.net.fetch.fetch_session import (
    EVICTION_MS,
    FetchedPartition,
    FetchSession,
    FetchSessionCache,
    Key,
    requested_partitions,
)
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)


class Scene:
    def __init__(self, slots: int) -> None:
        ids = itertools.count(1)
        self.gone: list[int] = []
        self.sessions = FetchSessionCache(
            slots, lambda: next(ids), self.gone.append, lambda s: s.last_used_ms
        )

    def create(self, count: int, now_ms: int) -> FetchSession | None:
        return self.sessions.create(partitions(count), False, now_ms)


def partitions(count: int) -> dict[Key, FetchedPartition]:
    return {("t", p): FetchedPartition("t", bytes(16), p, 0, 100, -1, -1) for p in range(count)}


def request(
    session: int, epoch: int, offsets: dict[int, int] | None = None, forget: list[int] | None = None
) -> FetchRequest:
    parts = [FetchPartition(p, -1, at, partition_max_bytes=50) for p, at in (offsets or {}).items()]
    topics = [FetchTopic("t", partitions=parts)] if parts else []
    forgotten = [ForgottenTopic("t", partitions=forget)] if forget else []
    return FetchRequest(
        session_id=session, session_epoch=epoch, topics=topics, forgotten_topics_data=forgotten
    )


def test_epochs_rise_by_one_and_wrap_to_one() -> None:
    scene = Scene(10)
    session = scene.create(2, 0)
    assert session is not None
    assert scene.sessions.use(request(1, 1), 7, 5) is session
    assert scene.sessions.use(request(1, 1), 7, 5) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    session.epoch = (1 << 31) - 1
    assert scene.sessions.use(request(1, (1 << 31) - 1), 7, 5) is session
    assert session.epoch == 1
    assert scene.sessions.use(request(9, 1), 7, 5) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert scene.sessions.use(request(1, 1), 13, 5) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_partitions_are_added_changed_and_forgotten() -> None:
    scene = Scene(10)
    session = scene.create(2, 0)
    assert session is not None
    scene.sessions.use(request(1, 1, {1: 7, 5: 3}, [0]), 7, 5)
    assert [(w.partition, w.fetch_offset, w.max_bytes) for w in session.partitions.values()] == [
        (1, 7, 50),
        (5, 3, 50),
    ]
    scene.sessions.use(request(1, 2, None, [1, 5]), 7, 5)
    assert len(scene.sessions) == 0
    assert scene.gone == [1]


def test_a_request_changes_all_that_a_session_knows_of_a_partition() -> None:
    scene = Scene(10)
    session = scene.create(1, 0)
    assert session is not None
    part = FetchPartition(0, 4, 7, last_fetched_epoch=3, partition_max_bytes=50)
    scene.sessions.use(
        FetchRequest(session_id=1, session_epoch=1, topics=[FetchTopic("t", partitions=[part])]), 12, 5
    )
    (known,) = session.partitions.values()
    assert (known.leader_epoch, known.fetch_offset, known.last_fetched_epoch, known.max_bytes) == (
        4,
        7,
        3,
        50,
    )


def test_a_session_has_a_bounded_number_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session, "MAX_PARTITIONS", 3)
    scene = Scene(10)
    assert scene.create(3, 0) is not None
    assert scene.create(4, 0) is None
    assert len(scene.sessions) == 1


@pytest.mark.parametrize(
    ("replica", "state", "by_replica"), [(-1, -1, False), (0, -1, True), (-1, 0, True), (3, -1, True)]
)
def test_a_request_of_another_broker_is_known(replica: int, state: int, by_replica: bool) -> None:
    """Before v15 its id is a field of the request, then one of its replica state."""
    requested = FetchRequest(
        replica_id=replica,
        replica_state=ReplicaState(state),
        topics=[FetchTopic("a", partitions=[FetchPartition(1)])],
    )
    assert [fetched.by_replica for _, fetched, _ in requested_partitions(requested, 12)] == [by_replica]


def test_eviction_takes_the_stale_then_the_smaller_that_is_not_new() -> None:
    scene = Scene(2)
    scene.create(5, 0)
    scene.create(3, 10)
    assert scene.create(9, 20) is None, "all are new"
    assert scene.create(9, EVICTION_MS) is None, "not for long enough"
    assert scene.create(9, EVICTION_MS + 5) is not None, "the first is stale"
    assert scene.gone == [1]
    second = scene.sessions.find(2)
    assert second is not None
    scene.sessions.use(request(2, 1), 7, EVICTION_MS + 6)
    now = EVICTION_MS + 20
    assert scene.create(2, now) is None, "smaller than what is there"
    assert scene.create(3, now) is not None
    assert scene.gone == [1, 2]
    assert scene.sessions.evictions == 2


def test_without_slots_there_are_no_sessions() -> None:
    assert Scene(0).create(1, 0) is None


def test_only_changes_are_returned() -> None:
    expected = FetchedPartition("t", bytes(16), 0, 0, 100, -1, -1)
    assert expected.maybe_update_response_data(0, 5, 0, 0, False)
    assert not expected.maybe_update_response_data(0, 5, 0, 0, False)
    assert expected.maybe_update_response_data(0, 5, 0, 1, False)
    assert expected.maybe_update_response_data(0, 6, 0, 0, False)
    assert expected.maybe_update_response_data(0, 6, 1, 0, False)
    assert expected.maybe_update_response_data(1, -1, -1, 0, False)
    assert expected.maybe_update_response_data(1, -1, -1, 0, False), "errors are returned each time"
    assert expected.maybe_update_response_data(0, 6, 1, 0, False), "and what follows them"
    assert expected.maybe_update_response_data(0, 6, 1, 0, True)
    assert expected.maybe_update_response_data(1, 6, 1, 0, False)
    assert expected.maybe_update_response_data(0, 6, 1, 0, False), "even if an error came with these values"
    assert not expected.maybe_update_response_data(0, 6, 1, 0, False)


def test_a_request_names_topics_by_name_or_by_id() -> None:
    requested = FetchRequest(
        topics=[
            FetchTopic("a", partitions=[FetchPartition(1)]),
            FetchTopic("", b"\1" * 16, [FetchPartition(2)]),
        ]
    )
    assert [key for key, _, _ in requested_partitions(requested, 13)] == [("a", 1), (b"\1" * 16, 2)]


@pytest.mark.parametrize(("version", "by_id"), [(4, False), (12, False), (13, True), (18, True)])
def test_a_topic_is_named_by_its_id_since_v13(version: int, by_id: bool) -> None:
    """The zero id is an unknown id there, not an empty name."""
    requested = FetchRequest(topics=[FetchTopic(partitions=[FetchPartition(1)])])
    assert [fetched.by_id for _, fetched, _ in requested_partitions(requested, version)] == [by_id]


def test_a_session_that_grows_beyond_the_bound_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """One session could grow by a million partitions a request."""
    monkeypatch.setattr(fetch_session, "MAX_PARTITIONS", 3)
    scene = Scene(10)
    session = scene.create(2, 0)
    assert session is not None
    assert scene.sessions.use(request(1, 1, {0: 4, 1: 4, 2: 4}), 7, 5) is session
    assert scene.sessions.partitions == 3
    assert scene.sessions.use(request(1, 2, {2: 5, 3: 5}), 7, 5) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (scene.gone, scene.sessions.partitions, len(scene.sessions)) == ([1], 0, 0)


def test_all_sessions_have_a_bounded_number_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session, "MAX_ALL_PARTITIONS", 5)
    scene = Scene(10)
    assert scene.create(2, 0) is not None
    assert scene.create(2, 10) is not None
    assert scene.create(2, EVICTION_MS) is None
    assert scene.sessions.use(request(2, 1, {5: 0, 6: 0}), 7, 20) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert scene.sessions.partitions == 2
    assert scene.create(3, EVICTION_MS) is not None
    assert scene.create(1, EVICTION_MS) is None
    assert scene.create(2, EVICTION_MS + 1) is not None  # the first one is not used any more
    assert (scene.gone, scene.sessions.partitions) == ([2, 1], 5)


def test_a_session_may_grow_as_long_as_all_together_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_session, "MAX_ALL_PARTITIONS", 5)
    scene = Scene(10)
    session = scene.create(2, 0)
    assert scene.create(2, 0) is not None
    assert scene.sessions.use(request(1, 1, {2: 0}), 7, 5) is session
    assert (scene.gone, scene.sessions.partitions) == ([], 5)
