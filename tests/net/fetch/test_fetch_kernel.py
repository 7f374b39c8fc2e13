"""Fetches that the kernel serves, compared with the files: positions, limits, waiting, and the
cases that it leaves to Python."""

import mmap
import os
import struct
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.ipc.layout import Slot, SlotState
from kbroker.net.fetch import fetch_kernel
from kbroker.net.fetch.residency import by_cachestat
from kbroker.net.rows import Access, Connection, Context, Grant, May, Outcome, Read, ReadEnd, Segment
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.records import build_batch
from tests.net.fetch.kernel_scene import EPOCH, FIRST_SLOT, KernelScene, opened
from tests.net.requests import fetch_frame

COMMITTED = 1


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_an_answer_holds_what_the_files_hold(data: st.DataObject) -> None:
    """Versions, isolation, limits, high watermarks and last stable offsets at any batch."""
    seeds = data.draw(st.lists(st.integers(0, 1 << 20), min_size=1, max_size=3))
    with TemporaryDirectory() as folder, opened(Path(folder), seeds) as scene:
        scene.show()
        for _ in range(3):
            _ask_anything(scene, data)


def _ask_anything(scene: KernelScene, data: st.DataObject) -> None:
    committed = data.draw(st.booleans())
    ends, requested = {}, {}
    for number, log in enumerate(scene.logs):
        mark = data.draw(st.sampled_from(log.boundaries()))
        stable = data.draw(st.sampled_from([each for each in log.boundaries() if each <= mark]))
        scene.set_mark(number, mark, stable)
        ends[number] = stable if committed else mark
        requested[number] = data.draw(st.integers(log.start, log.end))
    order = data.draw(st.permutations(sorted(requested)))
    most, left = (data.draw(st.sampled_from((1, 100, 350, 700, 1 << 20))) for _ in range(2))
    version = data.draw(st.sampled_from((4, 5, 7, 9, 11, 12, 13, 15, 17)))
    answer = scene.answer(
        version,
        partitions={number: requested[number] for number in order},
        partition_max_bytes=most,
        max_bytes=left,
        isolation=COMMITTED if committed else 0,
    )
    (topic,) = answer.responses
    assert [part.partition_index for part in topic.partitions] == order
    first = True
    for part in topic.partitions:
        number = part.partition_index
        records = scene.expected(number, requested[number], ends[number], left, most, first)
        words = scene.slot(number)
        assert bytes(part.records or b"") == records
        assert (part.error_code, part.high_watermark) == (0, words[Slot.HIGH_WATERMARK])
        assert part.last_stable_offset == words[Slot.LAST_STABLE]
        assert part.log_start_offset == (words[Slot.LOG_START] if version >= 5 else -1)
        assert part.aborted_transactions == ([] if committed else None)
        if records:
            first, left = False, max(0, left - len(records))


@pytest.mark.parametrize("version", [4, 11, 13])
def test_the_last_name_of_a_partition_counts_at_the_place_of_the_first(tmp_path: Path, version: int) -> None:
    """In Kafka the partitions of a request are a LinkedHashMap."""
    with opened(tmp_path, [1, 2, 3]) as scene:
        scene.show()
        starts, ends = [log.start for log in scene.logs], [log.end for log in scene.logs]
        named = [(2, ends[2]), (0, starts[0]), (2, starts[2]), (0, ends[0]), (1, ends[1]), (2, starts[2])]
        answer = scene.answer(version, named=named)
        found = [
            (part.partition_index, len(part.records or b"") > 0)
            for topic in answer.responses
            for part in topic.partitions
        ]
        assert found == [(2, True), (0, False), (1, False)]


