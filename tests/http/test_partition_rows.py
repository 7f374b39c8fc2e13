"""Which partitions have series of their own, and what the sums over them say."""

from pathlib import Path

from msgspec.structs import replace

from kbroker.http.directory import Directory
from kbroker.http.partition_rows import DETAILS, degraded
from kbroker.ipc.layout import Counter, Slot, SlotState
from tests.http.scene import IO, Scene


def test_partitions_out_of_sync_are_in_sums_and_series_however_many_there_are(tmp_path: Path) -> None:
    """They are the idle ones: what is below min.insync.replicas is not written to."""
    scene = Scene(tmp_path, {"kbroker.metrics.partitions.max": "500"}, most_partitions=600)
    slots = scene.topic("wide", 600)
    topic = scene.view.directory.topics[0]
    images = [replace(image, followers=(image.slot,), in_sync=2) for image in topic.partitions]
    for index in (0, 7, 599):
        images[index] = replace(images[index], in_sync=1)
    scene.view.directory = Directory.of({"wide": replace(topic, partitions=tuple(images))})
    for slot in slots:
        scene.shared.counters[IO][slot, Counter.BYTES_IN] = 1000
        scene.shared.slots[slot, Slot.MIN_IN_SYNC_REPLICAS] = 2
    for slot in (slots[0], slots[7], slots[599], slots[300]):
        scene.shared.counters[IO][slot, Counter.BYTES_IN] = 0
    scene.shared.slots[slots[300], Slot.STATE] = SlotState.OFFLINE
    scrape = scene.scrape()
    for ours, kafkas in (
        ("kbroker_under_replicated_partitions", "kafka_server_replicamanager_underreplicatedpartitions"),
        ("kbroker_under_min_isr_partitions", "kafka_server_replicamanager_underminisrpartitioncount"),
    ):
        assert (scrape.value(ours), scrape.value(kafkas)) == (3, 3)
    assert scrape.value("kbroker_partitions", state="offline") == 1
    assert scrape.value("kbroker_partitions_left_out") == 100
    for name in ("kafka_topic_partition_under_replicated_partition", "kafka_cluster_partition_underminisr"):
        series = {labels["partition"]: scrape.value(name, **labels) for labels in scrape.labels(name)}
        assert len(series) == 500
        assert {partition for partition, value in series.items() if value} == {"0", "7", "300", "599"}


def test_the_counters_of_a_topic_stay_when_another_replica_leads(tmp_path: Path) -> None:
    """A counter that falls and rises again would look like traffic to rate(). Both the sums of a
    topic and the counts of a partition."""
    scene = Scene(tmp_path)
    first, second = scene.topic("orders")[0], 40
    image = scene.view.directory.partitions[0]

    def lead(slot: int, other: int) -> None:
        topic = scene.view.directory.topics[0]
        led = replace(image, slot=slot, followers=(other,), in_sync=2)
        scene.view.directory = Directory.of({"orders": replace(topic, partitions=(led,))})

    def counts() -> tuple[float, float]:
        scrape = scene.scrape()
        writes = scrape.value("kbroker_log_writes_total", topic="orders", partition="0")
        return scrape.value("kbroker_topic_in_bytes_total", topic="orders"), writes

    seen = []
    for leader, follower, written in ((first, second, 1000), (second, first, 10), (first, second, 1)):
        lead(leader, follower)
        seen.append(counts())
        scene.shared.counters[IO][leader, Counter.BYTES_IN] += written
        scene.shared.counters[IO][leader, Counter.WRITES] += written // 10 + 1
        seen.append(counts())
    assert seen == [(0, 0), (1000, 101), (1000, 101), (1010, 103), (1010, 103), (1011, 104)]


def test_a_follower_read_after_its_leader_has_no_negative_lag(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    slot = scene.topic("orders")[0]
    image = replace(scene.view.directory.partitions[0], followers=(41,), in_sync=2)
    topic = replace(scene.view.directory.topics[0], partitions=(image,))
    scene.view.directory = Directory.of({"orders": topic})
    scene.shared.slots[slot, Slot.LOG_END] = 7
    scene.shared.slots[41, Slot.LOG_END] = 9
    assert scene.scrape().value("kafka_server_replicafetchermanager_maxlag") == 0


def test_an_offset_that_repeats_a_later_one_has_no_series(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    words = scene.shared.slots[scene.topic("orders", 3)]
    for partition, offsets in enumerate(((9, 9, 9), (7, 8, 9), (8, 8, 9))):
        words[partition, [Slot.LAST_STABLE, Slot.HIGH_WATERMARK, Slot.LOG_END]] = offsets
    scene.shared.slots[: len(words)] = words
    scrape = scene.scrape()

    def shown(name: str) -> dict[str, float]:
        return {labels["partition"]: scrape.value(name, **labels) for labels in scrape.labels(name)}

    assert shown("kbroker_log_end_offset") == {"0": 9, "1": 9, "2": 9}
    assert shown("kbroker_log_high_watermark") == {"1": 8, "2": 8}
    assert shown("kbroker_log_last_stable_offset") == {"1": 7}
    assert shown("kafka_topic_partition_current_offset") == {"0": 9, "1": 8, "2": 8}


def test_only_the_busiest_partitions_have_details_under_the_names_of_kbroker(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"kbroker.metrics.details.max": "2", "kbroker.metrics.partitions.max": "4"})
    slots = scene.topic("orders", 5)
    for place, slot in enumerate(slots):
        scene.shared.counters[IO][slot, Counter.BYTES_IN] = place * 10
        scene.shared.slots[slot, Slot.SEGMENT_COUNT] = place
    scene.shared.slots[slots[1], Slot.STATE] = SlotState.OFFLINE
    scrape = scene.scrape()
    for name in DETAILS:
        assert {labels["partition"] for labels in scrape.labels(name)} == {"1", "4"}, name
    segments = "kafka_log_log_numlogsegments"
    shown = {labels["partition"]: scrape.value(segments, **labels) for labels in scrape.labels(segments)}
    assert shown == {"1": 1, "2": 2, "3": 3, "4": 4}
    assert len(scrape.labels("kbroker_log_bytes")) == 4
    assert scrape.value("kbroker_partition_details_left_out") == 3
    assert scrape.value("kbroker_partitions_left_out") == 1


def test_degraded_partitions_are_described_in_words(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    slots = scene.topic("orders", 4)
    assert degraded(scene.shared, scene.view.directory) == []
    topic = scene.view.directory.topics[0]
    images = [replace(image, followers=(50 + image.index,), in_sync=2) for image in topic.partitions]
    images[:2] = [replace(image, in_sync=1) for image in images[:2]]
    scene.view.directory = Directory.of({"orders": replace(topic, partitions=tuple(images))})
    scene.shared.slots[slots[1], Slot.MIN_IN_SYNC_REPLICAS] = 2
    scene.shared.slots[slots[3], Slot.STATE] = SlotState.OFFLINE
    assert degraded(scene.shared, scene.view.directory) == [
        "1 partition is offline",
        "2 partitions are under-replicated",
        "1 partition is below min.insync.replicas: acks=all is refused",
    ]
