"""Log starts of deleted records: on disk when control is answered, and written once."""

from pathlib import Path

import pytest

from kbroker.io.files.log_dir import LogDir
from kbroker.io.log_dirs import checkpoint_thread
from kbroker.io.log_dirs.offset_checkpoints import OffsetCheckpoints, RecoveryNotes
from kbroker.io.recovery.loaded_log import LoadRequest
from kbroker.io.recovery.recovery import load
from kbroker.ipc.clock import wall_clock_ms
from kbroker.log import checkpoint
from tests.io.append.plain_append import Log
from tests.log.batch_bytes import batch


def test_a_log_start_is_written_before_the_answer_and_not_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(tmp_path)
    log.open()
    log.append(batch(0, [b"one", b"two", b"three"]))
    checkpoints = OffsetCheckpoints({str(tmp_path): LogDir(str(tmp_path))}, lambda *_: pytest.fail("failed"))
    writes: list[object] = []
    write = checkpoint.write_offsets

    def counted(path: str, offsets: dict[tuple[str, int], int]) -> None:
        writes.append(dict(offsets))
        write(path, offsets)

    monkeypatch.setattr(checkpoint, "write_offsets", counted)
    for offset in (1, 1, 2, 1):
        log.partition.delete_records(offset)
        checkpoints.write_starts([(log.partition, log.partition.log_start)])
        assert LogDir(str(tmp_path)).log_start_offsets() == {("t", 0): log.partition.log_start}
    assert writes == [{("t", 0): 1}, {("t", 0): 2}]
    checkpoints.forget(str(tmp_path), [log.partition])
    assert LogDir(str(tmp_path)).log_start_offsets() == {}
    checkpoints.write_starts([(log.partition, log.partition.log_start)])
    assert LogDir(str(tmp_path)).log_start_offsets() == {("t", 0): 2}


class Scene:
    """One log of a log dir, its checkpoints and notes, and what failed."""

    def __init__(self, root: Path) -> None:
        self.log = Log(root)
        self.log.open()
        self.dir = LogDir(str(root))
        self.failed: list[tuple[str, OSError]] = []
        dirs = {str(root): self.dir}

        def failed(path: str, error: OSError) -> None:
            self.failed.append((path, error))

        self.checkpoints = OffsetCheckpoints(dirs, failed)
        self.notes = RecoveryNotes(
            dirs, lambda slot: self.log.partition if slot == self.log.partition.slot else None, failed
        )

    def roll_and_sync(self) -> None:
        partition = self.log.partition
        partition.roll(wall_clock_ms())
        job = partition.durability.begin(rolled_only=True)
        job.run()
        partition.durability.finish(job)
        self.notes.synced(partition.slot)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(checkpoint_thread, "BUSY_SHARE", 0)  # it never rests
    return Scene(tmp_path)


def test_the_point_of_a_rolled_log_is_on_disk_soon_and_bounds_what_a_crash_costs(scene: Scene) -> None:
    partition = scene.log.partition
    for number in range(4):
        scene.log.append(batch(number, [bytes(50_000)]))
    scene.roll_and_sync()
    scene.log.append(batch(4, [b"in the active segment"]))
    scene.notes.write()
    scene.notes.close()
    points = scene.dir.recovery_points()
    assert points == {("t", 0): 4}
    loaded = load(
        LoadRequest(
            folder=partition.folder, config=partition.config, clean=False, recovery_point=points["t", 0],
            log_start=0, now_ms=wall_clock_ms(),
        )
    )  # fmt: skip
    assert loaded.active.next_offset == 5
    assert 0 < loaded.scanned_bytes < 1000
    assert scene.failed == []


def test_a_roll_during_a_sync_is_noted_when_it_is_synced_too(scene: Scene) -> None:
    partition = scene.log.partition
    scene.log.append(batch(0, [b"one"]))
    partition.roll(wall_clock_ms())
    job = partition.durability.begin(rolled_only=True)
    scene.log.append(batch(1, [b"two"]))
    partition.roll(wall_clock_ms())
    job.run()
    partition.durability.finish(job)
    scene.notes.synced(partition.slot)
    scene.notes.write()
    job = partition.durability.begin(rolled_only=True)
    job.run()
    partition.durability.finish(job)
    scene.notes.synced(partition.slot)
    while scene.notes._due or scene.notes._thread.is_busy:
        scene.notes.write()
    assert scene.dir.recovery_points() == {("t", 0): 2}
    scene.notes.close()