@pytest.mark.parametrize("sendfile", [False, True])
def test_a_reader_continues_where_its_last_read_ended(scene: KernelScene, sendfile: bool) -> None:
    """With an outdated list of segments, this is the only read that the kernel can do."""
    scene.tables.words[Context.SENDFILE_MIN] = 0 if sendfile else 1 << 20
    scene.show()
    log = scene.logs[0]
    segment = log.batches[-1].segment
    start = log.batches[-1].base
    assert scene.outcome(partitions={0: start}) == Outcome.SERVED
    scene.table.reads[FIRST_SLOT, Read.GENERATION] += 1
    mark = log.batches[-1].last + 1
    # more is written after it
    path = log.folder / f"{segment:020d}.log"
    before = path.stat().st_size
    with path.open("ab") as file:
        file.write(log.batches[0].data.replace(log.batches[0].data[:8], mark.to_bytes(8, "big"), 1))
    scene.set_end(0, mark + 1, path.stat().st_size)

    def ask(offset: int, partition: int = 0) -> int:
        return scene.outcome(partitions={partition: offset})

    memory = scene.tables.connections[scene.row, Connection.LAST_READ : Connection.LAST_READ + ReadEnd.WORDS]
    kept = memory.copy()
    assert kept[ReadEnd.POSITION] == before
    assert ask(start) == Outcome.TO_PYTHON, "not where it ended"
    answer = scene.answer(partitions={0: mark})
    assert bytes(answer.responses[0].partitions[0].records or b"") == path.read_bytes()[before:]
    for word, value in (
        (ReadEnd.SLOT, FIRST_SLOT + 2),
        (ReadEnd.OFFSET, mark + 1),
        (ReadEnd.VERSION, 1),
        (ReadEnd.POSITION, before + 1),
        (ReadEnd.POSITION, path.stat().st_size - 23),
    ):
        memory[:] = kept
        memory[word] = value
        assert ask(mark) == Outcome.TO_PYTHON, f"word {word}"
    memory[:] = kept
    assert ask(mark) == Outcome.SERVED
    memory[:] = kept
    scene.table.segments[int(kept[ReadEnd.SEGMENT]), Segment.LOG_FD] = -1
    assert ask(mark) == Outcome.TO_PYTHON


@pytest.mark.parametrize(("row", "position"), [(0, 0), (1, 0), (2, 0), (4, 0), (3, rb.PRODUCER_ID)])
def test_a_reader_continues_in_no_other_segment_that_has_got_the_row(
    scene: KernelScene, row: int, position: int
) -> None:
    """The table of segments is cleared when it is full, and its rows are used again. The first two
    rows are of the other partition; the fourth may have been that of the segment before, which
    ended where this one has a producer id, -1."""
    scene.show()
    log = scene.logs[1]
    offset = sorted(log.segments)[1] + 1
    memory = scene.tables.connections[scene.row, Connection.LAST_READ : Connection.LAST_READ + ReadEnd.WORDS]
    memory[[ReadEnd.SLOT, ReadEnd.OFFSET, ReadEnd.VERSION]] = FIRST_SLOT + 2, offset, 2
    memory[[ReadEnd.SEGMENT, ReadEnd.POSITION]] = row, position
    records = scene.answer(partitions={1: offset}).responses[0].partitions[0].records
    assert bytes(records or b"") == scene.expected(1, offset, log.end, 1 << 20, 1 << 20, True)


def _change(word: int, value: int) -> Callable[[KernelScene], None]:
    def change(scene: KernelScene) -> None:
        scene.slot(0)[word] = value

    return change


def _outdated(scene: KernelScene) -> None:
    scene.table.reads[FIRST_SLOT, Read.VERSION] += 2


def _of_another_partition(scene: KernelScene) -> None:
    scene.table.reads[FIRST_SLOT, Read.GENERATION] += 1


def _closed(scene: KernelScene) -> None:
    scene.table.segments[:, Segment.LOG_FD] = -1


def _unknown_residency(scene: KernelScene) -> None:
    scene.tables.words[Context.PROBE] = 0


@pytest.mark.parametrize(
    "change",
    [
        _change(Slot.STATE, SlotState.RECOVERING),
        _change(Slot.STATE, SlotState.OFFLINE),
        _change(Slot.GENERATION, 6),
        _change(Slot.LOG_START, 1_000),
        _change(Slot.LOG_END, 0),
        _outdated,
        _of_another_partition,
        _closed,
        _unknown_residency,
    ],
)
def test_an_uncommon_state_is_left_to_python(
    scene: KernelScene, change: Callable[[KernelScene], None]
) -> None:
    scene.show()
    offset = scene.logs[0].start + 1
    assert scene.outcome(partitions={0: offset}) == Outcome.SERVED
    scene.forget()
    change(scene)
    assert scene.outcome(partitions={0: offset}) == Outcome.TO_PYTHON


def test_a_segment_that_is_not_open_is_left_to_python(scene: KernelScene) -> None:
    scene.show()
    first, *_, last = scene.logs[1].batches
    assert first.segment != last.segment
    number = int(scene.table.reads[FIRST_SLOT + 1, [Read.FIRST, Read.COUNT]].sum()) - 1
    assert scene.outcome(partitions={1: last.base}) == Outcome.SERVED
    scene.forget()
    scene.table.segments[number, Segment.LOG_FD] = -1
    assert scene.outcome(partitions={1: last.base}) == Outcome.TO_PYTHON
    assert scene.outcome(partitions={1: first.base}) == Outcome.SERVED


