"""Fetches that the kernel serves by itself, against what the files hold: positions, limits, waiting,
and what it leaves to Python."""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.ipc.layout import Slot, SlotState
from kbroker.net.fetch.fetch_session import Session, Wanted
from kbroker.net.rows import Connection, Outcome, Read, ReadEnd, Segment, SessionEntry
from kbroker.net.rows import Context as ContextRow
from kbroker.net.rows import Session as SessionRow
from tests.net.fetch.kernel_scene import EPOCH, FIRST_SLOT, KernelScene, needs_cachestat
from tests.net.requests import TOPIC_ID

COMMITTED = 1


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[KernelScene]:
    needs_cachestat(tmp_path)
    found = KernelScene(tmp_path, [4, 11])
    yield found
    found.close()


def expected(
    scene: KernelScene, number: int, offset: int, end: int, left: int, most: int, first: bool
) -> bytes:
    """Bytes of a partition: from the batch that holds the offset, as many as limits and segment
    allow."""
    log = scene.logs[number]
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


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_an_answer_holds_what_the_files_hold(data: st.DataObject) -> None:
    """Versions, isolation, limits, high watermarks and last stable offsets at any batch."""
    with TemporaryDirectory() as folder:
        needs_cachestat(Path(folder))
        scene = KernelScene(
            Path(folder), data.draw(st.lists(st.integers(0, 1 << 20), min_size=1, max_size=3))
        )
        try:
            scene.show()
            for _ in range(3):
                _ask_anything(scene, data)
        finally:
            scene.close()


def _ask_anything(scene: KernelScene, data: st.DataObject) -> None:
    committed = data.draw(st.booleans())
    ends, wanted = {}, {}
    for number, log in enumerate(scene.logs):
        mark = data.draw(st.sampled_from(log.boundaries()))
        stable = data.draw(st.sampled_from([each for each in log.boundaries() if each <= mark]))
        scene.set_mark(number, mark, stable)
        ends[number] = stable if committed else mark
        wanted[number] = data.draw(st.integers(log.start, log.end))
    order = data.draw(st.permutations(sorted(wanted)))
    most, left = (data.draw(st.sampled_from((1, 100, 350, 700, 1 << 20))) for _ in range(2))
    version = data.draw(st.sampled_from((4, 5, 7, 9, 11, 12, 13, 15, 17)))
    outcome, answer = scene.serve(
        version,
        partitions={number: wanted[number] for number in order},
        partition_max_bytes=most,
        max_bytes=left,
        isolation=COMMITTED if committed else 0,
    )
    assert (outcome, answer is None) == (Outcome.SERVED, False)
    assert answer is not None
    (topic,) = answer.responses
    assert [part.partition_index for part in topic.partitions] == order
    first = True
    for part in topic.partitions:
        number = part.partition_index
        records = expected(scene, number, wanted[number], ends[number], left, most, first)
        words = scene.slot(number)
        assert bytes(part.records or b"") == records
        assert (part.error_code, part.high_watermark) == (0, words[Slot.HIGH_WATERMARK])
        assert part.last_stable_offset == words[Slot.LAST_STABLE]
        assert part.log_start_offset == (words[Slot.LOG_START] if version >= 5 else -1)
        assert part.aborted_transactions == ([] if committed else None)
        if records:
            first, left = False, max(0, left - len(records))


