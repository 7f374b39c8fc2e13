"""The IO worker of each log, and what is left of the logs that are gone."""

from kbroker.control.metadata.catalogue import Replica
from kbroker.control.metadata.log_ownership import LogOwnership
from kbroker.control.metadata.slots import Slots
from kbroker.ipc.layout import Counter
from kbroker.ipc.shared import Shared, Sizes


def scene(count: int) -> tuple[Shared, Slots, LogOwnership, list[Replica]]:
    """Two directories, the first with two IO workers, and logs in both in turn."""
    shared = Shared(Sizes(2, 3, 16, 16, 1 << 20))
    slots = Slots.of(shared, 1)
    ownership = LogOwnership(shared, slots, {"/a": (0, 2), "/b": (1,)})
    logs = [Replica("t", n, ("/a", "/b")[n % 2], *taken) for n, taken in enumerate(slots.take(count))]
    return shared, slots, ownership, logs


def counting_scene() -> tuple[Shared, Slots, LogOwnership, list[Replica]]:
    """Four logs for which every process has counted bytes."""
    shared, slots, ownership, logs = scene(4)
    for log in logs:
        ownership.assign(log)
    for number, rows in enumerate(shared.counters):
        rows[:4, Counter.BYTES_IN] = [10 + number, 20, 30, 40]
    return shared, slots, ownership, logs


def counted(shared: Shared) -> list[int]:
    """Bytes of the four logs, as a scrape shows them."""
    total = sum(rows[:4, Counter.BYTES_IN] for rows in shared.counters)
    left: list[int] = (total - shared.counter_bases[:4, Counter.BYTES_IN]).tolist()
    return left


def test_logs_go_to_the_least_loaded_worker_of_their_directory() -> None:
    _, _, ownership, logs = scene(8)
    for log in logs:
        ownership.assign(log)
    assert [log.worker for log in logs] == [0, 1, 2, 1, 0, 1, 2, 1]
    ownership.release([logs[0], logs[4]])
    elsewhere = Replica("t", 9, "/gone", 15, 99)
    ownership.assign(elsewhere)
    assert elsewhere.worker == 0
    ownership.assign(logs[0])
    assert logs[0].worker == 0


def test_the_counters_of_released_slots_start_from_zero_again() -> None:
    shared, slots, ownership, logs = counting_scene()
    ownership.release([logs[0], logs[2]])
    processes = len(shared.counters)
    assert counted(shared) == [0, 20 * processes, 0, 40 * processes]
    assert slots.take(2) == [(0, 5), (2, 6)]
    ownership.release([])


def test_counters_of_a_removed_replica_stay_with_its_partition() -> None:
    shared, _, ownership, logs = counting_scene()
    before = counted(shared)
    ownership.transfer_counters([logs[0], logs[2]], logs[1])
    assert counted(shared) == [0, before[0] + before[1] + before[2], 0, before[3]]
    ownership.release([logs[0], logs[2]])
    assert counted(shared) == [0, before[0] + before[1] + before[2], 0, before[3]]
