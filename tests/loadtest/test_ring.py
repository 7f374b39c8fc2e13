"""What goes into a ring comes out of it: every block, whole, in order, whichever side is faster."""

import fcntl
import os
import pickle
import random
import resource
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from loadtest.ring import RING_BYTES, Receiver, Ring, Sender


@pytest.fixture
def ends() -> Iterator[tuple[Sender, Receiver, int]]:
    ring = Ring()
    receives, sends = os.pipe()
    yield Sender(ring, sends), Receiver(ring, receives), sends
    os.close(receives)
    ring.close()


def block(number: int, largest: int) -> list[bytes]:
    chance = random.Random(number)
    return [number.to_bytes(8, "big"), chance.randbytes(16) * chance.randrange(largest), b""]


def test_blocks_of_all_sizes_pass_many_times_around(ends: tuple[Sender, Receiver, int]) -> None:
    sender, receiver, pipe = ends
    count, largest = 120, RING_BYTES // 40  # up to 2/5 of the ring each

    def feed() -> None:
        for number in range(count):
            sender.send(block(number, largest), lambda: True)
        os.close(pipe)

    feeder = threading.Thread(target=feed)
    feeder.start()
    for number in range(count):
        parts = receiver.next()
        assert parts is not None
        assert [bytes(part) for part in parts] == block(number, largest)
    assert receiver.next() is None
    feeder.join()


def test_a_full_ring_waits_only_while_its_receiver_lives(ends: tuple[Sender, Receiver, int]) -> None:
    sender, receiver, pipe = ends
    half = bytes(RING_BYTES // 2)
    sender.send([half], lambda: True)
    with pytest.raises(BrokenPipeError):
        sender.send([half], lambda: False)
    parts = receiver.next()
    assert parts is not None
    assert parts[0] == half
    sender.send([half], lambda: False)  # there is room again
    with pytest.raises(ValueError, match="larger than the ring"):
        sender.send([half, half], lambda: True)
    os.close(pipe)


def test_arrays_come_out_as_they_went_in(ends: tuple[Sender, Receiver, int]) -> None:
    sender, receiver, pipe = ends
    columns: dict[str, Any] = {
        "odd": np.arange(7, dtype=np.int8),
        "long": np.arange(1000),
        "every other": np.arange(100)[::2],
    }
    parts: list[bytes | pickle.PickleBuffer] = []
    parts.insert(0, pickle.dumps(columns, protocol=5, buffer_callback=parts.append))
    sender.send(parts, lambda: True)
    taken = receiver.next()
    assert taken is not None
    found = pickle.loads(taken[0], buffers=taken[1:])
    assert {name: found[name].tolist() for name in found} == {
        name: columns[name].tolist() for name in columns
    }
    os.close(pipe)


def test_descriptors_above_1023_are_served(ends: tuple[Sender, Receiver, int]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    sender, receiver, _ = ends
    high = fcntl.fcntl(receiver._pipe, fcntl.F_DUPFD_CLOEXEC, 1024)
    try:
        far = Receiver(receiver._ring, high)
        assert not far.ready(0)
        sender.send(block(1, 1), lambda: True)
        assert far.ready(0)
        assert [bytes(part) for part in far.next() or []] == block(1, 1)
    finally:
        os.close(high)
