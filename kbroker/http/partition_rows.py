"""Samples of topics and partitions, from partition slots and per-partition counters."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kbroker.config.sites import Site
from kbroker.http.directory import Directory
from kbroker.http.families import Dialect, Families
from kbroker.http.series import KeptLabels, Labels
from kbroker.ipc.layout import Counter, Slot, SlotState
from kbroker.ipc.messages import PartitionImage
from kbroker.ipc.shared import Shared
from kbroker.log import files
from kbroker.metrics.kafka import TOPIC_PARTITION

Words = NDArray[np.int64]
BY_PARTITION = {word.metric: word.number for word in Slot if word.metric}
COUNTED_BY_PARTITION = {word.metric: word.number for word in Counter if word.metric}
DETAILS = ("kbroker_log_durable_offset", "kbroker_log_segments", "kbroker_log_writes_total")
"""Series of the busiest partitions only (kbroker.metrics.details.max), under kbroker's names."""
REPEATS = {
    "kbroker_log_high_watermark": Slot.LOG_END,
    "kbroker_log_last_stable_offset": Slot.HIGH_WATERMARK,
}
"""Offsets that are mostly the same as a later one, and that one: they have a series while they are
below it."""
BY_TOPIC = {
    "kbroker_topic_in_bytes_total": Counter.BYTES_IN,
    "kbroker_topic_in_records_total": Counter.RECORDS_IN,
    "kbroker_topic_in_batches_total": Counter.BATCHES_IN,
    "kbroker_topic_out_bytes_total": Counter.BYTES_OUT,
    "kbroker_topic_fetches_total": Counter.FETCHES,
    "kbroker_topic_failed_produces_total": Counter.FAILED_PRODUCE,
    "kbroker_topic_cold_bytes_total": Counter.COLD_BYTES_OUT,
    "kbroker_topic_flushes_total": Counter.FLUSHES,
    "kbroker_topic_expired_records_total": Counter.EXPIRED,
}
STATES = {
    SlotState.RECOVERING: "recovering",
    SlotState.ONLINE: "online",
    SlotState.OFFLINE: "offline",
}


def partition_counters(shared: Shared, directory: Directory) -> Words:
    """Counters of each partition: sums over all processes and all replicas. A replica counts what
    clients do while it leads, so that a partition's counters stay when another replica takes
    over."""
    total = _counted(shared, directory.slots)
    if len(directory.follower_slots):
        np.add.at(total, directory.follower_rows, _counted(shared, directory.follower_slots))
    return total


def _counted(shared: Shared, slots: Words) -> Words:
    """Sums over all processes, without the counts of earlier partitions in the same slots."""
    total: Words = -shared.counter_bases[slots]
    for counters in shared.counters:
        total += counters[slots]
    return total


class Replicas(Struct, frozen=True):
    """A number for each partition. count: of all replicas. in_sync: of in-sync replicas. minimum:
    of those that min.insync.replicas requires (KIP-966: at most all). serving: of in-sync replicas
    that serve (0 if the partition is offline)."""

    count: Words
    in_sync: Words
    minimum: Words
    serving: Words
    offline: NDArray[np.bool_]

    @classmethod
    def of(cls, partitions: Sequence[PartitionImage], words: Words) -> "Replicas":
        """The numbers of all partitions, by their slots."""
        count = np.array([1 + len(image.followers) for image in partitions], np.int64)
        in_sync = np.array([image.in_sync for image in partitions], np.int64)
        offline = words[:, Slot.STATE] == SlotState.OFFLINE
        minimum = np.minimum(words[:, Slot.MIN_IN_SYNC_REPLICAS], count)
        return cls(count, in_sync, minimum, in_sync * ~offline, offline)

    @property
    def under_replicated(self) -> NDArray[np.bool_]:
        """Whether some replicas are not in sync."""
        return self.in_sync < self.count

    @property
    def below_minimum(self) -> NDArray[np.bool_]:
        """Whether acks=all is refused."""
        return self.in_sync < self.minimum