@pytest.mark.parametrize("sendfile", [False, True])
def test_a_reader_goes_on_where_its_last_read_ended(scene: KernelScene, sendfile: bool) -> None:
    """Without the list of segments the kernel can do that read, and no other."""
    scene.context.words[ContextRow.SENDFILE_MIN] = 0 if sendfile else 1 << 20
    scene.show()
    log = scene.logs[0]
    segment = log.batches[-1].segment
    start = log.batches[-1].base
    assert scene.serve(partitions={0: start})[0] == Outcome.SERVED
    scene.table.reads[FIRST_SLOT, Read.COUNT] = 0
    mark = log.batches[-1].last + 1
    # more is written behind it
    path = log.folder / f"{segment:020d}.log"
    before = path.stat().st_size
    with path.open("ab") as file:
        file.write(log.batches[0].data.replace(log.batches[0].data[:8], mark.to_bytes(8, "big"), 1))
    scene.slot(0)[[Slot.LOG_END, Slot.HIGH_WATERMARK, Slot.LAST_STABLE]] = mark + 1
    scene.slot(0)[[Slot.HW_BASE, Slot.HW_POSITION]] = segment, path.stat().st_size

    def ask(offset: int, partition: int = 0) -> int:
        return scene.serve(partitions={partition: offset})[0]

    memory = scene.context.connections[scene.row, Connection.NEXT : Connection.NEXT + ReadEnd.WORDS]
    kept = memory.copy()
    assert kept[ReadEnd.POSITION] == before
    assert ask(start) == Outcome.TO_PYTHON, "not where it ended"
    outcome, answer = scene.serve(partitions={0: mark})
    assert outcome == Outcome.SERVED
    assert answer is not None
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
    scene.context.words[ContextRow.PROBE] = 0


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
    assert scene.serve(partitions={0: offset})[0] == Outcome.SERVED
    scene.context.connections[scene.row, Connection.NEXT] = 0  # and forget where that ended
    change(scene)
    assert scene.serve(partitions={0: offset})[0] == Outcome.TO_PYTHON


UNCOMMON: list[dict[str, Any]] = [
    {"epoch": EPOCH - 1},
    {"epoch": EPOCH + 1},
    {"topic": "other"},
    {"partitions": {2: 0}},
    {"partitions": {-1: 0}},
    {"partitions": {}},
    {"session": (0, 0)},
    {"session": (5, 1)},
    {"session": (5, -1)},
    {"isolation": 2},
    {"isolation": -1},
    {"forget": [1]},
]


@pytest.mark.parametrize("how", UNCOMMON, ids=str)
@pytest.mark.parametrize("version", [7, 11, 12, 13])
def test_an_uncommon_request_is_left_to_python(scene: KernelScene, how: dict[str, Any], version: int) -> None:
    if "epoch" in how and version < 9:
        pytest.skip("the version has no epochs")
    scene.show()
    offset = scene.logs[0].start + 1
    assert scene.serve(version, partitions={0: offset}, epoch=EPOCH)[0] == Outcome.SERVED
    assert scene.serve(version, **{"partitions": {0: offset}, **how})[0] == Outcome.TO_PYTHON


def test_offsets_outside_of_the_log_are_left_to_python(scene: KernelScene) -> None:
    scene.show()
    log = scene.logs[0]
    outcomes = {
        offset: scene.serve(partitions={0: offset})[0]
        for offset in (log.start - 1, log.start, log.end, log.end + 1)
    }
    assert list(outcomes.values()) == [
        Outcome.TO_PYTHON, Outcome.SERVED, Outcome.SERVED, Outcome.TO_PYTHON,
    ]  # fmt: skip


def test_read_committed_behind_aborted_transactions_is_left_to_python(scene: KernelScene) -> None:
    scene.show()
    log = scene.logs[0]
    middle = log.batches[1].base
    scene.slot(0)[Slot.LAST_ABORTED] = middle

    def outcome(offset: int, isolation: int = COMMITTED) -> int:
        return scene.serve(partitions={0: offset}, isolation=isolation)[0]

    assert outcome(middle) == outcome(log.start) == Outcome.TO_PYTHON
    assert outcome(middle + 1) == outcome(middle, 0) == Outcome.SERVED
    scene.slot(0)[Slot.SEGMENTS_VERSION] = 3  # files are being replaced
    assert outcome(middle + 1) == Outcome.TO_PYTHON


def test_a_fetch_waits_for_min_bytes_of_all_its_partitions(scene: KernelScene) -> None:
    scene.show()
    wanted = {number: log.batches[-1].base for number, log in enumerate(scene.logs)}
    bytes_there = sum(len(log.batches[-1].data) for log in scene.logs)

    def outcome(min_bytes: int, max_wait_ms: int = 100, force: bool = False, max_bytes: int = 1 << 20) -> int:
        return scene.serve(
            partitions=wanted, min_bytes=min_bytes, max_wait_ms=max_wait_ms, force=force, max_bytes=max_bytes
        )[0]

    assert outcome(bytes_there) == Outcome.SERVED
    assert outcome(bytes_there + 1) == Outcome.WAITING
    assert outcome(bytes_there + 1, force=True) == Outcome.SERVED
    assert outcome(bytes_there + 1, max_wait_ms=0) == Outcome.SERVED
    assert outcome(bytes_there + 1, max_wait_ms=1) == Outcome.WAITING
    assert outcome(bytes_there + 1, max_bytes=bytes_there) == Outcome.SERVED, "more is never there"


