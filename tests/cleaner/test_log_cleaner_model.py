"""After any cleanings, kills and restarts a log matches a model: latest values, offsets,
sequences."""

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.cleaner.log_cleaner import MapTooSmall
from kbroker.ipc.layout import Slot
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import WHOLE_LOG, LogReader
from kbroker.log.walk import walk
from kbroker.protocol.compression import Codec
from kbroker.protocol.records import Record, read_batches, read_records
from tests.cleaner.compacted import DAY, Compacted
from tests.io.deaths import Died

PRODUCERS = (None, 7, 8, 21, 22)  # 7 and 8 idempotent, 21 and 22 with transactions
pair = st.tuples(st.integers(0, 9).map(lambda n: b"key%d" % n), st.one_of(st.none(), st.binary(max_size=60)))
append = st.tuples(
    st.just("append"),
    st.lists(pair, min_size=1, max_size=6),
    st.sampled_from(list(Codec)),
    st.sampled_from(PRODUCERS),
)
operation = st.one_of(
    append,
    append,
    st.tuples(st.just("end"), st.sampled_from((21, 22)), st.booleans()),
    st.tuples(st.just("roll")),
    st.tuples(st.just("clean"), st.integers(-1, 60)),
    st.tuples(st.just("clean"), st.just(-1)),
    st.tuples(st.just("wait"), st.sampled_from((1, DAY // 2, DAY))),
    st.tuples(st.just("restart"), st.booleans()),
)


class Story:
    """A log and what it must say. written: offset to record, of all that was appended and not
    aborted."""

    def __init__(self, root: Path, map_bytes: int) -> None:
        self.case = Compacted(root, map_bytes, segment_bytes=700, delete_retention_ms=DAY)
        self.written: dict[int, tuple[bytes, bytes | None]] = {}
        self.open: dict[int, dict[int, tuple[bytes, bytes | None]]] = {}
        self.last_sequences: dict[int, int] = {}

    def append(self, pairs: list[tuple[bytes, bytes | None]], codec: Codec, producer: int | None) -> None:
        transactional = producer in (21, 22)
        base = self.case.append(pairs, codec, producer, transactional)
        records = {base + n: one for n, one in enumerate(pairs)}
        if transactional:
            assert producer is not None
            self.open.setdefault(producer, {}).update(records)
        else:
            self.written.update(records)

    def end(self, producer: int, commit: bool) -> None:
        if producer in self.open:
            records = self.open.pop(producer)
            self.case.end(producer, commit)
            if commit:
                self.written.update(records)

    def roll(self) -> None:
        self.case.roll()

    def clean(self, kill_at: int) -> None:
        end = self.case.partition.log_end
        try:
            self.case.clean(kill_at)
        except Died:
            self.restart(clean=False)
        except MapTooSmall:
            assert self.case._map.memory_bytes < 1000
        assert self.case.partition.log_end == end

    def wait(self, ms: int) -> None:
        self.case.clock += ms

    def restart(self, clean: bool) -> None:
        """Producers are as before. Those that had expired may be read from the log again, as by
        Apache Kafka."""
        before = self.remembered()
        self.last_sequences |= before
        self.case.log.now_ms = self.case.clock
        recovery_point = self.case.partition.recovery_point
        self.case.reopen(clean, recovery_point)
        after = self.remembered()
        for producer, sequence in after.items():
            if producer in before:
                assert sequence == before[producer]
            else:
                assert sequence <= self.last_sequences[producer]
        assert before.keys() & self.open.keys() <= after.keys()
        assert not [path for path in self.case.log.folder.iterdir() if path.suffix in (".swap", ".cleaned")]

    def remembered(self) -> dict[int, int]:
        """The last sequence of each producer."""
        return {entry.producer_id: entry.last_sequence for entry in self.case.log.producers.entries(3)}

    def check(self) -> None:
        """Every record is one that was written, in order; the latest of each key is there, or it
        was a tombstone."""
        stable = min((min(records) for records in self.open.values()), default=1 << 60)
        expected: dict[bytes, tuple[int, bytes | None]] = {}
        for offset in sorted(self.written):
            if offset < stable:
                key, value = self.written[offset]
                expected[key] = (offset, value)
        found: dict[bytes, Record] = {}
        last = -1
        for record in self.case.records():
            assert record.offset > last
            last = record.offset
            assert self.written[record.offset] == (record.key, record.value)
            assert record.key is not None
            found[record.key] = record
        for key, (offset, value) in expected.items():
            if value is None and (key not in found or found[key].offset != offset):
                assert key not in found, "an older value came back"
            else:
                assert (found[key].offset, found[key].value) == (offset, value)
        assert set(found) <= set(expected)


def test_an_expired_producer_may_be_found_again_after_a_kill(tmp_path: Path) -> None:
    story = Story(tmp_path, 288)
    story.append([(b"key0", None)], Codec.NONE, None)
    story.append([(b"key0", None)], Codec.NONE, 7)
    story.wait(DAY)
    story.restart(clean=True)
    assert story.remembered() == {}
    story.restart(clean=False)
    assert story.remembered() == {7: 0}


@pytest.mark.slow
@given(st.lists(operation, min_size=5, max_size=60), st.sampled_from((24 * 12, 24 * 40, 1 << 16)))
@settings(max_examples=150, deadline=None)
def test_any_history_of_appends_cleanings_kills_and_restarts(
    operations: list[tuple[object, ...]], size: int
) -> None:
    with TemporaryDirectory() as folder:
        story = Story(Path(folder), size)
        for name, *arguments in operations:
            method: Callable[..., None] = getattr(story, str(name))
            method(*arguments)
            story.check()
        story.roll()
        story.clean(-1)
        story.check()


def _history(root: Path) -> Story:
    """Two rounds of small segments with tombstones, transactions and several producers, the first
    one cleaned."""
    story = Story(root, 1 << 16)
    for turn in range(2):
        for n in range(18):
            key, other = b"key%d" % (n % 5), b"key%d" % (n % 3)
            producer = PRODUCERS[n % 5]
            value = None if n % 7 == turn else b"%d-%d" % (turn, n) * 10
            story.append([(key, value), (other, b"x" * n)], Codec(n % 5), producer)
            if n % 6 == 5:
                story.end(21, commit=n % 4 == 1)
                story.end(22, commit=turn == 1)
        for producer in (21, 22):
            story.end(producer, commit=False)
        story.roll()
        if turn == 0:
            story.clean(-1)
            story.wait(DAY + 1)
    return story


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_a_kill_at_every_step_leaves_what_there_was(tmp_path: Path, every: int) -> None:
    whole = _history(tmp_path / "whole")
    before = whole.case.records()
    whole.clean(-1)
    steps = whole.case.steps
    whole.check()
    expected = {"map", "group", "created", "filter", "written", "synced", "swapped", "swap done"}
    assert expected <= set(steps)
    assert "new .txnindex in place" in steps
    assert [name for name in steps if name.startswith("old 1")]
    for kill_at in range(0, len(steps), every):
        story = _history(tmp_path / f"killed-{kill_at}")
        story.clean(kill_at)
        story.check()
        stored = [batch.base_offset for segment in story.case.segments() for batch in segment]
        assert stored == sorted(set(stored)), steps[kill_at]  # what was replaced is not beside its successor
        assert set(whole.case.records()) <= set(story.case.records()) <= set(before)
        if kill_at and steps[kill_at - 1] == "swapped":  # nothing half done: what was removed is not back
            swapped = steps[:kill_at].count("swapped") == steps.count("swapped")
            assert not swapped or story.case.records() == whole.case.records()
        story.clean(-1)
        story.check()
        assert story.case.latest() == whole.case.latest(), steps[kill_at]


def test_readers_find_the_latest_values_at_every_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = _history(tmp_path).case
    old = LogReader(str(case.log.folder), OpenFiles())
    latest = {record.key: record for record in case.records()}
    seen = 0

    def look(name: str) -> None:
        nonlocal seen
        case.steps.append(name)
        version = int(case.log.words[Slot.SEGMENTS_VERSION])
        for reader in (old, LogReader(str(case.log.folder), OpenFiles())):
            for record in latest.values():
                place = reader.locate(record.offset, *WHOLE_LOG, version)
                assert place is not None, name
                part = reader.range(place, place.size, *WHOLE_LOG)
                assert part is not None
                data = os.pread(part.file.fd, part.length, part.position)
                assert record in list(read_records(next(read_batches(data)))), name
            walked = [placed.batch.base_offset for placed in walk(reader)]
            assert walked == sorted(set(walked))
            seen += 1

    look("before")
    monkeypatch.setattr(case, "_step", look)
    case.clean()
    assert seen > 2 * len(set(case.steps)) > 20
    assert case.log.words[Slot.SEGMENTS_VERSION] % 2 == 0
    assert case.woken
