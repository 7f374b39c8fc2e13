"""Offsets by time are told from segment files where they are asked for, and they are those that control would find."""

import itertools
import random
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.ipc.layout import Slot
from kbroker.ipc.messages import ClientRequest
from kbroker.log import files
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import LogReader
from kbroker.log.timestamps import locate_timestamp, max_timestamp
from kbroker.protocol.compression import Codec
from kbroker.protocol.records import build_batch
from tests.log.folder import Folder
from tests.net.conftest import NodeFactory
from tests.net.doubles import NetNode
from tests.net.local_answers.test_list_offsets import told

MAX_TIMESTAMP = -3
PATIENCE_S = 10.0
FRESH = itertools.count(2, 2)
Times = list[list[list[int]]]
"""Timestamps by segment, batch, record."""
Found = tuple[int, int, int]


@pytest.fixture(scope="module")
def shared_node() -> Iterator[NetNode]:
    node = NetNode({"t": 3}, answer=refused).start()
    yield node
    assert node.stop() == 0


@pytest.fixture
def node(node_factory: NodeFactory) -> NetNode:
    made: NetNode = node_factory({"t": 3}, answer=refused)
    return made


def refused(request: ClientRequest) -> bytes:
    return struct.pack(">ii", 4, request.correlation_id)


def write(
    node: NetNode, slot: int, segments: Times, interval: int = 60, codec: Codec = Codec.NONE, **more: int
) -> Folder:
    """Let a partition's folder hold batches of these timestamps, and its slot say so."""
    path = node.folders[slot]
    for old in path.iterdir():
        old.unlink()
    folder, offset = Folder(path, interval), 0
    for number, segment in enumerate(segments):
        base, batches = offset, []
        for times in segment:
            new = [(None, b"v" * more.get("size", 40), (), at) for at in times]
            append_time = max(times) if more.get("append_time") else None
            batches.append(
                build_batch(
                    new,
                    base_offset=offset,
                    codec=codec,
                    partition_leader_epoch=3,
                    log_append_time_ms=append_time,
                )
            )
            offset += len(times)
        folder.segment(base, batches, closed=number + 1 < len(segments))
    publish(node, slot, folder, offset)
    return folder


def publish(
    node: NetNode, slot: int, folder: Folder, end: int, start: int = 0, limit: int | None = None
) -> None:
    """limit: last stable offset."""
    words = node.shared.slots[slot]
    words[Slot.SEQUENCE] += 1
    words[Slot.SEGMENTS_VERSION] = next(FRESH)
    words[Slot.LOG_START] = start
    words[Slot.LOG_END] = words[Slot.HIGH_WATERMARK] = end
    words[Slot.LAST_STABLE] = end if limit is None else limit
    words[Slot.HW_BASE], words[Slot.HW_POSITION] = folder.reader_end()
    words[Slot.SEQUENCE] += 1


def expected(node: NetNode, slot: int, asked: int, isolation: int = 0) -> Found:
    """What control answers."""
    words = node.shared.slots[slot]
    reader = LogReader(str(node.folders[slot]), OpenFiles())
    end = int(words[Slot.HW_BASE]), int(words[Slot.HW_POSITION])
    start = int(words[Slot.LOG_START])
    found = (
        max_timestamp(reader, start, *end)
        if asked == MAX_TIMESTAMP
        else locate_timestamp(reader, asked, start, *end)
    )
    limit = words[Slot.LAST_STABLE if isolation else Slot.HIGH_WATERMARK]
    if found is None or found.offset >= limit:
        return -1, -1, -1
    return found.timestamp, found.offset, found.leader_epoch


def here(link: socket.socket, asked: int, slot: int = 0, isolation: int = 0) -> Found:
    """The answer of the network process itself, which has to find out about the segments first."""
    deadline = time.monotonic() + PATIENCE_S
    while not (answer := told(link, 11, {"t": [(slot, -1, asked)]}, isolation=isolation)):
        assert time.monotonic() < deadline, f"{asked} is always left to control"
        time.sleep(0.002)
    index, error, *found = answer["t"][0]
    assert (index, error) == (slot, 0)
    return found[0], found[1], found[2]


layout = st.lists(
    st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=4), min_size=1, max_size=8),
    min_size=1,
    max_size=4,
)


@given(layout, st.integers(0, 400), st.data(), st.sampled_from(list(Codec)), st.booleans())
@settings(max_examples=60, deadline=None)
def test_times_are_found_where_control_finds_them(
    shared_node: NetNode, segments: Times, interval: int, data: st.DataObject, codec: Codec, append_time: bool
) -> None:
    folder = write(shared_node, 0, segments, interval, codec, append_time=append_time)
    count = sum(len(times) for segment in segments for times in segment)
    start = data.draw(st.integers(0, count), "log start")
    stable = data.draw(st.integers(0, count), "last stable offset")
    publish(shared_node, 0, folder, count, start, stable)
    with shared_node.connect() as link:
        for asked in (*data.draw(st.lists(st.integers(0, 62), min_size=1, max_size=4)), MAX_TIMESTAMP):
            for isolation in (0, 1):
                assert here(link, asked, 0, isolation) == expected(shared_node, 0, asked, isolation)


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_is_answered(node: NetNode, version: int) -> None:
    write(node, 1, [[[10, 12], [20]], [[30], [40]]])
    link = node.connect()
    here(link, 12, 1)
    here(link, MAX_TIMESTAMP, 1)
    epoch = 3 if version >= 4 else -1
    both = told(link, version, {"t": [(1, -1, 11), (0, -1, -1)]})
    assert both["t"] == [(1, 0, 12, 1, epoch), (0, 0, -1, 0, min(epoch, 0))]
    before = len(node.control.requests)
    largest = told(link, version, {"t": [(1, -1, MAX_TIMESTAMP)]})
    assert largest == ({"t": [(1, 0, 40, 4, epoch)]} if version >= 7 else {})
    assert len(node.control.requests) == before + (version < 7)


