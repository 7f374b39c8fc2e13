"""What a reader of a partition makes of its slot and its folder."""

import os
import struct
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kbroker.ipc.layout import Slot, SlotFlag, SlotState
from kbroker.ipc.log_dir_errors import LogDirErrors
from kbroker.ipc.messages import PartitionImage, TopicImage
from kbroker.log import checkpoint
from kbroker.log.transaction_index import AbortedTransaction, aborted_transactions, append_entry
from kbroker.net.fetch import partition_reader as module
from kbroker.net.fetch.fetch_session import FetchedPartition
from kbroker.net.fetch.partition_reader import Limits, PartitionReader, Reading, epoch_end
from kbroker.net.rows import Isolation
from kbroker.protocol.errors import ErrorCode
from tests.io.append.plain_append import NOW, Log
from tests.log.batch_bytes import batch, end_marker

TOPIC_ID = b"\7" * 16
GENERATION = 4
WHOLE = 1 << 20


class Scene:
    """A log of a durable topic, whose high watermark a sync moves, and its reader."""

    def __init__(self, root: Path) -> None:
        self.log = Log(root, flags=SlotFlag.DURABLE)
        self.log.open(epoch=0)
        slots = Slot.table(4)
        slots[3] = self.log.words
        self.log.partition.published.words = self.log.words = slots[3]
        self.words = slots[3]
        self.words[Slot.GENERATION] = GENERATION
        self.topics: Any = SimpleNamespace()
        self.place(str(self.log.folder), GENERATION)
        shared: Any = SimpleNamespace(slots=slots)
        reads: Any = SimpleNamespace(note=lambda *_: None)
        errors = LogDirErrors(["/nowhere"], SimpleNamespace(log_dir_errors=np.zeros(1, np.int64)))
        self.reader = PartitionReader(shared, self.topics, reads, errors)

    def place(self, folder: str, generation: int) -> None:
        """What control says of the partition."""
        image = TopicImage("t", TOPIC_ID, False, (PartitionImage(0, 3, generation, folder),))
        self.topics.by_id, self.topics.by_name = {TOPIC_ID: image}, {"t": image}

    def append(self, count: int, synced: bool = True) -> None:
        for _ in range(count):
            self.log.append(batch(0, [b"v"], [NOW]))
        if synced:
            self.log.partition.durability.flush()

    def read(
        self,
        offset: int,
        isolation: int = 0,
        epoch: int = -1,
        last_epoch: int = -1,
        left: int = WHOLE,
        most: int = WHOLE,
        min_one: bool = True,
    ) -> Reading:
        expected = FetchedPartition("t", bytes(16), 0, offset, most, epoch, last_epoch)
        return self.reader.read(expected, Limits(left, min_one, isolation))

    def offsets(self, reading: Reading) -> list[int]:
        """Base offsets of the batches that it is of."""
        found = reading.range
        if found is None:
            return []
        data = (self.log.folder / f"{0:020d}.log").read_bytes()
        offsets, position = [], found.position
        while position < found.position + found.length:
            offset, length = struct.unpack_from(">qi", data, position)
            offsets.append(offset)
            position += 12 + length
        return offsets


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.mark.parametrize("isolation", [0, Isolation.READ_COMMITTED])
def test_nothing_at_or_above_the_high_watermark_is_read(scene: Scene, isolation: int) -> None:
    scene.append(3)
    scene.append(2, synced=False)
    assert scene.offsets(scene.read(1, isolation)) == [1, 2]
    for offset in (3, 4, 5):
        reading = scene.read(offset, isolation)
        assert (reading.error, reading.length, reading.high_watermark) == (0, 0, 3)
    for offset in (-1, 6):
        assert scene.read(offset, isolation).error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_nothing_below_the_log_start_is_read(scene: Scene) -> None:
    scene.append(4)
    scene.log.partition.delete_records(2)
    assert scene.read(1).error is ErrorCode.OFFSET_OUT_OF_RANGE
    reading = scene.read(2)
    assert (scene.offsets(reading), reading.log_start) == ([2, 3], 2)


