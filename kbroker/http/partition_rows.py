"""Samples of topics and partitions, from partition slots and per-partition counters."""

import numpy as np
from numpy.typing import NDArray

from kbroker.http.directory import Directory
from kbroker.http.families import Families
from kbroker.ipc import layout
from kbroker.ipc.shared import Shared
from kbroker.metrics.kafka import TOPIC_PARTITION

Words = NDArray[np.int64]
BY_PARTITION = {
    "kbroker_log_start_offset": layout.SLOT_LOG_START,
    "kbroker_log_end_offset": layout.SLOT_LOG_END,
    "kbroker_log_high_watermark": layout.SLOT_HIGH_WATERMARK,
    "kbroker_log_last_stable_offset": layout.SLOT_LAST_STABLE,
    "kbroker_log_durable_offset": layout.SLOT_DURABLE,
    "kbroker_log_bytes": layout.SLOT_LOG_BYTES,
    "kbroker_log_segments": layout.SLOT_SEGMENT_COUNT,
}
BY_TOPIC = {
    "kbroker_topic_in_bytes_total": layout.COUNTER_BYTES_IN,
    "kbroker_topic_in_records_total": layout.COUNTER_RECORDS_IN,
    "kbroker_topic_in_batches_total": layout.COUNTER_BATCHES_IN,
    "kbroker_topic_out_bytes_total": layout.COUNTER_BYTES_OUT,
    "kbroker_topic_fetches_total": layout.COUNTER_FETCHES,
    "kbroker_topic_failed_produces_total": layout.COUNTER_FAILED_PRODUCE,
    "kbroker_topic_cold_bytes_total": layout.COUNTER_COLD_BYTES_OUT,
    "kbroker_topic_flushes_total": layout.COUNTER_FLUSHES,
}
STATES = {
    layout.STATE_RECOVERING: "recovering",
    layout.STATE_ONLINE: "online",
    layout.STATE_OFFLINE: "offline",
}


class PartitionRows:
    """Runs in: http. Reads shared memory; at most `most` partitions get series of their own, the busiest."""

    def __init__(self, shared: Shared, node_id: int, most: int) -> None:
        self._shared = shared
        self._node_id = node_id
        self._most = most

    def add(self, families: Families, directory: Directory) -> None:
        """Topics, partitions, and the states of partitions."""
        words: Words = self._shared.slots[directory.slots]
        counters = self._counters(directory.slots)
        self._topics(families, directory, words, counters)
        self._states(families, directory, words)
        chosen = self._busiest(counters)
        families.add("kbroker_partitions_left_out", (), len(directory.partitions) - len(chosen))
        for row in chosen:
            topic = directory.topics[int(directory.topic_numbers[row])].name
            labels = (topic, str(directory.partitions[row].index))
            self._partition(families, labels, words[row].tolist())

    def _counters(self, slots: Words) -> Words:
        """Sums over all processes, without what earlier partitions of the slots had counted."""
        total: Words = -self._shared.counter_bases[slots]
        for counters in self._shared.counters:
            total += counters[slots]
        return total

    def _busiest(self, counters: Words) -> list[int]:
        if len(counters) <= self._most:
            return list(range(len(counters)))
        traffic = counters[:, layout.COUNTER_BYTES_IN] + counters[:, layout.COUNTER_BYTES_OUT]
        chosen: list[int] = np.sort(np.argsort(-traffic, kind="stable")[: self._most]).tolist()
        return chosen

    def _topics(self, families: Families, directory: Directory, words: Words, counters: Words) -> None:
        count = len(directory.topics)
        sums = np.zeros((count, layout.COUNTER_WORDS), np.int64)
        np.add.at(sums, directory.topic_numbers, counters)
        log_bytes = np.zeros(count, np.int64)
        np.add.at(log_bytes, directory.topic_numbers, words[:, layout.SLOT_LOG_BYTES])
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
        states = words[:, layout.SLOT_STATE]
        for state, name in STATES.items():
            families.add("kbroker_partitions", (name,), int((states == state).sum()))
        families.add("kbroker_topics", (), len(directory.topics))
        if not families.kafka:
            return
        offline = int((states == layout.STATE_OFFLINE).sum())
        minimum = words[:, layout.SLOT_MIN_IN_SYNC_REPLICAS]
        for name, value in {
            "kafka_server_replicamanager_leadercount": total,
            "kafka_server_replicamanager_partitioncount": total,
            "kafka_server_replicamanager_underreplicatedpartitions": 0,
            "kafka_server_replicamanager_underminisrpartitioncount": int((minimum > 1).sum()),
            "kafka_server_replicamanager_atminisrpartitioncount": int((minimum == 1).sum()),
            "kafka_server_replicamanager_offlinereplicacount": offline,
            "kafka_controller_kafkacontroller_offlinepartitionscount": offline,
            "kafka_controller_kafkacontroller_globalpartitioncount": total,
        }.items():
            families.add(name, (), value)

    def _partition(self, families: Families, labels: tuple[str, str], words: list[int]) -> None:
        for metric, word in BY_PARTITION.items():
            families.add(metric, labels, words[word])
        latest = words[layout.SLOT_MAX_TIMESTAMP]
        if latest > 0:
            families.add("kbroker_log_max_timestamp_seconds", labels, latest / 1000)
        if not families.kafka:
            return
        online = int(words[layout.SLOT_STATE] != layout.STATE_OFFLINE)
        minimum = words[layout.SLOT_MIN_IN_SYNC_REPLICAS]
        for name, value in {
            TOPIC_PARTITION + "current_offset": words[layout.SLOT_HIGH_WATERMARK],
            TOPIC_PARTITION + "oldest_offset": words[layout.SLOT_LOG_START],
            TOPIC_PARTITION + "leader": self._node_id if online else -1,
            TOPIC_PARTITION + "replicas": 1,
            TOPIC_PARTITION + "in_sync_replica": online,
            TOPIC_PARTITION + "leader_is_preferred": online,
            TOPIC_PARTITION + "under_replicated_partition": 1 - online,
            "kafka_cluster_partition_underminisr": int(minimum > 1),
            "kafka_cluster_partition_atminisr": int(minimum == 1),
        }.items():
            families.add(name, labels, value)
