"""Logs of several segments, and the kernel that serves fetches of them, in one process and without
neighbours."""

import random
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from numpy.typing import NDArray

from kbroker.ipc.layout import Slot, SlotState
from kbroker.ipc.messages import PartitionImage, TopicImage
from kbroker.log import files
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import LogReader
from kbroker.net.fetch.fetch_kernel import serve_fetch
from kbroker.net.fetch.read_table import ReadTable
from kbroker.net.fetch.residency import by_cachestat
from kbroker.net.fetch.senders import Senders
from kbroker.net.fetch.session_table import SessionTable
from kbroker.net.rows import Connection, Context, Flag, Outcome, ReadEnd
from kbroker.net.topics import Topics
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.protocol.records import build_batch
from tests.net.doubles import read_frame
from tests.net.requests import TOPIC_ID, fetch_frame, read_fetch
from tests.net.tables import new_tables

GENERATION = 5
EPOCH = 3
SENDFILE_MIN = 400
NOW = 1_700_000_000_000
FIRST_SLOT = 7


@dataclass(frozen=True)
class Batch:
    """Where a batch lies. segment: base offset of its segment."""

    base: int
    last: int
    segment: int
    position: int
    data: bytes


class KernelLog:
    """A log with an index entry for every other batch. segments: the bytes of each by its base
    offset."""

    def __init__(self, folder: Path, seed: int) -> None:
        folder.mkdir()
        chance = random.Random(seed)
        self.folder = folder
        self.batches: list[Batch] = []
        self.segments: dict[int, bytes] = {}
        offset = chance.choice((0, 10))
        self.start = offset
        for _ in range(chance.randrange(1, 4)):
            offset = self._segment(offset, chance)
        self.end = offset

    def _segment(self, base: int, chance: random.Random) -> int:
        offset, data, index = base, b"", b""
        for number in range(chance.randrange(1, 6)):
            offset += chance.choice((0, 0, 0, 2))  # a compacted log has gaps
            count = chance.randrange(1, 4)
            records = [(b"k", bytes(chance.choice((10, 90, 300))), (), NOW)] * count
            one = build_batch(records, base_offset=offset, partition_leader_epoch=EPOCH)
            if number % 2:
                index += struct.pack(">ii", offset + count - 1 - base, len(data))
            self.batches.append(Batch(offset, offset + count - 1, base, len(data), one))
            data += one
            offset += count
        self.segments[base] = data
        Path(files.path(str(self.folder), base, files.LOG)).write_bytes(data)
        Path(files.path(str(self.folder), base, files.INDEX)).write_bytes(index)
        return offset + chance.choice((0, 0, 3))

    def place(self, offset: int) -> tuple[int, int]:
        """Segment and position of the first batch that ends at an offset or after it."""
        for batch in self.batches:
            if batch.last >= offset:
                return batch.segment, batch.position
        last = max(self.segments)
        return last, len(self.segments[last])

    def boundaries(self) -> list[int]:
        """Offsets that a high watermark may have."""
        return [self.start, *(batch.last + 1 for batch in self.batches)]


