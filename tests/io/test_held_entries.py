"""Entries that the drain leaves to Python: each marker ends its transaction before it is answered,
and each range is answered when it is in memory."""

import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kbroker.io.append.drain import HeldAppend
from kbroker.io.append.producer_table import EndTxnMarker
from kbroker.io.held_entries import READ_AHEADS, HeldEntries
from kbroker.ipc.layout import AppendEntry, Completion, Operation
from kbroker.ipc.ring import ring_push
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.records import ControlType, build_control_batch
from tests.io.append.drain_case import CAPACITY, DrainCase
from tests.io.append.transaction_entries import CONTROL_CLIENT, data, push

TOKEN = 99
SEGMENT_BASE = 20
PRODUCER_ID = 77


class Scene:
    """A drain, its held entries, and one log, whose segment of SEGMENT_BASE is a file."""

    def __init__(self, folder: Path) -> None:
        self.case = DrainCase(folder)
        self.file = folder / "segment"
        self.file.write_bytes(b"x" * 5000)
        self.broken: OSError | None = None
        self.ended: list[EndTxnMarker] = []
        self.log_errors: list[tuple[int, OSError]] = []
        self.read_errors: list[tuple[int, OSError]] = []
        self.safe: list[HeldAppend] = []
        self.refused: list[HeldAppend] = []
        self.read = threading.Event()
        logs: Any = SimpleNamespace(
            get=lambda slot: self if slot == self.case.slot else None,
            segment_file=lambda _, base: self.file if base == SEGMENT_BASE else None,
            failures=SimpleNamespace(
                log_failed=lambda *each: self.log_errors.append(each),
                read_failed=lambda *each: self.read_errors.append(each),
            ),
        )
        durability: Any = SimpleNamespace(hold=self.safe.append, refuse=self.refused.append)
        self.held = HeldEntries(self.case.drain, logs, durability, self.read.set)

    def complete_transaction(self, marker: EndTxnMarker) -> None:
        if self.broken is not None:
            raise self.broken
        self.ended.append(marker)

    def take(self) -> None:
        self.case.drain.run()
        self.held.take()

    def push_marker(self) -> None:
        """Begin a transaction and end it."""
        push(self.case, data(verified_at=AppendEntry.ANY_TRANSACTION), Operation.APPEND_VERIFIED)
        marker = build_control_batch(
            ControlType.COMMIT,
            producer_id=PRODUCER_ID,
            producer_epoch=0,
            coordinator_epoch=5,
            timestamp_ms=9,
            base_offset=0,
        )
        push(self.case, marker, client=CONTROL_CLIENT)

    def push_read_ahead(self, segment_base: int = SEGMENT_BASE) -> None:
        entry = AppendEntry.row()
        entry[AppendEntry.OPERATION] = Operation.READ_AHEAD
        entry[AppendEntry.SLOT] = self.case.slot
        entry[AppendEntry.GENERATION] = segment_base
        entry[AppendEntry.LENGTH] = 3000
        entry[AppendEntry.TOKEN] = TOKEN
        assert ring_push(self.case.shared.append_ring(0, 0), CAPACITY, np.array(entry, np.int64))

    def answer_read(self) -> list[tuple[int, int, int]]:
        """The answers once the threads have read."""
        assert self.read.wait(10)
        self.held.close()  # waits for the threads
        self.held.answer_read()
        self.case.drain.wake()
        return self.case.outcomes()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.held.close()


def test_a_marker_ends_its_transaction_and_then_waits_until_it_is_safe(scene: Scene) -> None:
    scene.push_marker()
    scene.take()
    assert [(each.producer_id, each.commit, each.coordinator_epoch) for each in scene.ended] == [
        (PRODUCER_ID, True, 5)
    ]
    assert [each.slot for each in scene.safe] == [scene.case.slot]
    assert scene.refused == []


def test_a_marker_whose_transaction_cannot_be_indexed_is_refused(scene: Scene) -> None:
    scene.broken = OSError(errno.EIO, "index")
    scene.push_marker()
    scene.take()
    assert scene.log_errors == [(scene.case.slot, scene.broken)]
    assert [each.slot for each in scene.refused] == [scene.case.slot]
    assert scene.safe == []


def test_a_range_is_answered_once_it_has_been_read(scene: Scene) -> None:
    scene.push_read_ahead()
    scene.take()
    assert scene.answer_read() == [(TOKEN, 0, -1)]
    assert scene.case.drain.metrics.words[READ_AHEADS] == 1
    assert scene.read_errors == []


def test_a_range_that_cannot_be_read_is_answered_too_and_its_log_dir_may_be_to_blame(scene: Scene) -> None:
    scene.file.unlink()
    scene.push_read_ahead()
    scene.take()
    assert scene.answer_read() == [(TOKEN, 0, -1)]
    assert [(slot, error.errno) for slot, error in scene.read_errors] == [(scene.case.slot, errno.ENOENT)]


def test_a_range_of_a_segment_that_is_gone_is_refused_at_once(scene: Scene) -> None:
    scene.push_read_ahead(segment_base=0)
    scene.take()
    assert scene.case.outcomes() == [(TOKEN, int(ErrorCode.NOT_LEADER_OR_FOLLOWER), -1)]


@pytest.mark.parametrize("segment_base", [SEGMENT_BASE, 0])
def test_an_answer_for_which_a_ring_has_no_room_is_given_later(scene: Scene, segment_base: int) -> None:
    """It was dropped, and the fetch waited forever."""
    scene.push_read_ahead(segment_base)
    scene.case.drain.run()
    ring = scene.case.shared.completion_ring(0, 0)
    while ring_push(ring, CAPACITY, np.zeros(Completion.STRIDE // 8, np.int64)):
        pass
    scene.held.take()
    if segment_base == SEGMENT_BASE:
        assert scene.read.wait(10)
        scene.held.close()
    scene.held.answer_read()
    assert scene.held.unanswered
    assert len(scene.case.answers()) == CAPACITY
    scene.held.answer_read()
    assert not scene.held.unanswered
    assert [token for token, *_ in scene.case.outcomes()] == [TOKEN]


def test_fetches_that_wait_at_a_log_are_woken_when_a_transaction_has_ended(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    notified: list[tuple[int, int]] = []
    monkeypatch.setattr(scene.case.drain, "notify", lambda slot: notified.append((slot, len(scene.ended))))
    scene.push_marker()
    scene.take()
    assert notified == [(scene.case.slot, 1)]
