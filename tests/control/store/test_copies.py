"""The store is in several log dirs: whichever of them is lost, nothing that was answered is, and no
stale copy wins."""

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kbroker.control.metadata.config_resource import TOPIC
from kbroker.control.store import copies as store_copies
from kbroker.control.store.change import Change
from kbroker.control.store.choice import REFUSED, WRITING, copy_dirs, open_newest, write_copy
from kbroker.control.store.copies import StoreCopies
from kbroker.control.store.store import FILE_NAME, RESERVE, Store, StoreError
from tests.control.fakes import CLUSTER_ID
from tests.syncs import Syncs


class Dirs:
    """Log dirs, those of them that are online, and the copies in these."""

    def __init__(self, folder: Path, count: int) -> None:
        self.all = [str(folder / f"d{number}") for number in range(count)]
        for log_dir in self.all:
            Path(log_dir).mkdir()
        self.online = list(self.all)
        self.copies: StoreCopies | None = None

    def start(self) -> StoreCopies:
        if self.copies is not None:
            self.copies.close()
            self.copies = None
        chosen = open_newest(self.online, self.all, CLUSTER_ID)
        chosen.store.begin_run()
        chosen.store.put_meta("cluster_id", CLUSTER_ID)
        self.copies = StoreCopies(chosen.store, lambda: tuple(self.online), self.report)
        self.copies.complete()
        return self.copies

    def report(self, current: Collection[str], expected: Collection[str]) -> None:
        self.reported = sorted(current), sorted(expected)

    def values(self, log_dir: str) -> dict[str, str]:
        """The content of one copy, which another process may have open."""
        with closing(sqlite3.connect(Path(log_dir, FILE_NAME))) as db:
            return dict(db.execute("SELECT name, value FROM configs"))


def put(store: Store, name: str, value: str) -> None:
    store.apply(Change(configs={(TOPIC, "t"): {name: value}}))


