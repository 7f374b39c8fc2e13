"""Full rings, a full arena, slow readers, dead processes: nothing is lost, and other clients do not
wait."""

import os
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from kbroker.ipc.child import STOP_SIGNAL
from kbroker.ipc.layout import AppendEntry, ProcessLine, Slot
from kbroker.ipc.messages import Image
from kbroker.ipc.ring import mark_recovered, ring_take
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.forked_child import catches, exit_code
from tests.net.conftest import NodeFactory
from tests.net.doubles import ask, read_frame
from tests.net.requests import (
    PRODUCE,
    TOPIC_ID,
    batch,
    fetch_frame,
    is_closed,
    produce,
    produce_frame,
    read_fetch,
    read_produce,
)
from tests.peer.eventually import eventually

SMALL_ARENA = {"kbroker.arena.bytes": str(16 << 20), "socket.request.max.bytes": str(16 << 20)}


def numbers_of(link: socket.socket, count: int) -> list[int]:
    return [struct.unpack_from(">i", read_frame(link))[0] for _ in range(count)]


def test_full_rings_stop_reading_and_lose_nothing(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1}, ring_entries=16)
    node.worker.hold_entries()
    links = [node.connect() for _ in range(10)]
    for link in links:
        link.sendall(b"".join(produce_frame(batch(), number=n) for n in range(40)))
    time.sleep(0.3)
    assert node.worker.batches == []
    node.worker.hold.clear()
    for link in links:
        assert numbers_of(link, 40) == list(range(40))
    assert sum(count for _, _, count in node.worker.batches) == 400


def test_a_full_arena_stops_reading_and_loses_nothing(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1}, settings=SMALL_ARENA, ring_entries=4096)
    node.worker.hold_entries()
    data = batch(os.urandom(900_000))
    links = []
    for number in range(40):
        link = node.connect()
        link.setblocking(False)
        frame = produce_frame(data, number=number)
        try:
            sent = link.send(frame)
        except BlockingIOError:
            sent = 0
        links.append((link, frame[sent:]))
    time.sleep(0.5)
    node.worker.hold.clear()
    for link, rest in links:
        link.settimeout(60)
        link.sendall(rest)
    for number, (link, _) in enumerate(links):
        assert numbers_of(link, 1) == [number]
    assert len(node.worker.batches) == 40


def test_a_frame_larger_than_the_arena_is_refused(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1}, settings=SMALL_ARENA)
    link = node.connect()
    link.sendall(struct.pack(">i", 15 << 20) + b"x")
    assert is_closed(link)
    assert produce(node.connect(), batch()).error_code == 0


def test_a_request_of_100_mb_is_answered(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 96})
    data = batch(b"z" * 1_000_000)
    parts = [PartitionProduceData(p, data) for p in range(96)]
    topics = [TopicProduceData("t", TOPIC_ID, parts)]
    frame = encode_request(PRODUCE, 9, 1, "test", ProduceRequest(None, 1, 1000, topics))
    link = node.connect()
    answer = read_produce(ask(link, frame), 9)
    assert {p.error_code for p in answer.responses[0].partition_responses} == {0}
    assert produce(link, batch()).error_code == 0


def test_a_slow_reader_does_not_delay_others(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1})
    other = node.connect()
    for _ in range(20):
        produce(other, batch(b"y" * 500_000))
    slow = node.connect()
    slow.sendall(fetch_frame(0, max_bytes=1 << 24, partition_max_bytes=1 << 24))
    slow.sendall(b"".join(produce_frame(batch(), number=n) for n in range(2000)))
    for _ in range(50):
        assert produce(other, batch()).error_code == 0
    (part,) = read_fetch(read_frame(slow), 11).responses[0].partitions
    assert len(part.records or b"") > 9_000_000
    assert numbers_of(slow, 2000) == list(range(2000))


def test_a_client_that_never_reads_its_produce_answers(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1}, settings={"socket.send.buffer.bytes": "4096"})
    link = node.connect()
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    count = 3000
    frames = b"".join(produce_frame(batch(), number=n) for n in range(count))
    link.setblocking(False)
    sent = link.send(frames)
    time.sleep(0.3)
    assert produce(node.connect(), batch()).error_code == 0
    link.settimeout(60)
    found: list[int] = []
    view = memoryview(frames)[sent:]
    while len(found) < count:
        if view:
            link.settimeout(0.01)
            try:
                view = view[link.send(view) :]
            except (TimeoutError, BlockingIOError):
                pass
            link.settimeout(60)
        found += numbers_of(link, 1)
    assert found == list(range(count))