def degraded(shared: Shared, directory: Directory) -> list[str]:
    """Problems of partitions, a phrase each."""
    replicas = Replicas.of(directory.partitions, shared.slots[directory.slots])
    found = {
        "offline": replicas.offline,
        "under-replicated": replicas.under_replicated,
        "below min.insync.replicas: acks=all is refused": replicas.below_minimum,
    }
    counts = {text: int(partitions.sum()) for text, partitions in found.items()}
    return [f"{n} partition{' is' if n == 1 else 's are'} {text}" for text, n in counts.items() if n]


def _busiest(counters: Words, max_rows: int, first: NDArray[np.bool_] | None = None) -> list[int]:
    """The `max_rows` rows with the most traffic, in their original order. first: rows that are
    preferred."""
    if len(counters) <= max_rows:
        return list(range(len(counters)))
    traffic = counters[:, Counter.BYTES_IN] + counters[:, Counter.BYTES_OUT]
    order = np.argsort(-traffic, kind="stable") if first is None else np.lexsort((-traffic, ~first))
    chosen: list[int] = np.sort(order[:max_rows]).tolist()
    return chosen


class PartitionRows:
    """Runs in: http. Reads shared memory; at most `max_partitions` partitions get series of their
    own: those with replicas that are out of sync or offline, then the busiest. Such a partition may
    get no traffic for just that reason, and without it sums over the series would say that all is
    well. details: the maximum of those with the series of DETAILS."""

    def __init__(self, shared: Shared, sites: Sequence[Site], max_partitions: int, details: int) -> None:
        self._shared = shared
        self._nodes = {log_dir: site.node_id for site in sites for log_dir in site.log_dirs}
        self._node_id = sites[0].node_id
        self._max_partitions = max_partitions
        self._details = details
        self._labels = KeptLabels()
        self._some: defaultdict[str, KeptLabels] = defaultdict(KeptLabels)
        self._topic_labels = KeptLabels()
        self.shown_topics: set[str] = set()

    def add(self, families: Families, directory: Directory) -> None:
        """Topics, partitions, and the states of partitions."""
        words: Words = self._shared.slots[directory.slots]
        counters = partition_counters(self._shared, directory)
        self._topics(families, directory, words, counters)
        replicas = Replicas.of(directory.partitions, words)
        self._states(families, directory, words, replicas)
        first = replicas.serving < replicas.count
        chosen = _busiest(counters, self._max_partitions, first)
        families.add("kbroker_partitions_left_out", (), len(directory.partitions) - len(chosen))
        detailed = np.zeros(len(chosen), np.bool_)
        detailed[_busiest(counters[chosen], self._details, first[chosen])] = True
        left_out = len(directory.partitions) - int(detailed.sum())
        families.add("kbroker_partition_details_left_out", (), left_out)
        self._partitions(families, directory, words[chosen], counters[chosen], chosen, detailed, replicas)

    def _topics(self, families: Families, directory: Directory, words: Words, counters: Words) -> None:
        count = len(directory.topics)
        sums = Counter.table(count)
        np.add.at(sums, directory.topic_numbers, counters)
        log_bytes = np.zeros(count, np.int64)
        np.add.at(log_bytes, directory.topic_numbers, words[:, Slot.LOG_BYTES])
        chosen = _busiest(sums, self._max_partitions)
        families.add("kbroker_topics_left_out", (), count - len(chosen))
        labels = self._topic_labels.of([(directory.topics[number].name,) for number in chosen])
        self.shown_topics = {name for (name,) in labels.values}
        for metric, counter in BY_TOPIC.items():
            families.add_all(metric, labels, sums[chosen, counter].tolist())
        sizes = [len(directory.topics[number].partitions) for number in chosen]
        families.add_all("kbroker_topic_partitions", labels, sizes)
        families.add_all("kbroker_topic_log_bytes", labels, log_bytes[chosen].tolist())
        if families.kafka:
            families.add_all("kafka_topic_partitions", labels, sizes)

    def _states(self, families: Families, directory: Directory, words: Words, replicas: Replicas) -> None:
        total = len(directory.partitions)
        states = words[:, Slot.STATE]
        for state, name in STATES.items():
            families.add("kbroker_partitions", (name,), int((states == state).sum()))
        families.add("kbroker_topics", (), len(directory.topics))
        offline = int(replicas.offline.sum())
        under_replicated = int(replicas.under_replicated.sum())
        under_minimum = int(replicas.below_minimum.sum())
        at_minimum = int((replicas.in_sync == replicas.minimum).sum())
        families.add("kbroker_under_replicated_partitions", (), under_replicated)
        families.add("kbroker_under_min_isr_partitions", (), under_minimum)
        families.add("kbroker_at_min_isr_partitions", (), at_minimum)
        if not families.kafka:
            return
        slots = self._shared.slots[:, Slot.LOG_END]
        lags = (max(0, int(slots[p.slot] - slots[f])) for p in directory.partitions for f in p.followers)
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

    def _partitions(
        self,
        families: Families,
        directory: Directory,
        words: Words,
        counters: Words,
        chosen: Sequence[int],
        detailed: NDArray[np.bool_],
        replicas: Replicas,
    ) -> None:
        names = [topic.name for topic in directory.topics]
        images = [directory.partitions[row] for row in chosen]
        numbers = directory.topic_numbers[chosen].tolist() if chosen else []
        values = [(names[number], str(image.index)) for number, image in zip(numbers, images, strict=True)]
        labels = self._labels.of(values)
        columns = {metric: words[:, word] for metric, word in BY_PARTITION.items()}
        columns |= {metric: counters[:, word] for metric, word in COUNTED_BY_PARTITION.items()}
        for metric, column in columns.items():
            if metric in DETAILS:
                self._add_some(families, metric, labels, column, detailed)
                families.add_all(metric, labels, column.tolist(), Dialect.KAFKA)
            elif metric in REPEATS:
                self._add_some(families, metric, labels, column, column < words[:, REPEATS[metric]])
            else:
                families.add_all(metric, labels, column.tolist())
        latest = words[:, Slot.MAX_TIMESTAMP]
        self._add_some(families, "kbroker_log_max_timestamp_seconds", labels, latest / 1000, latest > 0)
        if families.kafka:
            counts = replicas.serving[chosen], replicas.count[chosen]
            self._kafka_partitions(families, labels, images, words, counts)

    def _add_some(
        self,
        families: Families,
        metric: str,
        labels: Labels,
        column: NDArray[np.generic],
        shown: NDArray[np.bool_],
    ) -> None:
        """Samples of the rows that are shown, under kbroker's name. labels, column: of all rows."""
        rows = np.flatnonzero(shown).tolist()
        if len(rows) < len(labels.values):
            labels = self._some[metric].of([labels.values[row] for row in rows])
        families.add_all(metric, labels, column[rows].tolist(), Dialect.KBROKER)

    def _kafka_partitions(
        self,
        families: Families,
        labels: Labels,
        images: Sequence[PartitionImage],
        words: Words,
        counts: tuple[Words, Words],
    ) -> None:
        in_sync, replicas = counts
        minimum = np.minimum(words[:, Slot.MIN_IN_SYNC_REPLICAS], replicas)
        nodes = np.array(
            [self._nodes.get(files.log_dir_of(image.folder), self._node_id) for image in images], np.int64
        )
        preferred = np.array([image.preferred for image in images], bool)
        for name, value in {
            TOPIC_PARTITION + "current_offset": words[:, Slot.HIGH_WATERMARK],
            TOPIC_PARTITION + "oldest_offset": words[:, Slot.LOG_START],
            TOPIC_PARTITION + "leader": np.where(in_sync > 0, nodes, -1),
            TOPIC_PARTITION + "replicas": replicas,
            TOPIC_PARTITION + "in_sync_replica": in_sync,
            TOPIC_PARTITION + "leader_is_preferred": (preferred & (in_sync > 0)).astype(np.int64),
            TOPIC_PARTITION + "under_replicated_partition": (in_sync < replicas).astype(np.int64),
            "kafka_cluster_partition_underminisr": (in_sync < minimum).astype(np.int64),
            "kafka_cluster_partition_atminisr": (in_sync == minimum).astype(np.int64),
        }.items():
            families.add_all(name, labels, value.tolist())
