"""The end of a transaction in a partition's memory: what is stable, what was aborted, what the
producer may do next.

Whatever the worker makes of markers while it appends, recovery makes of them again from the log
alone.
"""

from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.io.append.producer_table import EndTxnMarker
from kbroker.io.append.publish_kernel import last_stable
from kbroker.io.append.rows import AppendRow
from kbroker.io.files import producer_snapshot
from kbroker.io.partition import producer_state
from kbroker.io.partition.producer_state import FEW
from kbroker.io.recovery import producer_replay
from kbroker.ipc.layout import Slot, SlotFlag
from kbroker.log import files, transaction_index
from kbroker.log.transaction_index import AbortedTransaction
from kbroker.protocol.records import ControlType, build_batch, build_control_batch
from tests.io.append.plain_append import NOW, Log


class Transactions:
    """A log that producers write to in transactions, as the drain kernel and the worker do
    together."""

    def __init__(self, folder: Path, flags: int = 0) -> None:
        self.log = Log(folder, flags=flags)
        self.log.open()
        self.sequences: dict[tuple[int, int], int] = {}

    def write(self, producer_id: int, epoch: int = 0, transactional: bool = True) -> int:
        sequence = self.sequences.get((producer_id, epoch), 0)
        self.sequences[producer_id, epoch] = sequence + 1
        producer = (producer_id, epoch, sequence)
        data = build_batch([(b"k", b"v", (), NOW)], producer=producer, transactional=transactional)
        offset = self.log.append(data)
        self.log.partition.published.publish()
        return offset

    def end(self, producer_id: int, commit: bool, epoch: int = 0) -> int:
        kind = ControlType.COMMIT if commit else ControlType.ABORT
        data = build_control_batch(
            kind, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=4, timestamp_ms=NOW
        )
        slot = self.log.partition.slot
        known = self.log.producers.get(slot, producer_id)
        offset = self.log.append(data)
        if known is None:
            self.log.producers.remove(slot, producer_id)
        else:
            self.log.producers.put(slot, known)  # the drain kernel leaves a marker's producer as it is
        self.log.partition.complete_transaction(EndTxnMarker(producer_id, epoch, commit, 4, NOW, offset))
        return offset

    @property
    def stable(self) -> int:
        return int(self.log.words[Slot.LAST_STABLE])

    def aborted(self) -> list[AbortedTransaction]:
        return transaction_index.read_index(str(self.log.folder), 0)


@pytest.fixture
def log(tmp_path: Path) -> Transactions:
    return Transactions(tmp_path)


@pytest.mark.parametrize("commit", [True, False])
def test_last_stable_offset_follows_the_earliest_open_transaction(log: Transactions, commit: bool) -> None:
    log.write(1)
    log.write(2)
    log.end(1, commit)
    assert log.stable == 1
    log.write(1)
    log.end(2, commit)
    assert log.stable == 3
    log.end(1, commit)
    assert log.stable == log.log.partition.log_end


def test_end_of_a_later_transaction_leaves_the_stable_offset(log: Transactions) -> None:
    log.write(1)
    log.write(2)
    log.end(2, True)
    assert log.stable == 0


def advance(log: Transactions, mark: int) -> tuple[int, int]:
    """The last stable offset of a high watermark, and the one that kernels compute."""
    log.log.partition.published.publish(high_watermark=mark)
    row = log.log.row
    words = row[AppendRow.FIRST_UNSTABLE], row[AppendRow.ENDED_FIRST], row[AppendRow.ENDED_UNTIL]
    return log.stable, last_stable(mark, *map(int, words))


def test_a_transaction_is_stable_when_its_marker_is_below_the_high_watermark(tmp_path: Path) -> None:
    """As in Apache Kafka: before, its end may be lost with the other replicas or the disk, and an
    administrator or a new coordinator may decide it again. Readers were past it."""
    log = Transactions(tmp_path, SlotFlag.DURABLE)
    for producer_id in (1, 2, 3, 4):
        log.write(producer_id)  # offsets 0 to 3
    for producer_id in (2, 1, 4):
        log.end(producer_id, True)  # markers 4 to 6
    assert log.stable == 0
    log.write(4)
    found = [advance(log, mark) for mark in range(9)]
    assert found == [(n, n) for n in (0, 0, 0, 0, 0, 0, 2, 2, 2)]
    log.end(3, False)
    assert log.stable == 2
    assert [advance(log, mark) for mark in (8, 9)] == [(2, 2), (7, 7)]


