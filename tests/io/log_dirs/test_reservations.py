"""Who may reserve blocks, and when they are given back: disk usage of a quiet log is its
records."""

import ctypes
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.io.append.rows import AppendRow
from kbroker.io.files.log_dir import LogDir
from kbroker.io.files.segment import reserve
from kbroker.io.log_dirs import reservations as module
from kbroker.io.log_dirs.reservations import Reservations, is_worthwhile
from kbroker.io.partition.unified_log import UnifiedLog
from kbroker.io.recovery.loaded_log import TrustedEnd
from kbroker.log import files
from tests.io.append.plain_append import NOW as LOG_NOW
from tests.io.append.plain_append import Log, offsets, topic_config
from tests.io.node import Node
from tests.log.batch_bytes import batch

MIB = 1 << 20
MOST = 8 * MIB
NOW = 10_000_000
ROOM = 8 << 30


class Scene:
    """Two logs in a log dir each, both with 4 MiB reserved at NOW."""

    def __init__(self, root: Path) -> None:
        self.node = Node(root, 2, reserve_max_bytes=MOST)
        self.root = root
        self.failures: list[tuple[int, OSError]] = []
        self.room = {str(root / "0"): ROOM, str(root / "1"): ROOM}
        dirs: Any = {path: self.Dir(self, path) for path in self.room}
        self.reservations = Reservations(
            lambda: self.node.rows,
            dirs,
            MOST,
            self.node.get,
            lambda slot, error: self.failures.append((slot, error)),
        )
        for partition in self.node:
            row = partition.active.row
            os.posix_fallocate(int(row[AppendRow.LOG_FD]), 0, 4 * MIB)
            os.ftruncate(
                int(row[AppendRow.LOG_FD]), 4 * MIB
            )  # a tail of zeros is as good as one of reserved blocks
            row[AppendRow.RESERVED], row[AppendRow.RESERVED_MS] = 4 * MIB, NOW
            row[AppendRow.RESERVE_AT] = 2 * MIB

    class Dir(LogDir):
        def __init__(self, scene: "Scene", path: str) -> None:
            super().__init__(path)
            self.scene = scene

        def space(self) -> tuple[int, int]:
            return 2 * ROOM, self.scene.room[self.path]

    def partition(self, slot: int) -> UnifiedLog:
        found = self.node.get(slot)
        assert found is not None
        return found

    def taken(self, slot: int) -> int:
        """Bytes on disk of a log's active segment."""
        return Path(files.path(self.partition(slot).folder, 0, files.LOG)).stat().st_blocks * 512


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    for partition in made.node:
        partition.abandon()


def test_reserved_blocks_that_are_not_used_in_time_are_released(scene: Scene) -> None:
    scene.reservations.free_unused(NOW + AppendRow.KEEP_MS)
    assert [scene.taken(slot) for slot in (0, 1)] == [4 * MIB] * 2
    scene.partition(1).active.row[AppendRow.RESERVED_MS] += 1
    scene.reservations.free_unused(NOW + AppendRow.KEEP_MS + 1)
    assert scene.taken(0) < MIB
    assert scene.taken(1) == 4 * MIB
    row = scene.partition(0).active.row
    assert (row[AppendRow.RESERVED], row[AppendRow.RESERVE_MAX]) == (0, MOST)
    assert row[AppendRow.RESERVE_AT] == row[AppendRow.POSITION], "it may become fast again"


def test_blocks_that_were_reserved_before_the_clock_was_set_back_are_released(scene: Scene) -> None:
    scene.partition(1).active.row[AppendRow.RESERVED_MS] = NOW - 3_600_000
    scene.reservations.free_unused(NOW - 3_600_000)
    assert scene.taken(0) < MIB
    assert scene.taken(1) == 4 * MIB


def test_used_blocks_are_not_checked(scene: Scene) -> None:
    for slot in (0, 1):
        scene.partition(slot).active.row[AppendRow.POSITION] = 4 * MIB
    scene.reservations.free_unused(NOW + 10 * AppendRow.KEEP_MS)
    assert [scene.taken(slot) for slot in (0, 1)] == [4 * MIB] * 2


def test_a_disk_with_little_room_gets_all_back(scene: Scene) -> None:
    scene.room[str(scene.root / "1")] = module.LOW_ROOM - 1
    scene.reservations.free_unused(NOW + 1)
    assert scene.taken(0) == 4 * MIB
    assert scene.taken(1) < MIB
    assert scene.partition(1).active.row[AppendRow.RESERVE_AT] == AppendRow.NEVER, (
        "not in this segment any more"
    )


def test_a_disk_with_enough_room_frees_nothing_early(scene: Scene) -> None:
    scene.room[str(scene.root / "1")] = module.LOW_ROOM
    scene.reservations.free_unused(NOW + 1)
    assert [scene.taken(slot) for slot in (0, 1)] == [4 * MIB] * 2


def test_a_disk_whose_room_is_not_known_frees_nothing_early(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: LogDir) -> tuple[int, int]:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(Scene.Dir, "space", broken)
    scene.reservations.free_unused(NOW + 1)
    assert [scene.taken(slot) for slot in (0, 1)] == [4 * MIB] * 2
    assert scene.failures == []


