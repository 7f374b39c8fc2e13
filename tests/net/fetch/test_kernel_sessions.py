"""Fetch sessions that the kernel serves, against a model."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.ipc.layout import Slot
from kbroker.ipc.messages import PartitionImage, TopicImage
from kbroker.net.fetch.fetch_kernel import plan_fetch
from kbroker.net.fetch.fetch_session import FetchedPartition, FetchSession, Key
from kbroker.net.fetch.session_table import MAX_PARTITIONS
from kbroker.net.rows import Context, Outcome, SessionEntry
from kbroker.net.rows import Session as SessionRow
from tests.net.fetch.kernel_scene import FIRST_SLOT, GENERATION, KernelScene, opened
from tests.net.requests import TOPIC_ID, fetch_frame


def begun(scene: KernelScene, requested: list[FetchedPartition], uses_ids: bool = False) -> FetchSession:
    """A session that the kernel serves from now on."""
    partitions: dict[Key, FetchedPartition] = {
        (each.topic_id if uses_ids else each.topic, each.partition): each for each in requested
    }
    session = FetchSession(scene.sessions.new_id(), partitions, uses_ids, 0)
    scene.sessions.lend(session)
    return session


class SessionModel:
    """A session that the kernel serves: what it must hold, in the order in which it is read."""

    def __init__(self, scene: KernelScene, most: int) -> None:
        self.most = most
        self.offsets = {number: log.start for number, log in enumerate(scene.logs)}
        self.order = list(self.offsets)
        self.reported = dict.fromkeys(self.order, -1)
        expected = [FetchedPartition("t", bytes(16), n, at, most, -1, -1) for n, at in self.offsets.items()]
        self.session = begun(scene, expected)
        self.epoch = self.session.epoch

    def ask(self, scene: KernelScene, changes: dict[int, int], left: int) -> None:
        """One request; the answer has what is new, and nothing else."""
        self.offsets |= changes
        answer = scene.answer(
            partitions=changes,
            partition_max_bytes=self.most,
            max_bytes=left,
            session=(self.session.id, self.epoch),
            min_bytes=0,
        )
        assert answer.session_id == self.session.id
        found = [part for topic in answer.responses for part in topic.partitions]
        requested, first = {}, True
        for number in self.order:
            mark = int(scene.slot(number)[Slot.HIGH_WATERMARK])
            records = scene.expected(number, self.offsets[number], mark, left, self.most, first)
            if records or mark != self.reported[number]:
                requested[number] = records
                self.reported[number] = mark
            if records:
                first, left = False, max(0, left - len(records))
        assert [(part.partition_index, bytes(part.records or b"")) for part in found] == list(
            requested.items()
        )
        for number in [each for each in self.order if requested.get(each)]:
            self.order.remove(number)
            self.order.append(number)
        self.epoch = 1 if self.epoch == (1 << 31) - 1 else self.epoch + 1


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_session_answers_with_what_is_new(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder, opened(Path(folder), [1, 2, 3]) as scene:
        scene.show()
        model = SessionModel(scene, data.draw(st.sampled_from((1, 300, 1 << 20))))
        numbers = st.integers(0, 2)
        for _ in range(data.draw(st.integers(1, 6))):
            for number in data.draw(st.sets(numbers)):
                scene.set_mark(number, data.draw(st.sampled_from(scene.logs[number].boundaries())))
            changes = {
                number: data.draw(st.integers(scene.logs[number].start, scene.logs[number].end))
                for number in data.draw(st.lists(numbers, unique=True))
            }
            model.ask(scene, changes, data.draw(st.sampled_from((1, 500, 1 << 20))))
        scene.sessions.take_back(model.session)
        assert model.session.epoch == model.epoch
        kept = [(each.partition, each.fetch_offset) for each in model.session.partitions.values()]
        assert kept == [(number, model.offsets[number]) for number in model.order]
        assert scene.outcome(partitions={}, session=(model.session.id, model.epoch)) == Outcome.TO_PYTHON


def test_the_epoch_of_a_session_wraps_to_1(scene: KernelScene) -> None:
    scene.show()
    model = SessionModel(scene, 1 << 20)
    row = scene.sessions._row(model.session)
    row[SessionRow.EPOCH] = model.epoch = (1 << 31) - 1
    model.ask(scene, {}, 1 << 20)
    assert row[SessionRow.EPOCH] == model.epoch == 1
    model.ask(scene, {}, 1 << 20)


@pytest.mark.parametrize("change", ["epoch", "ids", "topics", "unplanned", "gone"])
def test_a_session_that_differs_from_the_request_is_left_to_python(scene: KernelScene, change: str) -> None:
    scene.show()
    model = SessionModel(scene, 1 << 20)
    model.ask(scene, {}, 1 << 20)
    version, epoch, partitions = 11, model.epoch, {0: scene.logs[0].start}
    match change:
        case "epoch":
            epoch += 1
        case "ids":
            version = 13
        case "topics":
            scene.topics.apply([], ("another",), False, 2)
            scene.tables.words[Context.TOPICS_VERSION] += 1
        case "unplanned":
            entries, _ = scene.sessions._lent[model.session.id]
            entries[1, SessionEntry.INDEX] = 0
            partitions = {1: 0}
        case "gone":
            scene.sessions.drop(model.session.id)
    how: dict[str, Any] = {"partitions": partitions, "session": (model.session.id, epoch)}
    assert scene.outcome(version, **how) == Outcome.TO_PYTHON


def test_topics_are_named_by_id_in_a_session_that_began_so(scene: KernelScene) -> None:
    scene.show()
    start = scene.logs[0].start
    session = begun(scene, [FetchedPartition("t", TOPIC_ID, 0, start, 1 << 20, -1, -1)], uses_ids=True)
    how: dict[str, Any] = {"partitions": {}, "session": (session.id, session.epoch)}
    assert scene.outcome(12, **how) == Outcome.TO_PYTHON
    answer = scene.answer(13, **how)
    (topic,) = answer.responses
    assert (topic.topic_id, [part.partition_index for part in topic.partitions]) == (TOPIC_ID, [0])
    assert topic.partitions[0].records


@pytest.mark.parametrize("version", [11, 12])
def test_partitions_of_one_number_in_two_topics_are_distinguished(scene: KernelScene, version: int) -> None:
    scene.show()
    starts = [log.start for log in scene.logs]
    requested = zip("tu", starts, strict=True)
    session = begun(
        scene, [FetchedPartition(topic, bytes(16), 0, at, 1 << 20, -1, -1) for topic, at in requested]
    )
    later = scene.logs[1].batches[1].base
    answer = scene.answer(
        version, topic="u", partitions={0: later}, session=(session.id, session.epoch), min_bytes=0
    )
    found = {topic.topic: bytes(topic.partitions[0].records or b"") for topic in answer.responses}
    ends = [log.end for log in scene.logs]
    first = scene.expected(0, starts[0], ends[0], 1 << 20, 1 << 20, True)
    second = scene.expected(1, later, ends[1], 1 << 20, 1 << 20, False)
    assert found == {"t": first, "u": second}


def test_a_session_is_planned_as_quickly_in_any_order(scene: KernelScene) -> None:
    """Its partitions are named again and again, in their order or in the reverse one."""
    scene.show()
    folder = str(scene.logs[0].folder)
    numbers = range(MAX_PARTITIONS)
    parts = [PartitionImage(number, FIRST_SLOT, GENERATION, folder) for number in numbers]
    scene.topics.apply([TopicImage("u", b"u" * 16, False, tuple(parts))], (), False, 2)
    end = scene.logs[0].end
    session = begun(scene, [FetchedPartition("u", bytes(16), number, end, 1, -1, -1) for number in numbers])
    how: dict[str, Any] = {"topic": "u", "session": (session.id, session.epoch), "min_bytes": 0}
    took = []
    for order in (numbers, reversed(numbers)):
        request = fetch_frame(named=[(number, end) for number in order] * 4, **how)[4:]
        frame = np.frombuffer(request, np.uint8).copy()
        times = []
        for _ in range(3):
            began = time.thread_time()
            outcome = plan_fetch(scene.tables.address, scene.row, int(frame.ctypes.data), len(frame))
            times.append(time.thread_time() - began)
            assert outcome == Outcome.READY
        took.append(min(times))
    assert took[1] < 10 * took[0]
