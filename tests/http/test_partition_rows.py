"""Which partitions have series of their own, and what the sums over them say."""

from pathlib import Path

from msgspec.structs import replace

from kbroker.http.directory import Directory
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
