"""Cold ranges: each is answered once when it is in memory; a sequential reader gets a growing
window."""

import os
import threading
from pathlib import Path

import pytest

from kbroker.io.append.drain import ReadAhead
from kbroker.io.read_ahead import (
    FIRST_WINDOW_BYTES,
    MAX_WINDOW_BYTES,
    PIECE_BYTES,
    ColdStream,
    ReadAheadPool,
    grown,
)
from kbroker.net.fetch import residency

MIB = 1 << 20


def requested(token: int, position: int, length: int = MIB, slot: int = 3) -> ReadAhead:
    return ReadAhead(client=0, token=token, slot=slot, segment_base=0, position=position, length=length)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"x" * (12 * MIB))
    return path


class Reads:
    """Drives a stream by hand, as a thread of the pool would."""

    def __init__(self, stream: ColdStream) -> None:
        self.stream = stream
        self.fd = os.open(stream.file, os.O_RDONLY)
        self.buffer = memoryview(bytearray(PIECE_BYTES))
        self.pulls = 0

    def next(self) -> list[int] | None:
        """Tokens that the next piece completed."""
        done = self.stream.pull(self.fd, self.buffer)
        self.pulls += done is not None
        return None if done is None else [each.token for each in done]

    def rest(self) -> list[int]:
        found: list[int] = []
        while (tokens := self.next()) is not None:
            found += tokens
        os.close(self.fd)
        return found


def test_a_single_range_is_read_and_nothing_else(file: Path) -> None:
    reads = Reads(ColdStream(file, requested(1, 0, 2 * MIB), 0))
    assert reads.rest() == [1]
    assert reads.pulls == 2


def test_a_window_is_read_beyond_the_range_after_the_range_was_answered(file: Path) -> None:
    reads = Reads(ColdStream(file, requested(1, 0), 4 * MIB))
    assert reads.next() == [1]
    assert reads.rest() == []
    assert reads.pulls == 5


def test_a_range_in_the_window_joins_and_is_answered_when_the_stream_has_passed_it(file: Path) -> None:
    stream = ColdStream(file, requested(1, 0), 4 * MIB)
    reads = Reads(stream)
    assert reads.next() == [1]
    assert stream.join(requested(2, 2 * MIB))
    assert reads.next() == []
    assert reads.next() == [2]
    assert stream.window == 2 * FIRST_WINDOW_BYTES
    assert reads.rest() == []
    assert not stream.join(requested(3, 3 * MIB)), "an ended stream takes nothing in"


def test_a_range_elsewhere_does_not_join(file: Path) -> None:
    stream = ColdStream(file, requested(1, 0), 0)
    assert not stream.join(requested(2, 9 * MIB))


def test_a_range_a_little_before_is_read_too(file: Path) -> None:
    """The next fetch begins at the last batch that was cut off."""
    stream = ColdStream(file, requested(1, 2 * MIB), 4 * MIB)
    reads = Reads(stream)
    assert reads.next() == [1]
    assert stream.join(requested(2, 3 * MIB - 4096))
    assert 2 in reads.rest()


def test_the_end_of_the_file_ends_the_wait(file: Path) -> None:
    assert Reads(ColdStream(file, requested(1, 11 * MIB, 5 * MIB), MAX_WINDOW_BYTES)).rest() == [1]


def test_windows_grow_up_to_a_bound() -> None:
    assert grown(0) == FIRST_WINDOW_BYTES
    assert grown(MAX_WINDOW_BYTES) == MAX_WINDOW_BYTES


def test_the_pool_answers_every_range_once(file: Path) -> None:
    reported = threading.Semaphore(0)
    pool = ReadAheadPool(reported.release)
    done: list[int] = []
    for token in range(24):
        pool.ask(requested(token, token % 12 * MIB), file)
        if token % 3 == 0:
            assert reported.acquire(timeout=60)
            done += [each.token for each in pool.take()]
    while len(done) < 24:
        assert reported.acquire(timeout=60)
        done += [each.token for each in pool.take()]
    pool.close()
    assert sorted(done) == list(range(24))


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    reported = threading.Semaphore(0)
    pool = ReadAheadPool(reported.release)
    pool.ask(requested(1, 0), tmp_path / "gone.log")
    assert reported.acquire(timeout=60)
    pool.close()
    assert [each.token for each in pool.take()] == [1]
    assert [(slot, error.errno) for slot, error in pool.take_failed()] == [(3, 2)]


def count_of(name: str) -> int:
    """A counter of this process's reads, threads that are gone included."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def read_from_disk() -> int:
    """Bytes that this process made the disk give."""
    return count_of("read_bytes")


def evict(file: Path) -> None:
    fd = os.open(file, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def test_large_pieces_come_into_the_page_cache_without_being_copied(file: Path) -> None:
    evict(file)
    before = count_of("rchar")
    reads = Reads(ColdStream(file, requested(1, 0), 11 * MIB))
    reads.rest()
    assert reads.pulls == 12
    assert count_of("rchar") - before < MIB
    with open(file, "rb") as opened:
        assert residency.choose([str(file.parent)])(opened.fileno(), 0, 12 * MIB)


def test_small_ranges_are_read_completely_because_the_event_loop_sends_them(file: Path) -> None:
    evict(file)
    before = count_of("rchar")
    assert Reads(ColdStream(file, requested(1, 4096, 300_000), 0)).rest() == [1]
    assert count_of("rchar") - before >= 300_000


def test_the_bytes_that_the_disk_gave_are_counted_and_no_others(file: Path) -> None:
    """As the kernel counts them: of a sequential reader nearly all bytes are read ahead, before it
    asks for them."""
    evict(file)
    before, counted = read_from_disk(), 0
    for once_more in (False, True):
        reported = threading.Semaphore(0)
        pool = ReadAheadPool(reported.release)
        for token in range(12):
            pool.ask(requested(token, token * MIB), file)
            while not pool.take():
                assert reported.acquire(timeout=60)
        pool.close()
        counts = pool.take_from_disk()
        assert {slot for slot, _ in counts} <= {3}
        if once_more:
            assert sum(count for _, count in counts) == 0, "all of it was in memory"
        counted += sum(count for _, count in counts)
    given = read_from_disk() - before
    if not given:
        pytest.skip("this file system has no disk")
    assert counted == given
    assert counted == pytest.approx(12 * MIB, rel=0.1)