def test_a_sync_without_a_roll_writes_nothing(scene: Scene) -> None:
    scene.log.append(batch(0, [b"one"]))
    scene.roll_and_sync()
    scene.notes.write()
    scene.notes.close()
    scene.dir.update_recovery_points({("t", 0): 0})
    scene.notes.synced(scene.log.partition.slot)
    scene.notes.write()
    assert scene.dir.recovery_points() == {("t", 0): 0}


def test_the_recovery_point_of_a_closed_log_is_kept(scene: Scene) -> None:
    scene.log.append(batch(0, [b"one"]))
    scene.roll_and_sync()
    scene.log.partition.abandon()
    scene.notes.write()
    scene.notes.close()
    assert scene.dir.recovery_points() == {}


def test_truncated_records_do_not_pass_for_clean_after_a_restart(scene: Scene) -> None:
    """New records of their offsets, among them tombstones, are to be compared with older ones."""
    for number in range(4):
        scene.log.append(batch(number, [b"v"]))
    scene.log.partition.cleaned_up_to(3)
    scene.dir.update_cleaner_offsets({("t", 0): 3, ("u", 0): 9})
    scene.log.partition.truncate_to(2, wall_clock_ms())
    scene.checkpoints.truncated(scene.log.partition)
    assert scene.dir.cleaner_offsets() == {("t", 0): 2, ("u", 0): 9}


@pytest.mark.parametrize(("clean", "found"), [(3, {("t", 0): 3, ("u", 0): 9}), (-1, {("u", 0): 9})])
def test_a_copy_is_as_clean_as_its_log(scene: Scene, clean: int, found: dict[tuple[str, int], int]) -> None:
    """The log dir may have the offset of an earlier log of the name: it was full when that log
    left. Dirty records passed for clean, so their tombstones went before the older records."""
    for number in range(4):
        scene.log.append(batch(number, [b"v"]))
    scene.log.partition.cleaned_up_to(clean)
    scene.dir.update_cleaner_offsets({("t", 0): 4, ("u", 0): 9})
    scene.checkpoints.write_copy(scene.log.partition, scene.dir.path)
    assert scene.dir.cleaner_offsets() == found
    assert scene.dir.recovery_points() == {("t", 0): 4}


def test_a_log_dir_that_cannot_be_written_is_reported(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    scene.log.append(batch(0, [b"one"]))
    scene.roll_and_sync()
    monkeypatch.setattr(LogDir, "update_recovery_points", broken)
    scene.notes.write()
    scene.notes.close()
    assert [path for path, _ in scene.failed] == [scene.dir.path]


def test_the_lower_point_of_a_truncated_log_is_written_and_its_new_records_are_checked(scene: Scene) -> None:
    """A power cut has damaged one of them; the old point is beyond it."""
    partition = scene.log.partition
    for _ in range(4):
        scene.log.append(batch())
    scene.roll_and_sync()
    scene.notes.write()
    while scene.notes._thread.is_busy:
        scene.notes.write()
    assert scene.dir.recovery_points() == {("t", 0): 4}
    partition.truncate_to(1, wall_clock_ms())
    scene.checkpoints.truncated(partition)
    assert scene.dir.recovery_points() == {("t", 0): 1}
    scene.notes.close()
    for _ in range(2):
        scene.log.append(batch())
    partition.abandon()
    path = Path(partition.folder) / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    loaded = load(
        LoadRequest(
            folder=partition.folder, config=partition.config, clean=False,
            recovery_point=scene.dir.recovery_points()["t", 0], log_start=0, now_ms=wall_clock_ms(),
        )
    )  # fmt: skip
    assert loaded.active.next_offset == 2