class SessionModel:
    """A session that the kernel serves: what it must hold, in the order in which it is read."""

    def __init__(self, scene: KernelScene, most: int) -> None:
        self.most = most
        self.offsets = {number: log.start for number, log in enumerate(scene.logs)}
        self.order = list(self.offsets)
        self.reported = dict.fromkeys(self.order, -1)
        partitions = {
            ("t", n): Wanted("t", bytes(16), n, at, most, -1, -1) for n, at in self.offsets.items()
        }  # fmt: skip
        self.session = Session(scene.sessions.new_id(), dict(partitions), False, 0)
        self.epoch = self.session.epoch
        scene.sessions.lend(self.session)

    def ask(self, scene: KernelScene, changes: dict[int, int], left: int) -> None:
        """One request; the answer has what is new, and nothing else."""
        self.offsets |= changes
        outcome, answer = scene.serve(
            partitions=changes,
            partition_max_bytes=self.most,
            max_bytes=left,
            session=(self.session.id, self.epoch),
            min_bytes=0,
        )
        assert outcome == Outcome.SERVED
        assert answer is not None
        assert answer.session_id == self.session.id
        found = [part for topic in answer.responses for part in topic.partitions]
        wanted, first = {}, True
        for number in self.order:
            mark = int(scene.slot(number)[Slot.HIGH_WATERMARK])
            records = expected(scene, number, self.offsets[number], mark, left, self.most, first)
            if records or mark != self.reported[number]:
                wanted[number] = records
                self.reported[number] = mark
            if records:
                first, left = False, max(0, left - len(records))
        assert [(part.partition_index, bytes(part.records or b"")) for part in found] == list(wanted.items())
        for number in [each for each in self.order if wanted.get(each)]:
            self.order.remove(number)
            self.order.append(number)
        self.epoch = 1 if self.epoch == (1 << 31) - 1 else self.epoch + 1


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_session_answers_with_what_is_new(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        needs_cachestat(Path(folder))
        scene = KernelScene(Path(folder), [1, 2, 3])
        try:
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
            assert scene.serve(partitions={}, session=(model.session.id, model.epoch))[0] == Outcome.TO_PYTHON
        finally:
            scene.close()


def test_the_epoch_of_a_session_begins_anew_at_1(scene: KernelScene) -> None:
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
            scene.context.words[ContextRow.TOPICS_VERSION] += 1
        case "unplanned":
            entries, _ = scene.sessions._lent[model.session.id]
            entries[1, SessionEntry.INDEX] = 0
            partitions = {1: 0}
        case "gone":
            scene.sessions.drop(model.session.id)
    how: dict[str, Any] = {"partitions": partitions, "session": (model.session.id, epoch)}
    assert scene.serve(version, **how)[0] == Outcome.TO_PYTHON


def test_topics_are_named_by_id_in_a_session_that_began_so(scene: KernelScene) -> None:
    scene.show()
    start = scene.logs[0].start
    wanted = {(TOPIC_ID, 0): Wanted("t", TOPIC_ID, 0, start, 1 << 20, -1, -1)}
    session = Session(scene.sessions.new_id(), dict(wanted), True, 0)
    scene.sessions.lend(session)
    how: dict[str, Any] = {"partitions": {}, "session": (session.id, session.epoch)}
    assert scene.serve(12, **how)[0] == Outcome.TO_PYTHON
    outcome, answer = scene.serve(13, **how)
    assert outcome == Outcome.SERVED
    assert answer is not None
    (topic,) = answer.responses
    assert (topic.topic_id, [part.partition_index for part in topic.partitions]) == (TOPIC_ID, [0])
    assert topic.partitions[0].records