def test_what_is_appended_is_found_by_the_next_question(node: NetNode) -> None:
    """The walk over the active segment goes on where it was, also where its index entries are far behind."""
    random.seed(5)
    link = node.connect()
    now, segment = 1000, []
    for turn in range(12):
        segment += [[now + random.randrange(9) for _ in range(3)] for _ in range(20)]
        folder = Folder(node.folders[0], 700)
        batches = [
            build_batch(
                [(None, b"v" * 30, (), at) for at in times], base_offset=3 * n, partition_leader_epoch=3
            )
            for n, times in enumerate(segment)
        ]
        folder.segment(0, batches, closed=False)
        words = node.shared.slots[0]
        words[Slot.SEQUENCE] += 1
        words[Slot.HIGH_WATERMARK] = words[Slot.LAST_STABLE] = words[Slot.LOG_END] = 3 * len(segment)
        words[Slot.HW_POSITION] = folder.reader_end()[1]
        words[Slot.SEQUENCE] += 1
        for asked in (0, 1003, now - 1, now, now + 4, now + 8, now + 9, MAX_TIMESTAMP):
            assert here(link, asked) == expected(node, 0, asked), turn
        now += 5
    assert len(node.control.requests) < 5, "control was asked again and again"


def test_a_large_batch_is_read_piece_by_piece(node: NetNode) -> None:
    times = [list(range(1000, 1400)), list(range(1400, 1500))]
    write(node, 0, [times], size=700)
    link = node.connect()
    for asked in (1000, 1001, 1011, 1012, 1200, 1399, 1400, 1499, 1500, MAX_TIMESTAMP):
        assert here(link, asked) == expected(node, 0, asked)


def test_a_large_compressed_batch_is_controls(node: NetNode) -> None:
    write(node, 0, [[[10] * 1000, [20]]], codec=Codec.ZSTD, size=200)
    link = node.connect()
    assert here(link, 21) == (-1, -1, -1)
    assert here(link, 15) == (20, 1000, 3)
    assert told(link, 11, {"t": [(0, -1, 5)]}) == {}


def test_another_list_of_segments_is_looked_at_anew(node: NetNode) -> None:
    link = node.connect()
    write(node, 0, [[[10], [20]]])
    assert here(link, 15) == (20, 1, 3)
    write(node, 0, [[[30], [40]], [[50]]])
    assert here(link, 15) == (30, 0, 3)
    words = node.shared.slots[0]
    words[Slot.SEGMENTS_VERSION] += 1  # files are being replaced
    assert told(link, 11, {"t": [(0, -1, 15)]}) == {}
    words[Slot.SEGMENTS_VERSION] += 1
    assert here(link, 45) == (50, 2, 3)


def test_a_damaged_log_is_controls(node: NetNode) -> None:
    folder = write(node, 0, [[[10], [20], [30]]])
    link = node.connect()
    assert here(link, 25) == (30, 2, 3)
    file = folder.file(0, files.LOG)
    file.write_bytes(b"\xff" * file.stat().st_size)
    assert told(link, 11, {"t": [(0, -1, 5)]}) == {}
    words = node.shared.slots[0]
    words[Slot.SEGMENTS_VERSION] += 2
    for _ in range(20):
        assert told(link, 11, {"t": [(0, -1, 25)]}) == {}
        time.sleep(0.01)


def test_partitions_of_one_question_are_looked_at_together(node: NetNode) -> None:
    for slot in range(3):
        write(node, slot, [[[10 * slot + 5]], [[10 * slot + 6]]])
    link = node.connect()
    asked = {"t": [(slot, -1, 5) for slot in range(3)]}
    deadline = time.monotonic() + PATIENCE_S
    while not (answer := told(link, 11, asked)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert answer["t"] == [(slot, 0, 10 * slot + 5, 0, 3) for slot in range(3)]
    assert len(node.control.requests) <= 2


def test_more_segments_than_stay_open_are_found_all_the_same(node: NetNode) -> None:
    many = [[[10 * n], [10 * n + 5]] for n in range(1100)]
    write(node, 0, many)
    link = node.connect()
    for asked in np.linspace(0, 10_990, 60).astype(int).tolist():
        assert here(link, asked) == expected(node, 0, asked)


def test_a_partition_deleted_and_made_anew_is_another_one(node: NetNode) -> None:
    link = node.connect()
    write(node, 0, [[[10], [20]]])
    assert here(link, 15) == (20, 1, 3)
    node.shared.slots[0, Slot.GENERATION] += 1
    assert told(link, 11, {"t": [(0, -1, 15)]}) == {}


def test_the_thread_keeps_no_file_open_itself(node: NetNode) -> None:
    write(node, 0, [[[10 * n]] for n in range(5)])
    link = node.connect()
    assert here(link, 15) == (20, 2, 3)
    opened = [str(each.readlink()) for each in Path(f"/proc/{node.pid}/fd").iterdir()]
    mine = sorted(name for name in opened if name.startswith(str(node.folders[0])))
    assert [Path(name).name for name in mine] == [
        f"{2:020d}{suffix}" for suffix in (".index", ".log", ".timeindex")
    ]
