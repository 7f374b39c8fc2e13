"""Samples of topics and partitions, from partition slots and per-partition counters."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kbroker.config.sites import Site
from kbroker.http.directory import Directory
from kbroker.http.families import Families
from kbroker.ipc.layout import Counter, Slot, SlotState
from kbroker.ipc.messages import PartitionImage
from kbroker.ipc.shared import Shared
from kbroker.log import files
from kbroker.metrics.kafka import TOPIC_PARTITION

Words = NDArray[np.int64]
BY_PARTITION = {word.metric: word.number for word in Slot if word.metric}
BY_TOPIC = {
    "kbroker_topic_in_bytes_total": Counter.BYTES_IN,
    "kbroker_topic_in_records_total": Counter.RECORDS_IN,
    "kbroker_topic_in_batches_total": Counter.BATCHES_IN,
    "kbroker_topic_out_bytes_total": Counter.BYTES_OUT,
    "kbroker_topic_fetches_total": Counter.FETCHES,
    "kbroker_topic_failed_produces_total": Counter.FAILED_PRODUCE,
    "kbroker_topic_cold_bytes_total": Counter.COLD_BYTES_OUT,
    "kbroker_topic_flushes_total": Counter.FLUSHES,
}
STATES = {
    SlotState.RECOVERING: "recovering",
    SlotState.ONLINE: "online",
    SlotState.OFFLINE: "offline",
}


def partition_counters(shared: Shared, slots: Words) -> Words:
    """Sums over all processes, without what earlier partitions of the slots had counted."""
    total: Words = -shared.counter_bases[slots]
    for counters in shared.counters:
        total += counters[slots]
    return total


class PartitionRows:
    """Runs in: http. Reads shared memory; at most `most` partitions get series of their own, the busiest."""

    def __init__(self, shared: Shared, sites: Sequence[Site], most: int) -> None:
        self._shared = shared
        self._nodes = {log_dir: site.node_id for site in sites for log_dir in site.log_dirs}
        self._node_id = sites[0].node_id
        self._most = most

    def add(self, families: Families, directory: Directory) -> None:
        """Topics, partitions, and the states of partitions."""
        words: Words = self._shared.slots[directory.slots]
        counters = partition_counters(self._shared, directory.slots)
        self._topics(families, directory, words, counters)
        self._states(families, directory, words)
        chosen = self._busiest(counters)
        families.add("kbroker_partitions_left_out", (), len(directory.partitions) - len(chosen))
        for row in chosen:
            topic = directory.topics[int(directory.topic_numbers[row])].name
            labels = (topic, str(directory.partitions[row].index))
            self._partition(families, labels, directory.partitions[row], words[row].tolist())

    def _busiest(self, counters: Words) -> list[int]:
        if len(counters) <= self._most:
            return list(range(len(counters)))
        traffic = counters[:, Counter.BYTES_IN] + counters[:, Counter.BYTES_OUT]
        chosen: list[int] = np.sort(np.argsort(-traffic, kind="stable")[: self._most]).tolist()
        return chosen

    def _topics(self, families: Families, directory: Directory, words: Words, counters: Words) -> None:
        count = len(directory.topics)
        sums = np.zeros((count, Counter.WORDS), np.int64)
        np.add.at(sums, directory.topic_numbers, counters)
        log_bytes = np.zeros(count, np.int64)
        np.add.at(log_bytes, directory.topic_numbers, words[:, Slot.LOG_BYTES])
        for number, topic in enumerate(directory.topics):
            name = (topic.name,)
            for metric, counter in BY_TOPIC.items():
                families.add(metric, name, int(sums[number, counter]))
            families.add("kbroker_topic_partitions", name, len(topic.partitions))
            families.add("kbroker_topic_log_bytes", name, int(log_bytes[number]))
            if families.kafka:
                families.add("kafka_topic_partitions", name, len(topic.partitions))

    def _states(self, families: Families, directory: Directory, words: Words) -> None:
        total = len(directory.partitions)
        states = words[:, Slot.STATE]
        for state, name in STATES.items():
            families.add("kbroker_partitions", (name,), int((states == state).sum()))
        families.add("kbroker_topics", (), len(directory.topics))
        offline = int((states == SlotState.OFFLINE).sum())
        replicas = np.array([1 + len(p.followers) for p in directory.partitions], np.int64)
        in_sync = np.array([p.in_sync for p in directory.partitions], np.int64)
        minimum = np.minimum(words[:, Slot.MIN_IN_SYNC_REPLICAS], replicas)  # as KIP-966 counts
        under_replicated = int((in_sync < replicas).sum())
        under_minimum = int((in_sync < minimum).sum())
        at_minimum = int((in_sync == minimum).sum())
        families.add("kbroker_under_replicated_partitions", (), under_replicated)
        families.add("kbroker_under_min_isr_partitions", (), under_minimum)
        families.add("kbroker_at_min_isr_partitions", (), at_minimum)
        if not families.kafka:
            return
        slots = self._shared.slots[:, Slot.LOG_END]
        lags = (int(slots[p.slot] - slots[f]) for p in directory.partitions for f in p.followers)
        for name, value in {
            "kafka_server_replicafetchermanager_maxlag": max(lags, default=0),
            "kafka_server_replicamanager_leadercount": total,
            "kafka_server_replicamanager_partitioncount": total,
            "kafka_server_replicamanager_underreplicatedpartitions": under_replicated,
            "kafka_server_replicamanager_underminisrpartitioncount": under_minimum,
            "kafka_server_replicamanager_atminisrpartitioncount": at_minimum,
            "kafka_server_replicamanager_offlinereplicacount": offline,
            "kafka_controller_kafkacontroller_offlinepartitionscount": offline,
            "kafka_controller_kafkacontroller_globalpartitioncount": total,
        }.items():
            families.add(name, (), value)

    def _partition(
        self, families: Families, labels: tuple[str, str], image: PartitionImage, words: list[int]
    ) -> None:
        for metric, word in BY_PARTITION.items():
            families.add(metric, labels, words[word])
        latest = words[Slot.MAX_TIMESTAMP]
        if latest > 0:
            families.add("kbroker_log_max_timestamp_seconds", labels, latest / 1000)
        if not families.kafka:
            return
        online = int(words[Slot.STATE] != SlotState.OFFLINE)
        replicas = 1 + len(image.followers)
        minimum = min(words[Slot.MIN_IN_SYNC_REPLICAS], replicas)
        in_sync = image.in_sync * online
        node = self._nodes.get(files.log_dir_of(image.folder), self._node_id)
        for name, value in {
            TOPIC_PARTITION + "current_offset": words[Slot.HIGH_WATERMARK],
            TOPIC_PARTITION + "oldest_offset": words[Slot.LOG_START],
            TOPIC_PARTITION + "leader": node if in_sync else -1,
            TOPIC_PARTITION + "replicas": replicas,
            TOPIC_PARTITION + "in_sync_replica": in_sync,
            TOPIC_PARTITION + "leader_is_preferred": int(image.preferred and in_sync > 0),
            TOPIC_PARTITION + "under_replicated_partition": int(in_sync < replicas),
            "kafka_cluster_partition_underminisr": int(in_sync < minimum),
            "kafka_cluster_partition_atminisr": int(in_sync == minimum),
        }.items():
            families.add(name, labels, value)
