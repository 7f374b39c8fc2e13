"""The files of segments that kernels read, while Python opens and closes them."""

import os
from contextlib import suppress

import numpy as np

from kbroker.net.fetch.fetch_kernel import serve_fetch
from kbroker.net.rows import Context, Event, EventKind, Outcome
from tests.net.fetch.kernel_scene import FIRST_SLOT, KernelScene
from tests.net.requests import fetch_frame


def fill(scene: KernelScene) -> None:
    """Send until the client's socket takes no more."""
    with suppress(BlockingIOError):
        while True:
            scene.served.send(bytes(1 << 16))


def test_a_file_whose_rest_is_left_to_python_is_that_of_the_read(scene: KernelScene) -> None:
    """Before Python takes it, it may have read for other clients, and closed the segment."""
    words = scene.tables.words
    words[[Context.SENDFILE_MIN, Context.FREE_BOX]] = 0, -1  # each range is a file; no outbox is free
    scene.show()
    fill(scene)
    log = scene.logs[1]
    frame = np.frombuffer(fetch_frame(0, 11, partitions={1: log.start})[4:], np.uint8).copy()
    words[[Context.OUT_USED, Context.EVENT_COUNT]] = 0
    outcome = serve_fetch(scene.tables.address, scene.row, int(frame.ctypes.data), len(frame), 0)
    assert outcome == Outcome.SERVED
    events = scene.tables.events[: int(words[Context.EVENT_COUNT])]
    (left,) = events[events[:, Event.KIND] == EventKind.UNSENT_FILE].tolist()
    opened = scene.table.source(left[Event.A])
    scene.table.forget(FIRST_SLOT + 1)
    file = scene.table.source(left[Event.A])
    assert file is opened
    expected = scene.expected(1, log.start, log.end, 1 << 20, 1 << 20, True)
    assert os.pread(file.fd, left[Event.C], left[Event.B]) == expected