def test_a_truncated_marker_holds_no_stable_offset(tmp_path: Path) -> None:
    log = Transactions(tmp_path, SlotFlag.DURABLE)
    log.write(1)
    log.end(1, True)
    log.write(2, transactional=False)
    log.log.partition.truncate_to(1, NOW)
    assert (advance(log, 1), log.log.row[AppendRow.ENDED_UNTIL]) == ((0, 0), 0)
    log.end(1, True)
    assert (log.stable, advance(log, 2)) == (0, (2, 2))


def test_a_marker_that_is_not_below_the_high_watermark_holds_the_stable_offset_of_a_loaded_log(
    tmp_path: Path,
) -> None:
    """Its IO worker has died, or its disk had no room for the transaction index."""
    log = Transactions(tmp_path, SlotFlag.DURABLE | SlotFlag.REPLICATED)
    for producer_id in (1, 2, 2, 1):
        log.write(producer_id)
    log.end(1, True)  # offset 4
    log.end(2, False)  # offset 5
    log.log.partition.abandon()
    log.log.replicated, log.log.known_mark = True, 2
    log.log.bring_online(log.log.load())
    assert [advance(log, mark) for mark in (2, 4, 5, 6)] == [(0, 0), (0, 0), (1, 1), (6, 6)]


def test_a_truncation_leaves_the_transactions_whose_markers_it_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that the load of a log has made one."""
    monkeypatch.setattr(producer_replay, "MAX_ENDED", 2)
    log = Transactions(tmp_path, SlotFlag.DURABLE | SlotFlag.REPLICATED)
    for _ in range(2):
        log.write(1)
        log.end(1, True)
    log.log.partition.abandon()
    log.log.replicated, log.log.known_mark = True, 0
    log.log.bring_online(log.log.load())
    assert advance(log, 3) == (0, 0)
    log.log.partition.published.publish(high_watermark=1)
    log.log.partition.truncate_to(2, NOW)
    assert [advance(log, mark) for mark in (1, 2)] == [(0, 0), (2, 2)]


def test_a_log_that_starts_again_knows_no_producer_of_before(log: Transactions) -> None:
    """In a follower whose leader has deleted the rest. The snapshot of its last stop brought back
    an open transaction, and the last stable offset stayed at the log start."""
    log.write(1)
    log.log.reopen()
    log.log.partition.truncate_fully(9, NOW)
    log.write(2, transactional=False)
    log.write(2, transactional=False)
    log.log.partition.truncate_to(10, NOW)
    assert (log.stable, log.log.partition.log_end) == (10, 10)
    assert [entry.producer_id for entry in log.log.partition.producers.entries()] == [2]


def test_a_transaction_index_is_rebuilt_from_its_segments_start(log: Transactions) -> None:
    """The snapshot of the last stop is above the marker whose entry a full disk refused."""
    log.write(1)
    log.end(1, False)
    log.log.reopen()
    folder = str(log.log.folder)
    entries = transaction_index.read_index(folder, 0)
    transaction_index.reset_index(folder, 0)
    log.log.partition.producers.reload(NOW, reindex=True)
    assert transaction_index.read_index(folder, 0) == entries != []


def test_the_stable_offset_is_not_below_the_log_start(log: Transactions) -> None:
    """A reader of committed records that asks for the end would be sent to deleted records."""
    for producer_id in (1, 2, 1):
        log.write(producer_id)
    log.log.partition.delete_records(2)
    assert log.stable == 2
    log.log.reopen(clean=False, log_start=2)
    assert log.stable == 2
    log.end(1, True)
    assert log.stable == 2
    log.write(3)
    log.end(2, False)
    assert log.stable == 4
    log.end(3, True)
    assert log.stable == log.log.partition.log_end


def test_aborted_transactions_are_indexed_with_what_was_stable_then(log: Transactions) -> None:
    log.write(1)
    log.write(2)
    log.end(2, False)
    log.end(1, False)
    assert log.aborted() == [AbortedTransaction(2, 1, 2, 0), AbortedTransaction(1, 0, 3, 4)]


def test_a_committed_transaction_is_not_indexed(log: Transactions) -> None:
    """Readers of committed records would not be given it."""
    log.write(1)
    log.end(1, True)
    assert log.aborted() == []
    assert log.log.partition.active.last_aborted == -1


def test_a_marker_without_a_producer_id_makes_no_producer(log: Transactions) -> None:
    log.log.partition.complete_transaction(EndTxnMarker(-1, 0, False, 4, NOW, 0))
    assert log.log.producers.entries(log.log.partition.slot) == []


def test_a_transaction_stays_open_if_the_index_cannot_be_written(log: Transactions) -> None:
    log.write(1)
    index = log.log.folder / f"{0:020d}.txnindex"
    index.mkdir()
    with pytest.raises(IsADirectoryError):
        log.end(1, False)
    assert log.stable == 0
    assert log.log.producers.open_transactions(log.log.partition.slot) == [(0, 1)]
    index.rmdir()
    log.end(1, False)
    assert log.stable == log.log.partition.log_end == 3
    assert log.aborted() == [AbortedTransaction(1, 0, 2, 3)]


def test_marker_without_a_transaction_is_noted_nowhere_but_its_producer_is_known(log: Transactions) -> None:
    log.end(9, False, epoch=3)
    assert log.aborted() == []
    (entry,) = log.log.producers.entries(log.log.partition.slot)
    assert (entry.producer_id, entry.producer_epoch, entry.coordinator_epoch) == (9, 3, 4)


def test_sequences_continue_in_the_same_epoch_and_restart_in_the_next(log: Transactions) -> None:
    log.write(1)
    log.end(1, True)
    known = log.log.producers.get(log.log.partition.slot, 1)
    assert known is not None
    assert known.last_sequence == 0
    log.write(1)
    log.end(1, True, epoch=1)
    known = log.log.producers.get(log.log.partition.slot, 1)
    assert known is not None
    assert (known.producer_epoch, known.batches) == (1, ())


STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "plain", "commit", "abort", "bump"]), st.integers(1, 4)), max_size=25
)


@given(steps=STEPS)
@settings(max_examples=60, deadline=None)
def test_recovery_comes_to_the_same_state(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    made = Transactions(tmp_path_factory.mktemp("log"))
    epochs = dict.fromkeys(range(1, 5), 0)
    begun: set[int] = set()
    for step, producer_id in steps:
        epoch = epochs[producer_id]
        if step == "write":
            made.write(producer_id, epoch)
            begun.add(producer_id)
        elif step == "plain":
            made.write(100 + producer_id, transactional=False)
        elif producer_id in begun:
            epochs[producer_id] += step == "bump"
            made.end(producer_id, step == "commit", epochs[producer_id])
            begun.discard(producer_id)
    stable, aborted = made.stable, made.aborted()
    entries = made.log.producers.entries(made.log.partition.slot)
    for path in made.log.folder.glob("*.txnindex"):
        path.unlink()
    made.log.reopen(clean=False)
    assert (made.stable, made.aborted()) == (stable, aborted)
    assert made.log.producers.entries(made.log.partition.slot) == entries


def test_an_end_looks_at_no_other_producers(log: Transactions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients may make very many of them."""
    log.write(1)
    log.end(1, True)
    looks: list[int] = []
    monkeypatch.setattr(log.log.producers, "open_transactions", looks.append)
    for _ in range(3):
        first = log.write(1)
        second = log.write(2)
        assert log.stable == first
        log.end(1, True)
        assert log.stable == second
        end = log.end(2, False)
        assert log.stable == end + 1
    assert looks == []


