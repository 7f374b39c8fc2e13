"""Segments up to a high watermark are copied, and copied once."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.cli.backup import taking
from kbroker.cli.backup.cut import Cut, take_cut
from kbroker.cli.backup.point import PartitionFiles, Point, SegmentFile
from kbroker.cli.backup.repository import Repository
from kbroker.cli.backup.restoring import restore
from kbroker.cli.backup.taking import take
from kbroker.cli.connection import Connection
from kbroker.cli.exit_codes import ExitCode
from kbroker.cli.failures import CommandFailed, UsageFailed
from kbroker.control.kraft.metadata_folder import FOLDER
from kbroker.control.kraft.snapshot import SnapshotId
from kbroker.control.metadata import kafka_metadata as km
from kbroker.control.store.change import Change
from kbroker.control.store.store import FILE_NAME, Store
from kbroker.io.files.meta_properties import MetaProperties, read, verify_or_create
from kbroker.log import checkpoint, files
from kbroker.protocol.kafka_uuid import format_uuid, random_uuid
from kbroker.protocol.records import build_batch
from tests.control.fakes import CLUSTER_ID, world
from tests.control.kraft.fill import fill
from tests.syncs import Syncs


@pytest.fixture
def log_dir(tmp_path: Path) -> str:
    """Of a broker: orders-0 has segments with offsets 0-3, 4-5 and 6-7, of two records a batch."""
    with world(tmp_path) as made:
        fill(made)
        topic_id = made.broker.catalogue.topics["orders"].topic_id
        folder = Path(made.dirs[0], "orders-0")
        checkpoint.write_topic_id(str(folder), topic_id)
        checkpoint.write_leader_epochs(str(folder), [(0, 0), (3, 6)])
    verify_or_create(made.dirs[0], CLUSTER_ID, 1)
    for base, offsets in ((0, (0, 2)), (4, (4,)), (6, (6,))):
        Path(files.path(str(folder), base, files.LOG)).write_bytes(b"".join(map(batch, offsets)))
    return made.dirs[0]


def batch(offset: int) -> bytes:
    return build_batch([(b"k", b"v", (), 1)] * 2, base_offset=offset)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "backups")
    made.lock()
    return made


def taken(repository: Repository, log_dir: str, end: int, start: int = 0):  # type: ignore[no-untyped-def]
    cut = Cut(1_000, {("orders", 0): start}, {("orders", 0): end, ("gone", 0): 5}, CLUSTER_ID)
    folders = {("orders", 0): f"{log_dir}/orders-0", ("gone", 0): f"{log_dir}/gone-0"}
    return take(repository, cut, [log_dir], folders, lambda _: None)


@pytest.mark.parametrize(
    ("end", "sizes"), [(8, [2, 1, 1]), (6, [2, 1]), (4, [2]), (2, [1]), (0, [])], ids=lambda value: str(value)
)
def test_a_backup_ends_at_the_high_watermark(
    repository: Repository, log_dir: str, end: int, sizes: list[int]
) -> None:
    (partition,) = taken(repository, log_dir, end).partitions
    assert [segment.size // len(batch(0)) for segment in partition.segments] == sizes
    assert partition.epochs == [one for one in [(0, 0), (3, 6)] if one[1] < end]


def test_closed_segments_are_copied_once(
    repository: Repository, log_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = taken(repository, log_dir, 8)
    copied: list[int] = []
    store = repository.store

    def noting(source: int, size: int) -> str:
        copied.append(size)
        return store(source, size)

    monkeypatch.setattr(repository, "store", noting)
    assert taken(repository, log_dir, 8).partitions == first.partitions
    assert copied == [len(batch(0))]


def test_segments_that_change_meanwhile_are_copied_again(
    repository: Repository, log_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cleaner puts another file in a segment's place while the first copy is made."""
    place = Path(files.path(f"{log_dir}/orders-0", 0, files.LOG))
    segment = taking._segment
    swaps = iter([True, False])

    def swapping(*given, **named):  # type: ignore[no-untyped-def]
        found = segment(*given, **named)
        if given[2] == 4 and next(swaps):
            cleaned = place.with_suffix(".swap")
            cleaned.write_bytes(batch(2))
            cleaned.replace(place)
        return found

    monkeypatch.setattr(taking, "_segment", swapping)
    (partition,) = taken(repository, log_dir, 8).partitions
    assert repository.path(partition.segments[0].sha256).read_bytes() == batch(2)