def test_nothing_is_looked_for_at_the_last_stable_offset(scene: KernelScene) -> None:
    log = scene.logs[0]  # whose files the kernel does not know
    stable = log.batches[1].base
    scene.set_mark(0, log.end, stable)
    outcomes = {
        offset: scene.outcome(partitions={0: offset}, isolation=COMMITTED)
        for offset in (stable - 1, stable, stable + 1)
    }
    assert list(outcomes.values()) == [Outcome.TO_PYTHON, Outcome.SERVED, Outcome.SERVED]


def test_a_range_of_which_a_page_is_not_cached_is_left_to_python(scene: KernelScene) -> None:
    """The last of four pages is evicted; a search reads the first three."""
    log = scene.logs[0]
    base = max(log.segments)
    path = log.folder / f"{base:020d}.log"
    first = len(log.segments[base])
    page, last = mmap.PAGESIZE, 3 * mmap.PAGESIZE
    data = build_batch([(b"k", bytes(3 * page), (), 0)], base_offset=log.end)
    for part in (data[: last - first], data[last - first :]):  # which the page cache keeps apart
        with path.open("ab") as file:
            file.write(part)
            file.flush()
            os.fsync(file.fileno())
    scene.set_end(0, log.end + 1, first + len(data))
    scene.show()
    for fd in set(scene.table.segments[:, Segment.LOG_FD].tolist()) - {-1}:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # reading the first page loads no other page
    with path.open("rb") as file:
        file.read()
        assert scene.outcome(partitions={0: log.end}) == Outcome.SERVED
        scene.forget()
        os.posix_fadvise(file.fileno(), last, 0, os.POSIX_FADV_DONTNEED)
        if by_cachestat(file.fileno(), last, 1):
            pytest.skip("this file system keeps its pages")
        assert scene.outcome(partitions={0: log.end}) == Outcome.TO_PYTHON


UNCOMMON: list[dict[str, Any]] = [
    {"epoch": EPOCH - 1},
    {"epoch": EPOCH + 1},
    {"last_epoch": EPOCH},
    {"topic": "nowhere"},
    {"partitions": {2: 0}},
    {"partitions": {-1: 0}},
    {"partitions": {}},
    {"session": (0, 0)},
    {"session": (5, 1)},
    {"session": (5, -1)},
    {"isolation": 2},
    {"isolation": -1},
    {"forget": [1]},
    {"max_bytes": -1},
    {"partition_max_bytes": -1},
]


@pytest.mark.parametrize("how", UNCOMMON, ids=str)
@pytest.mark.parametrize("version", [7, 11, 12, 13])
def test_an_uncommon_request_is_left_to_python(scene: KernelScene, how: dict[str, Any], version: int) -> None:
    version = max(version, 9 if "epoch" in how else 12 if "last_epoch" in how else 0)
    scene.show()
    offset = scene.logs[0].start + 1
    assert scene.outcome(version, partitions={0: offset}, epoch=EPOCH) == Outcome.SERVED
    assert scene.outcome(version, **{"partitions": {0: offset}, **how}) == Outcome.TO_PYTHON


def test_an_answer_that_has_no_room_is_left_to_python(scene: KernelScene) -> None:
    """Small ranges are copied after their headers. The limit allows for the longest headers, and
    the smallest space that the kernel accepts has room for them."""
    scene.tables.words[Context.SENDFILE_MIN] = 1 << 20
    scene.show()
    expected, size = scene.last_batches()
    rooms = range(size, size + 2000)

    def served(room: int, used: int = 0) -> bool:
        scene.tables.words[Context.OUT_BYTES] = room + used
        return scene.outcome(partitions=expected, out_used=used) == Outcome.SERVED

    least = next(room for room in rooms if served(room))
    headers = fetch_kernel.HEADER_BOUND + 2 * (fetch_kernel.TOPIC_BOUND + fetch_kernel.PARTITION_BOUND)
    assert least == size + headers
    assert served(least, used=100)
    assert not served(least - 1, used=100)