def test_more_transactions_than_the_row_has_room_for_are_looked_up(log: Transactions) -> None:
    log.write(0)
    log.end(0, True)
    count = 3 * AppendRow.MAX_OPENED
    firsts = [log.write(producer) for producer in range(count)]
    for producer, first in enumerate(firsts):
        assert log.stable == first
        log.end(producer, producer % 2 == 0)
    assert log.stable == log.log.partition.log_end


def test_transactions_that_have_ended_are_not_kept(log: Transactions) -> None:
    log.write(0)
    log.end(0, True)
    earliest = log.write(0)
    for _ in range(3 * FEW):
        log.write(1)
        log.end(1, True)
    assert log.stable == earliest
    heap = log.log.partition.producers._open._heap
    assert heap is not None
    assert len(heap) <= FEW + 1


def test_while_snapshots_take_long_few_segments_have_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client with very many producer ids may let each of its batches have a segment; recovery
    begins at the last snapshot."""
    scene = Transactions(tmp_path)
    clock_s = [100.0]
    monkeypatch.setattr(
        producer_state, "time", SimpleNamespace(monotonic=lambda: clock_s[0], thread_time=lambda: clock_s[0])
    )
    write = producer_snapshot.write

    def slow(*arguments: object, **named: object) -> object:
        clock_s[0] += 0.1
        return write(*arguments, **named)

    monkeypatch.setattr(producer_snapshot, "write", slow)
    for number in range(8):
        scene.write(number, transactional=False)
        scene.log.partition.roll(NOW)
        clock_s[0] += 20
    assert files.list_snapshots(str(scene.log.folder)) == [1, 4, 7]  # after 500 times 0.1 s
    entries = scene.log.partition.producers.entries()
    monkeypatch.undo()
    scene.log.reopen(clean=False)
    assert scene.log.partition.producers.entries() == entries