async def change(copies: StoreCopies, name: str, value: str = "1") -> None:
    await copies.run(lambda store: put(store, name, value))


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy on a busy disk is not left out."""
    monkeypatch.setattr(store_copies, "PATIENCE_S", 60.0)


@pytest.fixture
def dirs(tmp_path: Path) -> Iterator[Dirs]:
    made = Dirs(tmp_path, 3)
    yield made
    if made.copies is not None:
        made.copies.close()


def test_each_site_has_a_copy_before_any_has_a_second() -> None:
    sites = [("a", "b"), ("c", "d")]
    assert copy_dirs(sites, "abcd") == ("a", "c", "b")
    assert copy_dirs(sites, "bcd") == ("b", "c", "d")
    assert copy_dirs(sites, "d") == ("d",)
    assert copy_dirs([("a", "b", "c", "d")], "abcd") == ("a", "b", "c")
    assert copy_dirs([("a",), ("b",), ("c",), ("d",)], "abcd") == ("a", "b", "c", "d")


def test_every_change_is_in_every_copy(dirs: Dirs) -> None:
    copies = dirs.start()
    asyncio.run(change(copies, "a"))
    assert asyncio.run(copies.run(lambda store: store.allocate_producer_ids(10))) == 0
    assert [dirs.values(log_dir) for log_dir in dirs.all] == [{"a": "1"}] * 3
    assert asyncio.run(copies.run(lambda store: store.allocate_producer_ids(10))) == 10


def test_every_copy_has_space_for_changes_on_a_full_disk_soon_after_the_start(dirs: Dirs) -> None:
    copies = dirs.start()
    assert Path(dirs.all[0], FILE_NAME).stat().st_size < RESERVE
    asyncio.run(copies.reserve())
    assert all(Path(log_dir, f"{FILE_NAME}-wal").stat().st_size >= RESERVE for log_dir in dirs.all)
    copies.close()
    dirs.copies = None
    assert all(Path(log_dir, FILE_NAME).stat().st_size >= RESERVE for log_dir in dirs.all)


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_whichever_log_dir_is_lost_before_a_start_the_rest_has_all(dirs: Dirs, lost: int) -> None:
    asyncio.run(change(dirs.start(), "a"))
    gone = dirs.online.pop(lost)
    shutil.rmtree(gone)
    copies = dirs.start()
    assert set(copies.log_dirs) == set(dirs.online)
    assert all(dirs.values(log_dir) == {"a": "1"} for log_dir in dirs.online)


def test_an_empty_log_dir_in_the_place_of_the_first_gets_a_copy(dirs: Dirs) -> None:
    asyncio.run(change(dirs.start(), "a"))
    shutil.rmtree(dirs.all[0])
    Path(dirs.all[0]).mkdir()
    dirs.start()
    assert dirs.values(dirs.all[0]) == {"a": "1"}


def test_a_crash_between_the_copies_keeps_the_change_or_not_but_everywhere_the_same(dirs: Dirs) -> None:
    copies = dirs.start()
    asyncio.run(change(copies, "a"))
    put(copies._copies[dirs.all[2]].store, "b", "1")
    dirs.start()
    assert [dirs.values(log_dir) for log_dir in dirs.all] == [{"a": "1", "b": "1"}] * 3


def test_a_stale_copy_never_wins_however_many_changes_it_had(dirs: Dirs) -> None:
    copies = dirs.start()
    for number in range(20):
        asyncio.run(change(copies, "a", str(number)))
    dirs.online = dirs.all[1:]
    asyncio.run(change(dirs.start(), "a", "later"))
    dirs.online = list(dirs.all)
    dirs.start()
    assert [dirs.values(log_dir) for log_dir in dirs.all] == [{"a": "later"}] * 3


def test_a_log_dir_that_fails_is_left_out_and_joins_again(dirs: Dirs) -> None:
    copies = dirs.start()

    async def scene() -> None:
        await change(copies, "a")
        dirs.online = dirs.all[1:]
        await change(copies, "b")
        assert copies.log_dirs == tuple(dirs.all[1:])
        assert dirs.values(dirs.all[0]) == {"a": "1"}
        dirs.online = list(dirs.all)
        while set(copies.log_dirs) != set(dirs.all):  # a slow disk is tried again at the next look
            await copies.check()
            await asyncio.sleep(0.01)
        await change(copies, "c")

    asyncio.run(asyncio.wait_for(scene(), 60))
    assert [sorted(dirs.values(log_dir)) for log_dir in dirs.all] == [["a", "b", "c"]] * 3
    assert [copy.store.copies for copy in copies._copies.values()] == [dirs.all] * 3


def test_a_copy_that_can_not_be_written_does_not_stop_the_others(dirs: Dirs) -> None:
    copies = dirs.start()
    copies._copies[dirs.all[0]].store._db.execute("PRAGMA query_only=ON")
    asyncio.run(change(copies, "a"))
    assert copies.log_dirs == tuple(dirs.all[1:])
    assert copies.first.copies == dirs.all[1:]
    assert dirs.values(dirs.all[1]) == dirs.values(dirs.all[2]) == {"a": "1"}


def test_a_disk_that_hangs_does_not_stop_the_others(dirs: Dirs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_copies, "PATIENCE_S", 2.0)  # in which a busy disk takes the change
    copies = dirs.start()
    answers = threading.Event()
    copies._copies[dirs.all[1]].thread.submit(answers.wait)

    async def scene() -> None:
        await change(copies, "a")
        assert set(copies.log_dirs) == {dirs.all[0], dirs.all[2]}
        await copies.check()
        assert len(copies.log_dirs) == 2, "its thread still hangs"
        answers.set()
        leaving = copies._leaving[dirs.all[1]]
        await asyncio.wrap_future(leaving)
        monkeypatch.setattr(store_copies, "PATIENCE_S", 60.0)
        await copies.check()

    asyncio.run(scene())
    assert set(copies.log_dirs) == set(dirs.all)
    assert [dirs.values(log_dir) for log_dir in dirs.all] == [{"a": "1"}] * 3


def test_a_change_is_stored_although_the_last_copy_cannot_take_the_list_of_copies(dirs: Dirs) -> None:
    """As an error it would be undone, and the next start would find it."""
    copies = dirs.start()
    first = copies.first

    def last(store: Store) -> str:
        if store is not first:
            raise sqlite3.OperationalError("disk I/O error")
        put(store, "a", "1")
        store._db.execute("PRAGMA query_only=ON")
        return "stored"

    assert asyncio.run(copies.run(last)) == "stored"
    assert copies.log_dirs == (dirs.all[0],)
    assert dirs.values(dirs.all[0]) == {"a": "1"}


def test_a_check_that_fails_is_followed_by_others(
    dirs: Dirs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A log dir fails while the disks of the others are full; then all are usable again."""
    monkeypatch.setattr(store_copies, "CHECK_S", 0.01)
    copies = dirs.start()
    others = [copies._copies[log_dir].store for log_dir in dirs.all[1:]]

    async def scene() -> None:
        for store in others:
            store._db.execute("PRAGMA query_only=ON")
        dirs.online = dirs.all[1:]
        checking = asyncio.ensure_future(copies.keep_checking())
        while "cannot be checked" not in caplog.text:
            await asyncio.sleep(0.01)
        for store in others:
            store._db.execute("PRAGMA query_only=OFF")
        dirs.online = list(dirs.all)
        while set(copies.log_dirs) != set(dirs.all):
            await asyncio.sleep(0.01)
        checking.cancel()
        await change(copies, "a")

    asyncio.run(asyncio.wait_for(scene(), 60))
    assert [dirs.values(log_dir) for log_dir in dirs.all] == [{"a": "1"}] * 3


