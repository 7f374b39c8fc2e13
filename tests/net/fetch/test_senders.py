"""Large fetch answers go by the senders: whole and in order, and nothing is left behind when a
client leaves."""

import errno
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kbroker.metrics.slots import bind
from kbroker.net.fetch.outbox_kernel import SCRATCH_BYTES, serve_outboxes
from kbroker.net.rows import Box, BoxPart
from tests.net.conftest import NodeFactory
from tests.net.doubles import NetNode, read_frame
from tests.net.fetch.kernel_scene import KernelScene
from tests.net.requests import batch, fetch, fetch_frame, offsets, produce, read_fetch

HEAD, TAIL = b"head of the answer", b"tail"
RANGE = bytes(range(256)) * 8192  # 2 MiB


class Outbox:
    """An outbox with a head, a range of a file and a tail, and a sender that empties it."""

    def __init__(self, file: Path, length: int, wait_ms: int) -> None:
        self.client, self.served = socket.socketpair()
        self.served.setblocking(False)
        self.file = os.open(file, os.O_RDONLY)
        self.box = Box.row()
        self.memory = np.frombuffer(HEAD + TAIL, np.uint8).copy()
        head = int(self.memory.ctypes.data)
        parts = ((-1, head, len(HEAD)), (self.file, 100, length), (-1, head + len(HEAD), len(TAIL)))
        for number, (fd, start, size) in enumerate(parts):
            part = self.box[Box.PARTS + number * BoxPart.WORDS :]
            part[BoxPart.FILE], part[BoxPart.START], part[BoxPart.LENGTH] = fd, start, size
        self.box[Box.SOCKET] = self.served.fileno()
        self.box[Box.COUNT] = len(parts)
        self.box[Box.FILE_LEFT] = length
        self._jobs_read, self._jobs = os.pipe()
        self._sent, self._sent_write = os.pipe()
        self._scratch = np.zeros(SCRATCH_BYTES // 8, np.int64)
        address = int(self._scratch.ctypes.data)
        self._thread = threading.Thread(
            target=serve_outboxes, args=(self._jobs_read, self._sent_write, wait_ms, address)
        )
        self._thread.start()

    def lend(self, box: NDArray[np.int64]) -> bytes:
        """Give a box to the sender; returns its record."""
        record = int(box.ctypes.data).to_bytes(Box.RECORD_BYTES, "little")
        os.write(self._jobs, record)
        return record

    def returned(self) -> bytes:
        """Wait for the next record that comes back."""
        return os.read(self._sent, Box.RECORD_BYTES)

    def give(self) -> None:
        """Lend it, and wait until it is back."""
        record = self.lend(self.box)
        assert self.returned() == record

    def close(self) -> None:
        end = Box.row()
        end[Box.SOCKET] = -1
        os.write(self._jobs, int(end.ctypes.data).to_bytes(Box.RECORD_BYTES, "little"))
        self._thread.join(20)
        assert not self._thread.is_alive()
        self.client.close()
        self.served.close()
        for fd in (self.file, self._jobs_read, self._jobs, self._sent, self._sent_write):
            os.close(fd)


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    """Its sender does not wait for a full socket."""
    made = Outbox(segment(tmp_path), len(RANGE) - 200, wait_ms=0)
    yield made
    made.close()


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Outbox]:
    """Its sender waits for a full socket, longer than the test."""
    made = Outbox(segment(tmp_path), len(RANGE) - 200, wait_ms=60_000)
    yield made
    made.close()


def segment(folder: Path) -> Path:
    file = folder / "segment"
    file.write_bytes(RANGE)
    return file


def test_an_outbox_leaves_in_order_as_fast_as_the_socket_takes_it(outbox: Outbox) -> None:
    whole = HEAD + RANGE[100:-100] + TAIL
    outbox.client.settimeout(60)
    got = b""
    moved = 0
    while outbox.box[Box.NEXT] < outbox.box[Box.COUNT]:
        outbox.give()
        assert outbox.box[Box.ERROR] == 0
        moved += int(outbox.box[Box.MOVED])
        assert outbox.box[Box.FILE_LEFT] == max(0, len(whole) - len(TAIL) - moved)
        while len(got) < moved:
            got += outbox.client.recv(1 << 20)
    assert got == whole


def test_a_sender_waits_for_a_client_that_reads(patient: Outbox) -> None:
    whole = HEAD + RANGE[100:-100] + TAIL
    record = patient.lend(patient.box)
    patient.client.settimeout(20)
    got = b""
    while len(got) < len(whole):
        got += patient.client.recv(1 << 20)
    assert patient.returned() == record
    assert got == whole
    assert patient.box[Box.MOVED] == len(whole)
    assert patient.box[Box.FILE_LEFT] == patient.box[Box.ERROR] == 0


def test_a_sender_does_not_wait_while_another_outbox_does(patient: Outbox) -> None:
    other = Box.row()
    other[Box.SOCKET] = patient.served.fileno()
    records = [patient.lend(patient.box), patient.lend(other)]
    assert [patient.returned(), patient.returned()] == records
    assert 0 < patient.box[Box.MOVED] < len(RANGE)


