"""What a clean stop leaves of a log is what its files say, and is not believed when they say
otherwise."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.io.files.log_dir import take_closed
from kbroker.io.recovery import loaded_log
from kbroker.io.recovery.loaded_log import ClosedLog, LoadedLog
from kbroker.log import files
from tests.io.append.plain_append import NOW, Log, names, offsets, topic_config
from tests.io.recovery.torn_log import appended
from tests.log.batch_bytes import batch

DAY_MS = 86_400_000
TOPIC_ID = b"\1" * 16


def closed(log: Log) -> ClosedLog:
    """Closed, written, read again."""
    left = log.partition.close()
    assert left is not None
    loaded_log.write_closed(str(log.root), 0, [left])
    (content,) = take_closed(str(log.root))
    return loaded_log.parse_closed(content)["t", 0]


def restore(log: Log, left: ClosedLog, topic_id: bytes = TOPIC_ID, now_ms: int = NOW) -> LoadedLog | None:
    """At the next start; the checkpoints say what the stop wrote into them."""
    end, start = left.active[2], log.partition.checkpointed_log_start or 0
    log.__post_init__()
    return load(log, left, topic_id, end, start, now_ms)


def load(
    log: Log, left: ClosedLog, topic_id: bytes, recovery_point: int, log_start: int, now_ms: int = NOW
) -> LoadedLog | None:
    expired = now_ms - DAY_MS
    return loaded_log.restore(left, str(log.folder), topic_id, recovery_point, log_start, expired)


def essence(loaded: LoadedLog) -> tuple[object, ...]:
    """All of it but what is only looked up again when it is not known."""
    segments = [(segment.base_offset, segment.size) for segment in loaded.closed]
    rest = loaded.log_start, loaded.recovery_point, loaded.first_unstable, loaded.has_aborted
    return segments, loaded.active, loaded.epochs.entries, sorted(loaded.producers, key=str), rest


STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 3), st.integers(1, 200)),
    st.tuples(st.just("roll"), st.just(0), st.just(0)),
    st.tuples(st.just("epoch"), st.integers(0, 3), st.just(0)),
    st.tuples(st.just("delete"), st.integers(0, 100), st.just(0)),
    st.tuples(st.just("retain"), st.just(0), st.just(0)),
    st.tuples(st.just("restart"), st.integers(0, 1), st.just(0)),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(STEPS, max_size=25), st.integers(0, 1000))
def test_a_recalled_log_is_the_one_that_its_files_give(
    steps: list[tuple[str, int, int]], interval: int
) -> None:
    with tempfile.TemporaryDirectory() as root:
        log = Log(Path(root), topic_config(segment_bytes=600, index_interval_bytes=interval))
        log.open()
        for number, (step, a, b) in enumerate(steps):
            partition = log.partition
            if step == "append":
                producer = {"producer_id": a, "producer_epoch": 0, "base_sequence": number} if a else {}
                log.append(batch(0, [b"x" * b], [NOW + number * (-1) ** a], **producer))
            elif step == "roll":
                partition.roll(NOW)
            elif step == "epoch":
                partition.role.set_leader_epoch(partition.epochs.latest + 1 + a)
            elif step == "delete":
                partition.delete_records(min(a, partition.high_watermark))
            elif step == "retain":
                partition.retention(NOW)
                if (removal := log.deletions.remove_due(1 << 60)) is not None:
                    removal.result()  # what a thread has not removed yet keeps the stop from saving the log's state
            else:
                left = partition.close() if a else None
                if left is not None:
                    loaded = restore(log, left)
                    assert loaded is not None
                    log.bring_online(loaded, loaded.epochs.latest)
                else:
                    start, epoch = partition.checkpointed_log_start or 0, partition.epochs.latest
                    log.reopen(log_start=start, epoch=epoch)  # epochs never go back
        left, start = log.partition.close(), log.partition.checkpointed_log_start or 0
        assert left is not None
        restored = restore(log, left)
        assert restored is not None
        loaded = log.load(True, left.active[2], start)
        expected = essence(loaded)
        assert essence(restored)[:2] == expected[:2]
        assert essence(restored)[3:] == expected[3:]
        # an epoch that begins at the log's end is forgotten by loading, and begun again there by
        # the leader
        assert restored.epochs.latest >= loaded.epochs.latest
        for each in (restored, loaded):
            each.epochs.truncate_from_end(loaded.active.next_offset)
        assert restored.epochs.entries == loaded.epochs.entries


def test_a_recalled_log_accepts_appends_and_keeps_its_epoch_without_a_write(tmp_path: Path) -> None:
    log = appended(tmp_path, 9)
    log.partition.role.set_leader_epoch(4)  # begins at the end
    left = closed(log)
    before = {name: (log.folder / name).stat().st_mtime_ns for name in names(log.folder)}
    loaded = restore(log, left)
    assert loaded is not None
    log.bring_online(loaded, 4)
    assert {name: (log.folder / name).stat().st_mtime_ns for name in names(log.folder)} == before
    assert log.partition.epochs.entries == ((0, 0), (4, 9))
    assert log.append(batch(0, [b"next"], [NOW])) == 9
    assert offsets(log) == list(range(10))
    assert {entry.producer_id: entry.last_sequence for entry in log.producers.entries(3)} == {0: 4, 1: 3}


def _touch_folder(log: Log) -> None:
    (log.folder / "new").write_text("")


def clock_moves(root: Path) -> None:
    """Wait until what is written now has a later time of change: the clock of files ticks every few
    ms."""
    began = root.stat().st_mtime_ns
    while (probe := root / "probe").write_text("") == 0 and probe.stat().st_mtime_ns <= began:
        probe.unlink()


def _append(suffix: str) -> Callable[[Log], None]:
    def change(log: Log) -> None:
        with Path(files.path(str(log.folder), active(log), suffix)).open("ab") as file:
            file.write(b"\0" * 12)

    return change


def _flip(suffix: str) -> Callable[[Log], None]:
    def change(log: Log) -> None:
        path = Path(files.path(str(log.folder), active(log), suffix))
        data = bytearray(path.read_bytes())
        data[0] ^= 1
        path.write_bytes(data)

    return change


def active(log: Log) -> int:
    """Base offset of the active segment."""
    return files.list_segments(str(log.folder))[-1].base_offset


CHANGES = {
    "a file in the folder": _touch_folder,
    **{f"longer {suffix}": _append(suffix) for suffix in (".log", ".index", ".timeindex")},
    **{f"flipped bit in {suffix}": _flip(suffix) for suffix in (".log", ".index", ".timeindex")},
    "no index": lambda log: Path(files.path(str(log.folder), active(log), ".index")).unlink(),
    "no folder": lambda log: log.folder.rename(log.folder.with_name("elsewhere")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_log_that_was_touched_since_is_loaded_from_its_files(
    tmp_path: Path, change: Callable[[Log], None]
) -> None:
    log = appended(tmp_path, 9)
    left = closed(log)
    clock_moves(tmp_path)
    change(log)
    assert restore(log, left) is None


@pytest.mark.parametrize(
    ("points", "topic_id"), [((8, 0), TOPIC_ID), ((9, 3), TOPIC_ID), ((9, 0), b"\2" * 16)]
)
def test_checkpoints_and_topic_have_to_agree(
    tmp_path: Path, points: tuple[int, int], topic_id: bytes
) -> None:
    log = appended(tmp_path, 9)
    left = closed(log)
    log.__post_init__()
    assert load(log, left, topic_id, *points) is None


def test_a_log_start_above_its_segment_is_that_of_the_checkpoint(tmp_path: Path) -> None:
    log = appended(tmp_path, 9, segment_bytes=100_000)
    log.partition.delete_records(5)
    left = closed(log)
    loaded = restore(log, left)
    assert loaded is not None
    assert loaded.log_start == 5


def test_producers_that_have_expired_are_forgotten(tmp_path: Path) -> None:
    log = appended(tmp_path, 9)
    loaded = restore(log, closed(log), now_ms=NOW + 8 + 86_400_000)
    assert loaded is not None
    assert loaded.producers == []


def test_logs_with_transactions_leftovers_or_many_producers_are_left_to_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = appended(tmp_path / "a", 9)
    (log.folder / f"{0:020d}.txnindex").write_bytes(b"")
    assert log.partition.close() is None
    log = appended(tmp_path / "b", 9)
    (log.folder / f"{0:020d}.log.deleted").write_bytes(b"")
    assert log.partition.close() is None
    log = appended(tmp_path / "c", 9)
    monkeypatch.setattr(loaded_log, "MAX_PRODUCERS", 1)
    assert log.partition.close() is None


def test_a_file_that_is_damaged_or_of_another_version_is_ignored(tmp_path: Path) -> None:
    log = appended(tmp_path, 9)
    left = log.partition.close()
    assert left is not None
    loaded_log.write_closed(str(tmp_path), 3, [left])
    (content,) = take_closed(str(tmp_path))
    assert take_closed(str(tmp_path)) == []
    assert list(loaded_log.parse_closed(content)) == [("t", 0)]
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1
        assert loaded_log.parse_closed(bytes(damaged)) == {}, position
    assert loaded_log.parse_closed(content[:-1]) == loaded_log.parse_closed(b"") == {}


def test_closing_leaves_one_snapshot_after_the_last_segment(tmp_path: Path) -> None:
    log = appended(tmp_path, 9, segment_bytes=100_000)
    for _ in range(3):
        loaded = restore(log, closed(log))
        assert loaded is not None
        log.bring_online(loaded)
        log.append(batch(0, [b"x"], [NOW]))
    log.partition.close()
    assert files.list_snapshots(str(log.folder)) == [12]


@pytest.mark.parametrize(("late_ms", "left"), [(6, {0, 1}), (7, {0}), (8, set())])
def test_a_producer_is_known_until_it_expires(tmp_path: Path, late_ms: int, left: set[int]) -> None:
    log = appended(tmp_path, 9)  # the last record of producer 1 has the time NOW + 7
    loaded = restore(log, closed(log), now_ms=NOW + late_ms + DAY_MS)
    assert loaded is not None
    assert {entry.producer_id for entry in loaded.producers} == left


@pytest.mark.parametrize(("limit", "saved"), [(2, True), (1, False)])
def test_a_log_with_as_many_producers_as_the_limit_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, saved: bool
) -> None:
    log = appended(tmp_path, 9)
    monkeypatch.setattr(loaded_log, "MAX_PRODUCERS", limit)
    assert (log.partition.close() is not None) == saved


def test_a_log_with_an_open_transaction_is_left_to_the_start(tmp_path: Path) -> None:
    log = appended(tmp_path, 3)
    log.append(batch(0, [b"v"], [NOW], attributes=0x10, producer_id=5, producer_epoch=0, base_sequence=0))
    assert log.partition.close() is None
