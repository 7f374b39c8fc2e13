"""Groups: how old what they read next is, how many bytes are left, when they will have caught up,
and when the page cache no longer holds what they read."""

import time
from math import inf
from mmap import PAGESIZE
from pathlib import Path
from typing import Any

import pytest

from kbroker.http import group_progress
from kbroker.http.group_progress import History, timestamp_of
from kbroker.ipc.http_messages import GroupSummary
from kbroker.ipc.layout import Counter, Slot
from tests.http.evicted import keep_cached_from, resident_pages
from tests.http.scene import Scene
from tests.log.batch_bytes import batch
from tests.peer.scrape import Scrape

LOG = "00000000000000000000.log"
NOW_MS = int(time.time() * 1000)
RECORDS = 100


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """A topic of a hundred batches of a record each; the n-th was written 100 - n seconds ago."""
    scene = Scene(tmp_path)
    slot = scene.topic("orders")[0]
    batches = [
        batch(base_offset=n, values=[b"x" * 1000], timestamps=[NOW_MS - (RECORDS - n) * 1000])
        for n in range(RECORDS)
    ]
    (tmp_path / "orders-0" / LOG).write_bytes(b"".join(batches))
    scene.shared.slots[slot, Slot.HIGH_WATERMARK] = RECORDS
    scene.collector.text()  # only a scrape looks
    return scene


def age_s() -> float:
    """Since NOW_MS."""
    return time.time() - NOW_MS / 1000


def committed(scene: Scene, offset: int) -> Scrape:
    """A scrape after the group has committed an offset."""
    scene.view.summaries = (GroupSummary("billing", "classic", "Stable", 1, {"orders": {0: offset}}),)
    scene.page_cache.refresh(scene.view.directory)
    scene.collector.progress.refresh(scene.view.directory, scene.view.groups)
    return scene.scrape()


def test_lag_in_seconds_is_the_age_of_the_first_record_that_is_not_committed(scene: Scene) -> None:
    began_s = age_s()
    found = committed(scene, 40)
    seconds = found.value("kbroker_group_lag_seconds", group="billing", topic="orders", partition="0")
    assert 60 + began_s - 2 <= seconds <= 60 + age_s() + 2
    size = (scene.folder / "orders-0" / LOG).stat().st_size
    assert found.value("kbroker_group_lag_bytes", group="billing") == pytest.approx(size * 0.6, rel=0.01)


def test_files_of_deleted_segments_are_closed_by_the_next_refresh(scene: Scene) -> None:
    """They would take their space on the disk until other groups lag."""
    committed(scene, 40)
    opened = scene.collector.progress._open_files
    assert opened.statistics()[0] > 0
    (scene.folder / "orders-0" / LOG).unlink()
    scene.view.summaries = ()
    scene.collector.progress.refresh(scene.view.directory, scene.view.groups)
    assert opened.statistics() == (0, 0)


def test_without_a_commit_it_is_the_age_of_the_first_record(scene: Scene) -> None:
    began_s = age_s()
    scene.view.summaries = (GroupSummary("billing", "classic", "Stable", 1, {}, {}, ("orders",)),)
    scene.page_cache.refresh(scene.view.directory)
    scene.collector.progress.refresh(scene.view.directory, scene.view.groups)
    found = scene.scrape()
    seconds = found.value("kbroker_group_lag_seconds", group="billing", topic="orders", partition="0")
    assert RECORDS + began_s - 2 <= seconds <= RECORDS + age_s() + 2
    size = (scene.folder / "orders-0" / LOG).stat().st_size
    assert found.value("kbroker_group_lag_bytes", group="billing") == size


def test_a_group_without_lag_has_a_lag_of_0(scene: Scene) -> None:
    found = committed(scene, RECORDS)
    assert found.value("kbroker_group_lag_seconds", group="billing", topic="orders", partition="0") == 0
    assert found.value("kbroker_group_lag_bytes", group="billing") == 0
    assert found.value("kbroker_group_catch_up_seconds", group="billing") == 0
    assert found.value("kbroker_group_cache_seconds", group="billing") == inf


def test_catching_up_takes_the_lag_by_its_pace(scene: Scene) -> None:
    assert committed(scene, 10).value("kbroker_group_catch_up_seconds", group="billing") == inf
    scene.now += 20
    found = committed(scene, 50)  # 40 records in 20 s, 50 are left
    assert found.value("kbroker_group_catch_up_seconds", group="billing") == pytest.approx(25)