def test_a_client_that_leaves_ends_the_wait(patient: Outbox) -> None:
    record = patient.lend(patient.box)
    patient.client.recv(100)
    patient.client.close()
    assert patient.returned() == record
    assert patient.box[Box.ERROR] != 0


def test_a_peer_that_has_gone_is_an_error(outbox: Outbox) -> None:
    outbox.client.close()
    outbox.give()
    assert os.strerror(int(outbox.box[Box.ERROR])) == "Broken pipe"


def test_a_file_that_became_shorter_is_an_error(outbox: Outbox, tmp_path: Path) -> None:
    os.truncate(tmp_path / "segment", 50)
    outbox.give()
    assert os.strerror(int(outbox.box[Box.ERROR])) == "Input/output error"
    assert outbox.box[Box.MOVED] == len(HEAD)


# --- with a network process ----------------------------------------------------------------------------------------


def filled(node_factory: NodeFactory) -> NetNode:
    """30 batches of 300,000 bytes, and a send buffer that takes little of them."""
    node = node_factory({"t": 1}, settings={"socket.send.buffer.bytes": "4096"})
    with node.connect() as writer:
        for _ in range(30):
            produce(writer, batch(b"y" * 300_000))
    assert node.closed_ids(1) == [1]
    return node


def everything() -> bytes:
    return fetch_frame(0, max_bytes=1 << 25, partition_max_bytes=1 << 25)


def descriptors(node: NetNode) -> int:
    return len(list(Path(f"/proc/{node.pid}/fd").iterdir()))


def test_files_of_an_outbox_are_in_use_until_its_last_part_is_sent(scene: KernelScene) -> None:
    """They must not be closed before."""
    boxes = scene.senders.boxes
    for number, parts in ((0, (5, 6)), (1, (7,)), (2, ())):
        boxes[number, Box.COUNT] = len(parts)
        for at, fd in enumerate((*parts, 99)):
            boxes[number, Box.PARTS + at * BoxPart.WORDS + BoxPart.FILE] = fd
    assert scene.senders.files() == {5, 6, 7}
    assert scene.senders.used() == 2


def test_requests_after_a_large_answer_wait_their_turn(node_factory: NodeFactory) -> None:
    node = filled(node_factory)
    link = node.connect()
    link.sendall(everything() + everything() + fetch_frame(29))
    sizes = []
    for _ in range(3):
        (part,) = read_fetch(read_frame(link), 11).responses[0].partitions
        sizes.append(len(offsets(part.records)))
    assert sizes == [30, 30, 1]


def test_a_request_that_comes_with_an_answer_from_a_sender_does_not_stop_the_answer(
    node_factory: NodeFactory,
) -> None:
    node = filled(node_factory)
    links = [node.connect() for _ in range(40)]
    for _ in range(3):
        for link in links:
            link.sendall(everything())
        for link in links:
            link.sendall(fetch_frame(29))
        for link in links:
            for expected in (30, 1):
                (part,) = read_fetch(read_frame(link), 11).responses[0].partitions
                assert len(offsets(part.records)) == expected


def test_clients_that_leave_in_the_middle_leave_nothing(node_factory: NodeFactory) -> None:
    node = filled(node_factory)
    other = node.connect()
    assert fetch(other, 29).responses[0].partitions[0].error_code == 0
    before = descriptors(node)
    links = [node.connect() for _ in range(40)]
    for link in links:
        link.sendall(everything())
        link.recv(100)
    for link in links:
        link.close()
    assert len(node.closed_ids(40)) == 40
    for _ in range(200):
        assert fetch(other, 29).responses[0].partitions[0].error_code == 0
    assert descriptors(node) == before


def test_more_large_answers_than_outboxes(node_factory: NodeFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Box, "ROWS", 2)
    node = filled(node_factory)
    links = [node.connect() for _ in range(6)]
    for link in links:
        link.sendall(everything())
    for link in reversed(links):
        (part,) = read_fetch(read_frame(link), 11).responses[0].partitions
        assert offsets(part.records) == list(range(30))
    for link in links:
        assert fetch(link, 29).responses[0].partitions[0].error_code == 0


def test_the_work_of_senders_is_counted_once_a_second(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1}, settings={"socket.send.buffer.bytes": "1048576"})
    moved = 0
    with node.connect() as link:
        produce(link, batch(b"y" * 300_000))
        for _ in range(3):
            link.sendall(everything())
            moved += 4 + len(read_frame(link))
    row = node.shared.metrics[0]
    deadline = time.monotonic() + 60
    while not row[bind("kbroker_sender_answers_total")] and time.monotonic() < deadline:
        time.sleep(0.02)
    # a young connection takes less than it is given: the loop itself sends an end that is no
    # sender's worth
    assert 1 <= row[bind("kbroker_sender_answers_total")] <= 3
    assert 300_000 < row[bind("kbroker_sender_sent_bytes_total")] <= moved
    assert row[bind("kbroker_outboxes_used")] == 0


def test_a_client_of_a_sender_is_disconnected_while_no_descriptor_is_free(
    scene: KernelScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dup(_: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "dup", dup)
    scene.tables.epoll.register(scene.served)
    scene.senders.close_later(scene.row, scene.served.fileno())
    assert scene.client.recv(1) == b""
    assert scene.served.fileno() >= 0
    scene.served.getsockname()  # a sender may still use it
