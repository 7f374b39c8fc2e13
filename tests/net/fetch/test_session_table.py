"""Sessions that are lent to the kernel: their rows, and what comes back of them."""

import random

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.config.setting import INT_MAX
from kbroker.net.fetch import session_table as module
from kbroker.net.fetch.fetch_manager import MAX_SLOTS, FetchManager
from kbroker.net.fetch.fetch_session import FetchedPartition, FetchSession, Key
from kbroker.net.fetch.session_table import NS_PER_MS
from kbroker.net.rows import Context, SessionEntry
from kbroker.net.rows import Session as SessionRow
from tests.net.fetch.kernel_scene import EPOCH, KernelScene
from tests.net.requests import TOPIC_ID


def session_of(scene: KernelScene, *numbers: int, topic: str = "t") -> FetchSession:
    """A session over partitions, unused since 5."""
    partitions: dict[Key, FetchedPartition] = {
        (topic, number): FetchedPartition(topic, bytes(16), number, 10 + number, 100, -1, -1)
        for number in numbers
    }
    return FetchSession(scene.sessions.new_id(), partitions, False, 5)


def is_lent(scene: KernelScene, session: FetchSession) -> bool:
    return bool(scene.sessions._row(session)[SessionRow.ID] == session.id)


def test_an_id_has_a_row_until_it_is_dropped(scene: KernelScene) -> None:
    rows = len(scene.sessions._rows)
    ids = [scene.sessions.new_id() for _ in range(rows)]
    assert len({number & (rows - 1) for number in ids}) == rows
    assert all(0 < number < 1 << 31 for number in ids)
    with pytest.raises(IndexError):
        scene.sessions.new_id()
    for number in (ids[3], ids[0]):
        scene.sessions.drop(number)
        again = scene.sessions.new_id()
        assert again & (rows - 1) == number & (rows - 1)


def test_the_ids_of_others_cannot_be_computed_from_ones_own(scene: KernelScene) -> None:
    """Of a Mersenne Twister some hundred do. A client that knows an id can end its session."""
    table = module.SessionTable(scene.tables, scene.topics, 100)
    assert isinstance(table._random, random.SystemRandom)


def test_a_dropped_session_is_not_served(scene: KernelScene) -> None:
    session = session_of(scene, 0)
    scene.sessions.lend(session)
    assert is_lent(scene, session)
    scene.sessions.drop(session.id)
    assert not scene.sessions._row(session).any()
    scene.sessions.take_back(session)
    assert session.epoch == 1


def test_changes_of_the_kernel_are_taken_back(scene: KernelScene) -> None:
    session = session_of(scene, 0, 1)
    scene.sessions.lend(session)
    entries, order = scene.sessions._lent[session.id]
    words = (
        SessionEntry.OFFSET,
        SessionEntry.MAX_BYTES,
        SessionEntry.CURRENT_LEADER_EPOCH,
        SessionEntry.LAST_FETCHED_EPOCH,
        SessionEntry.SENT_HIGH_WATERMARK,
        SessionEntry.SENT_LOG_START,
    )
    assert entries[1, list(words)].tolist() == [11, 100, -1, -1, -1, -1]
    entries[1, list(words)] = range(21, 27)
    order[:] = 1, 0
    row = scene.sessions._row(session)
    assert (row[SessionRow.EPOCH], row[SessionRow.USED_NS]) == (1, 5 * NS_PER_MS)
    row[SessionRow.EPOCH], row[SessionRow.USED_NS] = 9, 78 * NS_PER_MS - 1
    assert scene.sessions.used_ms(session) == 77
    scene.sessions.take_back(session)
    assert not is_lent(scene, session)
    assert (session.epoch, session.last_used_ms) == (9, 77)
    first, second = session.partitions.values()
    assert (first.partition, second.partition, second.fetch_offset) == (1, 0, 10)
    assert first == FetchedPartition("t", bytes(16), 1, 21, 22, 23, 24, 25, 26)
    scene.sessions.take_back(session)
    assert session.epoch == 9, "it is not lent any more"


def test_a_session_that_python_used_later_was_used_later(scene: KernelScene) -> None:
    session = session_of(scene, 0)
    scene.sessions.lend(session)
    session.last_used_ms = 99
    assert scene.sessions.used_ms(session) == 99


@pytest.mark.parametrize(
    ("topic", "numbers", "lent"),
    [
        ("t", (0, 1), True),
        ("t", (), False),
        ("t", (0, 2), False),
        ("t", (-1,), False),
        ("nowhere", (0,), False),
    ],
)
def test_partitions_that_are_not_there_are_left_to_python(
    scene: KernelScene, topic: str, numbers: tuple[int, ...], lent: bool
) -> None:
    session = session_of(scene, *numbers, topic=topic)
    scene.sessions.lend(session)
    assert is_lent(scene, session) is lent


@pytest.mark.parametrize(("topic_id", "lent"), [(TOPIC_ID, True), (b"\1" * 16, False)])
def test_a_topic_is_found_by_its_id(scene: KernelScene, topic_id: bytes, lent: bool) -> None:
    part = FetchedPartition("", topic_id, 0, 0, 100, -1, -1)
    session = FetchSession(scene.sessions.new_id(), {(topic_id, 0): part}, True, 5)
    scene.sessions.lend(session)
    assert is_lent(scene, session) is lent
    assert scene.sessions._row(session)[SessionRow.USES_IDS] == lent


@pytest.mark.parametrize(("most", "lent"), [(2, True), (1, False)])
def test_very_large_sessions_are_left_to_python(
    scene: KernelScene, monkeypatch: pytest.MonkeyPatch, most: int, lent: bool
) -> None:
    monkeypatch.setattr(module, "MAX_PARTITIONS", most)
    session = session_of(scene, 0, 1)
    scene.sessions.lend(session)
    assert is_lent(scene, session) is lent


def test_fields_of_a_request_in_the_session_are_taken_back(scene: KernelScene) -> None:
    scene.show()
    log, other = scene.logs
    session = session_of(scene, 0, 1)
    first, second = session.partitions.values()
    first.fetch_offset, second.fetch_offset = log.start, other.end
    scene.sessions.lend(session)
    scene.tables.words[Context.NOW_NS] = 123 * NS_PER_MS
    how = {"partition_max_bytes": 77, "epoch": EPOCH, "min_bytes": 0}
    answer = scene.answer(11, partitions={0: log.start}, session=(session.id, 1), **how)
    assert answer.responses[0].partitions[0].records
    scene.sessions.take_back(session)
    assert (session.epoch, session.last_used_ms) == (2, 123)
    assert (first.fetch_offset, first.max_bytes, first.leader_epoch) == (log.start, 77, EPOCH)
    assert (second.fetch_offset, second.max_bytes, second.leader_epoch) == (other.end, 100, -1)
    assert [each.reported_high_watermark for each in (first, second)] == [log.end, other.end]
    assert [each.reported_log_start for each in (first, second)] == [log.start, other.start]
    assert [each.partition for each in session.partitions.values()] == [1, 0], "what had records comes last"


def test_the_largest_cache_has_room_and_random_ids(scene: KernelScene) -> None:
    """Kafka has no upper bound for the setting."""
    config = BrokerConfig({"max.incremental.fetch.session.cache.slots": str(INT_MAX)})
    manager = FetchManager(scene.tables, config, scene.topics)
    rows = len(manager._table._rows)
    assert rows > MAX_SLOTS
    assert len({manager._table.new_id() // rows for _ in range(100)}) > 50