def test_read_committed_ends_at_an_open_transaction_and_names_aborted_ones(scene: Scene) -> None:
    log, active = scene.log, scene.log.partition.active
    log.append(batch(attributes=0x10, producer_id=1, producer_epoch=0, base_sequence=0))
    marker = log.append(end_marker(0, 1, 0, commit=False))
    append_entry(str(log.folder), 0, AbortedTransaction(1, 0, marker, marker + 1))
    active.note_aborted(marker)
    scene.append(1)
    active.first_unstable = log.append(
        batch(attributes=0x10, producer_id=2, producer_epoch=0, base_sequence=0)
    )
    scene.append(1)
    reading = scene.read(0, Isolation.READ_COMMITTED)
    assert scene.offsets(reading) == [0, 1, 2]
    assert reading.last_stable == 3
    assert reading.aborted is not None
    assert [entry.producer_id for entry in reading.aborted] == [1]
    assert scene.read(2, Isolation.READ_COMMITTED).aborted == []
    assert (
        scene.read(3, Isolation.READ_COMMITTED).length,
        scene.read(4, Isolation.READ_COMMITTED).length,
    ) == (0, 0)
    everything = scene.read(0)
    assert (scene.offsets(everything), everything.aborted) == ([0, 1, 2, 3, 4], None)


def test_aborted_transactions_far_after_the_read_batches_are_not_named(scene: Scene) -> None:
    """There may be a million of them in the rest of the segment, and each fetch would name all."""
    log, active = scene.log, scene.log.partition.active
    for _ in range(60):
        log.append(batch(0, [b"v" * 200], [NOW]))
    first = log.append(batch(attributes=0x10, producer_id=1, producer_epoch=0, base_sequence=0))
    marker = log.append(end_marker(0, 1, 0, commit=False))
    append_entry(str(log.folder), 0, AbortedTransaction(1, first, marker, marker + 1))
    active.note_aborted(marker)
    active.first_unstable = -1
    scene.append(1)
    few, all_of_them = (
        scene.read(0, Isolation.READ_COMMITTED, most=1000),
        scene.read(0, Isolation.READ_COMMITTED),
    )
    assert few.aborted == []
    assert scene.offsets(few)[0] == 0
    assert all_of_them.aborted is not None
    assert [entry.producer_id for entry in all_of_them.aborted] == [1]