@pytest.mark.parametrize("evicted", [0, 8])
def test_a_group_that_lags_leaves_the_page_cache(scene: Scene, evicted: int) -> None:
    """It does if pages of its log were evicted; a log that is cached as a whole sets no bound."""
    slot = scene.view.directory.partitions[0].slot
    assert committed(scene, 60).value("kbroker_group_cache_seconds", group="billing") == inf
    more = b"".join(
        batch(base_offset=RECORDS + n, values=[b"x" * 1000], timestamps=[NOW_MS]) for n in range(20)
    )
    file = scene.folder / "orders-0" / LOG
    with file.open("ab") as log:
        log.write(more)
    if evicted:
        keep_cached_from(file, evicted)
    size = file.stat().st_size / (RECORDS + 20)
    scene.shared.slots[slot, Slot.HIGH_WATERMARK] = RECORDS + 20
    scene.now += 10
    found = committed(scene, 60)
    if not scene.page_cache.works:
        pytest.skip("this kernel cannot report what is in the page cache")
    seconds = found.value("kbroker_group_cache_seconds", group="billing")
    cached_records = RECORDS + 20 - evicted * PAGESIZE / size
    # its lag is 60 records and grows by 20 in 10 s
    assert seconds == (pytest.approx((cached_records - 60) / 20 * 10, rel=0.1) if evicted else inf)


