"""The files of segments that kernels read, while Python opens and closes them."""

import asyncio
import os
from contextlib import suppress

import numpy as np
import pytest

from kbroker.net.fetch import read_table
from kbroker.net.fetch.fetch_kernel import serve_fetch
from kbroker.net.rows import Context, Event, EventKind, Outcome, Segment
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


def test_the_segments_that_were_opened_first_are_closed_first(scene: KernelScene) -> None:
    scene.show()
    opened = list(scene.table._open.items())
    assert len(opened) > 2
    scene.table.shrink(2)
    assert list(scene.table._open.items()) == opened[-2:]
    fds = scene.table.segments[[at for at, _ in opened], Segment.LOG_FD].tolist()
    assert fds == [-1] * (len(opened) - 2) + [files.log.fd for _, files in opened[-2:]]


def test_no_more_segments_are_open_than_connections_leave_descriptors_for(scene: KernelScene) -> None:
    scene.table.max_open = 1
    scene.show()
    assert len(scene.table._open) == 1


def test_many_closed_files_do_not_wait_for_the_next_second(
    scene: KernelScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that reads one old segment after the other would otherwise use up all descriptors
    before that."""
    monkeypatch.setattr(read_table, "MAX_LEAVING", 2)

    async def leaving_after_closing(count: int) -> list[int]:
        scene.table.shrink(len(scene.table._open) - count)
        found = [len(scene.table._leaving)]
        await asyncio.sleep(0)
        return [*found, len(scene.table._leaving)]

    scene.show()
    assert asyncio.run(leaving_after_closing(1)) == [1, 1]
    assert asyncio.run(leaving_after_closing(1)) == [2, 0], "they stay open within the turn"