@pytest.mark.parametrize(
    ("word", "value", "error"),
    [
        (Slot.GENERATION, GENERATION + 1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (Slot.STATE, SlotState.RECOVERING, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (Slot.STATE, SlotState.OFFLINE, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_a_log_that_is_not_there_is_not_read(scene: Scene, word: int, value: int, error: ErrorCode) -> None:
    scene.append(1)
    scene.words[word] = value
    assert scene.read(0).error is error
    expected = FetchedPartition("t", bytes(16), 0, 0, WHOLE, -1, -1)
    for offset in (0, 1):
        expected.fetch_offset = offset
        assert scene.reader.available(expected, 0) == -1, "the answer does not wait, not even at the end"


def test_a_read_waits_for_the_end_of_an_update(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer lost its processor within it, or has died. Both were NOT_LEADER_OR_FOLLOWER."""
    scene.append(1)
    scene.words[Slot.SEQUENCE] += 1
    assert scene.read(0).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    monkeypatch.setattr(module, "UPDATE_S", 60.0)
    writer = threading.Timer(0.05, lambda: scene.words.__setitem__(Slot.SEQUENCE, 0))
    writer.start()
    assert scene.read(0).error is ErrorCode.NONE
    writer.join()


def test_a_fetch_is_not_answered_early_because_of_an_update(scene: Scene) -> None:
    """It counted as refused, so a fetch that waited for many bytes was answered with few. The
    update itself wakes it."""
    scene.append(1)
    expected = FetchedPartition("t", bytes(16), 0, 0, WHOLE, -1, -1)
    scene.words[Slot.SEQUENCE] += 1
    assert scene.reader.available(expected, 0) == 0
    scene.words[Slot.SEQUENCE] += 1
    assert scene.reader.available(expected, 0) > 0


def test_a_fetch_of_another_broker_is_refused(scene: Scene) -> None:
    scene.append(1)
    expected = FetchedPartition("t", bytes(16), 0, 0, WHOLE, -1, -1, by_replica=True)
    assert scene.reader.read(expected, Limits(WHOLE, True, 0)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_client_of_another_leader_epoch_is_fenced(scene: Scene) -> None:
    scene.append(1)
    scene.log.partition.role.set_leader_epoch(3)
    for epoch in (0, 2):
        assert scene.read(0, epoch=epoch).error is ErrorCode.FENCED_LEADER_EPOCH
    assert scene.read(0, epoch=3).error is ErrorCode.NONE
    assert scene.read(0, epoch=4).error is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_reader_whose_epoch_ended_before_its_offset_gets_the_end(scene: Scene) -> None:
    """KIP-595."""
    scene.append(2)
    scene.log.partition.role.set_leader_epoch(3)
    scene.append(2)
    assert scene.read(2, last_epoch=0).diverging is None
    for offset, epoch, diverging in ((3, 0, (0, 2)), (2, 1, (0, 2)), (4, 3, None)):
        reading = scene.read(offset, last_epoch=epoch)
        assert (reading.diverging, reading.length) == (diverging, 0)
        assert reading.error is ErrorCode.NONE
        committed = scene.read(offset, isolation=Isolation.READ_COMMITTED, last_epoch=epoch)
        assert committed.aborted == (None if diverging else [])
    unknown = scene.read(2, last_epoch=4)
    assert (unknown.error, unknown.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_a_reader_beyond_the_end_learns_first_where_its_epoch_ended(scene: Scene) -> None:
    scene.append(2)
    assert scene.read(5).error is ErrorCode.OFFSET_OUT_OF_RANGE
    reading = scene.read(5, last_epoch=0)
    assert (reading.error, reading.diverging, reading.high_watermark) == (ErrorCode.NONE, (0, 2), 2)
    expected = FetchedPartition("t", bytes(16), 0, 5, WHOLE, -1, 0)
    assert scene.reader.available(expected, 0) == -1, "the answer does not wait"


def test_limits_cut_what_is_read_but_not_the_first_batch(scene: Scene) -> None:
    scene.append(3)
    size = len(batch(0, [b"v"], [NOW]))
    assert scene.read(0, left=1).length == size
    assert scene.read(0, most=1).length == size
    assert scene.read(0, left=size - 1, min_one=False).length == 0
    assert scene.read(0, left=size, min_one=False).length == size
    assert scene.read(0, left=2 * size, most=WHOLE).length == 2 * size
    assert scene.read(0, left=WHOLE, most=2 * size).length == 2 * size
    expected = FetchedPartition("t", bytes(16), 0, 0, WHOLE, -1, -1)
    assert scene.reader.available(expected, 0) == 3 * size
    expected.fetch_offset = 3
    assert scene.reader.available(expected, 0) == 0


@pytest.mark.parametrize("limits", [{"left": -1}, {"most": -1}, {"most": -1, "min_one": False}])
def test_a_negative_limit_is_an_error_where_there_are_bytes(scene: Scene, limits: dict[str, int]) -> None:
    scene.append(3)
    for isolation in (0, Isolation.READ_COMMITTED):
        reading = scene.read(1, isolation, **limits)
        assert (reading.error, reading.length, reading.aborted) == (ErrorCode.UNKNOWN_SERVER_ERROR, 0, None)
        assert (reading.high_watermark, reading.last_stable, reading.log_start) == (-1, -1, -1)
    assert scene.read(3, **limits).reported == (0, 3, 0, 0, False)
    expected = FetchedPartition("t", bytes(16), 0, 0, -1, -1, -1)
    assert scene.reader.available(expected, 0) == -1, "the answer does not wait"


def test_read_committed_finds_nothing_if_segments_were_replaced_meanwhile(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches and aborted transactions may not be of the same files."""
    scene.append(2)

    def swapped(*given: Any) -> list[AbortedTransaction]:
        scene.words[Slot.SEGMENTS_VERSION] += 2
        return aborted_transactions(*given)

    monkeypatch.setattr(module, "aborted_transactions", swapped)
    reading = scene.read(0, Isolation.READ_COMMITTED)
    assert (reading.error, reading.length, reading.aborted) == (ErrorCode.NONE, 0, [])
    monkeypatch.undo()
    assert scene.offsets(scene.read(0, Isolation.READ_COMMITTED)) == [0, 1]


@pytest.mark.parametrize("moved", [False, True])
def test_a_log_that_has_moved_or_was_created_again_is_read_from_its_new_files(
    scene: Scene, tmp_path: Path, moved: bool
) -> None:
    scene.append(1)
    assert scene.read(0).length
    folder, generation = scene.log.folder, GENERATION + 1
    name = f"{0:020d}.log"
    new = folder / f"{name}.new"
    if moved:
        folder, generation = tmp_path / "moved" / folder.name, GENERATION
        folder.mkdir(parents=True)
        new = folder / f"{name}.new"
    new.write_bytes((scene.log.folder / name).read_bytes())
    new.replace(folder / name)
    scene.words[Slot.GENERATION] = generation
    scene.place(str(folder), generation)
    found = scene.read(0).range
    assert found is not None
    assert os.fstat(found.file.fd).st_ino == (folder / name).stat().st_ino


def test_files_are_outdated_once_the_segments_have_changed(scene: Scene) -> None:
    """Deleted segments would take their space on the disk until the partition is read again."""
    assert scene.reader.outdated(9) == []
    scene.append(1)
    assert scene.read(0).length
    assert scene.reader.outdated(9) == []
    scene.words[Slot.SEGMENTS_VERSION] += 1
    assert scene.reader.outdated(9) == [], "files are being replaced"
    scene.words[Slot.SEGMENTS_VERSION] += 1
    assert (scene.reader.outdated(9), scene.reader.outdated(0)) == ([3], [])
    scene.reader.forget(3)
    assert scene.reader.outdated(9) == []
    assert scene.reader.files.statistics() == (0, 0)
    assert scene.read(0).length
    assert scene.reader.outdated(9) == []


def test_so_many_readers_are_checked_at_once_in_turn(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECKED_AT_ONCE", 2)
    scene.append(1)
    assert scene.read(0).length
    outdated: Any = (GENERATION, SimpleNamespace(is_outdated=lambda _: True))
    scene.reader._readers |= dict.fromkeys((0, 1, 2), outdated)
    assert sorted(scene.reader.outdated(9) + scene.reader.outdated(9)) == [0, 1, 2]
    del scene.reader._readers[2]
    assert sorted(scene.reader.outdated(9) + scene.reader.outdated(9)) == [0, 1]


def test_a_read_from_a_log_dir_that_has_failed_is_an_error(scene: Scene) -> None:
    scene.append(1)
    reading = scene.read(0)
    assert scene.reader.current(reading) is reading
    scene.words[Slot.STATE] = SlotState.OFFLINE
    assert scene.reader.current(reading).error is ErrorCode.KAFKA_STORAGE_ERROR


def test_topics_are_found_by_name_or_id(scene: Scene) -> None:
    def found(topic: str, topic_id: bytes, partition: int = 0, refused: bool = False) -> object:
        expected = FetchedPartition(topic, topic_id, partition, 0, WHOLE, -1, -1, refused=refused)
        answer = scene.reader.find(expected)
        return answer if isinstance(answer, ErrorCode) else answer[0].name

    nobodys = b"\1" * 16
    assert (found("t", bytes(16)), found("", TOPIC_ID)) == ("t", "t")
    assert found("t", nobodys) is ErrorCode.UNKNOWN_TOPIC_ID
    assert found("no", bytes(16)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for partition in (-1, 1):
        assert found("t", bytes(16), partition) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found("t", bytes(16), refused=True) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert found("no", bytes(16), refused=True) is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_the_zero_id_is_an_unknown_id(scene: Scene) -> None:
    """Of no topic: its client needs no permission to get this answer."""
    zero = FetchedPartition("", bytes(16), 0, 0, WHOLE, -1, -1, by_id=True)
    assert scene.reader.find(zero) is ErrorCode.UNKNOWN_TOPIC_ID
    assert scene.reader.name_of(zero) is None


def test_epochs_end_where_the_next_one_begins(tmp_path: Path) -> None:
    checkpoint.write_leader_epochs(str(tmp_path), [(1, 5), (3, 10), (6, 30)], sync=False)
    ends = {epoch: epoch_end(str(tmp_path), epoch, 40) for epoch in range(8)}
    assert ends == {
        0: (0, 5), 1: (1, 10), 2: (1, 10), 3: (3, 30), 4: (3, 30), 5: (3, 30), 6: (6, 40), 7: (-1, -1),
    }  # fmt: skip


@pytest.mark.parametrize(
    "content", [b"0\n1\n0\n", b"0\n1\n0 x\n", b"0\n2\n0 0\n", b"0\n1\n", b"0\n\xff\n0 0\n"]
)
def test_a_damaged_checkpoint_of_epochs_is_an_error_of_the_storage(scene: Scene, content: bytes) -> None:
    """A consumer would lose its connection, or restart where its auto.offset.reset says."""
    scene.append(2)
    (scene.log.folder / "leader-epoch-checkpoint").write_bytes(content)
    assert scene.read(1, last_epoch=0).error is ErrorCode.KAFKA_STORAGE_ERROR
    assert scene.read(1).error is ErrorCode.NONE


def test_an_empty_checkpoint_knows_no_epochs(tmp_path: Path) -> None:
    """It is created before it is written."""
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"")
    assert epoch_end(str(tmp_path), 3, 10) == (-1, -1)


def test_a_folder_that_has_moved_says_nothing_of_epochs(tmp_path: Path) -> None:
    """A consumer whose epoch was not found there would restart where its auto.offset.reset
    says."""
    assert epoch_end(str(tmp_path), 3, 10) == (-1, -1)
    with pytest.raises(FileNotFoundError):
        epoch_end(str(tmp_path / "moved-0"), 3, 10)