@pytest.mark.parametrize("partitions", [1, 6000], ids=["of a kernel", "of Python"])
def test_a_client_that_never_reads_its_fetch_answer_keeps_no_deleted_file(
    node_factory: NodeFactory, partitions: int
) -> None:
    """The space of the topic's files was not given back as long as the client was connected."""
    settings = {"connections.max.idle.ms": "1000", "socket.send.buffer.bytes": "4096"}
    node = node_factory({"t": 1}, settings=settings)
    other = node.connect()
    for _ in range(20):
        produce(other, batch(b"y" * 500_000))
    log = node.folders[0] / f"{0:020}.log"

    def is_open() -> bool:
        for each in Path(f"/proc/{node.pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed since it was listed
                if str(each.readlink()).startswith(str(log)):
                    return True
        return False

    unread = node.connect()
    asked = dict.fromkeys(range(partitions), 0)
    unread.sendall(fetch_frame(partitions=asked, max_bytes=1 << 24, partition_max_bytes=1 << 24))
    unread.settimeout(60)
    unread.recv(1)
    node.control.send(Image(2, False, (), ("t",)))
    log.unlink()
    assert is_open(), "the answer is sent from it"
    eventually(lambda: not is_open())


def test_entries_that_died_with_an_io_worker_are_answered_retriable(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1})
    link = node.connect()
    node.worker.hold_entries()
    link.sendall(produce_frame(batch(), number=1) + produce_frame(batch(), number=2))
    taken: list[int] = []
    entries = np.zeros((16, 8), np.int64)
    ring = node.shared.append_ring(0, 0)
    while len(taken) < 2:
        count = ring_take(ring, node.shared.sizes.ring_entries, entries)
        taken += entries[:count, AppendEntry.TOKEN].tolist()
    mark_recovered(ring)  # the worker that took them is dead, its successor has begun
    for number in (1, 2):
        frame = read_frame(link)
        assert struct.unpack_from(">i", frame)[0] == number
        (part,) = read_produce(frame, 7).responses[0].partition_responses
        assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    node.worker.hold.clear()
    assert produce(link, batch()).error_code == 0


def test_a_repeated_completion_settles_no_other_request(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1})
    link = node.connect()
    node.worker.hold_entries()
    link.sendall(produce_frame(batch(), number=1))
    entries = np.zeros((16, 8), np.int64)
    while not ring_take(node.shared.append_ring(0, 0), node.shared.sizes.ring_entries, entries):
        time.sleep(0.001)
    token = int(entries[0, AppendEntry.TOKEN])
    node.worker._complete(0, token, 0, 7, 0)
    os.eventfd_write(node.shared.event_fds[0], 1)
    (part,) = read_produce(read_frame(link), 7).responses[0].partition_responses
    assert part.base_offset == 7
    link.sendall(produce_frame(batch(), number=2))
    time.sleep(0.05)
    node.worker._complete(0, token, 0, 8, 0)
    os.eventfd_write(node.shared.event_fds[0], 1)
    time.sleep(0.1)
    node.worker.hold.clear()
    (part,) = read_produce(read_frame(link), 7).responses[0].partition_responses
    assert part.base_offset == 0, "the append's own completion"


def test_a_killed_process_is_succeeded_without_old_completions(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1})
    link = node.connect()
    node.worker.hold_entries()
    link.sendall(b"".join(produce_frame(batch(), number=n) for n in range(20)))
    node.wait_for_appends(20)
    node.kill()
    assert is_closed(link)
    node.fork()
    time.sleep(0.2)
    assert node.shared.processes[0, ProcessLine.READY] != node.shared.processes[0, ProcessLine.EPOCH]
    node.worker.hold.clear()
    node.wait_ready()
    link = node.connect()
    assert produce(link, batch()).base_offset == len(node.worker.batches) - 1
    assert len(node.worker.batches) == 21


def test_a_process_that_waits_for_a_hung_worker_takes_a_stop(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1})
    link = node.connect()
    node.worker.hold_entries()
    link.sendall(produce_frame(batch()))
    node.wait_for_appends(1)
    node.kill()
    node.fork()
    eventually(lambda: catches(node.pid, STOP_SIGNAL))
    os.kill(node.pid, STOP_SIGNAL)
    code, node.pid = exit_code(node.pid, 60), 0
    assert code == 0


def test_a_stop_answers_what_was_received(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1})
    link, waiting = node.connect(), node.connect()
    node.worker.hold_entries()
    link.sendall(produce_frame(batch(), number=5))
    waiting.sendall(fetch_frame(0, max_wait_ms=30_000))
    node.wait_for_appends(1)
    eventually(lambda: bool(node.shared.slots[0, Slot.WAITERS] & 1))
    os.kill(node.pid, STOP_SIGNAL)
    time.sleep(0.1)
    node.worker.hold.clear()
    assert numbers_of(link, 1) == [5]
    assert read_fetch(read_frame(waiting), 11).responses[0].partitions[0].error_code == 0
    assert is_closed(link)


def test_2000_connections_come_and_go(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1})
    links = []
    for _ in range(1500):
        links.append(node.connect())
    for link in links[::7]:
        assert produce(link, batch()).error_code == 0
    for link in links:
        link.close()
    assert len(node.closed_ids(1500)) == 1500
    assert node.shared.processes[0, ProcessLine.CONNECTIONS] == 0
    assert produce(node.connect(), batch()).error_code == 0
