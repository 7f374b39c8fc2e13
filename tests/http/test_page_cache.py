"""The page cache of partitions that are read, among many that are not."""

import errno
import os
from mmap import PAGESIZE
from pathlib import Path

import pytest

from kbroker.http import page_cache
from kbroker.ipc.http_messages import GroupSummary
from kbroker.ipc.layout import Counter, Slot
from tests.http.scene import NETWORK, Scene
from tests.peer.scrape import Scrape

LOG = "00000000000000000000.log"
CACHED = "kbroker_log_page_cache_bytes"
MANY, SOME = 1000, 200


def topic_of(count: int, folder: Path, **settings: str) -> Scene:
    """A topic; a log of one page in each partition."""
    pairs = {key.replace("_", "."): value for key, value in settings.items()}
    scene = Scene(folder, pairs, most_partitions=count)
    for partition in scene.topic("orders", count):
        write(scene, partition, 1)
    return scene


def write(scene: Scene, partition: int, pages: int) -> None:
    (scene.folder / f"orders-{partition}" / LOG).write_bytes(b"x" * pages * PAGESIZE)


def read(scene: Scene, partition: int) -> None:
    """A consumer fetches from a partition."""
    scene.shared.counters[NETWORK][partition, Counter.FETCHES] += 1


def refresh(scene: Scene) -> None:
    """One round of the http process, 5 s after the last."""
    scene.now += 5
    scene.page_cache.refresh(scene.view.directory, scene.collector.progress.lagging_folders)
    scene.collector.progress.refresh(scene.view.directory, scene.view.groups)
    if not scene.page_cache.works:
        pytest.skip("this kernel has no cachestat")


def shown(scene: Scene) -> dict[int, int]:
    """Cached pages of the partitions that have a series."""
    found = Scrape(scene.collector.text(names=(CACHED,)).decode())
    labels = found.labels(CACHED)
    return {int(each["partition"]): int(found.value(CACHED, **each)) // PAGESIZE for each in labels}


def test_a_partition_that_is_read_is_sampled_at_each_refresh(tmp_path: Path) -> None:
    scene = topic_of(MANY, tmp_path)
    for pages in (1, 2, 3, 5, 8):
        write(scene, 700, pages)
        read(scene, 700)
        refresh(scene)
        assert shown(scene) == {700: pages}


def test_all_partitions_have_their_turn_beside_it(tmp_path: Path) -> None:
    scene = topic_of(MANY, tmp_path)
    for _ in range(-(-MANY // page_cache.PARTITIONS_PER_SAMPLE)):
        read(scene, 700)
        refresh(scene)
    size = scene.scrape().value("kbroker_topic_page_cache_looked_at_bytes", topic="orders")
    assert size == MANY * PAGESIZE


def test_a_partition_in_which_a_group_lags_is_sampled_though_nothing_reads_it(tmp_path: Path) -> None:
    scene = topic_of(SOME, tmp_path)
    scene.shared.slots[190, Slot.HIGH_WATERMARK] = 10
    scene.view.summaries = (GroupSummary("billing", "classic", "Stable", 1, {"orders": {190: 4}}),)
    scene.scrape()  # only a scrape looks for lag
    refresh(scene)
    refresh(scene)
    assert shown(scene) == {190: 1}


def test_a_series_ends_some_minutes_after_the_last_read(tmp_path: Path) -> None:
    scene = topic_of(SOME, tmp_path)
    read(scene, 150)
    refresh(scene)
    scene.now += page_cache.READ_S - 5
    refresh(scene)
    assert shown(scene) == {150: 1}
    refresh(scene)
    assert shown(scene) == {}


def test_series_are_bounded_and_those_read_last_have_one(tmp_path: Path) -> None:
    scene = topic_of(SOME, tmp_path, kbroker_metrics_partitions_max="3")
    for partition in range(8):
        read(scene, partition)
        refresh(scene)
    assert set(shown(scene)) == {5, 6, 7}
    assert scene.scrape().value("kbroker_log_page_cache_left_out") == 5


def test_a_slow_disk_delays_samples_and_starves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file takes as long as a refresh may: each refresh has one partition, the oldest."""
    scene = topic_of(SOME, tmp_path)
    for partition in (3, 5, 7):
        read(scene, partition)
    opened: list[str] = []
    real = os.open

    def slow(path: str, flags: int) -> int:
        opened.append(Path(path).parent.name)
        scene.now += page_cache.MAX_SAMPLING_S + 0.1
        return real(path, flags)

    monkeypatch.setattr("kbroker.http.page_cache.os.open", slow)
    for _ in range(4):
        refresh(scene)
    read_ones = [name for name in opened if name in ("orders-3", "orders-5", "orders-7")]
    assert sorted(read_ones[:3]) == ["orders-3", "orders-5", "orders-7"]
    assert read_ones[3] == read_ones[0]


def test_partitions_that_are_not_read_have_their_turn_though_a_second_is_never_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 4 * page_cache.READ_BEFORE_OTHER
    scene = topic_of(SOME, tmp_path)
    opened: set[str] = set()
    real = os.open

    def slow(path: str, flags: int) -> int:
        opened.add(Path(path).parent.name)
        scene.now += page_cache.MAX_SAMPLING_S / (2 * page_cache.READ_BEFORE_OTHER)
        return real(path, flags)

    monkeypatch.setattr("kbroker.http.page_cache.os.open", slow)
    for _ in range(SOME):
        for partition in range(count):
            read(scene, partition)
        refresh(scene)
    assert len(opened) == SOME


def test_a_failing_disk_hides_no_other_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = topic_of(SOME, tmp_path)
    for partition in (3, 150):
        read(scene, partition)
    real = os.open

    def failing(path: str, flags: int) -> int:
        if "/orders-3/" in path:
            raise OSError(errno.EIO, "Input/output error")
        return real(path, flags)

    monkeypatch.setattr("kbroker.http.page_cache.os.open", failing)
    refresh(scene)
    assert shown(scene) == {150: 1}