def test_reservations_are_freed_at_once_on_demand(scene: Scene) -> None:
    scene.reservations.free(str(scene.root / "0"))
    assert scene.taken(0) < MIB
    assert scene.taken(1) == 4 * MIB


def test_the_records_stay(scene: Scene) -> None:
    partition = scene.partition(0)
    end, size = partition.log_end, partition.size
    scene.reservations.free(str(scene.root / "0"))
    assert (partition.log_end, partition.size) == (end, size)
    assert Path(files.path(partition.folder, 0, files.LOG)).stat().st_size == size


def test_an_error_is_reported(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(fd: int, length: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "ftruncate", broken)
    scene.reservations.free_unused(NOW + AppendRow.KEEP_MS + 1)
    assert [(slot, error.errno) for slot, error in scene.failures] == [(0, errno.EIO), (1, errno.EIO)]


def test_a_log_whose_log_dir_fails_meanwhile_is_left_alone(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first error takes all logs of the log dir offline."""

    def broken(fd: int, length: int) -> None:
        raise OSError(errno.EIO, "broken")

    def failed(slot: int, error: OSError) -> None:
        scene.failures.append((slot, error))
        scene.partition(1).abandon()

    monkeypatch.setattr(os, "ftruncate", broken)
    monkeypatch.setattr(scene.reservations, "_failed", failed)
    scene.reservations.free_unused(NOW + AppendRow.KEEP_MS + 1)
    assert [slot for slot, _ in scene.failures] == [0]


def test_blocks_are_reserved_only_where_it_pays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_worthwhile("/proc")
    assert not is_worthwhile(str(tmp_path / "gone"))
    found = {"a": True, "b": False}
    monkeypatch.setattr(module, "is_worthwhile", found.__getitem__)
    scene = Scene(tmp_path)
    assert (scene.reservations.max_bytes("a"), scene.reservations.max_bytes("b")) == (MOST, 0)
    off = Reservations(lambda: scene.node.rows, {}, 0, scene.node.get, lambda slot, error: None)
    assert off.max_bytes("a") == 0
    for partition in scene.node:
        partition.abandon()


@pytest.mark.parametrize(
    ("magic", "error", "pays"), [(0xEF53, 0, True), (0x58465342, 0, False), (0xEF53, -1, False)]
)
def test_the_file_system_is_asked_whether_it_pays(
    monkeypatch: pytest.MonkeyPatch, magic: int, error: int, pays: bool
) -> None:
    """ext4, and XFS, which reserves by itself."""

    def statfs(folder: bytes, found: Any) -> int:
        assert folder == b"/d"
        ctypes.c_long.from_buffer(found).value = magic
        return error

    monkeypatch.setattr(module, "_libc", SimpleNamespace(statfs=statfs))
    assert is_worthwhile("/d") == pays


def test_blocks_reserved_ahead_are_given_back_with_the_segment(tmp_path: Path) -> None:
    log = Log(tmp_path, topic_config(segment_bytes=64 << 20), reserve_max_bytes=8 << 20)
    log.open()
    log.append(batch())
    assert log.row[AppendRow.RESERVE_MAX] == 8 << 20
    reserve(int(log.row[AppendRow.LOG_FD]), 8 << 20)
    log.row[AppendRow.RESERVED] = 8 << 20
    log.partition.roll(LOG_NOW)
    assert (log.folder / f"{0:020d}.log").stat().st_blocks * 512 < 1 << 20
    assert log.row[AppendRow.RESERVED] == 0
    log.append(batch())
    reserve(int(log.row[AppendRow.LOG_FD]), 1 << 20)
    log.partition.close()
    assert (log.folder / f"{1:020d}.log").stat().st_blocks * 512 < 1 << 17


def test_a_preallocated_log_reserves_nothing_more(tmp_path: Path) -> None:
    log = Log(tmp_path, topic_config(preallocate="true", segment_bytes=4 << 20), reserve_max_bytes=8 << 20)
    log.open()
    assert log.row[AppendRow.RESERVE_AT] == AppendRow.NEVER


@pytest.mark.parametrize("trusted", [False, True])
def test_blocks_that_a_crash_left_reserved_are_freed_when_the_log_is_opened(
    tmp_path: Path, trusted: bool
) -> None:
    log = Log(tmp_path)
    log.open()
    for n in range(3):
        log.append(batch(0, [b"%d" % n], [LOG_NOW]))
    path = log.folder / f"{0:020d}.log"
    reserve(int(log.row[AppendRow.LOG_FD]), 8 << 20)
    log.partition.abandon()
    size = path.stat().st_size
    assert path.stat().st_blocks * 512 >= 8 << 20
    if trusted:
        end = TrustedEnd(0, size, 3)
        log.bring_online(log.load(trusted_end=end))
    else:
        log.reopen(clean=False)
    assert path.stat().st_size == size
    assert path.stat().st_blocks * 512 < 1 << 20
    assert offsets(log) == [0, 1, 2]
    log.partition.abandon()