def test_a_change_that_no_copy_takes_is_an_error_and_leaves_no_copy(dirs: Dirs) -> None:
    copies = dirs.start()

    def refuse(store: Store) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with pytest.raises(sqlite3.OperationalError, match="full"):
        asyncio.run(copies.run(refuse))
    assert copies.log_dirs == tuple(dirs.all)


def test_a_copy_that_has_a_write_it_reported_as_failed_is_stale(dirs: Dirs) -> None:
    copies = dirs.start()

    def half(store: Store) -> None:
        if store is copies.first:
            put(store, "a", "1")
        raise sqlite3.OperationalError("disk I/O error")

    with pytest.raises(sqlite3.OperationalError):
        asyncio.run(copies.run(half))
    assert copies.log_dirs == tuple(dirs.all[1:])


@pytest.mark.parametrize("damage", ["truncated", "overwritten", "row", "foreign"])
def test_a_copy_that_is_no_copy_is_not_used_and_is_kept_beside(dirs: Dirs, damage: str) -> None:
    asyncio.run(change(dirs.start(), "a"))
    assert dirs.copies is not None
    dirs.copies.close()
    dirs.copies = None
    path = Path(dirs.all[0], FILE_NAME)
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:4096])
    elif damage == "overwritten":
        path.write_bytes(b"no database" * 10_000)
    elif damage == "row":
        with closing(sqlite3.connect(path)) as db:
            db.execute("UPDATE configs SET value = 'another'")
            db.commit()
    else:
        path.unlink()
        other = Store(path)
        other.put_meta("cluster_id", "another")
        for _ in range(100):
            other.begin_run()
        other.close()
    bad = path.read_bytes()
    dirs.start()
    assert [dirs.values(log_dir) for log_dir in dirs.all] == [{"a": "1"}] * 3
    assert Path(f"{path}{REFUSED}").read_bytes() == bad


def test_one_copy_of_three_is_not_begun_with(dirs: Dirs) -> None:
    asyncio.run(change(dirs.start(), "a"))
    dirs.online = dirs.all[2:]
    with pytest.raises(StoreError, match="may be out of date"):
        dirs.start()
    dirs.all = dirs.all[2:]
    dirs.start()
    assert dirs.values(dirs.online[0]) == {"a": "1"}


def test_two_sites_lost_one_after_the_other_leave_one_that_knows_it_is_the_last(dirs: Dirs) -> None:
    copies = dirs.start()
    for left in (dirs.all[1:], dirs.all[2:]):
        dirs.online = left
        asyncio.run(change(copies, "a", str(len(left))))
    assert not open_newest(dirs.online, dirs.all, CLUSTER_ID).doubtful


