"""What the disk gave the event loop is shared among what it read, and none of it is lost."""

from kbroker.ipc.layout import Counter
from kbroker.net.fetch.loop_reads import LoopReads


class Disk:
    """Bytes that the disk has given."""

    def __init__(self) -> None:
        self.given = 7_000_000  # before the first look: the process's own start

    def __call__(self) -> int:
        return self.given


def test_bytes_are_shared_by_what_was_read() -> None:
    disk = Disk()
    counters = Counter.table(4)
    reads = LoopReads(counters, disk)
    assert reads.count(4) == 0
    counters[1, Counter.BYTES_OUT] += 300
    counters[3, Counter.BYTES_OUT] += 100
    disk.given += 1000
    assert reads.count(4) == 1000
    assert counters[:, Counter.COLD_BYTES_OUT].tolist() == [0, 750, 0, 250]


def test_bytes_from_memory_are_not_counted() -> None:
    disk = Disk()
    counters = Counter.table(2)
    reads = LoopReads(counters, disk)
    reads.count(2)
    counters[0, Counter.BYTES_OUT] += 300
    assert reads.count(2) == 0
    disk.given += 512
    assert reads.count(2) == 0  # read by something else
    assert not counters[:, Counter.COLD_BYTES_OUT].any()


def test_a_new_partition_is_counted_from_its_second_look() -> None:
    disk = Disk()
    counters = Counter.table(3)
    reads = LoopReads(counters, disk)
    reads.count(1)
    counters[2, Counter.BYTES_OUT] = 100
    assert reads.count(3) == 0
    counters[2, Counter.BYTES_OUT] += 100
    disk.given += 512
    assert reads.count(3) == 512
    assert counters[2, Counter.COLD_BYTES_OUT] == 512