@pytest.fixture
def evicted(tmp_path: Path) -> tuple[Scene, int]:
    """A topic of a hundred batches of 100 kB, and the bytes of its first half, which only the disk
    has. A look at a place brings a few pages into memory."""
    scene = Scene(tmp_path)
    slot = scene.topic("orders")[0]
    file = tmp_path / "orders-0" / LOG
    file.write_bytes(b"".join(batch(base_offset=n, values=[bytes(100_000)]) for n in range(RECORDS)))
    pages = file.stat().st_size // PAGESIZE // 2
    keep_cached_from(file, pages)
    if abs(-(-file.stat().st_size // PAGESIZE) - resident_pages(file) - pages) > 1:
        pytest.skip("this file system keeps its pages")
    scene.shared.slots[slot, Slot.HIGH_WATERMARK] = RECORDS
    scene.page_cache.refresh(scene.view.directory)
    if not scene.page_cache.works:
        pytest.skip("this kernel cannot report what is in the page cache")
    scene.collector.text()
    return scene, pages * PAGESIZE


def cold_bytes(scene: Scene, **offsets: int) -> list[float]:
    """By group, after it has committed an offset."""
    scene.view.summaries = tuple(
        GroupSummary(group, "classic", "Stable", 1, {"orders": {0: offset}})
        for group, offset in offsets.items()
    )
    scene.now += 5
    scene.collector.progress.refresh(scene.view.directory, scene.view.groups)
    return [shown_bytes(scene).get(group, 0) for group in offsets]


def shown_bytes(scene: Scene) -> dict[str, float]:
    found = scene.scrape()
    name = "kbroker_group_cold_bytes_total"
    return {labels["group"]: found.value(name, **labels) for labels in found.labels(name)}


def give(scene: Scene, size: int) -> None:
    """The disk gives bytes for a consumer, which are in memory from then on."""
    scene.shared.counters[0][0, Counter.COLD_BYTES_OUT] += size
    (scene.folder / "orders-0" / LOG).read_bytes()


def test_bytes_from_the_disk_are_those_of_the_group_that_passes_evicted_records(
    evicted: tuple[Scene, int],
) -> None:
    """A group at the end passes only cached ones. Consumers commit after they have fetched."""
    scene, size = evicted
    assert cold_bytes(scene, cold=0, live=80) == [0, 0]
    give(scene, size)
    assert cold_bytes(scene, cold=0, live=90) == [0, 0]
    assert cold_bytes(scene, cold=20, live=RECORDS) == [pytest.approx(size * 0.4, rel=0.01), 0]
    assert cold_bytes(scene, cold=RECORDS, live=RECORDS) == [pytest.approx(size, rel=0.1), 0]


def test_the_counter_of_a_group_begins_at_0_before_it_reads_evicted_records(
    evicted: tuple[Scene, int],
) -> None:
    scene, size = evicted
    cold_bytes(scene, cold=0, live=80)
    assert shown_bytes(scene) == {"cold": 0}
    give(scene, size)
    cold_bytes(scene, cold=RECORDS, live=RECORDS)
    assert list(shown_bytes(scene)) == ["cold"]
    cold_bytes(scene, live=RECORDS)
    assert shown_bytes(scene) == {}


def test_a_group_gets_no_more_than_what_the_disk_gave(evicted: tuple[Scene, int]) -> None:
    scene, size = evicted
    cold_bytes(scene, cold=0)
    give(scene, size // 2)
    assert cold_bytes(scene, cold=40) == [size // 2]
    assert cold_bytes(scene, cold=RECORDS) == [size // 2]


def test_a_group_that_goes_back_has_passed_nothing(evicted: tuple[Scene, int]) -> None:
    scene, size = evicted
    cold_bytes(scene, cold=0)
    cold_bytes(scene, cold=10)
    give(scene, 2 * size)
    scene.now += 60
    assert cold_bytes(scene, cold=5) == [0]
    assert cold_bytes(scene, cold=0) == [0]


def test_a_kernel_that_cannot_report_the_page_cache_gives_no_bytes_by_group(scene: Scene) -> None:
    committed(scene, 10)
    scene.page_cache.works = False
    assert "kbroker_group_cold_bytes_total{" not in scene.scrape().text


def test_a_log_that_is_gone_is_no_error(scene: Scene) -> None:
    (scene.folder / "orders-0" / LOG).unlink()
    found = committed(scene, 40)
    assert found.value("kbroker_group_lag", group="billing", topic="orders", partition="0") == 60
    assert "kbroker_group_lag_seconds{" not in found.text


def test_each_place_is_read_in_its_turn_while_lags_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two places at each refresh. The order of the lags changes, and one place has no more lag."""
    monkeypatch.setattr(group_progress, "MAX_PARTITIONS", 2)
    scene = Scene(tmp_path)
    slots = scene.topic("wide", 6)
    for number in range(6):
        (tmp_path / f"wide-{number}" / LOG).write_bytes(batch(base_offset=0, values=[b"x"] * 20))
    scene.view.summaries = (GroupSummary("billing", "classic", "Stable", 1, {}, {}, ("wide",)),)
    scene.collector.text()
    progress = scene.collector.progress
    for lags in ([19, 18, 17, 16, 15, 14], [0, 16, 15, 14, 18, 17], [0, 18, 17, 16, 15, 14]):
        scene.shared.slots[slots, Slot.HIGH_WATERMARK] = lags
        progress.refresh(scene.view.directory, scene.view.groups)
    read = [number for number in range(6) if progress.lag_of("billing", "wide", number) is not None]
    assert read == [1, 2, 3, 4, 5]


def test_a_place_that_was_read_stays_while_lags_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not among the largest any more, but among twice as many."""
    monkeypatch.setattr(group_progress, "MAX_UNCOMMITTED", 2)
    scene = Scene(tmp_path)
    slots = scene.topic("wide", 6)
    for number in range(6):
        (tmp_path / f"wide-{number}" / LOG).write_bytes(batch(base_offset=0, values=[b"x"] * 20))
    scene.view.summaries = (GroupSummary("billing", "classic", "Stable", 1, {}, {}, ("wide",)),)
    scene.collector.text()
    progress = scene.collector.progress

    def read(lags: list[int]) -> list[int]:
        scene.shared.slots[slots, Slot.HIGH_WATERMARK] = lags
        progress.refresh(scene.view.directory, scene.view.groups)
        return [number for number in range(6) if progress.lag_of("billing", "wide", number) is not None]

    assert read([19, 18, 5, 4, 3, 2]) == [0, 1]
    assert read([17, 16, 19, 18, 3, 2]) == [0, 1, 2, 3]
    assert read([17, 16, 15, 14, 19, 18]) == [0, 1, 4, 5]
    assert read([0, 16, 15, 14, 19, 18]) == [1, 4, 5]


def test_places_on_a_slow_disk_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the parts the http process has a heartbeat: a probe would report that it is hung."""
    scene = Scene(tmp_path)
    scene.shared.slots[scene.topic("wide", 6), Slot.HIGH_WATERMARK] = 20
    for number in range(6):
        (tmp_path / f"wide-{number}" / LOG).write_bytes(batch(base_offset=0, values=[b"x"] * 20))
    scene.view.summaries = (GroupSummary("billing", "classic", "Stable", 1, {}, {}, ("wide",)),)
    scene.collector.text()
    progress = scene.collector.progress
    position = progress._position

    def slow(*arguments: Any) -> Any:
        scene.now += 1
        return position(*arguments)

    monkeypatch.setattr(progress, "_position", slow)
    for expected in ([0, 1, 2], [0, 1, 2, 3, 4, 5]):
        progress.refresh(scene.view.directory, scene.view.groups)
        read = [number for number in range(6) if progress.lag_of("billing", "wide", number) is not None]
        assert read == expected


def test_groups_are_not_read_without_scrapes(scene: Scene) -> None:
    scene.now += 1000

    def ask() -> tuple[GroupSummary, ...]:
        raise AssertionError("control was asked")

    scene.collector.progress.refresh(scene.view.directory, ask)


def test_a_rate_is_that_of_the_last_minutes() -> None:
    history = History()
    for second in range(0, 1000, 10):
        history.add(second, 0 if second < 500 else second - 500)
    assert history.growth() == pytest.approx(1, rel=0.05)


def test_a_record_inside_a_batch_is_between_its_first_and_its_largest_time() -> None:
    data = batch(base_offset=100, values=[b"a"] * 11, timestamps=range(5000, 6001, 100))
    assert timestamp_of(data, 100) == 5000
    assert timestamp_of(data, 105) == 5500
    assert timestamp_of(data, 110) == 6000
    assert timestamp_of(b"", 0) == -1