def test_an_outdated_copy_is_named_in_the_error(dirs: Dirs, caplog: pytest.LogCaptureFixture) -> None:
    copies = dirs.start()
    behind, ahead = dirs.all[1], dirs.all[0]
    dirs.online = [ahead]
    asyncio.run(change(copies, "a"))
    copies.close()
    dirs.copies = None
    with closing(open_newest([ahead, behind], dirs.all, CLUSTER_ID).store) as store:
        (line,) = [record.getMessage() for record in caplog.records if "is not used" in record.getMessage()]
        assert line.startswith(f"the copy of the store in {behind} is not used: it has changes up to ")
        assert line.endswith(f" that in {ahead} up to {store.version.changes} of run {store.version.run}")


def test_a_copy_of_two_is_begun_with_in_doubt(tmp_path: Path) -> None:
    dirs = Dirs(tmp_path, 2)
    asyncio.run(change(dirs.start(), "a"))
    assert dirs.copies is not None
    dirs.copies.close()
    chosen = open_newest(dirs.all[1:], dirs.all, CLUSTER_ID)
    assert chosen.doubtful
    chosen.store.close()


def test_a_missing_log_dir_may_have_the_only_copy(dirs: Dirs) -> None:
    with pytest.raises(StoreError, match=f"may be in a log dir that cannot be used: {dirs.all[2]}"):
        open_newest(dirs.all[:2], dirs.all, CLUSTER_ID)
    assert not any(list(Path(log_dir).iterdir()) for log_dir in dirs.all)
    chosen = open_newest(dirs.all, dirs.all, CLUSTER_ID)
    assert (chosen.doubtful, chosen.store.path) == (False, Path(dirs.all[0], FILE_NAME))
    chosen.store.close()


def test_the_error_of_the_only_copy_is_named(dirs: Dirs) -> None:
    path = Path(dirs.all[1], FILE_NAME)
    path.write_bytes(b"no database" * 10_000)
    with pytest.raises(StoreError, match=str(path)):
        open_newest(dirs.all, dirs.all, CLUSTER_ID)
    assert path.read_bytes() == b"no database" * 10_000, "it stays for a repair"


def test_a_crash_while_a_copy_is_made_leaves_what_there_was(dirs: Dirs) -> None:
    asyncio.run(change(dirs.start(), "a"))
    for left in (".writing", ".writing-journal", ".writing-wal"):
        Path(dirs.all[1], FILE_NAME + left).write_bytes(b"half")
    dirs.start()
    assert [dirs.values(log_dir) for log_dir in dirs.all] == [{"a": "1"}] * 3


def test_the_state_of_each_copy_is_reported(dirs: Dirs) -> None:
    """For the metric: which copies count, and which ones should."""
    copies = dirs.start()
    assert dirs.reported == (dirs.all, dirs.all)
    gone = dirs.online.pop()
    asyncio.run(change(copies, "a"))
    assert dirs.reported == (dirs.online, dirs.all)
    dirs.start()
    assert dirs.reported == (dirs.online, dirs.online)
    dirs.online.append(gone)
    asyncio.run(dirs.start().check())
    assert dirs.reported == (dirs.all, dirs.all)


def test_a_copy_is_on_disk_before_it_has_its_name_and_no_older_write_ahead_log_meets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "here" / FILE_NAME, tmp_path / "there" / FILE_NAME
    for path in (source, target):
        path.parent.mkdir()
        with closing(Store(path)) as store:
            put(store, "of", path.parent.name)
    for ending in ("-wal", "-shm"):
        Path(f"{target}{ending}").write_bytes(b"of the old file")
    syncs = Syncs(target.parent, monkeypatch)
    before: list[tuple[list[str], set[str]]] = []
    replace = Path.replace

    def watched(path: Path, to: Path) -> Path:
        before.append((syncs.taken(), {found.name for found in target.parent.iterdir()}))
        return replace(path, to)

    monkeypatch.setattr(Path, "replace", watched)
    write_copy(source, str(target.parent)).close()
    writing = f"{FILE_NAME}{WRITING}"
    assert before == [([writing, "."], {FILE_NAME, writing})]
    assert syncs.taken() == ["."]
    with closing(sqlite3.connect(target)) as db:
        assert db.execute("SELECT value FROM configs").fetchall() == [("here",)]
