"""The drain's counts of its writes."""

from pathlib import Path

from kbroker.io.append.rows import AppendRow
from kbroker.ipc.layout import Counter, Slot, SlotFlag
from kbroker.metrics import layout
from tests.io.append.drain_case import DrainCase, batch


def counted(case: DrainCase) -> dict[str, int]:
    """The front of the worker's row."""
    words = case.drain.metrics.words
    times = words[layout.APPEND_SECONDS : layout.APPEND_SECONDS + layout.HISTOGRAM_BUCKETS]
    return {
        "bytes": words[layout.APPENDED_BYTES],
        "records": words[layout.APPENDED_RECORDS],
        "batches": words[layout.APPENDED_BATCHES],
        "times": sum(times),
        "drains": words[layout.DRAINS],
    }


def test_written_batches_are_counted_with_their_bytes_records_and_times(tmp_path: Path) -> None:
    case = DrainCase(tmp_path)
    batches = [batch(records=n) for n in (1, 2, 3)]
    for data in batches:
        case.push(data)
    case.drain.run()
    expected = {"bytes": sum(map(len, batches)), "records": 6, "batches": 3, "times": 3, "drains": 1}
    assert counted(case) == expected
    case.drain.run()  # finds nothing
    assert counted(case) == expected


def test_a_slot_counts_the_batches_of_one_drain_as_one_write(tmp_path: Path) -> None:
    case = DrainCase(tmp_path)
    for _ in range(3):
        case.push(batch())
    case.drain.run()
    assert case.drain.counters[case.slot, Counter.WRITES] == 1
    case.push(batch())
    case.drain.run()
    case.drain.run()  # finds nothing
    assert case.drain.counters[case.slot, Counter.WRITES] == 2


def test_the_bytes_of_a_slot_grow_with_its_log(tmp_path: Path) -> None:
    case = DrainCase(tmp_path)
    for size in (3, 5):
        case.push(batch(records=size))
        case.drain.run()
        assert case.words[Slot.LOG_BYTES] == case.row[AppendRow.POSITION]


def test_refused_batches_are_not_counted_as_written(tmp_path: Path) -> None:
    case = DrainCase(tmp_path)
    case.push(batch(), generation=6)
    case.drain.run()
    assert counted(case) == {"bytes": 0, "records": 0, "batches": 0, "times": 0, "drains": 1}


def test_batches_that_wait_for_a_flush_count_as_written(tmp_path: Path) -> None:
    case = DrainCase(tmp_path)
    case.words[Slot.FLAGS] = SlotFlag.DURABLE
    case.push(batch(records=5), acks=-1)
    case.drain.run()
    assert counted(case)["records"] == 5


def test_a_failed_write_is_not_counted(tmp_path: Path) -> None:
    case = DrainCase(tmp_path)
    case.row[AppendRow.LOG_FD] = 1_000_000  # no such descriptor
    case.push(batch())
    case.drain.run()
    assert counted(case)["records"] == 0
