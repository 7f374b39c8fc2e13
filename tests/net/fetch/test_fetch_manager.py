"""Sessions of fetches that Python and the kernel serve in turn."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.net.fetch.fetch_manager import Fetch, FetchManager
from kbroker.net.fetch.fetch_session import EVICTION_MS, FetchedPartition, Key
from kbroker.net.fetch.session_table import NS_PER_MS
from kbroker.net.rows import Context
from kbroker.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.net.fetch.kernel_scene import EPOCH, KernelScene

HEADER: Any = SimpleNamespace(api_version=11)
CLIENT: Any = None


def manager_of(scene: KernelScene, slots: int) -> FetchManager:
    config = BrokerConfig({"max.incremental.fetch.session.cache.slots": str(slots)})
    return FetchManager(scene.tables, config, scene.topics)


def begun(scene: KernelScene, manager: FetchManager, *numbers: int) -> Fetch:
    """A fetch of partitions that is answered, with the session that it got."""
    partitions: dict[Key, FetchedPartition] = {
        ("t", number): FetchedPartition("t", bytes(16), number, scene.logs[number].start, 100, -1, -1)
        for number in numbers
    }
    fetch = Fetch(CLIENT, HEADER, partitions, 0, 0, 1 << 20, create=True)
    manager.update(fetch, [])
    return fetch


def test_a_session_that_the_kernel_served_is_evicted_when_it_was_unused_for_long(
    scene: KernelScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that is never set: before, sessions in use were evicted when the wall clock was
    set forward, and unused ones stayed when it was set back."""
    times = [1000]
    monkeypatch.setattr(time, "monotonic_ns", lambda: times[-1] * NS_PER_MS)
    scene.show()
    manager = manager_of(scene, 1)
    session = begun(scene, manager, 0, 1).session
    assert session is not None
    scene.tables.words[Context.NOW_NS] = (times[0] + 1) * NS_PER_MS  # as the pump
    scene.answer(11, partitions={0: scene.logs[0].start}, session=(session.id, 1), epoch=EPOCH, min_bytes=0)
    times.append(times[0] + 1 + EVICTION_MS)
    assert begun(scene, manager, 0).session is None, "it is not unused for so long"
    times.append(times[-1] + 1)
    assert begun(scene, manager, 0).session is not None
    assert manager.cache.evictions == 1


@pytest.mark.parametrize("throttled", [False, True])
def test_a_session_that_is_closed_while_its_fetch_waits_stays_closed(
    scene: KernelScene, throttled: bool
) -> None:
    manager = manager_of(scene, 10)
    session = begun(scene, manager, 0).session
    assert session is not None
    waiting = Fetch(CLIENT, HEADER, session.partitions, 0, 1, 1 << 20, session=session)
    manager.cache.close(session.id)
    if throttled:
        manager.leave_unchanged(waiting)
    else:
        manager.update(waiting, [])
    assert not manager._table._lent
    assert not manager._table._rows.any(), "its row may be another session's"


def test_a_request_that_forgets_the_last_partition_reads_those_that_it_names(scene: KernelScene) -> None:
    """As in Apache Kafka, which serves it without the session, and closes that."""
    manager = manager_of(scene, 10)
    session = begun(scene, manager, 0, 1).session
    assert session is not None
    named = FetchTopic("t", partitions=[FetchPartition(1, fetch_offset=5)])
    request = FetchRequest(
        session_id=session.id,
        session_epoch=1,
        topics=[named],
        forgotten_topics_data=[ForgottenTopic("t", partitions=[0, 1])],
    )
    fetch = manager.new_fetch(CLIENT, HEADER, request, 1 << 20)
    assert isinstance(fetch, Fetch)
    assert [(each.partition, each.fetch_offset) for each in fetch.partitions.values()] == [(1, 5)]
    assert (fetch.session_id, fetch.create, len(manager.cache)) == (0, False, 0)