def test_topics_that_the_client_may_not_read_are_left_to_python(scene: KernelScene) -> None:
    """Python answers TOPIC_AUTHORIZATION_FAILED. Topic "u" has the same logs."""
    scene.show()
    may = np.zeros(8, np.uint8)
    access, grant = Access.row(), Grant.row()
    grant[Grant.TOPICS] = may.ctypes.data
    access[Access.GRANT] = grant.ctypes.data
    scene.tables.connections[scene.row, Connection.ACCESS] = access.ctypes.data
    starts = [log.start for log in scene.logs]
    offsets = {"t": dict(enumerate(starts)), "u": dict(enumerate(reversed(starts)))}

    def served(topic: str) -> bool:
        return scene.outcome(topic=topic, partitions=offsets[topic]) == Outcome.SERVED

    assert not served("t")
    for allowed, denied in (("t", "u"), ("u", "t")):
        may[:] = May.WRITE | May.DESCRIBE
        may[scene.topics.row_of(allowed)] = May.READ
        assert served(allowed)
        assert not served(denied)


REPLICA_ID = 2 + 2 + 4 + 2 + len("test")  # its place in a request of version 11


def test_a_replica_is_left_to_python(scene: KernelScene) -> None:
    scene.show()
    frame = fetch_frame(0, 11, partitions={0: scene.logs[0].start + 1})[4:]
    assert frame[REPLICA_ID : REPLICA_ID + 4] == b"\xff" * 4
    for replica, outcome in ((-1, Outcome.SERVED), (0, Outcome.TO_PYTHON), (3, Outcome.TO_PYTHON)):
        changed = frame[:REPLICA_ID] + struct.pack(">i", replica) + frame[REPLICA_ID + 4 :]
        assert scene.serve_frame(changed, 11)[0] == outcome, replica
    frame = fetch_frame(0, 15, partitions={0: scene.logs[0].start + 1})[4:]
    state = b"\x01\x01\x0d" + struct.pack(">iqB", 3, 1, 0)  # a tagged field from version 15 on
    assert scene.serve_frame(frame, 15)[0] == Outcome.SERVED
    assert scene.serve_frame(frame[:-1] + state, 15)[0] == Outcome.TO_PYTHON


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 17])
def test_a_request_that_is_cut_is_left_to_python(scene: KernelScene, version: int) -> None:
    """Wherever the request is cut, nothing is read after its end."""
    scene.show()
    frame = fetch_frame(0, version, partitions={0: scene.logs[0].start, 1: scene.logs[1].start})[4:]
    outcomes = {scene.serve_frame(frame[:size], version)[0] for size in range(8, len(frame))}
    assert outcomes == {Outcome.TO_PYTHON}
    assert scene.serve_frame(frame, version)[0] == Outcome.SERVED


def test_offsets_outside_of_the_log_are_left_to_python(scene: KernelScene) -> None:
    scene.show()
    log = scene.logs[0]
    outcomes = {
        offset: scene.outcome(partitions={0: offset})
        for offset in (log.start - 1, log.start, log.end, log.end + 1)
    }
    assert list(outcomes.values()) == [
        Outcome.TO_PYTHON, Outcome.SERVED, Outcome.SERVED, Outcome.TO_PYTHON,
    ]  # fmt: skip


def test_read_committed_after_aborted_transactions_is_left_to_python(scene: KernelScene) -> None:
    scene.show()
    log = scene.logs[0]
    middle = log.batches[1].base
    scene.slot(0)[Slot.LAST_ABORTED] = middle

    def outcome(offset: int, isolation: int = COMMITTED) -> int:
        return scene.outcome(partitions={0: offset}, isolation=isolation)

    assert outcome(middle) == outcome(log.start) == Outcome.TO_PYTHON
    assert outcome(middle + 1) == outcome(middle, 0) == Outcome.SERVED
    scene.slot(0)[Slot.SEGMENTS_VERSION] = 3  # files are being replaced
    assert outcome(middle + 1) == Outcome.TO_PYTHON


def test_a_fetch_waits_for_min_bytes_of_all_its_partitions(scene: KernelScene) -> None:
    scene.show()
    expected, bytes_there = scene.last_batches()

    def outcome(min_bytes: int, max_wait_ms: int = 100, force: bool = False, max_bytes: int = 1 << 20) -> int:
        return scene.outcome(
            partitions=expected,
            min_bytes=min_bytes,
            max_wait_ms=max_wait_ms,
            force=force,
            max_bytes=max_bytes,
        )

    assert outcome(bytes_there) == Outcome.SERVED
    assert outcome(bytes_there + 1) == Outcome.WAITING
    assert outcome(bytes_there + 1, force=True) == Outcome.SERVED
    assert outcome(bytes_there + 1, max_wait_ms=0) == Outcome.SERVED
    assert outcome(bytes_there + 1, max_wait_ms=1) == Outcome.WAITING
    assert outcome(bytes_there + 1, max_bytes=bytes_there) == Outcome.SERVED, "more is never there"