def test_a_cleaned_segment_is_not_copied_beside_those_that_it_replaces(
    repository: Repository, log_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The swap is between two steps while the first copy is made, and ends after it."""
    first, replaced = (Path(files.path(f"{log_dir}/orders-0", base, files.LOG)) for base in (0, 4))
    swap = Path(f"{first}{files.SWAP}")
    swap.write_bytes(batch(0) + batch(4))
    first.unlink()
    first.hardlink_to(swap)
    attempts: list[str] = []

    def attempt(folder: str) -> list[tuple[int, int]]:
        attempts.append(folder)
        if len(attempts) == 2:
            replaced.unlink()
            swap.unlink()
        return checkpoint.known_leader_epochs(folder)

    monkeypatch.setattr(taking, "known_leader_epochs", attempt)
    (partition,) = taken(repository, log_dir, 8).partitions
    assert [segment.base_offset for segment in partition.segments] == [0, 6]
    assert repository.path(partition.segments[0].sha256).read_bytes() == batch(0) + batch(4)


def test_a_segment_of_the_same_size_in_place_of_another_is_copied(
    repository: Repository, log_dir: str
) -> None:
    """As the cleaner puts it there, or a topic of the same name."""
    taken(repository, log_dir, 8)
    place = Path(files.path(f"{log_dir}/orders-0", 4, files.LOG))
    other = build_batch([(b"k", b"w", (), 1)] * 2, base_offset=4)
    assert len(other) == place.stat().st_size
    place.with_suffix(".swap").write_bytes(other)
    place.with_suffix(".swap").replace(place)
    (partition,) = taken(repository, log_dir, 8).partitions
    assert repository.path(partition.segments[1].sha256).read_bytes() == other


@pytest.fixture
def during(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What happens once the segment that begins at 4 has been copied for the first time."""
    steps: list[Callable[[], object]] = []
    segment = taking._segment

    def copied(*given, **named):  # type: ignore[no-untyped-def]
        found = segment(*given, **named)
        if given[2] == 4 and steps:
            steps.pop()()
        return found

    monkeypatch.setattr(taking, "_segment", copied)
    return steps


def test_segments_that_go_by_retention_or_that_nobody_needs_are_not_copied_again(
    repository: Repository, log_dir: str, during: list[Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was copied of them is right."""
    monkeypatch.setattr(taking, "_ATTEMPTS", 1)
    first, last = (Path(files.path(f"{log_dir}/orders-0", base, files.LOG)) for base in (0, 6))

    def changed() -> None:
        first.unlink()
        last.with_suffix(".swap").write_bytes(batch(6))
        last.with_suffix(".swap").replace(last)

    during.append(changed)
    (partition,) = taken(repository, log_dir, 6).partitions
    assert [segment.base_offset for segment in partition.segments] == [0, 4]


def test_a_log_begins_no_earlier_than_its_first_segment(repository: Repository, log_dir: str) -> None:
    """Retention may have moved it since the log start was read."""
    folder = Path(log_dir, "orders-0")
    Path(files.path(str(folder), 0, files.LOG)).unlink()
    assert [one.log_start for one in taken(repository, log_dir, 8, start=0).partitions] == [4]
    assert [one.log_start for one in taken(repository, log_dir, 8, start=5).partitions] == [5]
    for base in (4, 6):
        Path(files.path(str(folder), base, files.LOG)).unlink()
    Path(files.path(str(folder), 8, files.LOG)).touch()
    (partition,) = taken(repository, log_dir, 8, start=3).partitions
    assert (partition.log_start, partition.high_watermark, partition.segments) == (8, 8, [])


def test_a_topic_that_was_created_again_meanwhile_is_left_out(
    repository: Repository, log_dir: str, during: list[Callable[[], object]]
) -> None:
    during.append(lambda: checkpoint.write_topic_id(f"{log_dir}/orders-0", b"\7" * 16))
    assert taken(repository, log_dir, 8).partitions == []


def test_a_partition_whose_topic_id_cannot_be_read_is_not_left_out(
    repository: Repository, log_dir: str
) -> None:
    Path(log_dir, "orders-0", files.PARTITION_METADATA).write_bytes(b"")
    with pytest.raises(CommandFailed, match=r"orders-0 has no readable partition\.metadata"):
        taken(repository, log_dir, 8)


@pytest.mark.parametrize("newest", [0, 1])
def test_the_newest_of_several_stores_is_backed_up(tmp_path: Path, newest: int) -> None:
    with world(tmp_path, dirs=2) as made:
        fill(made)
    places = [Path(folder, FILE_NAME) for folder in made.dirs]
    places[1].write_bytes(places[0].read_bytes())
    store = Store(places[newest])
    store.apply(Change(configs={(2, "orders"): {"retention.ms": "9"}}))
    store.close()
    folder = tmp_path / FOLDER
    folder.mkdir()
    (folder / SnapshotId(1, 1).file_name).write_bytes(taking._metadata(made.dirs, 1, "A" * 22, 5))
    found = km.read([str(tmp_path)])
    assert found is not None
    assert found.configs[2, "orders"]["retention.ms"] == "9"


def test_log_dirs_of_another_broker_are_refused(repository: Repository, log_dir: str) -> None:
    """A command on one host for a broker on another one, whose paths are the same."""
    with pytest.raises(CommandFailed, match="on the broker's host"):
        take(repository, Cut(1_000, {}, {}, "another"), [log_dir], {}, lambda _: None)
    Path(log_dir, "meta.properties").write_text("version=0\n")
    with pytest.raises(CommandFailed, match="version 0"):
        take(repository, Cut(1_000, {}, {}, CLUSTER_ID), [log_dir], {}, lambda _: None)


def test_a_store_that_cannot_be_read_is_named(repository: Repository, log_dir: str) -> None:
    Path(log_dir, FILE_NAME).write_bytes(b"no database" * 100)
    with pytest.raises(CommandFailed, match=f"{log_dir}/{FILE_NAME}: file is not a database; "):
        taken(repository, log_dir, 8)


def crafted(repository: Repository) -> Point:
    """Of three topics; orders-0 has one segment, the others have none."""
    stored = repository.store_bytes(batch(4))
    segment = SegmentFile(4, stored.size, stored.sha256)
    partitions = [
        PartitionFiles(name, 0, format_uuid(bytes([number]) * 16), 4, 9, [segment] if number == 1 else [])
        for number, name in enumerate(("__consumer_offsets", "orders", "other"))
    ]
    return Point(1_000, CLUSTER_ID, 7, random_uuid(), repository.store_bytes(b"metadata"), partitions)


def test_chosen_topics_are_restored_with_the_internal_ones_under_their_ids(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = crafted(repository)
    target = tmp_path / "restored"
    target.mkdir()
    syncs = Syncs(tmp_path, monkeypatch)
    chosen = restore(repository, point, target, ["orders"], lambda _: None)
    assert syncs.taken()[-1] == "."
    assert [one.topic for one in chosen] == ["__consumer_offsets", "orders"]
    assert sorted(path.name for path in target.iterdir() if path.is_dir()) == [
        FOLDER, "__consumer_offsets-0", "orders-0",
    ]  # fmt: skip
    assert checkpoint.read_topic_id(str(target / "orders-0")) == b"\1" * 16
    assert [path.name for path in (target / "__consumer_offsets-0").glob("*.log")] == [f"{9:020d}.log"]
    assert read(str(target)) == MetaProperties(CLUSTER_ID, 7, point.directory_id)
    assert not (tmp_path / "restored.restoring").exists()


def test_a_file_of_the_right_size_with_other_bytes_is_restored_again(
    repository: Repository, tmp_path: Path
) -> None:
    """A crash of the host may leave one behind."""
    half = tmp_path / "restored.restoring" / "orders-0"
    half.mkdir(parents=True)
    Path(files.path(str(half), 4, files.LOG)).write_bytes(bytes(len(batch(4))))
    restore(repository, crafted(repository), tmp_path / "restored", ["orders"], lambda _: None)
    name = files.path("orders-0", 4, files.LOG)
    assert (tmp_path / "restored" / name).read_bytes() == batch(4)


def test_a_point_is_restored_completely_and_only_into_an_empty_folder(
    repository: Repository, log_dir: str, tmp_path: Path
) -> None:
    point = taken(repository, log_dir, 6, start=1)
    target = tmp_path / "restored"
    half = tmp_path / "restored.restoring" / "orders-0"
    half.mkdir(parents=True)
    Path(files.path(str(half), 0, files.LOG)).write_bytes(b"half")  # an earlier restore was killed here
    restore(repository, point, target, [], lambda _: None)
    for base in (0, 4):
        name = files.path("orders-0", base, files.LOG)
        assert (target / name).read_bytes() == Path(log_dir, name).read_bytes()
    assert checkpoint.read_offsets(str(target / files.LOG_START_OFFSETS)) == {("orders", 0): 1}
    assert checkpoint.read_leader_epochs(str(target / "orders-0")) == [(0, 0)]
    found = km.read([str(target)])
    assert found is not None
    assert found.configs[2, "orders"] == {"retention.ms": "7", "write.caching": "false"}
    with pytest.raises(UsageFailed, match="not empty"):
        restore(repository, point, target, [], lambda _: None)
    with pytest.raises(CommandFailed, match=r"not in the backup of .*: other") as failure:
        restore(repository, point, tmp_path / "another", ["other"], lambda _: None)
    assert failure.value.code == ExitCode.FAILED


def test_a_cut_waits_until_no_transaction_ends_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = {"__consumer_offsets": 1, "__transaction_state": 1, "a": 2}
    requested: list[set[str]] = []
    states = iter([5, 6, 6, 6])

    def latest(
        broker: object, admin: object, partitions: list[tuple[str, int]]
    ) -> dict[tuple[str, int], int]:
        requested.append({name for name, _ in partitions})
        return {
            one: next(states) if one[0] == "__transaction_state" else len(requested) for one in partitions
        }

    class Admin:
        def list_topics(self, timeout: float) -> object:
            found = {name: type("T", (), {"partitions": range(n)})() for name, n in topics.items()}
            return type("M", (), {"topics": found, "cluster_id": CLUSTER_ID})()

    broker = Connection("", {}, 1)
    monkeypatch.setattr(broker, "admin", Admin)
    monkeypatch.setattr("kbroker.cli.backup.cut.latest", latest)
    monkeypatch.setattr("kbroker.cli.backup.cut.earliest", lambda *_: {})
    cut = take_cut(broker)
    assert cut.ends["__transaction_state", 0] == 6
    assert requested[4:] == [{"__transaction_state"}, {"__consumer_offsets"}, {"a"}, {"__transaction_state"}]
    assert cut.ends["__consumer_offsets", 0] < cut.ends["a", 0]
    assert cut.cluster_id == CLUSTER_ID
    monkeypatch.setattr("kbroker.cli.backup.cut.ATTEMPTS", 2)
    states = iter(range(9))
    with pytest.raises(CommandFailed, match="each of 2 attempts"):
        take_cut(broker)


class ChangingTopics:
    """An admin client that lists these sets of topics, one after the other."""

    def __init__(self, *names: str) -> None:
        self._names = iter(names)

    def list_topics(self, timeout: float) -> object:
        found = {name: type("T", (), {"partitions": [0]})() for name in next(self._names)}
        return type("M", (), {"topics": found, "cluster_id": CLUSTER_ID})()


@pytest.fixture
def cut_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Cut]:
    """The cut of a broker whose topics change: it has no offsets of the topic `x`."""

    def latest(
        broker: object, admin: object, partitions: list[tuple[str, int]]
    ) -> dict[tuple[str, int], int]:
        if ("x", 0) in partitions:
            raise CommandFailed("there is no such topic")
        return dict.fromkeys(partitions, 7)

    def run(*names: str) -> Cut:
        broker, admin = Connection("", {}, 1), ChangingTopics(*names)
        monkeypatch.setattr(broker, "admin", lambda: admin)
        monkeypatch.setattr("kbroker.cli.backup.cut.latest", latest)
        monkeypatch.setattr("kbroker.cli.backup.cut.earliest", lambda *_: {})
        return take_cut(broker)

    return run


def test_topics_that_are_created_or_deleted_meanwhile_belong_to_the_cut_or_do_not(
    cut_of: Callable[..., Cut],
) -> None:
    """A record of a new topic may be acknowledged before the time of the cut."""
    assert set(cut_of("a", "ab", "ab").ends) == {("a", 0), ("b", 0)}
    assert set(cut_of("ax", "a", "a").ends) == {("a", 0)}
    assert set(cut_of("ab", "a").ends) == {("a", 0), ("b", 0)}  # its log shows that it is gone
    with pytest.raises(CommandFailed, match="no such topic"):
        cut_of("ax", "ax")