class KernelScene:
    """The logs of a topic's partitions, and one client."""

    def __init__(self, root: Path, seeds: list[int]) -> None:
        self.tables = new_tables({"kbroker.sendfile.min.bytes": str(SENDFILE_MIN)})
        self.shared = self.tables.shared
        self.senders = Senders(self.tables)
        self.table = ReadTable(self.tables, self.senders)
        self.tables.words[Context.PROBE] = 1
        self.logs = [KernelLog(root / f"t-{n}", seed) for n, seed in enumerate(seeds)]
        parts = []
        for number, log in enumerate(self.logs):
            words = self.slot(number)
            words[Slot.STATE] = SlotState.ONLINE
            words[Slot.GENERATION] = GENERATION
            words[Slot.LEADER_EPOCH] = EPOCH
            words[Slot.SEGMENTS_VERSION] = 2
            words[Slot.LOG_START] = log.start
            words[Slot.LOG_END] = log.end
            words[Slot.LAST_ABORTED] = -1
            self.set_mark(number, log.end)
            parts.append(PartitionImage(number, FIRST_SLOT + number, GENERATION, str(log.folder)))
        self.topics = Topics(self.tables)
        mirrored = tuple(structs.replace(part, index=at) for at, part in enumerate(reversed(parts)))
        other = TopicImage("u", b"u" * 16, False, mirrored)  # of the same logs, the last one first
        self.topics.apply([other, TopicImage("t", TOPIC_ID, False, tuple(parts))], (), True, 1)
        self.sessions = SessionTable(self.tables, self.topics, 10, seed=1)
        self.client, self.served = socket.socketpair()
        self.client.settimeout(60)
        self.served.setblocking(False)
        flags = Flag.AUTHENTICATED | Flag.FETCH
        self.row = self.tables.take_row(self.served.fileno(), flags, 0)
        self._readers = [LogReader(str(log.folder), OpenFiles()) for log in self.logs]

    def slot(self, number: int) -> NDArray[np.int64]:
        """Words of a partition's slot."""
        return self.shared.slots[FIRST_SLOT + number]

    def set_mark(self, number: int, mark: int, stable: int | None = None) -> None:
        """Set high watermark and last stable offset of a partition."""
        words = self.slot(number)
        words[Slot.HIGH_WATERMARK] = mark
        words[Slot.LAST_STABLE] = mark if stable is None else stable
        words[Slot.HW_BASE], words[Slot.HW_POSITION] = self.logs[number].place(mark)

    def set_end(self, number: int, end: int, position: int) -> None:
        """More was written to the last segment, and all of it may be read."""
        words = self.slot(number)
        words[[Slot.LOG_END, Slot.HIGH_WATERMARK, Slot.LAST_STABLE]] = end
        words[[Slot.HW_BASE, Slot.HW_POSITION]] = max(self.logs[number].segments), position

    def forget(self) -> None:
        """Have the kernel not know where the client's last read ended."""
        self.tables.connections[self.row, Connection.LAST_READ + ReadEnd.SLOT] = 0

    def last_batches(self) -> tuple[dict[int, int], int]:
        """Where the last batch of each partition begins, and the bytes of all of them."""
        last = [log.batches[-1] for log in self.logs]
        return {number: one.base for number, one in enumerate(last)}, sum(len(one.data) for one in last)

    def show(self) -> None:
        """Have the kernel know all segments, as after reads by Python."""
        for number, log in enumerate(self.logs):
            for base in log.segments:
                version = int(self.slot(number)[Slot.SEGMENTS_VERSION])
                self.table.note(FIRST_SLOT + number, GENERATION, version, self._readers[number], base)

    def answer(self, version: int = 11, **how: object) -> FetchResponse:
        """Of a request that the kernel serves."""
        outcome, answer = self.serve_frame(fetch_frame(0, version, **how)[4:], version)
        assert outcome == Outcome.SERVED
        assert answer is not None
        return answer

    def outcome(self, version: int = 11, force: bool = False, out_used: int = 0, **how: object) -> int:
        """What the kernel does with a request."""
        return self.serve_frame(fetch_frame(0, version, **how)[4:], version, force, out_used)[0]

    def serve_frame(
        self, frame: bytes, version: int, force: bool = False, out_used: int = 0
    ) -> tuple[int, FetchResponse | None]:
        """Outcome of a request, and its answer. frame: without its size. out_used: bytes of
        Context.OUT that are in use."""
        view = np.frombuffer(frame, np.uint8).copy()
        self.tables.out[: 1 << 16] = 0xEE  # what an earlier answer left there
        self.tables.words[[Context.OUT_USED, Context.EVENT_COUNT]] = out_used, 0
        address = int(view.ctypes.data)
        outcome = serve_fetch(self.tables.address, self.row, address, len(frame), int(force))
        return outcome, read_fetch(read_frame(self.client), version) if outcome == Outcome.SERVED else None

    def expected(self, number: int, offset: int, end: int, left: int, most: int, first: bool) -> bytes:
        """Bytes of a partition: from the batch that holds the offset, as many as limits and segment
        allow."""
        log = self.logs[number]
        if offset >= end:
            return b""
        segment, position = log.place(offset)
        end_segment, end_position = log.place(end)
        if (segment, position) >= (end_segment, end_position):
            return b""
        batch = next(each for each in log.batches if (each.segment, each.position) == (segment, position))
        stop = end_position if segment == end_segment else len(log.segments[segment])
        allowed = min(left, most)
        if allowed < len(batch.data):
            if not first:
                return b""
            allowed = len(batch.data)
        return log.segments[segment][position : min(stop, position + allowed)]

    def close(self) -> None:
        """Close what is open."""
        self.client.close()
        self.served.close()
        self.senders.stop()


def needs_cachestat(folder: Path) -> None:
    """Skip where the kernel does not know what is cached: Python serves all fetches there."""
    with open(folder / "probe", "w+b") as file:
        file.write(b"x")
        file.flush()
        try:
            by_cachestat(file.fileno(), 0, 1)
        except OSError as error:
            pytest.skip(f"no cachestat: {error}")


@contextmanager
def opened(folder: Path, seeds: list[int]) -> Iterator[KernelScene]:
    """A scene with a partition for each seed, closed at the end."""
    needs_cachestat(folder)
    scene = KernelScene(folder, seeds)
    try:
        yield scene
    finally:
        scene.close()
